// Sums become outputs: each consumer warp stages 32 positions of its 16 filters at a time, in fp32,
// from which lanes take runs of what lies side by side in y.
#pragma once

#include "cuda_kernels/wide/wide_outputs.cuh"
#include "cuda_kernels/wide/wide_repair.cuh"
#include "cuda_kernels/wide_patch/wide_patch_params.cuh"

namespace plumb::cuda {

/// Calls `f` with a number below `count` as its template argument.
template <int count, int number = 0, class F>
__device__ void with_part(int wanted, const F& f) {
  if constexpr (number < count) {
    if (wanted == number) return f.template operator()<number>();
    with_part<count, number + 1>(wanted, f);
  }
}

/// A warp's outputs of a tile. Each lane has 16 of a part of 32 positions: of a vector's filters,
/// or of all filters at one position, or of one filter.
template <class Params, PatchFault fault>
class PatchOutputs {
 public:
  using Arithmetic = typename Params::Arithmetic;
  using Stored = typename Params::Stored;
  static constexpr int positions = 32;  ///< of a part

  __device__ PatchOutputs(const Params& params, const PatchWork& work, char* staged)
      : params_(params),
        work_(work),
        staged_(staged),
        lane_(static_cast<int>(threadIdx.x) % 32),
        filter_(work.filter + static_cast<int>(threadIdx.x) / 32 % 4 * filters) {}

  /// Stages the sums of a part.
  template <int count>
  __device__ void stage(const float (&sums)[count], int first_eight) const {
#pragma unroll
    for (int j = 0; j < positions / 8; ++j) {
      if (4 * (first_eight + j) >= count) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int sum = 4 * (first_eight + j) + 2 * half;
        *reinterpret_cast<float2*>(staged_ +
                                   offset(lane_ / 4 + 8 * half, 8 * j + lane_ % 4 * 2)) = {
            sums[sum], sums[sum + 1]};
      }
    }
    __syncwarp();
  }
  /// Writes what is staged, from so many positions behind the tile's first on. Returns whether this
  /// lane has left its share out: zeros may have met Inf in it.
  __device__ bool finish(int first) const {
    const bool left_out =
        params_.access == WideAccess::filters ? finish_vectors(first) : finish_elements(first);
    __syncwarp();
    return left_out;
  }
  /// Sums this lane's share of a part by the definition.
  __device__ void repair(int first) const {
    const bool vectors = params_.access == WideAccess::filters;
#pragma unroll 1
    for (int i = 0; i < share; ++i) {
      const int position = vectors ? vector_position(i / vector) : element_position(i);
      const int filter = vectors ? vector_filter() + i % vector : element_filter(i);
      const Place at = place(first + position);
      if (!at.is_there || filter_ + filter >= params_.groups.filters) continue;
      const int of_all = work_.group * params_.groups.filters + filter_ + filter;
      const float sum = wide_sum(params_, at.pixel, of_all);
      params_.epilogue.store(params_.y[params_.y_of(at.pixel) + of_all * params_.y_k], sum, of_all);
    }
  }

 private:
  static constexpr int filters = 16, share = positions * filters / 32;
  using Vector = WideVector<Stored>;
  static constexpr int vector = Vector::count, vectors_of_position = filters / vector;

  struct Place {
    WidePixel pixel;
    bool is_there;
  };
  /// The output at a position of the tile, if there is one.
  __device__ Place place(int position) const {
    const PatchTile& tile = params_.tile;
    const auto [lines, column] = params_.pitch.divide(position);
    const auto [image, row] = params_.lines.divide(lines);
    const WidePixel pixel{work_.n + image, {work_.q + column, work_.p + row, work_.z}};
    const int columns = tile.columns - (fault == PatchFault::missed_column);
    return {pixel, column < columns && pixel.at[0] < params_.axis[0].outputs.value() &&
                       row < tile.rows && pixel.at[1] < params_.axis[1].outputs.value() &&
                       image < tile.images && pixel.n < params_.images};
  }
  // Of vectors a position's are neighbouring lanes'.
  __device__ int vector_position(int i) const {
    return lane_ / vectors_of_position + 32 / vectors_of_position * i;
  }
  __device__ int vector_filter() const { return lane_ % vectors_of_position * vector; }
  __device__ int element_position(int i) const {
    return params_.lays_out_filters ? lane_ / filters + 2 * i : lane_;
  }
  __device__ int element_filter(int i) const {
    return params_.lays_out_filters ? lane_ % filters : i;
  }

  /// Where a sum is staged: lanes that write fragments, positions, or a few filters of positions,
  /// meet no bank twice.
  __device__ static int offset(int filter, int position) {
    return filter * positions * 4 + ((4 * position) ^ (filter & 7) << 4 ^ (filter & 8) << 3);
  }
  __device__ float staged(int filter, int position) const {
    return *reinterpret_cast<const float*>(staged_ + offset(filter, position));
  }

  __device__ bool finish_vectors(int first) const {
    const Epilogue<Stored>& epilogue = params_.epilogue;
    const int filter = filter_ + vector_filter();
    const int of_all = work_.group * params_.groups.filters + filter;
    bool left_out = false;
    if (filter >= params_.groups.filters) return false;
#pragma unroll
    for (int turn = 0; turn < 2; ++turn) {  // looks at all of its vectors, then writes them
      if (turn == 0 && !params_.repairs) continue;
#pragma unroll
      for (int i = 0; i < share / vector; ++i) {
        const Place at = place(first + vector_position(i));
        if (!at.is_there) continue;
        float sums[vector];
#pragma unroll
        for (int j = 0; j < vector; ++j) sums[j] = staged(vector_filter() + j, vector_position(i));
        if (turn == 0) {
#pragma unroll
          for (const float sum : sums) left_out = left_out || sum != sum;
          continue;
        }
        if (left_out) continue;
        Stored* const y = params_.y + params_.y_of(at.pixel) + of_all * params_.y_k;
        Vector result;
        if (epilogue.accumulate) result = Vector::load(y);
#pragma unroll
        for (int j = 0; j < vector; j += 2) {
          float2 two = {sums[j], sums[j + 1]};
          if (epilogue.accumulate) {
            const float2 old = result.pair[j / 2].floats();
            two.x += old.x, two.y += old.y;
          }
          two.x = max_nan(two.x + epilogue.template bias_of<float>(of_all + j), epilogue.least);
          two.y = max_nan(two.y + epilogue.template bias_of<float>(of_all + j + 1), epilogue.least);
          result.pair[j / 2] = WidePair<Stored>::round(two.x, two.y);
        }
        result.store(y);
      }
    }
    return left_out;
  }
  __device__ bool finish_elements(int first) const {
    bool left_out = false;
#pragma unroll 1
    for (int turn = params_.repairs ? 0 : 1; turn < 2; ++turn)
#pragma unroll 4
      for (int i = 0; i < share; ++i) {
        const int position = element_position(i), filter = element_filter(i);
        const Place at = place(first + position);
        if (!at.is_there || filter_ + filter >= params_.groups.filters) continue;
        const float sum = staged(filter, position);
        if (turn == 0) {
          left_out = left_out || sum != sum;
          continue;
        }
        if (left_out) continue;
        const int of_all = work_.group * params_.groups.filters + filter_ + filter;
        params_.epilogue.store(params_.y[params_.y_of(at.pixel) + of_all * params_.y_k], sum,
                               of_all);
      }
    return left_out;
  }

  const Params& params_;
  const PatchWork& work_;
  char* staged_;
  int lane_, filter_;  ///< the warp's first filter, of the group
};

/// Writes a warpgroup's sums of a tile.
template <PatchFault fault, class Params, int count>
__device__ void write_patch(const Params& params, const PatchShared& shared, const PatchWork& work,
                            const float (&sums)[count]) {
  using Outputs = PatchOutputs<Params, fault>;
  constexpr int positions = Outputs::positions, parts = (count / 4 * 8 + positions - 1) / positions;
  const Outputs outputs(params, work, shared.staged(static_cast<int>(threadIdx.x) / 32));
  unsigned left_out = 0;  // a bit for each part
#pragma unroll 1
  for (int part = 0; part < parts; ++part) {
    with_part<parts>(part, [&]<int number>() { outputs.stage(sums, number * (positions / 8)); });
    if (outputs.finish(part * positions)) left_out |= 1u << part;
  }
#pragma unroll 1
  for (int first = 0; left_out != 0; left_out >>= 1, first += positions)
    if (left_out % 2 != 0) outputs.repair(first);
  __syncwarp();
}

}  // namespace plumb::cuda
