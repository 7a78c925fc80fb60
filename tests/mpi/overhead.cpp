// What distribution costs: the time of one convolution of ten that follow each other, the least and
// the median of many such rounds, by this run's ranks, or by a plain plan where there is one rank.
// tests/mpi/overhead runs both in turn.
// With "shared" ranks share what device_for_rank() gives them: rank 0 runs the whole by itself,
// then all run their parts of it, each as large as an image of the other mode. usage:
// plumb_mpi_overhead ROUNDS [shared]
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
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

/// As a field is stepped: a GPU waits once a round, and no step for the ranks' clocks.
constexpr int steps_a_round = 10;

/// Seconds of a step by the slowest rank, sorted. `finish` waits for the work of a round.
std::vector<double> times_of(int rounds, const std::function<void()>& work,
                             const std::function<void()>& finish) {
  std::vector<double> times;
  for (int i = 0; i < rounds + 3; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int step = 0; step < steps_a_round; ++step) work();
    finish();
    double seconds = (MPI_Wtime() - begin) / steps_a_round;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (i >= 3) times.push_back(seconds);
  }
  std::sort(times.begin(), times.end());
  return times;
}

/// By way of the host, where the device's memory is not the host's.
void fill(Queue& queue, const TensorView& view) {
  const std::int64_t count = element_count(view.extents());
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_in_bytes(view.dtype()));
  const TensorView on_host(bytes.data(), view.dtype(), view.extents());
  for (std::int64_t i = 0; i < count; ++i)
    store_element(on_host, i, 0.001 * static_cast<double>(i % 1009));
  copy(queue, on_host, view);
  queue.synchronize();
}

/// Tensors of a problem, or of a block of it, full of numbers.
struct Filled {
  Tensor x, w, y;
  Filled(Queue& queue, const ConvProblem& problem, const Extents& of_x, const Extents& of_y)
      : x(queue.device(), problem.dtype, of_x),
        w(queue.device(), problem.dtype, problem.w_extents()),
        y(queue.device(), problem.dtype, of_y) {
    for (const Tensor* tensor : {&x, &w, &y}) fill(queue, *tensor);
  }
  ConvTensors views() const { return {.x = x, .w = w, .y = y}; }
};

void measure_beside(const Named& named, int rounds, int rank, int ranks) {
  const Device device = Device::open("cpu");
  Queue queue(device);
  const ConvProblem problem = check(named.problem);
  const bool is_deep = problem.has_depth();
  const DistributedGrid grid{.n = 1, .d = is_deep ? ranks : 1, .h = is_deep ? 1 : ranks};
  Distributed spread(MPI_COMM_WORLD, device, named.problem, grid);
  const Filled filled(queue, problem, spread.x_block().extents, spread.y_block().extents);
  const ConvPlan alone(device, problem);
  const std::vector<double> times = times_of(
      rounds,
      [&] {
        if (ranks > 1)
          spread.execute(queue, filled.views());
        else
          alone.execute(queue, filled.views());
      },
      [&] { queue.synchronize(); });
  if (rank == 0)
    std::printf("%-12s %d ranks of %d threads: least %.3f ms, median %.3f ms\n", named.name, ranks,
                device.info().units, 1e3 * times.front(), 1e3 * times[times.size() / 2]);
}

/// The image of `named` once for each rank.
void measure_shared(const Named& named, int rounds, int rank, int ranks) {
  const RankDevice found = device_for_rank(MPI_COMM_WORLD);
  Queue queue(found.device);
  ConvProblem problem = named.problem;
  DistributedGrid grid{.n = 1, .d = 1, .h = ranks % 2 == 0 ? 2 : 1};
  grid.w = ranks / grid.h;
  problem.h *= grid.h;
  problem.w *= grid.w;
  double alone = 0;
  {
    std::optional<Filled> filled;
    std::optional<ConvPlan> plan;
    if (rank == 0) {
      filled.emplace(queue, problem, problem.x_extents(), problem.y_extents());
      plan.emplace(found.device, problem);
    }
    const std::vector<double> times = times_of(
        rounds,
        [&] {
          if (plan) plan->execute(queue, filled->views());
        },
        [&] { queue.synchronize(); });
    alone = times[times.size() / 2];
  }
  Distributed spread(MPI_COMM_WORLD, found.device, problem, grid);
  const Filled filled(queue, problem, spread.x_block().extents, spread.y_block().extents);
  const std::vector<double> times = times_of(
      rounds, [&] { spread.execute(queue, filled.views()); }, [&] { queue.synchronize(); });
  const double median = times[times.size() / 2];
  if (rank != 0) return;
  std::printf("%s a rank, %d ranks, %s, halos by %s: one rank has all of it in %.3f ms, all in ",
              named.name, ranks, found.reason.c_str(),
              std::string(to_string(spread.transport())).c_str(), 1e3 * alone);
  std::printf("%.3f ms (least %.3f): overhead %.1f %%\n", 1e3 * median, 1e3 * times.front(),
              100 * (median / alone - 1));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0, rank = 0, ranks = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 50;
  const bool shared = argc > 2 && std::strcmp(argv[2], "shared") == 0;
  for (const Named& named : problems())
    (shared ? measure_shared : measure_beside)(named, rounds, rank, ranks);
  MPI_Finalize();
  return 0;
}
