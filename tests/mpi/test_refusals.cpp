// What is refused is refused on every rank, with the reason and the rank that has it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>

#include "spread_case.hpp"

using namespace plumb;
using namespace plumb_test;
using Catch::Matchers::ContainsSubstring;

namespace {

ConvProblem image(std::int64_t rows, std::int64_t columns, std::int64_t taps = 3) {
  ConvProblem problem{.h = rows, .w = columns};
  problem.r = problem.s = taps;
  problem.padding = taps / 2;
  return problem;
}

std::string failure_of(const std::function<void()>& work, ErrorCode code) {
  try {
    work();
  } catch (const Error& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  FAIL("rank " << world_rank() << " met no error");
  return {};
}

Distributed made(const ConvProblem& problem, const DistributedGrid& grid,
                 DistributedOptions options = {}) {
  options.time_limit_seconds = time_limit_seconds;
  return {MPI_COMM_WORLD, Device::open("cpu"), problem, grid, options};
}

std::string refused(const ConvProblem& problem, const DistributedGrid& grid,
                    const DistributedOptions& options = {},
                    ErrorCode code = ErrorCode::invalid_argument) {
  return failure_of([&] { made(problem, grid, options); }, code);
}

}  // namespace

TEST_CASE("a plan that cannot be is refused on every rank") {
  const int ranks = world_size();
  const DistributedGrid columns{.w = ranks};
  REQUIRE_THAT(refused(image(8, 64), {.w = ranks + 1}), ContainsSubstring("parts (N, D, H, W)"));
  REQUIRE_THAT(refused(image(8, 64), {.h = ranks, .w = ranks}),
               ContainsSubstring("the communicator has " + std::to_string(ranks)));
  REQUIRE_THAT(refused(image(8, 64), {.h = 0, .w = ranks}), ContainsSubstring("1x1x0x"));
  ConvProblem thin = image(8, 2 * ranks, 7);
  thin.boundary = Boundary::periodic;
  REQUIRE_THAT(refused(thin, columns), ContainsSubstring("thinner than the halo"));
  REQUIRE_THAT(refused(image(8, ranks - 1, 1), columns), ContainsSubstring("an element a part"));
  ConvProblem padded = image(8, 64);
  padded.padding = 3;
  REQUIRE_THAT(refused(padded, columns), ContainsSubstring("padding of 3 along the width"));
  ConvProblem pooled = image(8, 64);
  pooled.pool = Pool::max_2x2;
  REQUIRE_THAT(refused(pooled, columns), ContainsSubstring("pooling"));
  ConvProblem strided = image(8, 64);
  strided.x_strides = {8 * 64, 8 * 64, 64, 1};
  REQUIRE_THAT(refused(strided, columns), ContainsSubstring("DistributedOptions"));
  REQUIRE_THAT(refused(image(8, 64), columns, {.conv = {.algorithm = "cpu.conv.none"}},
                       ErrorCode::unsupported),
               ContainsSubstring("cpu.conv.none"));
  REQUIRE_THAT(refused(image(8, 64), columns, {.sizes = {.w = {1, 2}}}),
               ContainsSubstring("width"));
  REQUIRE_THAT(
      refused(image(8, 64), columns, {.transport = Transport::nccl}, ErrorCode::unsupported),
      ContainsSubstring("NCCL"));
}

TEST_CASE("ranks that do not agree are told so") {
  const DistributedGrid columns{.w = world_size()};
  const bool is_last = world_rank() == world_size() - 1;
  const std::string other = refused(image(8, is_last ? 96 : 64), columns);
  REQUIRE_THAT(other, ContainsSubstring("rank " + std::to_string(world_size() - 1)));
  REQUIRE_THAT(other, ContainsSubstring("iw96") && ContainsSubstring("iw64"));
  // One has a grid of another size, and says so to all.
  REQUIRE_THAT(refused(image(8, 64), is_last ? DistributedGrid{.w = 77} : columns),
               ContainsSubstring("1x1x1x77"));
  REQUIRE_THAT(refused(image(8, 64), columns, {.conv = {.bias = is_last}}),
               ContainsSubstring("bias true"));
  REQUIRE_THAT(refused(image(8, 64), columns, {.conv = {.reproducible = is_last}}),
               ContainsSubstring("reproducible true"));
}

TEST_CASE("a rank that fails in a call ends it everywhere, and the next call works") {
  Distributed plan = made(image(8, 64), {.w = world_size()});
  const bool is_last = world_rank() == world_size() - 1;
  Queue queue(Device::open("cpu"));
  HostTensor x = integers(DType::f32, plan.x_block().extents, 1);
  HostTensor w = integers(DType::f32, {1, 1, 3, 3}, 2);
  HostTensor y(DType::f32, plan.y_block().extents), small(DType::f32, {1, 1, 8, 5});
  for (int round = 0; round < 3; ++round) {
    const std::string what = failure_of(
        [&] {
          plan.execute(queue,
                       {.x = x.view(), .w = w.view(), .y = is_last ? small.view() : y.view()});
        },
        ErrorCode::invalid_argument);
    REQUIRE_THAT(what, ContainsSubstring("rank " + std::to_string(world_size() - 1)));
    REQUIRE_THAT(what, ContainsSubstring("[1, 1, 1, 8, 5]") || ContainsSubstring("[1, 1, 8, 5]"));
    plan.execute(queue, {.x = x.view(), .w = w.view(), .y = y.view()});
  }
  REQUIRE_THAT(
      failure_of(
          [&] {
            plan.execute(
                queue, {.x = x.view(), .w = is_last ? ConstTensorView() : w.view(), .y = y.view()});
          },
          ErrorCode::invalid_argument),
      ContainsSubstring("rank " + std::to_string(world_size() - 1)));
}

TEST_CASE("communicators that are none") {
  const Device cpu = Device::open("cpu");
  REQUIRE_THAT(failure_of([&] { Distributed(MPI_COMM_NULL, cpu, image(8, 64), {}); },
                          ErrorCode::invalid_argument),
               ContainsSubstring("MPI_COMM_NULL"));
  REQUIRE_THAT(failure_of(
                   [&] {
                     Distributed(MPI_COMM_WORLD, cpu, image(8, 64), {.w = world_size()},
                                 {.time_limit_seconds = 0});
                   },
                   ErrorCode::invalid_argument),
               ContainsSubstring("time limit of 0"));
  MPI_Comm halves, between;
  const int colour = world_rank() % 2;
  MPI_Comm_split(MPI_COMM_WORLD, colour, world_rank(), &halves);
  MPI_Intercomm_create(halves, 0, MPI_COMM_WORLD, 1 - colour, 7, &between);
  REQUIRE_THAT(
      failure_of([&] { Distributed(between, cpu, image(8, 64), {}); }, ErrorCode::invalid_argument),
      ContainsSubstring("intercommunicator"));
  // Half of the ranks by themselves are well.
  int size = 0;
  MPI_Comm_size(halves, &size);
  REQUIRE(Distributed(halves, cpu, image(8, 64), {.w = size}).ranks() == size);
  MPI_Comm_free(&between);
  MPI_Comm_free(&halves);
}

TEST_CASE("each rank of a node gets a device, and is told why") {
  const RankDevice found = device_for_rank(MPI_COMM_WORLD);
  REQUIRE_THAT(found.reason, ContainsSubstring("rank " + std::to_string(world_rank()) + " of " +
                                               std::to_string(world_size()) + " on its node"));
}

TEST_CASE("messages of the caller with the same tags are not met") {
  const int rank = world_rank(), ranks = world_size();
  Distributed plan = made(image(8, 64), {.w = ranks});
  HostTensor x = integers(DType::f32, plan.x_block().extents, 1);
  const HostTensor w = integers(DType::f32, {1, 1, 3, 3}, 2);
  HostTensor y(DType::f32, plan.y_block().extents), again = y;
  Queue queue(Device::open("cpu"));
  plan.execute(queue, {.x = x.view(), .w = w.view(), .y = y.view()});
  // Under way on the caller's communicator, with every tag that Plumb could use, from all to all.
  std::vector<int> sent(static_cast<std::size_t>(8 * ranks), 1000 + rank), received(sent.size());
  std::vector<MPI_Request> requests;
  for (int other = 0; other < ranks; ++other)
    for (int tag = 0; tag < 8; ++tag) {
      const auto at = static_cast<std::size_t>(8 * other + tag);
      requests.push_back(MPI_REQUEST_NULL);
      MPI_Irecv(&received[at], 1, MPI_INT, other, tag, MPI_COMM_WORLD, &requests.back());
    }
  plan.execute(queue, {.x = x.view(), .w = w.view(), .y = again.view()});
  for (int other = 0; other < ranks; ++other)
    for (int tag = 0; tag < 8; ++tag) {
      requests.push_back(MPI_REQUEST_NULL);
      MPI_Isend(&sent[static_cast<std::size_t>(8 * other + tag)], 1, MPI_INT, other, tag,
                MPI_COMM_WORLD, &requests.back());
    }
  plan.execute(queue, {.x = x.view(), .w = w.view(), .y = again.view()});
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  REQUIRE(again.values() == y.values());
  for (int other = 0; other < ranks; ++other)
    for (int tag = 0; tag < 8; ++tag)
      REQUIRE(received[static_cast<std::size_t>(8 * other + tag)] == 1000 + other);
}
