// Outputs of planes: a warp stages those of its 16 filters line after line, whatever lies between
// lines of positions, and lanes write vectors of what follows each other in y.
#pragma once

#include "cuda_kernels/wide/wide_outputs.cuh"
#include "cuda_kernels/wide_patch/wide_patch_places.cuh"

namespace plumb::cuda {

/// Each filter's staged outputs are a circular buffer of 128 bytes: a part's, and fewer than a
/// vector of the part before.
inline constexpr int patch_run_bytes = 128;
/// Positions that are staged at once.
template <class Staged>
inline constexpr int patch_run_part = 96 / static_cast<int>(sizeof(Staged));

/// Where a filter's output is staged, from its place in bytes. Eight filters' outputs of the same
/// place lie in different banks, as do 64 bytes of two neighbouring filters.
__device__ inline int patch_run_at(int filter, int place) {
  const int swizzle = (filter & 1) << 6 | (filter & 6) << 3;
  return filter * patch_run_bytes + ((place ^ swizzle) & (patch_run_bytes - 1));
}

/// The biases of the two filters of a lane's fragments.
struct PatchFragmentBias {
  float of[2];

  template <class Params>
  __device__ PatchFragmentBias(const Params& params, const PatchFilters& filters) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int filter = lane_anew() / 4 + 8 * half;
      of[half] = filters.has(filter)
                     ? params.epilogue.template bias_of<float>(filters.first + filter)
                     : 0.0f;
    }
  }
};

/// A warp's outputs of a tile, in parts. `Staged`: two bytes of y are staged as they are stored;
/// sums in fp32 become outputs on the way to y, where they may be added to what is there.
template <class Params, class Staged>
class PatchRuns {
 public:
  using Stored = typename Params::Stored;

  __device__ PatchRuns(const Params& params, const PatchTileOutputs<Params>& tile, char* staged)
      : params_(params), tile_(tile), bias_(params, tile.filters), staged_(staged) {}

  /// Stages the sums of a part, from so many n8 tiles on: two neighbouring outputs at once.
  template <int first_n8, int count>
  __device__ void stage(const float (&sums)[count]) {
    const int lane = lane_anew(), filter = lane / 4;
    bool wrong[2] = {};
#pragma unroll
    for (int j = 0; j < patch_run_part<Staged> / 8; ++j) {
      if (4 * (first_n8 + j) >= count) continue;
      const int number = tile_.table().numbers[8 * (first_n8 + j) + lane % 4 * 2];
      char* const to = staged_ + patch_run_at(filter, number * static_cast<int>(sizeof(Staged)));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int sum = 4 * (first_n8 + j) + 2 * half;
        wrong[half] = wrong[half] | (sums[sum] != sums[sum]) | (sums[sum + 1] != sums[sum + 1]);
        const Pair pair = staged_pair(sums[sum], sums[sum + 1], half);
        if (number >= 0) *reinterpret_cast<Pair*>(to + 8 * half * patch_run_bytes) = pair;
      }
    }
    found_ =
        params_.repairs && __any_sync(0xffffffff, (wrong[0] && tile_.filters.has(filter)) ||
                                                      (wrong[1] && tile_.filters.has(filter + 8)));
    __syncwarp();
  }
  /// Writes the outputs before an n8 tile that are whole vectors. Returns whether zeros may have
  /// met Inf among the part's.
  __device__ bool write(int end) {
    const int outputs = tile_.table().before[min(end, PatchTable::max_positions / 8)];
    // Sums between lines may be anything.
    const bool has_nan = found_ && finds_nan(outputs);
    const int whole = outputs & -params_.run;
    const int bytes = params_.run * static_cast<int>(sizeof(Stored));
    if (bytes == 16)
      write_vectors<16>(whole);
    else if (bytes == 8)
      write_vectors<8>(whole);
    else if constexpr (sizeof(Stored) == 2)
      write_vectors<4>(whole);
    written_ = whole;
    return has_nan;
  }

 private:
  static constexpr bool is_stored = sizeof(Staged) == 2;
  using Pair = std::conditional_t<is_stored, WidePair<Stored>, float2>;

  __device__ Pair staged_pair(float first, float second, int half) const {
    if constexpr (is_stored)
      return Pair::round(max_nan(first + bias_.of[half], params_.epilogue.least),
                         max_nan(second + bias_.of[half], params_.epilogue.least));
    else
      return {first, second};
  }
  /// Whether a NaN is staged among the outputs up to that number.
  __device__ bool finds_nan(int end) const {
    const int lane = lane_anew(), filter = lane % patch_warp_filters;
    bool found = false;
#pragma unroll 1
    for (int number = written_ + lane / patch_warp_filters; number < end; number += 2) {
      const float value = convert<float>(*reinterpret_cast<const Staged*>(
          staged_ + patch_run_at(filter, number * static_cast<int>(sizeof(Staged)))));
      found = found | (value != value);
    }
    return __any_sync(0xffffffff, found && tile_.filters.has(filter));
  }
  /// Writes the outputs up to that number: 64 bytes of a filter at once.
  template <int bytes>
  __device__ void write_vectors(int end) const {
    using Vector = WideVector<Stored, bytes>;
    constexpr int run = Vector::count, lanes = 64 / bytes, at_once = 32 / lanes;
    const int lane = lane_anew(), first = lane / lanes;
    Stored* const of_first = tile_.y_of(first);
    const std::int64_t next = at_once * params_.y_k;
#pragma unroll 1
    for (int number = written_ + lane % lanes * run; number < end; number += lanes * run) {
      const PatchPlace at = tile_.place(number);
      if (!tile_.has(at)) continue;
      Stored* y = of_first + at.y;
#pragma unroll
      for (int i = first; i < patch_warp_filters; i += at_once, y += next) {
        if (!tile_.filters.has(i)) break;
        if constexpr (is_stored)
          Vector::load(staged_ + patch_run_at(i, number * 2)).store(y);
        else
          finish<Vector>(i, number, y);
      }
    }
  }
  template <class Vector>
  __device__ void finish(int filter, int number, Stored* y) const {
    const Epilogue<Stored>& epilogue = params_.epilogue;
    const float bias = epilogue.template bias_of<float>(tile_.filters.first + filter);
    Vector result;
    if (epilogue.accumulate) result = Vector::load(y);
#pragma unroll
    for (int i = 0; i < Vector::pairs; ++i) {
      float2 two =
          *reinterpret_cast<const float2*>(staged_ + patch_run_at(filter, 4 * (number + 2 * i)));
      if (epilogue.accumulate) {
        const float2 old = result.pair[i].floats();
        two.x += old.x, two.y += old.y;
      }
      result.pair[i] = WidePair<Stored>::round(max_nan(two.x + bias, epilogue.least),
                                               max_nan(two.y + bias, epilogue.least));
    }
    result.store(y);
  }

  const Params& params_;
  const PatchTileOutputs<Params>& tile_;
  PatchFragmentBias bias_;
  char* staged_;
  int written_ = 0;     ///< outputs of the tile
  bool found_ = false;  ///< a NaN among the part's sums
};

}  // namespace plumb::cuda
