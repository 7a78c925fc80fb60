// Ceilings are measured by running independent chains of FMAs that never leave the registers, and a
// copy that no cache holds. The best of several runs counts, because a disturbance only ever slows
// down.
#include "cpu_kernels/probes/ceilings.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>

#include "core/src/parallel/parallel.hpp"

namespace plumb {
namespace {

/// This many chains hide the latency of two units, and fit sixteen registers.
constexpr int chains = 12;

template <class T, int bytes>
constexpr int lanes = bytes / static_cast<int>(sizeof(T));

/// Does a multiplication and an addition, `steps` times, in each lane of each chain, in vectors of
/// `bytes`. It returns a value that depends on all of them. It is inlined into a function of each
/// instruction set, and compiled to that set's instructions there.
template <class T, int bytes>
[[gnu::always_inline]] inline double run_chains(std::int64_t steps) {
  typedef T Vector __attribute__((vector_size(bytes)));  // `using` takes no dependent attribute
  Vector sums[chains], factor, addend;
  for (int lane = 0; lane < lanes<T, bytes>; ++lane) {
    factor[lane] = T(0.75);  // sums converge without Inf or subnormal numbers
    addend[lane] = T(0.25) + T(lane);
    for (int i = 0; i < chains; ++i) sums[i][lane] = T(i);
  }
  for (std::int64_t step = 0; step < steps; ++step)
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) sums[i] = sums[i] * factor + addend;
  double all = 0;
  for (int i = 0; i < chains; ++i)
    for (int lane = 0; lane < lanes<T, bytes>; ++lane) all += static_cast<double>(sums[i][lane]);
  return all;
}

/// One way to keep the FMA units busy, and the number of operations in a step of it.
struct FmaLoop {
  double (*run)(std::int64_t steps);
  double flop_per_step;
};
template <class T, int bytes>
constexpr FmaLoop fma_loop(double (*run)(std::int64_t)) {
  return {run, 2.0 * chains * lanes<T, bytes>};
}

template <class T>
double run_baseline(std::int64_t steps) {
  return run_chains<T, 16>(steps);
}

#if defined(__x86_64__)
template <class T>
[[gnu::target("avx2,fma")]] double run_avx2(std::int64_t steps) {
  return run_chains<T, 32>(steps);
}
template <class T>
[[gnu::target("avx512f,fma")]] double run_avx512(std::int64_t steps) {
  return run_chains<T, 64>(steps);
}
template <class T>
FmaLoop fma_loop_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::baseline: break;
    case InstructionSet::avx2: return fma_loop<T, 32>(run_avx2<T>);
    case InstructionSet::amx:
    case InstructionSet::avx512_bf16:
    case InstructionSet::avx512: return fma_loop<T, 64>(run_avx512<T>);
  }
  return fma_loop<T, 16>(run_baseline<T>);
}
#else
template <class T>
FmaLoop fma_loop_of(InstructionSet) {
  return fma_loop<T, 16>(run_baseline<T>);
}
#endif

constexpr int repeats = 15;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Runs all threads at once, each by its own clock: where other programs take turns with us on a
/// core, a run of a few milliseconds is still undisturbed now and then.
double flop_per_second(const FmaLoop& loop) {
  constexpr std::int64_t steps = 1'000'000;
  std::atomic<double> sum = 0, seen = 0;
  run_parallel(available_threads(), [&](const TeamMember& member) {
    double best = std::numeric_limits<double>::infinity();
    for (int repeat = 0; repeat < repeats; ++repeat) {
      member.wait_for_team();
      const double begin = seconds();
      seen += loop.run(steps);
      best = std::min(best, seconds() - begin);
    }
    sum += loop.flop_per_step * static_cast<double>(steps) / best;
  });
  // The sum is never NaN, which only the loops know: so they have to be run.
  return std::isnan(seen.load()) ? 0 : sum.load();
}

/// Counts bytes read and written.
double copy_bytes_per_second(std::size_t free_bytes) {
  constexpr std::size_t largest = std::size_t{512} << 20, page_bytes = 4096;
  const std::size_t pages =
      std::max<std::size_t>(std::min(largest, free_bytes / 8) / page_bytes, 1);
  const std::size_t bytes = pages * page_bytes;
  const auto from = std::make_unique_for_overwrite<unsigned char[]>(bytes);
  const auto to = std::make_unique_for_overwrite<unsigned char[]>(bytes);
  const auto by_parts = [&](const auto& use) {
    run_parallel(available_threads(), [&](const TeamMember& member) {
      const auto threads = static_cast<std::size_t>(member.threads);
      const auto thread = static_cast<std::size_t>(member.thread);
      const std::size_t begin = pages * thread / threads * page_bytes;
      use(begin, pages * (thread + 1) / threads * page_bytes - begin);
    });
  };
  // A page comes to lie near the thread that first writes it.
  by_parts([&](std::size_t first, std::size_t count) {
    std::memset(from.get() + first, 1, count);
    std::memset(to.get() + first, 0, count);
  });
  double best = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const double begin = seconds();
    by_parts([&](std::size_t first, std::size_t count) {
      std::memcpy(to.get() + first, from.get() + first, count);
    });
    best = std::min(best, seconds() - begin);
  }
  // The last byte is read back, so that the copy cannot be left out.
  return to[bytes - 1] == from[bytes - 1] ? 2.0 * static_cast<double>(bytes) / best : 0;
}

}  // namespace

DeviceCeilings measure_cpu_ceilings(InstructionSet set, std::size_t free_bytes) {
  DeviceCeilings ceilings;
  ceilings.bytes_per_second = copy_bytes_per_second(free_bytes);
  ceilings.fp64_flop_per_second = flop_per_second(fma_loop_of<double>(set));
  ceilings.fp32_flop_per_second = flop_per_second(fma_loop_of<float>(set));
  ceilings.tf32_flop_per_second = ceilings.bf16_flop_per_second = ceilings.fp16_flop_per_second =
      ceilings.fp32_flop_per_second;
  return ceilings;
}

}  // namespace plumb
