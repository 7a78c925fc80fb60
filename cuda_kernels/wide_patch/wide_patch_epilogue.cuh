// Sums become outputs: each consumer warp stages some positions of its 16 filters at a time, from
// which lanes take runs of what lies side by side in y: in fp32, or outputs of two bytes.
#pragma once

#include "cuda_kernels/primitives/stmatrix.cuh"
#include "cuda_kernels/primitives/thread_anew.cuh"
#include "cuda_kernels/wide/wide_code.cuh"
#include "cuda_kernels/wide/wide_outputs.cuh"
#include "cuda_kernels/wide/wide_repair.cuh"
#include "cuda_kernels/wide_patch/wide_patch_params.cuh"

namespace plumb::cuda {

inline constexpr int patch_part = 32;          ///< positions that are staged at once
inline constexpr int patch_warp_filters = 16;  ///< of a warp

/// The output at a position of a tile, if there is one.
struct PatchPlace {
  WidePixel pixel;
  bool is_there;

  template <PatchFault fault, class Params>
  __device__ static PatchPlace of(const Params& params, const PatchWork& work, int position) {
    const PatchTile& tile = params.tile;
    const auto [lines, column] = params.pitch.divide(position);
    const auto [image, row] = params.lines.divide(lines);
    const WidePixel pixel{work.n + image, {work.q + column, work.p + row, work.z}};
    const int columns = tile.columns - (fault == PatchFault::missed_column);
    return {pixel, column < columns && pixel.at[0] < params.axis[0].outputs.value() &&
                       row < tile.rows && pixel.at[1] < params.axis[1].outputs.value() &&
                       image < tile.images && pixel.n < params.images};
  }
};

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
template <class Params, PatchFault fault>
class PatchOutputs {
 public:
  using Stored = typename Params::Stored;

  __device__ PatchOutputs(const Params& params, const PatchWork& work, const char* staged)
      : params_(params),
        work_(work),
        staged_(staged),
        filter_(work.filter + static_cast<int>(threadIdx.x) / 32 % 4 * patch_warp_filters),
        of_all_(work.group * params.groups.filters + filter_) {}

  /// Writes what is staged, from so many positions behind the tile's first on: a lane one position
  /// after the other filter. Returns whether the warp has left it out, since zeros may have met
  /// Inf.
  __device__ bool write_elements(int first) const {
    const int lane = thread_anew() % 32;
    const PatchPlace at = place(first + lane);
    if (params_.repairs) {
      bool wrong = false;
#pragma unroll 4
      for (int i = 0; i < patch_warp_filters; ++i)
        wrong = wrong | (sum_at(i, lane) != sum_at(i, lane) && is_filter(i));
      if (__any_sync(0xffffffff, wrong && at.is_there)) return true;
    }
    if (!at.is_there) return false;
    Stored* y = params_.y + params_.y_of(at.pixel) + of_all_ * params_.y_k;
#pragma unroll 4
    for (int i = 0; i < patch_warp_filters; ++i, y += params_.y_k)
      if (is_filter(i)) params_.epilogue.store(*y, sum_at(i, lane), of_all_ + i);
    return false;
  }
  /// The same where neighbouring filters lie side by side: a lane has some vectors of them.
  template <int count>
  __device__ bool write_vectors(int first, const float (&bias)[count]) const {
    const int lane = thread_anew() % 32;
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
      at[i] = place(first + position);
      at[i].is_there = at[i].is_there && is_filter(filter);
      bool has_nan = false;
#pragma unroll
      for (int j = 0; j < count; ++j) {
        sums[i][j] = sum_at(filter + j, position);
        has_nan = has_nan | sums[i][j] != sums[i][j];
      }
      wrong = wrong | (has_nan && at[i].is_there);
    }
    if (params_.repairs && __any_sync(0xffffffff, wrong)) return true;
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      if (!at[i].is_there) continue;
      Stored* const y = params_.y + params_.y_of(at[i].pixel) + (of_all_ + filter) * params_.y_k;
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
    const int lane = thread_anew() % 32;
    using Vector = WideVector<Stored>;
    constexpr int vectors = patch_halves_part * 2 / 32;
    const int half = lane % 2;
    if (params_.repairs && finds_nan(lane) && finds_nan_of_y(first, lane)) return true;
    if (!is_filter(8 * half)) return false;
#pragma unroll 2
    for (int i = 0; i < vectors; ++i) {
      const int position = lane / 2 + 16 * i;
      const PatchPlace at = place(first + position);
      if (at.is_there)
        Vector::load(staged_ + patch_halves_at(position, half))
            .store(params_.y + params_.y_of(at.pixel) + (of_all_ + 8 * half) * params_.y_k);
    }
    return false;
  }
  /// Writes what is staged where pixels lie side by side in pairs: a lane one pair after the other,
  /// of every second filter.
  __device__ void write_pairs(int first) const {
    using Pair = WidePair<Stored>;
    const Epilogue<Stored>& epilogue = params_.epilogue;
    const int lane = thread_anew() % 32, position = lane % 16 * 2;
    const PatchPlace at = place(first + position);
    if (!at.is_there) return;
    Stored* y = params_.y + params_.y_of(at.pixel) + (of_all_ + lane / 16) * params_.y_k;
#pragma unroll 4
    for (int i = lane / 16; i < patch_warp_filters; i += 2, y += 2 * params_.y_k) {
      if (!is_filter(i)) return;
      float2 two = *reinterpret_cast<const float2*>(staged_ + patch_staged_at(i, position));
      if (epilogue.accumulate) {
        const float2 old = reinterpret_cast<const Pair*>(y)->floats();
        two.x += old.x, two.y += old.y;
      }
      const float bias = epilogue.template bias_of<float>(of_all_ + i);
      *reinterpret_cast<Pair*>(y) =
          Pair::round(max_nan(two.x + bias, epilogue.least), max_nan(two.y + bias, epilogue.least));
    }
  }
  /// Sums a part that the warp has left out by the definition.
  __device__ void repair(int first) const {
    const int lane = thread_anew() % 32;
    const PatchPlace at = place(first + lane);
    if (!at.is_there) return;
#pragma unroll 1
    for (int i = 0; i < patch_warp_filters; ++i) {
      if (!is_filter(i)) continue;
      const int k = of_all_ + i;
      params_.epilogue.store(params_.y[params_.y_of(at.pixel) + k * params_.y_k],
                             wide_sum(params_, at.pixel, k), k);
    }
  }
  /// The bias of the filter of this lane's fragments, of the first eight or the second.
  __device__ float fragment_bias(int half) const {
    const int lane = thread_anew() % 32;
    const int filter = lane / 4 + 8 * half;
    return is_filter(filter) ? params_.epilogue.template bias_of<float>(of_all_ + filter) : 0.0f;
  }
  /// The biases of the filters of this lane's vectors.
  template <int count>
  __device__ void load_bias(float (&bias)[count]) const {
    const int lane = thread_anew() % 32;
    const int filter = lane % (patch_warp_filters / count) * count;
#pragma unroll
    for (int j = 0; j < count; ++j)
      bias[j] = is_filter(filter + j)
                    ? params_.epilogue.template bias_of<float>(of_all_ + filter + j)
                    : 0.0f;
  }

 private:
  /// Whether a NaN is among the outputs of two bytes that the warp has staged.
  __device__ bool finds_nan(int lane) const {
    bool found = false;
#pragma unroll
    for (int i = 0; i < patch_halves_part * 2 / 32; ++i) {
      const auto vector =
          WideVector<Stored>::load(staged_ + patch_halves_at(lane / 2 + 16 * i, lane % 2));
#pragma unroll
      for (const auto& pair : vector.pair) found = found | pair.has_nan();
    }
    return __any_sync(0xffffffff, found);
  }
  /// The same of those that are stored: others may be anything.
  __device__ bool finds_nan_of_y(int first, int lane) const {
    bool found = false;
#pragma unroll 1
    for (int position = lane / 2; position < patch_halves_part; position += 16)
      if (WideVector<Stored>::load(staged_ + patch_halves_at(position, lane % 2)).has_nan())
        found = found || (is_filter(lane % 2 * 8) && place(first + position).is_there);
    return __any_sync(0xffffffff, found);
  }
  __device__ PatchPlace place(int position) const {
    return PatchPlace::of<fault>(params_, work_, position);
  }
  __device__ bool is_filter(int filter) const { return filter_ + filter < params_.groups.filters; }
  __device__ float sum_at(int filter, int position) const {
    return *reinterpret_cast<const float*>(staged_ + patch_staged_at(filter, position));
  }

  const Params& params_;
  const PatchWork& work_;
  const char* staged_;
  int filter_, of_all_;  ///< the warp's first filter, of the group and of all
};

/// Stages a part of a warp's sums, those of four n8 tiles.
template <int first_n8, int count>
__device__ void stage_part(char* staged, const float (&sums)[count]) {
  const int lane = thread_anew() % 32;
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
  const int lane = thread_anew() % 32;
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
  for (int first = 0; left_out != 0; left_out >>= 1, first += positions)
    if (left_out % 2 != 0)
#pragma unroll 1
      for (int some = first; some < first + positions; some += 32) outputs.repair(some);
}

/// Writes a warpgroup's sums of a tile.
template <PatchFault fault, class Params, int count>
__device__ void write_patch(const Params& params, const PatchShared& shared, const PatchWork& work,
                            const float (&sums)[count]) {
  using Stored = typename Params::Stored;
  char* const staged = shared.staged(static_cast<int>(threadIdx.x) / 32);
  const PatchOutputs<Params, fault> outputs(params, work, staged);
  const bool vectors = params.access == WideAccess::filters;
  if constexpr (sizeof(Stored) == 2) {
    if (vectors && !params.epilogue.accumulate) {
      const float bias[2] = {outputs.fragment_bias(0), outputs.fragment_bias(1)};
      return write_parts<patch_halves_part, count>(
          outputs,
          [&]<int first_n8>() {
            stage_halves<Stored, first_n8>(staged, sums, bias, params.epilogue.least);
          },
          [&](int first) { return outputs.write_halves(first); });
    }
  }
  if constexpr (Params::Arithmetic::across) {
    if (params.access == WideAccess::pixels || params.access == WideAccess::half_pixels)
      return write_parts<patch_part, count>(
          outputs, [&]<int first_n8>() { stage_part<first_n8>(staged, sums); },
          [&](int first) {
            outputs.write_pairs(first);
            return false;
          });
  }
  float bias[WideVector<Stored>::count] = {};
  if (vectors) outputs.load_bias(bias);
  write_parts<patch_part, count>(
      outputs, [&]<int first_n8>() { stage_part<first_n8>(staged, sums); },
      [&](int first) {
        return vectors ? outputs.write_vectors(first, bias) : outputs.write_elements(first);
      });
}

}  // namespace plumb::cuda
