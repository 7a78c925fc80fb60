// What goes wrong on one rank, a case a run of mpirun: the others end with its reason, and in time.
// usage: plumb_mpi_faults CASE
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "spread_case.hpp"

using namespace plumb;
using namespace plumb_test;

namespace {

constexpr int failing_rank = 1;

ConvProblem problem_of(std::int64_t rows) {
  ConvProblem problem{.h = rows, .w = 32};
  problem.r = problem.s = 3;
  problem.padding = 1;
  return problem;
}

/// A plan over all ranks, cut along the rows, with its tensors.
struct Spread {
  Spread(const Device& device, double time_limit, const std::string& algorithm = {})
      : queue(device),
        plan(MPI_COMM_WORLD, device, problem_of(96), {.h = world_size()},
             {.conv = {.algorithm = algorithm}, .time_limit_seconds = time_limit}),
        x(integers(DType::f32, plan.x_block().extents, 1)),
        w(integers(DType::f32, {1, 1, 3, 3}, 2)),
        y(DType::f32, plan.y_block().extents) {}
  void execute() { plan.execute(queue, {.x = x.view(), .w = w.view(), .y = y.view()}); }

  Queue queue;
  Distributed plan;
  HostTensor x, w, y;
};

/// 0 where `work` ends with that code and with these words in its message.
template <class Work>
int expect(const Work& work, ErrorCode code, const std::string& words) {
  try {
    work();
  } catch (const Error& e) {
    const bool as_expected =
        e.code() == code && std::string(e.what()).find(words) != std::string::npos;
    std::printf("rank %d: %s%s\n", world_rank(), e.what(), as_expected ? "" : " (unexpected)");
    return as_expected ? 0 : 1;
  }
  std::printf("rank %d met no error; expected '%s'\n", world_rank(), words.c_str());
  return 1;
}

/// Others' messages go on as long as mpirun lets them.
int killed() {
  Spread spread(Device::open("cpu"), 15);
  spread.execute();
  if (world_rank() == failing_rank) std::raise(SIGKILL);
  try {
    while (true) spread.execute();
  } catch (const Error& e) {
    std::printf("rank %d: %s\n", world_rank(), e.what());
    return 1;
  }
}

/// One that comes late is waited for.
int slow() {
  Spread spread(Device::open("cpu"), 15);
  if (world_rank() == failing_rank) std::this_thread::sleep_for(std::chrono::seconds(1));
  spread.execute();
  return 0;
}

/// One that does not come in time ends the call, and the object is of no more use.
int absent() {
  Spread spread(Device::open("cpu"), 1);
  if (world_rank() == failing_rank) {
    std::this_thread::sleep_for(std::chrono::seconds(20));
    return 1;  // the others have ended the program
  }
  const int late = expect([&] { spread.execute(); }, ErrorCode::device_failure,
                          world_rank() == 0 ? "that of rank 1" : "waited 1 s");
  const int again = expect([&] { spread.execute(); }, ErrorCode::device_failure, "no further use");
  if (world_rank() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the third rank's lines
    std::printf("the absent rank was noticed: %s\n", late + again == 0 ? "yes" : "no");
    std::fflush(stdout);
    std::this_thread::sleep_for(
        std::chrono::milliseconds(500));  // what ends ranks may lose their lines
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  std::fflush(stdout);
  std::this_thread::sleep_for(std::chrono::seconds(20));
  return 1;
}

/// Memory that ends after so many allocations, on one rank.
DeviceOptions short_of_memory(int* left) {
  DeviceOptions options;
  options.allocator.allocate = [left](std::size_t bytes, Memory, void*) -> void* {
    if (world_rank() == failing_rank && (*left)-- <= 0) return nullptr;
    return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  };
  options.allocator.deallocate = [](void* data, std::size_t, Memory, void*) { std::free(data); };
  return options;
}

int out_of_memory() {
  int left = 0, failures = 0;
  const Device device = Device::open("cpu", short_of_memory(&left));
  const auto make = [&] { Spread(device, 15, "cpu.conv.direct.fp32"); };
  // At each allocation of the plan in turn, until there are enough; then in its execution.
  int rounds = 0;
  for (; rounds < 50; ++rounds) {
    left = rounds;
    int enough = 1, all = 0;
    try {
      make();
    } catch (const Error& e) {
      enough = 0;
      if (e.code() != ErrorCode::out_of_memory ||
          std::string(e.what()).find("rank 1 of") == std::string::npos) {
        std::printf("rank %d: %s (unexpected)\n", world_rank(), e.what());
        ++failures;
      }
    }
    MPI_Allreduce(&enough, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &enough, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (all != enough) ++failures;  // some ranks met the error, and others did not
    if (all) break;
  }
  if (rounds == 0 || rounds == 50) ++failures;
  left = 1000;
  Spread spread(device, 15, "cpu.conv.im2col.fp32");  // which takes workspace
  left = 0;
  failures += expect([&] { spread.execute(); }, ErrorCode::out_of_memory, "rank 1 of");
  left = 1000;
  spread.execute();
  return failures;
}

int other_thread() {
  int failures = 0;
  std::thread([&] {
    failures = expect([] { Spread(Device::open("cpu"), 5); }, ErrorCode::invalid_argument,
                      "MPI_THREAD_SERIALIZED");
  }).join();
  return failures;
}

/// Run with two threads and MPI_THREAD_SINGLE.
int thread_level() {
  return expect([] { Spread(Device::open("cpu"), 5); }, ErrorCode::invalid_argument,
                "MPI_THREAD_FUNNELED");
}

int run(const std::string& name) {
  if (name == "killed") return killed();
  if (name == "slow") return slow();
  if (name == "absent") return absent();
  if (name == "out_of_memory") return out_of_memory();
  if (name == "other_thread") return other_thread();
  if (name == "thread_level") return thread_level();
  std::fprintf(stderr, "no case '%s'\n", name.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const auto early = [] { Distributed(MPI_COMM_NULL, Device::open("cpu"), problem_of(96), {}); };
  if (name == "uninitialised") {
    try {
      early();
    } catch (const Error& e) {
      std::printf("%s\n", e.what());
      return e.code() == ErrorCode::invalid_argument ? 0 : 1;
    }
    return 1;
  }
  int level = 0;
  MPI_Init_thread(&argc, &argv, name == "thread_level" ? MPI_THREAD_SINGLE : MPI_THREAD_FUNNELED,
                  &level);
  const int code = run(name);
  if (code == 0 && world_rank() == 0) std::printf("as expected\n");
  std::fflush(stdout);
  if (code != 0) MPI_Abort(MPI_COMM_WORLD, code);
  MPI_Finalize();
  return code;
}
