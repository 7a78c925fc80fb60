// Sums become outputs: each consumer warp stages some positions of its 16 filters at a time, from
// which lanes take vectors of what lies side by side in y: in fp32, or outputs of two bytes.
#pragma once

#include "cuda_kernels/primitives/stmatrix.cuh"
#include "cuda_kernels/primitives/vector_store.cuh"
#include "cuda_kernels/wide/wide_code.cuh"
#include "cuda_kernels/wide/wide_outputs.cuh"
#include "cuda_kernels/wide/wide_repair.cuh"
#include "cuda_kernels/wide_patch/wide_patch_runs.cuh"

namespace plumb::cuda {

inline constexpr int patch_part = 32;  ///< positions that are staged at once

/// Where a sum is staged: lanes that write fragments, positions, or a few filters of positions,
/// meet no bank twice.
__device__ inline int patch_staged_at(int filter, int position) {
  const int swizzle = (filter & 3) << 5 ^ (filter & 4) << 3 ^ (filter & 8) << 3;
  return filter * patch_part * 4 + ((4 * position) ^ swizzle);
}

inline constexpr int patch_halves_part = 64;  ///< positions of outputs of two bytes

/// Where eight filters' outputs of two bytes are staged, `half` of a position's sixteen: columns of
/// a matrix, and vectors that lanes read, meet no bank twice.
__device__ inline int patch_halves_at(int position, int half) {
  return 16 * (2 * position + (half ^ (position >> 2 & 1)));
}

/// A warp's outputs of a tile, in parts of 32 positions or, of two bytes that lie staged as in
/// y, 64.
template <class Params>
class PatchOutputs {
 public:
  using Stored = typename Params::Stored;

  __device__ PatchOutputs(const Params& params, const PatchTileOutputs<Params>& tile,
                          const char* staged)
      : params_(params), tile_(tile), staged_(staged) {}

  /// Writes what is staged, of the positions from `first` on: each lane has one position and goes
  /// through the filters. `bias` is that of the filter lane % 16. Returns whether the warp has left
  /// the part out, since zeros may have met Inf.
  __device__ bool write_elements(int first, float bias) const {
    const int lane = lane_anew();
    const PatchPlace at = tile_.at_position(first + lane);
    if (params_.repairs) {
      bool wrong = false;
#pragma unroll 4
      for (int i = 0; i < patch_warp_filters; ++i)
        wrong = wrong | (sum_at(i, lane) != sum_at(i, lane) && tile_.filters.has(i));
      if (__any_sync(0xffffffff, wrong && tile_.has(at))) return true;
    }
    Stored* y = tile_.y_of(0) + at.y;
    const bool is_there = tile_.has(at);
#pragma unroll 4
    for (int i = 0; i < patch_warp_filters; ++i, y += params_.y_k) {
      const float of_filter = __shfl_sync(0xffffffff, bias, i);
      if (!is_there || !tile_.filters.has(i)) continue;
      // As Epilogue::store() has it: the bias is added first.
      const float sum = sum_at(i, lane) + of_filter;
      *y = params_.epilogue.finish(sum, params_.epilogue.accumulate ? convert<float>(*y) : 0.0f);
    }
    return false;
  }
  /// The same where neighbouring filters lie side by side: a lane has some vectors of them.
  template <int count>
  __device__ bool write_vectors(int first, const float (&bias)[count]) const {
    const int lane = lane_anew();
    using Vector = WideVector<Stored>;
    static_assert(Vector::count == count);
    constexpr int of_position = patch_warp_filters / count, vectors = patch_part / 32 * of_position;
    const Epilogue<Stored>& epilogue = params_.epilogue;
    const int filter = lane % of_position * count;
    float sums[vectors][count];
    PatchPlace at[vectors];
    bool wrong = false;
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      const int position = lane / of_position + 32 / of_position * i;
      at[i] = tile_.at_position(first + position);
      if (!tile_.filters.has(filter)) at[i].at = PatchPlace::mask;
      bool has_nan = false;
#pragma unroll
      for (int j = 0; j < count; ++j) {
        sums[i][j] = sum_at(filter + j, position);
        has_nan = has_nan | sums[i][j] != sums[i][j];
      }
      wrong = wrong | (has_nan && tile_.has(at[i]));
    }
    if (params_.repairs && __any_sync(0xffffffff, wrong)) return true;
    Stored* const of_filter = tile_.y_of(filter);
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      if (!tile_.has(at[i])) continue;
      Stored* const y = of_filter + at[i].y;
      Vector result;
      if (epilogue.accumulate) result = Vector::load(y);
#pragma unroll
      for (int j = 0; j < count; j += 2) {
        float2 two = {sums[i][j], sums[i][j + 1]};
        if (epilogue.accumulate) {
          const float2 old = result.pair[j / 2].floats();
          two.x += old.x, two.y += old.y;
        }
        two.x = max_nan(two.x + bias[j], epilogue.least);
        two.y = max_nan(two.y + bias[j + 1], epilogue.least);
        result.pair[j / 2] = WidePair<Stored>::round(two.x, two.y);
      }
      result.store(y);
    }
    return false;
  }
  /// Writes outputs of two bytes that are staged as y has them, and says the same.
  __device__ bool write_halves(int first) const {
    using Vector = WideVector<Stored>;
    constexpr int vectors = patch_halves_part * 2 / 32;
    const int lane = lane_anew(), half = lane & 1;
    uint4 staged[vectors];
    bool found = false;
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      staged[i] =
          *reinterpret_cast<const uint4*>(staged_ + patch_halves_at(lane / 2 + 16 * i, half));
      found = found | reinterpret_cast<const Vector&>(staged[i]).has_nan();
    }
    if (params_.repairs && __any_sync(0xffffffff, found) && finds_nan_of_y(first)) return true;
    if (!tile_.filters.has(8 * half)) return false;
    Stored* const of_filter = tile_.y_of(8 * half);
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      const PatchPlace at = tile_.place(first + lane / 2 + 16 * i);
      if (tile_.has(at)) store_at_once(of_filter + at.y, staged[i]);
    }
    return false;
  }
  /// Sums up to 32 positions of a part that ends at `end` by the definition.
  __device__ void repair(int first, int end) const {
    const int position = first + lane_anew();
    if (position >= end) return;
    const PatchPlace at = tile_.at_position(position);
    if (!tile_.has(at)) return;
#pragma unroll 1
    for (int i = 0; i < patch_warp_filters; ++i) {
      if (!tile_.filters.has(i)) continue;
      const int k = tile_.filters.first + i;
      params_.epilogue.store(tile_.y_of(i)[at.y], wide_sum(params_, tile_.pixel(at), k), k);
    }
  }
  /// The biases of so many filters from the warp's `first` on.
  template <int count>
  __device__ void load_bias(int first, float (&bias)[count]) const {
#pragma unroll
    for (int j = 0; j < count; ++j)
      bias[j] = tile_.filters.has(first + j)
                    ? params_.epilogue.template bias_of<float>(tile_.filters.first + first + j)
                    : 0.0f;
  }

 private:
  /// Whether a NaN is among the outputs of two bytes that are stored: others may be anything.
  __device__ bool finds_nan_of_y(int first) const {
    const int lane = lane_anew(), half = lane & 1;
    bool found = false;
#pragma unroll 1
    for (int position = lane / 2; position < patch_halves_part; position += 16)
      if (WideVector<Stored>::load(staged_ + patch_halves_at(position, half)).has_nan())
        found = found || (tile_.filters.has(8 * half) && tile_.has(tile_.place(first + position)));
    return __any_sync(0xffffffff, found);
  }
  __device__ float sum_at(int filter, int position) const {
    return *reinterpret_cast<const float*>(staged_ + patch_staged_at(filter, position));
  }

  const Params& params_;
  const PatchTileOutputs<Params>& tile_;
  const char* staged_;
};

/// Stages a part of a warp's sums, those of four n8 tiles.
template <int first_n8, int count>
__device__ void stage_part(char* staged, const float (&sums)[count]) {
  const int lane = lane_anew();
#pragma unroll
  for (int j = 0; j < patch_part / 8; ++j) {
    if (4 * (first_n8 + j) >= count) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int sum = 4 * (first_n8 + j) + 2 * half;
      *reinterpret_cast<float2*>(staged +
                                 patch_staged_at(lane / 4 + 8 * half, 8 * j + lane % 4 * 2)) = {
          sums[sum], sums[sum + 1]};
    }
  }
  __syncwarp();
}

/// Rounds a part of a warp's sums and stages it, of filters side by side.
template <class Stored, int first_n8, int count>
__device__ void stage_halves(char* staged, const float (&sums)[count], const float (&bias)[2],
                             float least) {
  const int lane = lane_anew();
#pragma unroll
  for (int j = 0; j < patch_halves_part / 8; j += 2) {
    if (4 * (first_n8 + j) >= count) continue;
    std::uint32_t matrices[4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int sum = 4 * (first_n8 + j) + 2 * i, half = i % 2;
      if (sum >= count) continue;
      const auto pair = WidePair<Stored>::round(max_nan(sums[sum] + bias[half], least),
                                                max_nan(sums[sum + 1] + bias[half], least));
      matrices[i] = *reinterpret_cast<const std::uint32_t*>(&pair);
    }
    // Matrices are the n8 tiles' lower and upper filters in turn.
    const int position = 8 * (j + lane / 16) + lane % 8;
    store_columns(staged + patch_halves_at(position, lane / 8 % 2), matrices);
  }
  __syncwarp();
}

/// Calls `stage` and `write` for a tile's parts, and sums by the definition those that are left
/// out.
template <int positions, int count, class Outputs, class Stage, class Write>
__device__ void write_parts(const Outputs& outputs, const Stage& stage, const Write& write) {
  constexpr int n8_tiles = count / 4, parts = (8 * n8_tiles + positions - 1) / positions;
  unsigned left_out = 0;  // a bit for each part
#pragma unroll 1
  for (int part = 0; part < parts; ++part) {
    with_number<parts>(part,
                       [&]<int number>() { stage.template operator()<number*(positions / 8)>(); });
    if (write(part * positions)) left_out |= 1u << part;
    __syncwarp();
  }
#pragma unroll 1
  for (int first = 0; left_out != 0; left_out >>= 1, first += positions) {
    if (left_out % 2 == 0) continue;
    const int end = min(first + positions, 8 * n8_tiles);
#pragma unroll 1
    for (int some = first; some < end; some += 32) outputs.repair(some, end);
  }
}

/// Writes a warpgroup's sums of a tile.
template <class Params, int count>
__device__ void write_patch(const Params& params, const PatchShared& shared, const PatchWork& work,
                            const float (&sums)[count]) {
  using Stored = typename Params::Stored;
  char* const staged = shared.staged(static_cast<int>(threadIdx.x) / 32);
  const PatchTileOutputs<Params> tile(params, *reinterpret_cast<const PatchTable*>(shared.table()),
                                      work);
  const PatchOutputs<Params> outputs(params, tile, staged);
  const bool vectors = params.access == WideAccess::filters;
  if constexpr (sizeof(Stored) == 2) {
    if (vectors && !params.epilogue.accumulate) {
      const PatchFragmentBias bias(params, tile.filters);
      return write_parts<patch_halves_part, count>(
          outputs,
          [&]<int first_n8>() {
            stage_halves<Stored, first_n8>(staged, sums, bias.of, params.epilogue.least);
          },
          [&](int first) { return outputs.write_halves(first); });
    }
  }
  if (params.run > 1) {
    const auto write_runs = [&]<class Staged>(Staged) {
      PatchRuns<Params, Staged> runs(params, tile, staged);
      constexpr int part = patch_run_part<Staged>;
      write_parts<part, count>(
          outputs, [&]<int first_n8>() { runs.template stage<first_n8>(sums); },
          [&](int first) { return runs.write((first + part) / 8); });
    };
    if constexpr (sizeof(Stored) == 2 && Params::Arithmetic::across)
      if (params.epilogue.accumulate) return write_runs(float{});
    return write_runs(Stored{});
  }
  const auto stage = [&]<int first_n8>() { stage_part<first_n8>(staged, sums); };
  if (vectors) {
    constexpr int filters = WideVector<Stored>::count;
    float bias[filters];
    outputs.load_bias(lane_anew() % (patch_warp_filters / filters) * filters, bias);
    return write_parts<patch_part, count>(
        outputs, stage, [&](int first) { return outputs.write_vectors(first, bias); });
  }
  float bias[1];
  outputs.load_bias(lane_anew() % patch_warp_filters, bias);
  write_parts<patch_part, count>(outputs, stage,
                                 [&](int first) { return outputs.write_elements(first, bias[0]); });
}

}  // namespace plumb::cuda
