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

/// How a lane's outputs of a part lie: vectors of neighbouring filters, one position of all
/// filters, or one filter of some positions.
enum class PatchLanes { vectors, positions, filters };

/// A warp's outputs of a tile. Each lane has 16 of a part of 32 positions.
template <class Params, PatchLanes lanes, PatchFault fault>
class PatchOutputs {
 public:
  using Stored = typename Params::Stored;
  static constexpr int positions = 32;  ///< of a part

  __device__ PatchOutputs(const Params& params, const PatchWork& work, char* staged)
      : params_(params),
        work_(work),
        staged_(staged),
        lane_(static_cast<int>(threadIdx.x) % 32),
        filter_(work.filter + static_cast<int>(threadIdx.x) / 32 % 4 * filters),
        of_all_(work.group * params.groups.filters + filter_) {
    if constexpr (lanes == PatchLanes::vectors) {
#pragma unroll
      for (int j = 0; j < count; ++j)
        if (is_filter(filter(j))) bias_[j] = bias_of(filter(j));
    }
  }

  /// Stages the sums of a part.
  template <int of_sums>
  __device__ void stage(const float (&sums)[of_sums], int first_eight) const {
#pragma unroll
    for (int j = 0; j < positions / 8; ++j) {
      if (4 * (first_eight + j) >= of_sums) continue;
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
    float sums[share];
#pragma unroll
    for (int i = 0; i < share; ++i) sums[i] = staged(filter(i), position(i));
    __syncwarp();
    if (params_.repairs && is_wrong(first, sums)) return true;
    if constexpr (lanes == PatchLanes::vectors)
      write_vectors(first, sums);
    else
      write_elements(first, sums);
    return false;
  }
  /// Sums this lane's share of a part by the definition.
  __device__ void repair(int first) const {
#pragma unroll 1
    for (int i = 0; i < share; ++i) {
      const Place at(*this, first + position(i));
      if (!at.is_there || !is_filter(filter(i))) continue;
      const int k = of_all_ + filter(i);
      params_.epilogue.store(params_.y[params_.y_of(at.pixel) + k * params_.y_k],
                             wide_sum(params_, at.pixel, k), k);
    }
  }

 private:
  static constexpr int filters = 16, share = positions * filters / 32;
  using Vector = WideVector<Stored>;
  /// Filters that lie side by side, and lanes that have a position's.
  static constexpr int count = lanes == PatchLanes::vectors ? Vector::count : 1,
                       of_position = lanes == PatchLanes::positions ? 1 : filters / count;

  // What the lane's `i`th output belongs to.
  __device__ int position(int i) const {
    return lanes == PatchLanes::positions ? lane_
                                          : lane_ / of_position + 32 / of_position * (i / count);
  }
  __device__ int filter(int i) const {
    return lanes == PatchLanes::positions ? i : lane_ % of_position * count + i % count;
  }
  __device__ bool is_filter(int filter) const { return filter_ + filter < params_.groups.filters; }
  __device__ float bias_of(int filter) const {
    return params_.epilogue.template bias_of<float>(of_all_ + filter);
  }

  /// The output at a position of the tile, if there is one.
  struct Place {
    WidePixel pixel;
    bool is_there;

    __device__ Place(const PatchOutputs& of, int position) {
      const Params& params = of.params_;
      const PatchTile& tile = params.tile;
      const auto [lines, column] = params.pitch.divide(position);
      const auto [image, row] = params.lines.divide(lines);
      pixel = {of.work_.n + image, {of.work_.q + column, of.work_.p + row, of.work_.z}};
      const int columns = tile.columns - (fault == PatchFault::missed_column);
      is_there = column < columns && pixel.at[0] < params.axis[0].outputs.value() &&
                 row < tile.rows && pixel.at[1] < params.axis[1].outputs.value() &&
                 image < tile.images && pixel.n < params.images;
    }
  };

  /// Where a sum is staged: lanes that write fragments, positions, or a few filters of positions,
  /// meet no bank twice.
  __device__ static int offset(int filter, int position) {
    return filter * positions * 4 + ((4 * position) ^ (filter & 7) << 4 ^ (filter & 8) << 3);
  }
  __device__ float staged(int filter, int position) const {
    return *reinterpret_cast<const float*>(staged_ + offset(filter, position));
  }
  /// Whether one of the lane's outputs is to be made anew. What is not stored may be anything.
  __device__ bool is_wrong(int first, const float (&sums)[share]) const {
    bool found = false;
#pragma unroll
    for (const float sum : sums) found = found || sum != sum;
    if (!found) return false;
    found = false;
#pragma unroll
    for (int i = 0; i < share; ++i)
      if (sums[i] != sums[i])
        found = found || (is_filter(filter(i)) && Place(*this, first + position(i)).is_there);
    return found;
  }

  __device__ void write_vectors(int first, const float (&sums)[share]) const {
    const Epilogue<Stored>& epilogue = params_.epilogue;
    if (!is_filter(filter(0))) return;
#pragma unroll
    for (int i = 0; i < share; i += count) {
      const Place at(*this, first + position(i));
      if (!at.is_there) continue;
      Stored* const y = params_.y + params_.y_of(at.pixel) + (of_all_ + filter(0)) * params_.y_k;
      Vector result;
      if (epilogue.accumulate) result = Vector::load(y);
#pragma unroll
      for (int j = 0; j < count; j += 2) {
        float2 two = {sums[i + j], sums[i + j + 1]};
        if (epilogue.accumulate) {
          const float2 old = result.pair[j / 2].floats();
          two.x += old.x, two.y += old.y;
        }
        two.x = max_nan(two.x + bias_[j], epilogue.least);
        two.y = max_nan(two.y + bias_[j + 1], epilogue.least);
        result.pair[j / 2] = WidePair<Stored>::round(two.x, two.y);
      }
      result.store(y);
    }
  }
  __device__ void write_elements(int first, const float (&sums)[share]) const {
    if constexpr (lanes == PatchLanes::positions) {
      const Place at(*this, first + position(0));
      if (!at.is_there) return;
      Stored* y = params_.y + params_.y_of(at.pixel) + of_all_ * params_.y_k;
#pragma unroll
      for (int i = 0; i < share; ++i, y += params_.y_k)
        if (is_filter(i)) params_.epilogue.store(*y, sums[i], of_all_ + i);
    } else {
      if (!is_filter(filter(0))) return;
#pragma unroll
      for (int i = 0; i < share; ++i) {
        const Place at(*this, first + position(i));
        const int k = of_all_ + filter(i);
        if (at.is_there)
          params_.epilogue.store(params_.y[params_.y_of(at.pixel) + k * params_.y_k], sums[i], k);
      }
    }
  }

  const Params& params_;
  const PatchWork& work_;
  char* staged_;
  int lane_, filter_, of_all_;  ///< the warp's first filter, of the group and of all
  float bias_[count] = {};      ///< of vectors
};

/// Writes a warpgroup's sums of a tile.
template <PatchLanes lanes, PatchFault fault, class Params, int count>
__device__ void write_patch_as(const Params& params, const PatchShared& shared,
                               const PatchWork& work, const float (&sums)[count]) {
  using Outputs = PatchOutputs<Params, lanes, fault>;
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

/// Writes a warpgroup's sums of a tile, as y lies. Each access has code of its own (wide.md).
template <PatchFault fault, class Params, int count>
__device__ void write_patch(const Params& params, const PatchShared& shared, const PatchWork& work,
                            const float (&sums)[count]) {
  if (params.access == WideAccess::filters)
    write_patch_as<PatchLanes::vectors, fault>(params, shared, work, sums);
  else if (params.lays_out_filters)
    write_patch_as<PatchLanes::filters, fault>(params, shared, work, sums);
  else
    write_patch_as<PatchLanes::positions, fault>(params, shared, work, sums);
}

}  // namespace plumb::cuda
