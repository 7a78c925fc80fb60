/* libplumb_mpi from C99: a field of 64 x 48 whole numbers, cut along both axes, and its gradient.
 */
#include <plumb/distributed.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS 64
#define COLUMNS 48

static int failures = 0;

static void require(plumb_status status, const char* what) {
  if (status == PLUMB_OK) return;
  fprintf(stderr, "%s: %s\n", what, plumb_last_message());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static double value_at(int64_t row, int64_t column) {
  row = (row + ROWS) % ROWS;
  column = (column + COLUMNS) % COLUMNS;
  return (double)((row * 7 + column * 3) % 11);
}

/* The sum over the window, whose weights are 1 to 9. */
static double expected_at(int64_t row, int64_t column) {
  double sum = 0;
  int r, s;
  for (r = 0; r < 3; ++r)
    for (s = 0; s < 3; ++s) sum += (r * 3 + s + 1) * value_at(row + r - 1, column + s - 1);
  return sum;
}

int main(int argc, char** argv) {
  int level, rank, ranks;
  plumb_device* device;
  plumb_queue* queue;
  plumb_conv_geometry_nd geometry;
  plumb_conv_problem_nd problem;
  plumb_distributed_options options;
  plumb_distributed* spread;
  int64_t begin[5], extents[5], i, j;
  double *x, *y, w[9];
  char reason[256];
  size_t bytes;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  require(plumb_device_for_rank(MPI_COMM_WORLD, &device, reason, sizeof reason), "device");
  require(plumb_queue_create(device, &queue), "queue");
  plumb_conv_geometry_nd_init(&geometry);
  plumb_conv_geometry_nd_set_padding(&geometry, 1);
  plumb_conv_geometry_nd_set_boundary(&geometry, PLUMB_PERIODIC);
  plumb_conv_problem_nd_init(&problem);
  problem.h = ROWS;
  problem.w = COLUMNS;
  problem.r = problem.s = 3;
  problem.dtype = PLUMB_F64;
  problem.geometry = &geometry;
  plumb_distributed_options_init(&options);
  options.parts[2] = 2;
  options.parts[3] = ranks / 2;
  options.time_limit_seconds = 20;
  require(plumb_distributed_create(MPI_COMM_WORLD, device, &problem, NULL, &options, &spread),
          "create");
  require(plumb_distributed_x_block(spread, rank, begin, extents), "block");
  require(plumb_distributed_bytes_sent(spread, &bytes), "bytes");
  if (bytes == 0) ++failures;
  x = malloc(sizeof(double) * (size_t)(extents[3] * extents[4]));
  y = malloc(sizeof(double) * (size_t)(extents[3] * extents[4]));
  for (i = 0; i < 9; ++i) w[i] = (double)(i + 1);
  for (i = 0; i < extents[3]; ++i)
    for (j = 0; j < extents[4]; ++j) x[i * extents[4] + j] = value_at(begin[3] + i, begin[4] + j);
  require(plumb_distributed_execute(spread, queue, x, w, NULL, NULL, y, NULL), "execute");
  require(plumb_queue_synchronize(queue), "synchronize");
  for (i = 0; i < extents[3]; ++i)
    for (j = 0; j < extents[4]; ++j)
      if (y[i * extents[4] + j] != expected_at(begin[3] + i, begin[4] + j)) ++failures;
  /* What is wrong on every rank is said on every rank. */
  if (plumb_distributed_execute(spread, queue, NULL, w, NULL, NULL, y, NULL) !=
      PLUMB_INVALID_ARGUMENT)
    ++failures;
  if (plumb_distributed_x_block(spread, ranks, begin, extents) != PLUMB_INVALID_ARGUMENT)
    ++failures;
  options.parts[2] = 5;
  plumb_distributed* none;
  if (plumb_distributed_create(MPI_COMM_WORLD, device, &problem, NULL, &options, &none) !=
          PLUMB_INVALID_ARGUMENT ||
      none != NULL)
    ++failures;
  plumb_distributed_destroy(spread);
  plumb_queue_destroy(queue);
  plumb_device_close(device);
  free(x);
  free(y);
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d failures on %d ranks: %s\n", failures, ranks, reason);
  MPI_Finalize();
  return failures != 0;
}
