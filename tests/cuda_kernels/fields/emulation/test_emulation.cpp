// What the emulation finds: kernels with one mistake each. And small parts of kernels.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <vector>

#include "device_words.hpp"
// behind CUDA's words
#include "cuda_kernels/primitives/async_copy.cuh"
#include "cuda_kernels/primitives/boundary.cuh"
#include "emulation.hpp"

using namespace plumb::cuda;
using namespace plumb_test::emulation;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// What thread i of a block of 64 reads of a neighbour's copy from i + 1 to shared memory.
std::vector<float> neighbours(bool waits, bool meets) {
  std::vector<float> from(64), got(64);
  for (int i = 0; i < 64; ++i) from[i] = static_cast<float>(i + 1);
  run_grid(1, 64, 64 * sizeof(float), [&] {
    auto* const shared = reinterpret_cast<float*>(shared_memory());
    copy_async(shared + threadIdx.x, &from[threadIdx.x], true);
    if (waits) plumb::cuda::wait_for_copies();
    if (meets) __syncthreads();
    got[threadIdx.x] = shared[threadIdx.x ^ 63];
  });
  return got;
}

bool all_there(const std::vector<float>& got) {
  for (int i = 0; i < 64; ++i)
    if (got[i] != static_cast<float>((i ^ 63) + 1)) return false;
  return true;
}

}  // namespace

TEST_CASE("emulation: what is not waited for is not there") {
  CHECK(all_there(neighbours(true, true)));
  CHECK_FALSE(all_there(neighbours(false, true)));
  CHECK_FALSE(all_there(neighbours(true, false)));
}

TEST_CASE("emulation: what a GPU does not do is an error") {
  const auto says = [](const char* text) { return MessageMatches(ContainsSubstring(text)); };
  CHECK_THROWS_MATCHES(run_grid(1, 64, 0,
                                [] {
                                  if (threadIdx.x != 40) __syncwarp();
                                }),
                       std::runtime_error, says("a block hangs"));
  CHECK_THROWS_MATCHES(run_grid(1, 32, 0,
                                [] {
                                  if (threadIdx.x != 3) __syncthreads_or(1);
                                }),
                       std::runtime_error, says("a block hangs"));
  CHECK_THROWS_MATCHES(run_grid(1, 32, 64, [] { shared_memory()[70] = 0; }), std::runtime_error,
                       says("behind the shared memory"));
  CHECK_THROWS_MATCHES(run_grid(1, 32, 64,
                                [] {
                                  alignas(16) const char from[32] = {};
                                  copy_16_bytes_async(shared_memory(), from + 4);
                                }),
                       std::runtime_error, says("not aligned to its 16 bytes"));
  CHECK_THROWS_MATCHES(run_grid(1, 32, 1 << 20, [] {}), std::runtime_error,
                       says("more shared memory"));
}

TEST_CASE("emulation: blocks of a cluster run at the same time, and reach each other's memory") {
  const auto says = [](const char* text) { return MessageMatches(ContainsSubstring(text)); };
  std::vector<unsigned> got(4 * 32);
  run_grid(
      4, 32, 32 * sizeof(unsigned),
      [&] {
        auto* const own = reinterpret_cast<unsigned*>(shared_memory()) + threadIdx.x;
        auto* const other = reinterpret_cast<unsigned*>(in_block(own, block_of_cluster() ^ 1));
        *other = 100 * blockIdx.x + threadIdx.x;
        meet_cluster();
        got[32 * blockIdx.x + threadIdx.x] = *own;
      },
      2);
  for (unsigned i = 0; i < 4 * 32; ++i) CHECK(got[i] == 100 * (i / 32 ^ 1) + i % 32);
  // Threads that have ended are not waited for, and their block's memory is gone with the last.
  run_grid(
      2, 64, 0, [] { threadIdx.x < 32 ? meet_cluster() : void(); }, 2);
  CHECK_THROWS_MATCHES(run_grid(
                           2, 32, 64,
                           [] {
                             if (block_of_cluster() == 0) return;
                             meet_cluster();
                             in_block(shared_memory(), 0);
                           },
                           2),
                       std::runtime_error, says("a block has ended"));
  CHECK_THROWS_MATCHES(run_grid(
                           3, 32, 0, [] {}, 2),
                       std::runtime_error, says("no whole clusters"));
}

TEST_CASE("emulation: the boundary of kernels is the library's") {
  using plumb::Boundary;
  for (const Boundary boundary : {Boundary::zeros, Boundary::periodic, Boundary::reflect,
                                  Boundary::symmetric, Boundary::clamp})
    for (const int extent : {1, 2, 3, 7, 0x3fffffff}) {
      if (boundary == Boundary::reflect && extent == 1) continue;
      for (const int around : {0, -extent, extent, -0x3fffffff, 0x3fffffff})
        for (int i = -30; i <= 30; ++i) {
          const std::int64_t index = around + i;
          CAPTURE(to_string(boundary), extent, index);
          const std::int64_t expected = plumb::boundary_index(boundary, index, extent);
          CHECK(at_boundary(boundary, index, std::int64_t{extent}) == expected);
          CHECK(at_boundary(boundary, static_cast<int>(index), extent) == expected);
        }
    }
}
