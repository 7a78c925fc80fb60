// A strip's sums are made here: the header says which terms they have and which rows of the input a
// lane reads for them, and multiplies them by single warps or by four together.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda_kernels/few_channels/window_params.cuh"
#include "cuda_kernels/few_channels/window_products.cuh"
#include "cuda_kernels/primitives/wgmma.cuh"

namespace plumb::cuda {

/// The filters that a kernel is compiled for: a channel is `segments_` segments of `segment_rows_`
/// rows each, at a stride of one row. Zero segments mean any filters. With `warpgroups_` four warps
/// multiply together; where the code has no wgmma the kernel is empty, and
/// products_by_warpgroups() keeps it from being launched.
template <int segments_, int segment_rows_, bool warpgroups_ = false>
struct FixedTerms {
  static constexpr bool streams = false;
  static constexpr int segments = segments_, segment_rows = segment_rows_;
  static constexpr int k_steps = (segments + 1) / 2;
  static constexpr bool wants_warpgroups = warpgroups_;
  static constexpr bool warpgroups = warpgroups_ && warpgroup_products;
  static constexpr bool launched = warpgroups == wants_warpgroups;
  static bool fit(const ConvProblem& problem) {
    if (segments == 0) return true;
    const WindowTerms terms(problem);
    return terms.segments == segments && terms.segment_rows == segment_rows && !terms.wide() &&
           problem.stride.h == 1 && problem.p() > 1;
  }
};

/// Any terms of filters that stream. With `warpgroups_` four warps multiply together; where they
/// cannot the kernel is never launched.
template <bool warpgroups_>
struct StreamedTerms {
  static constexpr bool streams = true, wants_warpgroups = warpgroups_;
  static constexpr bool warpgroups = warpgroups_ && warpgroup_products;
  static constexpr bool launched = warpgroups == wants_warpgroups;
  /// How many n8 tiles' filters a warp holds at once where it multiplies by itself.
  template <class Scheme, int n8_tiles>
  static constexpr int n8_tiles_held = [] {
    constexpr int most = 2 * sizeof(uint4) / sizeof(typename Scheme::KStep);
    return n8_tiles < most ? n8_tiles : most;
  }();
};

/// The rows of a channel under a strip, for filters of fixed terms, and the steps made of them.
template <class Scheme, class Terms, int row_pairs>
struct WindowRows {
  static constexpr int apart = Terms::segment_rows;
  static constexpr int count = 2 * row_pairs + (Terms::segments - 1) * apart;
  static constexpr int step_count = row_pairs + (Terms::k_steps - 1) * apart;
  typename Scheme::Row rows[count];

  /// `x` is where the lane's window begins; rows are `pitch` bytes apart.
  __device__ void read(const char* x, int pitch) {
#pragma unroll
    for (int i = 0; i < count; ++i) rows[i] = Scheme::row(x + i * pitch);
  }
  /// Steps take rows two at a time; the step of a pair of rows and a k step is number pair + k step
  /// * apart.
  __device__ void take(typename Scheme::Step& step, int number, Zeros zeros) const {
    const int row = 2 * number;
    Scheme::take(step, 0, rows[row], rows[row + 1], zeros);
    if (row + apart + 1 < count)
      Scheme::take(step, 1, rows[row + apart], rows[row + apart + 1], zeros);
  }
};

/// The registers that four warps' products take, which hold all steps of a channel at once.
template <class Scheme, class Terms, int row_pairs, int n8_tiles>
struct WarpgroupRegisters {
  using Rows = WindowRows<Scheme, Terms, row_pairs>;
  static constexpr std::size_t bytes = sizeof(typename Scheme::Sum[row_pairs][n8_tiles]) +
                                       sizeof(typename Scheme::Step[Rows::step_count]);
  static constexpr bool many = bytes > 100 * sizeof(Fragment);
  /// Whether sums and steps leave room for the next channel's rows.
  static constexpr bool ahead = many || bytes + sizeof(Rows) <= 112 * sizeof(Fragment);
};
template <class Scheme, class Terms, int row_pairs, int n8_tiles>
constexpr WindowKernelConfig unit_of_terms() {
  WindowKernelConfig unit{row_pairs, n8_tiles, Terms::wants_warpgroups};
  if constexpr (Terms::streams) {
    unit.streams = true;
    // Four warps hold a fragment more than is multiplied, and warps by themselves hold some
    // filters.
    constexpr std::size_t beside =
        Terms::wants_warpgroups
            ? sizeof(typename Scheme::Step)
            : Terms::template n8_tiles_held<Scheme, n8_tiles> * sizeof(typename Scheme::KStep);
    constexpr std::size_t registers = (sizeof(typename Scheme::Sum[row_pairs][n8_tiles]) +
                                       sizeof(typename Scheme::Step[row_pairs]) + beside) /
                                      sizeof(float);
    unit.warps_held = registers <= 84 ? 16 : registers <= 128 ? 12 : 8;
  } else if constexpr (Terms::wants_warpgroups)
    unit.warps_held = WarpgroupRegisters<Scheme, Terms, row_pairs, n8_tiles>::many ? 12 : 16;
  return unit;
}
template <class Scheme, class Terms, int row_pairs, int n8_tiles>
constexpr WindowKernelConfig window_unit = unit_of_terms<Scheme, Terms, row_pairs, n8_tiles>();
template <class Scheme, class Terms, int row_pairs, int n8_tiles>
constexpr int unit_strip_rows = window_unit<Scheme, Terms, row_pairs, n8_tiles>.strip_rows();

/// Adds one channel's products to a strip's sums. `x` is where the lane's window begins, `w` where
/// its filters of the channel do.
template <class Scheme, class Terms, int row_pairs, int n8_tiles>
__device__ void add_channel(typename Scheme::Sum (&sums)[row_pairs][n8_tiles],
                            const WindowKernelParams& params, const char* x,
                            const typename Scheme::KStep* w) {
  using KStep = typename Scheme::KStep;
  if constexpr (Terms::segments > 0) {
    using Rows = WindowRows<Scheme, Terms, row_pairs>;
    Rows rows;
    rows.read(x, params.pitch * Scheme::element_bytes);
    typename Scheme::Step steps[Rows::step_count];
#pragma unroll
    for (int k_step = 0; k_step < Terms::k_steps; ++k_step) {
      KStep k_steps[n8_tiles];
#pragma unroll
      for (int eight = 0; eight < n8_tiles; ++eight)
        k_steps[eight] = w[(k_step * n8_tiles + eight) * 32];
#pragma unroll
      for (int pair = 0; pair < row_pairs; ++pair) {
        typename Scheme::Step& step = steps[pair + k_step * Rows::apart];
        // Only the last pairs need a step made; those of the others were made for earlier k steps.
        if (k_step == 0 || pair >= row_pairs - Rows::apart)
          rows.take(step, pair + k_step * Rows::apart, params.zeros);
#pragma unroll
        for (int eight = 0; eight < n8_tiles; ++eight)
          if (2 * k_step + 1 < Terms::segments)
            Scheme::two(sums[pair][eight], step, k_steps[eight]);
          else
            Scheme::one(sums[pair][eight], step, k_steps[eight]);
      }
    }
  } else {
    constexpr int bytes = Scheme::element_bytes;
    const int second = params.second * bytes, step_bytes = params.row_step * bytes;
    const auto add = [&](auto both) {
      KStep k_steps[n8_tiles];
#pragma unroll
      for (int eight = 0; eight < n8_tiles; ++eight) k_steps[eight] = w[eight * 32];
#pragma unroll
      for (int pair = 0; pair < row_pairs; ++pair) {
        const char* const low = x + 2 * pair * step_bytes;
        const char* const high = low + step_bytes;
        typename Scheme::Step step;
        Scheme::take(step, 0, Scheme::row(low), Scheme::row(high), params.zeros);
        if constexpr (decltype(both)::value)
          Scheme::take(step, 1, Scheme::row(low + second), Scheme::row(high + second),
                       params.zeros);
#pragma unroll
        for (int eight = 0; eight < n8_tiles; ++eight)
          if constexpr (decltype(both)::value)
            Scheme::two(sums[pair][eight], step, k_steps[eight]);
          else
            Scheme::one(sums[pair][eight], step, k_steps[eight]);
      }
      x += params.pair * bytes;
      w += n8_tiles * 32;
    };
#pragma unroll 1
    for (int segment = 1; segment < params.segments; segment += 2) add(std::true_type{});
    if (params.segments % 2 != 0) add(std::false_type{});
  }
}

/// Makes a strip's sums of all channels, four warps together. `x` is where the lane's window
/// begins.
template <class Scheme, class Terms, int row_pairs, int n8_tiles>
__device__ void sum_by_warpgroup(typename Scheme::Sum (&sums)[row_pairs][n8_tiles],
                                 const WindowKernelParams& params, const char* x,
                                 const char* w_tile) {
  using Registers = WarpgroupRegisters<Scheme, Terms, row_pairs, n8_tiles>;
  using Rows = typename Registers::Rows;
  constexpr WgmmaMatrix slot_sixteenths = sizeof(typename Scheme::KStep) * 32 * n8_tiles / 16;
  WgmmaMatrix w = wgmma_matrix(w_tile);
  const auto settle = [&] {
#pragma unroll
    for (auto& of_pair : sums)
#pragma unroll
      for (auto& sum : of_pair) sum.settle();
  };
  Rows rows;
  const auto read = [&] {
    int pitch = params.pitch * Scheme::element_bytes;
    // Addresses are made anew each time, because they would cost registers from channel to channel.
    asm volatile("" : "+r"(pitch));
    rows.read(x, pitch);
  };
  const auto multiply = [&](auto last) {
    typename Scheme::Step steps[Rows::step_count];
#pragma unroll
    for (int i = 0; i < Rows::step_count; ++i) rows.take(steps[i], i, params.zeros);
    const auto multiply_k_step = [&](int k_step, auto both) {
#pragma unroll
      for (int pair = 0; pair < row_pairs; ++pair)
        Scheme::template warpgroup<decltype(both)::value>(
            sums[pair], steps[pair + k_step * Rows::apart], w + k_step * slot_sixteenths);
    };
    wgmma_begin();
#pragma unroll
    for (int k_step = 0; k_step < Terms::k_steps - 1; ++k_step)
      multiply_k_step(k_step, std::true_type{});
    multiply_k_step(Terms::k_steps - 1, std::bool_constant<Terms::segments % 2 == 0>{});
    wgmma_commit();
    x += params.plane * Scheme::element_bytes;
    w += Terms::k_steps * slot_sixteenths;
    // The next channel's rows come while this one's are multiplied.
    if constexpr (Registers::ahead && !decltype(last)::value) read();
    wgmma_end();
    if constexpr (!Registers::ahead && !decltype(last)::value) read();
  };
  read();
  settle();
#pragma unroll 1
  for (int c = 1; c < params.product_channels; ++c) multiply(std::false_type{});
  multiply(std::true_type{});
  settle();
}

/// Makes a strip's sums of all channels.
template <class Scheme, class Terms, int row_pairs, int n8_tiles>
__device__ void sum_channels(typename Scheme::Sum (&sums)[row_pairs][n8_tiles],
                             const WindowKernelParams& params, const char* x, const char* w_tile) {
  if constexpr (Terms::warpgroups) {
    sum_by_warpgroup<Scheme, Terms>(sums, params, x, w_tile);
  } else {
    const auto* w = reinterpret_cast<const typename Scheme::KStep*>(w_tile) + threadIdx.x % 32;
    const int channels = params.product_channels;
#pragma unroll 1
    for (int c = 0; c < channels; ++c) {
      add_channel<Scheme, Terms>(sums, params, x, w);
      x += params.plane * Scheme::element_bytes;
      w += params.channel_k_steps * n8_tiles * 32;
    }
  }
}

}  // namespace plumb::cuda
