// What distribution costs: the time of one convolution, the least and the median of many, by this
// run's ranks, or by a plain plan where there is one rank. tests/mpi/overhead runs both in turn.
// usage: plumb_mpi_overhead ROUNDS
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "plumb/distributed.hpp"

using namespace plumb;

namespace {

struct Named {
  const char* name;
  ConvProblem problem;
};

std::vector<Named> problems() {
  ConvProblem plane{.h = 4096, .w = 4096}, box{.d = 192, .h = 192, .w = 192};
  for (ConvProblem* problem : {&plane, &box}) {
    problem->dtype = DType::f64;
    problem->r = problem->s = 3;
    problem->boundary = Boundary::periodic;
  }
  box.t = 3;
  plane.padding = Padding(1, 1);
  box.padding = Padding(1, 1, 1);
  return {{"4096x4096", plane}, {"192x192x192", box}};
}

/// Seconds of the slowest rank, sorted.
std::vector<double> times_of(int rounds, const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < rounds + 3; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    work();
    double seconds = MPI_Wtime() - begin;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (i >= 3) times.push_back(seconds);
  }
  std::sort(times.begin(), times.end());
  return times;
}

void fill(const TensorView& view) {
  const std::int64_t count = element_count(view.extents());
  for (std::int64_t i = 0; i < count; ++i)
    store_element(view, i, 0.001 * static_cast<double>(i % 1009));
}

void measure(const Named& named, int rounds, int rank, int ranks) {
  const Device device = Device::open("cpu");
  Queue queue(device);
  const ConvProblem problem = check(named.problem);
  const bool is_deep = problem.has_depth();
  const DistributedGrid grid{.n = 1, .d = is_deep ? ranks : 1, .h = is_deep ? 1 : ranks};
  Distributed spread(MPI_COMM_WORLD, device, named.problem, grid);
  const Tensor x(device, problem.dtype, spread.x_block().extents);
  const Tensor y(device, problem.dtype, spread.y_block().extents);
  const Tensor w(device, problem.dtype, problem.w_extents());
  fill(x);
  fill(y);
  fill(w);
  const ConvPlan alone(device, problem);
  const ConvTensors tensors{.x = x, .w = w, .y = y};
  const std::vector<double> times = times_of(rounds, [&] {
    if (ranks > 1)
      spread.execute(queue, tensors);
    else
      alone.execute(queue, tensors);
  });
  if (rank == 0)
    std::printf("%-12s %d ranks of %d threads: least %.3f ms, median %.3f ms\n", named.name, ranks,
                device.info().units, 1e3 * times.front(), 1e3 * times[times.size() / 2]);
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0, rank = 0, ranks = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 50;
  for (const Named& named : problems()) measure(named, rounds, rank, ranks);
  MPI_Finalize();
  return 0;
}
