// A group's packed filters begin with what its outputs need of them (PackedHeader). The k steps of
// the product follow, in the layout in which lanes, or four warps together, read them from shared
// memory.
#pragma once

#include <cstring>

#include "cuda_kernels/conv/conv_shape.cuh"
#include "cuda_kernels/conv/packed_header.hpp"
#include "cuda_kernels/few_channels/window_input.cuh"
#include "cuda_kernels/primitives/async_copy.cuh"

namespace plumb::cuda {

/// The filters to pack: they lie in any strides, and read as zero around their taps. Their channels
/// are those of the product (product_channels()).
template <class Stored>
struct FilterTaps {
  struct Steps {
    int k, c, t, r, s;
  };
  const Stored* w;
  Steps step;
  int k, c;
  Divisor<int> of_tap;  ///< channels of one plane of the filter
  Divisor<int> r, s;

  FilterTaps(const ConvProblem& problem, const void* filters)
      : w(static_cast<const Stored*>(filters)),
        step(steps(problem)),
        k(static_cast<int>(problem.k)),
        c(static_cast<int>(product_channels(problem))),
        of_tap(problem.c),
        r(problem.r),
        s(problem.s) {}

  __device__ float operator()(int of_k, int of_c, int of_r, int of_s) const {
    if (of_k >= k || of_c >= c || of_r < 0 || of_r >= r.value() || of_s < 0 || of_s >= s.value())
      return 0;
    const auto [tap, channel] = of_tap.divide(of_c);
    return convert<float>(
        w[of_k * step.k + channel * step.c + tap * step.t + of_r * step.r + of_s * step.s]);
  }
  /// Calls `use(term, value)` for a filter's terms, which a warp's lanes share.
  template <class Use>
  __device__ void each(int of_k, Use&& use) const {
    const int terms = of_k < k ? c * r.value() * s.value() : 0;
    for (int term = static_cast<int>(threadIdx.x) % 32; term < terms; term += 32) {
      const auto [rows, of_s] = s.divide(term);
      const auto [of_c, of_r] = r.divide(rows);
      use(term, (*this)(of_k, of_c, of_r, of_s));
    }
  }

 private:
  static Steps steps(const ConvProblem& problem) {
    const Extents extents = problem.w_extents();
    const int last = extents.rank() - 1;
    const auto along = [&](int dimension) {
      return cuda::step<int>(extents, problem.w_strides, dimension);
    };
    return {along(0), along(1), problem.has_depth() ? along(2) : 0, along(last - 1), along(last)};
  }
};

/// Writes what outputs need of filter `k` to its group's header, and the filter's elements to their
/// place in `dense`; returns the scale of the packed filter. A warp calls it.
template <bool scaled, class Stored>
__device__ float describe_filter(PackedHeader& header, int of_group, const FilterTaps<Stored>& taps,
                                 int k, char* dense) {
  const std::int64_t terms = taps.c * taps.r.value() * taps.s.value();
  Stored* const to = reinterpret_cast<Stored*>(dense) + k * terms;
  int most = 0;
  taps.each(k, [&](int term, float value) {
    most = max(most, magnitude_bits(value));
    to[term] = convert<Stored>(value);
  });
  most = __reduce_max_sync(0xffffffff, most);
  const bool finite = most < infinity_bits;
  const int exponent = scaled ? scale_exponent(finite ? most : 0) : 0;
  bool small = false;
  if constexpr (scaled) {
    const float scale = power_of_two(exponent);
    taps.each(k, [&](int, float value) {
      small = small || (value != 0 && fabsf(value * scale) < split_least);
    });
  }
  small = __any_sync(0xffffffff, small);
  if (threadIdx.x % 32 == 0) {
    header.scales[of_group] = power_of_two(-exponent);
    header.exponents[of_group] = most > 0 ? exponent : no_exponent;
    header.flags[of_group] = (finite ? 0 : met_non_finite) | (small ? met_small : 0);
  }
  return power_of_two(exponent);
}

/// Writes a lane's part of a k step in the layout that wgmma() reads: the lane's first taps are in
/// the first half of a matrix, its second taps in the other half, and the k step's matrices follow
/// each other.
template <class Scheme>
__device__ void write_k_step(const typename Scheme::KStep& filled, char* k_steps, int k_step,
                             int eight, int n8_tiles, int lane) {
  constexpr int words = sizeof filled / sizeof(Fragment);
  Fragment word[words];
  memcpy(word, &filled, sizeof filled);
  Fragment* const to = reinterpret_cast<Fragment*>(k_steps) + lane;
#pragma unroll
  for (int j = 0; j < words; ++j)
    to[((k_step * words / 2 + j / 2) * n8_tiles + eight) * 64 + j % 2 * 32] = word[j];
}

/// Clears what take_header() adds to. One thread calls it, before a barrier.
template <class Control>
__device__ void clear_header(Control& control) {
  control.filter_flags = 0;
  control.min_exponent = no_exponent;
  control.max_exponent = -no_exponent;
}
/// Copies what a group's outputs need of its filters, from `first_k` on, to `control`. The whole
/// block calls it; it does not end with a barrier. `copies` of a filter follow each other in the
/// group. `bias` has an element for each of all `all_k` filters, or is null.
template <class Stored, class Control>
__device__ void take_header(const PackedHeader& header, int group_filters, int first_k, int copies,
                            int all_k, const Stored* bias, Control& control) {
  for (int i = static_cast<int>(threadIdx.x); i < group_filters; i += blockDim.x) {
    const int k = first_k + i / copies;
    control.filter_scales[i] = header.scales[i];
    control.filter_bias[i] = bias && k < all_k ? convert<float>(bias[k]) : 0;
    if (header.flags[i] != 0) atomicOr(&control.filter_flags, header.flags[i]);
    if (header.exponents[i] == no_exponent) continue;
    atomicMin(&control.min_exponent, header.exponents[i]);
    atomicMax(&control.max_exponent, header.exponents[i]);
  }
}
/// Returns whether a float holds the factor that undoes the scale of a tile, which has this
/// exponent, and the scale of any filter taken.
template <class Control>
__device__ bool scales_fit(const Control& control, int exponent) {
  return control.max_exponent == -no_exponent ||
         (exponent + control.min_exponent >= -120 && exponent + control.max_exponent <= 120);
}

/// Begins to copy a group's k steps, a multiple of 16 bytes, to `w_tile`. The whole block calls it;
/// each thread waits for its own copies.
__device__ inline void copy_filters(const char* k_steps, int bytes, char* w_tile) {
  const int step = static_cast<int>(blockDim.x) * 16;
  for (int at = static_cast<int>(threadIdx.x) * 16; at < bytes; at += step)
    copy_16_bytes_async(w_tile + at, k_steps + at);
}

}  // namespace plumb::cuda
