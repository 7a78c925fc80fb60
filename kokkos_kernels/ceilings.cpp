// Measures by running: independent chains of multiplications and additions that never leave the
// registers, and a copy that no cache holds. The best of several runs counts, because a disturbance
// only ever slows down.
#include <algorithm>
#include <chrono>
#include <limits>

#include "kokkos_kernels/operators.hpp"

namespace plumb::kokkos {
namespace {

/// A host's chains are the lanes of some vectors, a device's those of one thread.
template <class Space>
inline constexpr int chains = runs_on_host<Space> ? 64 : 8;

template <class Space, class T>
struct Chains {
  std::int64_t steps;

  KOKKOS_FUNCTION void operator()(std::int64_t item, double& total) const {
    T sums[chains<Space>];
    for (int i = 0; i < chains<Space>; ++i) sums[i] = static_cast<T>(i + item % 3);
    const T factor = T(0.75);  // converges: neither Inf nor subnormal numbers on the way
    for (std::int64_t step = 0; step < steps; ++step)
      for (int i = 0; i < chains<Space>; ++i) sums[i] = sums[i] * factor + T(0.25);
    for (int i = 0; i < chains<Space>; ++i) total += static_cast<double>(sums[i]);
  }
};

struct Copy {
  const double* from;
  double* to;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { to[i] = from[i]; }
};

/// The shortest of several runs, which each wait for the space to be done.
template <class Space, class Run>
double best_seconds(const Space& space, int runs, const Run& run) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < runs; ++i) {
    space.fence();
    const Clock::time_point begin = Clock::now();
    run();
    space.fence();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

template <class T, class Space>
double flop_per_second(const Space& space) {
  const std::int64_t items = space.concurrency() * (runs_on_host<Space> ? 1 : 8);
  double total = 0;
  const auto run_seconds = [&](std::int64_t steps, int runs) {
    return best_seconds(space, runs, [&] {
      Kokkos::parallel_reduce(
          "plumb.ceilings.fma",
          Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(space, 0, items),
          Chains<Space, T>{steps}, total);
    });
  };
  constexpr double wanted_seconds = 0.03;
  std::int64_t steps = 1024;
  double seconds = run_seconds(steps, 2);
  while (seconds < wanted_seconds && steps < (std::int64_t{1} << 40)) {
    steps *= 2;
    seconds = run_seconds(steps, 1);
  }
  seconds = run_seconds(steps, 5);
  return 2.0 * static_cast<double>(steps) * chains<Space> * static_cast<double>(items) / seconds;
}

template <class Space>
double bytes_per_second(const Space& space, std::size_t free_bytes) {
  // On a device long enough that its launch, which is timed with it, takes a hundredth at most.
  constexpr std::size_t wanted_bytes = std::size_t{runs_on_host<Space> ? 256 : 2048} << 20;
  const std::size_t bytes = std::min(wanted_bytes, free_bytes / 4);
  using Buffer = Kokkos::View<double*, typename Space::memory_space>;
  const auto count = static_cast<std::int64_t>(bytes / sizeof(double));
  const Buffer from("plumb.ceilings.from", count), to("plumb.ceilings.to", count);
  const double seconds = best_seconds(space, 5, [&] {
    Kokkos::parallel_for(
        "plumb.ceilings.copy",
        Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(space, 0, count),
        Copy{from.data(), to.data()});
  });
  return 2.0 * static_cast<double>(bytes) / seconds;
}

}  // namespace

DeviceCeilings measure_ceilings(const Instance& instance, std::size_t free_bytes) {
  DeviceCeilings ceilings;
  with_instance(instance, [&]<class Space>(const Space& space) {
    ceilings.bytes_per_second = bytes_per_second(space, free_bytes);
    ceilings.fp64_flop_per_second = flop_per_second<double>(space);
    ceilings.fp32_flop_per_second = flop_per_second<float>(space);
  });
  // No kernel here computes narrower than fp32.
  ceilings.tf32_flop_per_second = ceilings.bf16_flop_per_second = ceilings.fp16_flop_per_second =
      ceilings.fp32_flop_per_second;
  return ceilings;
}

}  // namespace plumb::kokkos
