// A batch of images filtered by several MPI ranks: each takes a device of its node and a part of
// the batch; rank 0 hands out, gathers, and holds the result against the oracle.
#include <mpi.h>
#include <plumb/plumb.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace {

constexpr int images = 10, rows = 64, columns = 48, filters = 4;
constexpr int image_values = rows * columns;

/// The GPUs of a node go round its ranks; where it has none, each rank takes the CPU.
plumb::Device device_of_rank(int rank_on_node) {
  for (const plumb::BackendReport& report : plumb::backend_reports())
    if (report.name == "cuda" && !report.devices.empty())
      return plumb::Device::open("cuda:" + std::to_string(rank_on_node % report.devices.size()));
  return plumb::Device::open("cpu");
}

/// How many values each rank gets of the batch, and where they begin: images as even as they go.
struct Parts {
  std::vector<int> counts, begins;
  Parts(int ranks, int values_per_image) {
    for (int rank = 0; rank < ranks; ++rank) {
      begins.push_back(images * rank / ranks * values_per_image);
      counts.push_back(images * (rank + 1) / ranks * values_per_image - begins.back());
    }
  }
};

plumb::ConvTensors tensors(int n, const std::vector<float>& x, const std::vector<float>& w,
                           std::vector<float>& y) {
  return {.x = {x.data(), {n, 1, rows, columns}},
          .w = {w.data(), {filters, 1, 3, 3}},
          .y = {y.data(), {n, filters, rows, columns}}};
}

/// The largest error of the whole batch, as a share of what fp32 may make.
double error_over_bound(const plumb::ConvTensors& t, const plumb::ConvGeometry& geometry) {
  const plumb::ConvProblem problem = plumb::problem_of(t, geometry);
  const std::vector<plumb::OracleTerm> oracle = plumb::conv_oracle(problem, t.x, t.w);
  double largest = 0;
  for (std::size_t i = 0; i < oracle.size(); ++i) {
    const double y = plumb::load_element(t.y, static_cast<std::int64_t>(i));
    const double bound = plumb::conv_error_bound(plumb::Numerics{}, problem, oracle[i], y);
    const double ratio = std::abs(y - oracle[i].y) / bound;
    largest = ratio <= largest ? largest : ratio;  // NaN is no small error
  }
  return largest;
}

int run() {
  int rank = 0, ranks = 0, rank_on_node = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm node;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &rank_on_node);
  MPI_Comm_free(&node);
  const plumb::Device device = device_of_rank(rank_on_node);

  const plumb::ConvGeometry geometry{.padding = 1};
  std::vector<float> batch, results, w(filters * 9);
  if (rank == 0) {
    batch.resize(images * image_values);
    results.resize(batch.size() * filters, NAN);
    for (std::size_t i = 0; i < batch.size(); ++i)
      batch[i] = std::sin(0.1f * static_cast<float>(i));
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = std::cos(static_cast<float>(i));
  }
  MPI_Bcast(w.data(), static_cast<int>(w.size()), MPI_FLOAT, 0, MPI_COMM_WORLD);

  const Parts of_x(ranks, image_values), of_y(ranks, filters * image_values);
  const int own = of_x.counts[rank] / image_values;
  std::vector<float> x(of_x.counts[rank]), y(of_y.counts[rank]);
  MPI_Scatterv(batch.data(), of_x.counts.data(), of_x.begins.data(), MPI_FLOAT, x.data(),
               of_x.counts[rank], MPI_FLOAT, 0, MPI_COMM_WORLD);
  if (own > 0) plumb::conv_host(device, tensors(own, x, w, y), geometry);
  MPI_Gatherv(y.data(), of_y.counts[rank], MPI_FLOAT, results.data(), of_y.counts.data(),
              of_y.begins.data(), MPI_FLOAT, 0, MPI_COMM_WORLD);

  std::printf("rank %d of %d, %d on its node: %d images on %s\n", rank, ranks, rank_on_node, own,
              to_string(device.id()).c_str());
  if (rank != 0) return 0;
  const double error = error_over_bound(tensors(images, batch, w, results), geometry);
  std::printf("%d images on %d ranks: the largest error is %.2f of its bound\n", images, ranks,
              error);
  return error <= 1 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    const int status = run();
    MPI_Finalize();
    return status;
  } catch (const plumb::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return MPI_Abort(MPI_COMM_WORLD, 1);  // the other ranks would wait for this one for ever
  }
}
