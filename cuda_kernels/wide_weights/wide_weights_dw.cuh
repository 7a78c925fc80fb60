// Where sums belong in dw, and how they are stored there.
#pragma once

#include <algorithm>

#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/weights/weights.hpp"
#include "cuda_kernels/wide/wide_outputs.cuh"
#include "cuda_kernels/wide_weights/wide_weights.hpp"

namespace plumb::cuda {

/// How neighbouring sums are stored.
enum class WeightsAccess {
  elements,  ///< one by one, wherever they belong
  vectors,   ///< four channels under a tap lie side by side, and are aligned
  lines,     ///< a filter's channels lie with all their taps side by side: C/G, T, R, S
};

/// What a block of the second kernel adds of a filter: some channels, in whole blocks, under some
/// taps.
struct WeightsChunk {
  int channels = 0, taps = 0;

  /// `most` is how many sums a block has room for, which are at least those of a block of channels.
  WeightsChunk(const WideWeightsPlan& plan, WeightsAccess access, int most) {
    const int block = wide_weights_block(plan.of), all_taps = plan.taps();
    const int room = access == WeightsAccess::lines ? most / all_taps : most;
    const int chunks = static_cast<int>(ceil_div(plan.x.blocks * block, room / block * block));
    channels = static_cast<int>(ceil_div(plan.x.blocks, chunks)) * block;
    taps = std::min(all_taps, most / channels);
  }
};

/// Whether so many neighbouring channels of dw can be stored at once.
inline bool stores_vectors(const WideWeightsPlan& plan, const void* dw, int channels) {
  const auto bytes = static_cast<std::uintptr_t>(channels) * size_in_bytes(plan.of.stored);
  return plan.has_vectors(channels) && reinterpret_cast<std::uintptr_t>(dw) % bytes == 0;
}

/// Whether the kernel of the products stores dw itself.
inline bool stores_directly(const WideWeightsPlan& plan, const WideWeightsCall& call) {
  constexpr std::uintptr_t vector_bytes = 16;
  return plan.can_store_directly() && plan.x.image.n > 0 && !call.accumulate &&
         reinterpret_cast<std::uintptr_t>(call.dw) % vector_bytes == 0;
}

/// Returns how dw is stored by blocks that have room for `most` sums.
inline WeightsAccess weights_access(const WideWeightsPlan& plan, const void* dw, int most) {
  const WeightsStrides& at = plan.strides;
  const WideFold& fold = plan.x.channels.fold;
  const WeightsSizes& sizes = plan.sizes;
  if (stores_vectors(plan, dw, 4)) return WeightsAccess::vectors;
  const auto is = [](int extent, std::int64_t stride, std::int64_t wanted) {
    return extent == 1 || stride == wanted;
  };
  const std::int64_t taps = sizes.taps();
  const bool lies_in_lines = fold.axes == 0 && plan.groups().joined() == 1 && taps > 1 &&
                             is(sizes.w.taps, at.w_s, 1) &&
                             is(sizes.h.taps, at.w_r, sizes.w.taps) &&
                             is(sizes.d.taps, at.w_t, std::int64_t{sizes.h.taps} * sizes.w.taps) &&
                             is(fold.channels, at.w_c, taps);
  return lies_in_lines && taps * wide_weights_block(plan.of) <= most ? WeightsAccess::lines
                                                                     : WeightsAccess::elements;
}

/// Where columns of a product's filters belong.
struct WeightsPlaces {
  WeightsStrides strides;
  WideFold fold;
  WideGroups groups;
  Divisor<int> taps[2];  ///< of the product: s, r
  Divisor<int> own_channels, own_filters;
  Divisor<int> row_blocks;  ///< of channels, under each tap

  explicit WeightsPlaces(const WideWeightsPlan& plan)
      : strides(plan.strides),
        fold(plan.x.channels.fold),
        groups(plan.groups()),
        taps{Divisor<int>(plan.x.channels.taps[0]), Divisor<int>(plan.x.channels.taps[1])},
        own_channels(plan.groups().own_channels),
        own_filters(plan.groups().own_filters),
        row_blocks(plan.x.blocks) {}
};

/// Where a channel of the product under one of its taps belongs in a filter of a group.
struct WideWeight {
  int owner;  ///< the group among joined ones, or no group's number
  int c, tap[3];

  __device__ WideWeight(const WeightsPlaces& of, int number, int channel) {
    const auto [group, own] = of.own_channels.divide(channel);
    owner = channel < of.groups.channels ? group : -1;
    const WideTerm term = of.fold.term(own);
    c = term.channel;
    const auto [line, s] = of.taps[0].divide(number);
    const auto [plane, r] = of.taps[1].divide(line);
    tap[0] = s, tap[1] = r, tap[2] = plane;
#pragma unroll
    for (int i = 0; i < 3; ++i)
      if (of.fold.folds(i)) tap[i] = term.tap[i];
  }
  /// Whether a filter of joined groups has it.
  __device__ bool is_there(const WeightsPlaces& of, int of_group) const {
    return owner == of.own_filters.quotient(of_group);
  }
  /// Its number in K, C/G, T, R, S.
  __device__ std::int64_t element(const WeightsSizes& sizes, int k) const {
    return (((k * sizes.group_c + c) * sizes.d.taps + tap[2]) * sizes.h.taps + tap[1]) *
               sizes.w.taps +
           tap[0];
  }
  /// Where it lies in dw, in elements.
  __device__ std::int64_t at(const WeightsStrides& strides, int k) const {
    return k * strides.w_k + c * strides.w_c + tap[2] * strides.w_t + tap[1] * strides.w_r +
           tap[0] * strides.w_s;
  }
};

template <class Stored>
__device__ void store_weight(Stored& to, float sum, bool accumulate) {
  to = convert<Stored>(accumulate ? sum + convert<float>(to) : sum);
}

/// Stores four sums side by side.
template <class Stored>
__device__ void store_weights(Stored* to, const float4& sum, bool accumulate) {
  using Vector = WideVector<Stored, 4 * sizeof(Stored)>;
  float4 all = sum;
  if (accumulate) {
    const Vector old = Vector::load(to);
    const float2 low = old.pair[0].floats(), high = old.pair[1].floats();
    all = {sum.x + low.x, sum.y + low.y, sum.z + high.x, sum.w + high.y};
  }
  Vector vector;
  vector.pair[0] = WidePair<Stored>::round(all.x, all.y);
  vector.pair[1] = WidePair<Stored>::round(all.z, all.w);
  vector.store(to);
}

}  // namespace plumb::cuda
