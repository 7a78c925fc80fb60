// Products of f32 as it lies: each consumer warp reads fragments of dy and x from a stage and
// multiplies them (PTX mma.sync m16n8k8 of TF32), for three products by halves that it makes on the
// way. wgmma takes TF32 from shared memory only with terms side by side, and pixels are apart.
#pragma once

#include "cuda_kernels/primitives/mma.cuh"
#include "cuda_kernels/primitives/thread_anew.cuh"
#include "cuda_kernels/wide/wide_code.cuh"
#include "cuda_kernels/wide/wide_consumer.cuh"
#include "cuda_kernels/wide/wide_halves.cuh"
#include "cuda_kernels/wide_weights/wide_weights_params.cuh"

namespace plumb::cuda {

/// A slice of a step is the eight pixels of an instruction.
inline constexpr int weights_slice = 8;

/// Where a lane's elements of a fragment lie, in bytes from its warp's first row or column. With
/// group = lane / 4 and t = lane % 4, mma.sync has terms t and t + 4 there, which are any two
/// pixels, if they are the same in both operands.
///
/// Rows of a stage that are pixels have filters or channels side by side: terms t and t + 4 are
/// pixels 2t and 2t + 1, whose swizzles are such that a warp's reads meet no bank twice. Rows group
/// and group + 8 of the instruction are neighbouring filters, which are read together.
///
/// Of planes as they lie rows are filters or channels, and pixels are the terms in their order.
template <bool across>
class WeightsElements {
 public:
  PLUMB_HOST_DEVICE explicit WeightsElements(int lane) {
    const int group = lane / 4, term = lane % 4;
    if constexpr (across) {
      row_ = column_ = swizzle_128(group * swizzle_row_bytes + 4 * term);
    } else {
      row_ = swizzle_128(2 * term * swizzle_row_bytes + 8 * group);
      column_ = swizzle_128(2 * term * swizzle_row_bytes + 4 * group);
    }
  }
  /// Of rows 16 · tile and on; `behind` is 1 for term t + 4. Of pixel rows both elements are there;
  /// otherwise `below` is 1 for row group + 8.
  PLUMB_HOST_DEVICE int row(int tile, int below, int slice, int behind) const {
    if constexpr (across)
      return (row_ ^ 16 * (2 * slice + behind)) + (2 * tile + below) * swizzle_atom_bytes;
    else
      return (row_ ^ (64 * (tile % 2) | next_pixel * behind)) + slice * swizzle_atom_bytes +
             tile / 2 * block_bytes;
  }
  /// Of columns 8 · tile and on.
  PLUMB_HOST_DEVICE int column(int tile, int slice, int behind) const {
    if constexpr (across)
      return (column_ ^ 16 * (2 * slice + behind)) + tile * swizzle_atom_bytes;
    else
      return (column_ ^ (32 * (tile % 4) | next_pixel * behind)) + slice * swizzle_atom_bytes +
             tile / 4 * block_bytes;
  }

 private:
  // A pixel with an odd number has its units exchanged in pairs besides.
  static constexpr int next_pixel = swizzle_row_bytes + 16, block_bytes = 32 * swizzle_row_bytes;
  int row_, column_;
};

/// A warp's elements of a slice as they lie in a stage.
template <class Arithmetic, WideWeightsFault fault, int m16_tiles, int n8_tiles>
struct WeightsFragment {
  float rows[m16_tiles][4], columns[n8_tiles][2];

  __device__ void read(const WeightsElements<Arithmetic::across>& elements, const char* of_rows,
                       const char* of_columns, int slice) {
#pragma unroll
    for (int behind = 0; behind < 2; ++behind) {
      const int taken = fault == WideWeightsFault::swapped_pixels ? behind ^ 1 : behind;
#pragma unroll
      for (int i = 0; i < m16_tiles; ++i)
        if constexpr (Arithmetic::across) {
#pragma unroll
          for (int below = 0; below < 2; ++below)
            rows[i][2 * behind + below] =
                *reinterpret_cast<const float*>(of_rows + elements.row(i, below, slice, taken));
        } else {
          const auto both =
              *reinterpret_cast<const float2*>(of_rows + elements.row(i, 0, slice, taken));
          rows[i][2 * behind] = both.x, rows[i][2 * behind + 1] = both.y;
        }
#pragma unroll
      for (int j = 0; j < n8_tiles; ++j)
        columns[j][behind] =
            *reinterpret_cast<const float*>(of_columns + elements.column(j, slice, behind));
    }
  }
  /// Adds the slice's products, of three the small ones first.
  __device__ void multiply(float (&sums)[m16_tiles][n8_tiles][4]) const {
    if constexpr (!Arithmetic::splits_in_registers) {
#pragma unroll
      for (int i = 0; i < m16_tiles; ++i) {
        const Fragment a[4] = {__float_as_uint(rows[i][0]), __float_as_uint(rows[i][1]),
                               __float_as_uint(rows[i][2]), __float_as_uint(rows[i][3])};
#pragma unroll
        for (int j = 0; j < n8_tiles; ++j) {
          const Fragment b[2] = {__float_as_uint(columns[j][0]), __float_as_uint(columns[j][1])};
          mma_tf32(sums[i][j], a, b);
        }
      }
    } else {
      Fragment high_b[n8_tiles][2], low_b[n8_tiles][2];
#pragma unroll
      for (int j = 0; j < n8_tiles; ++j) split(columns[j], high_b[j], low_b[j]);
#pragma unroll
      for (int i = 0; i < m16_tiles; ++i) {
        Fragment high[4], low[4];
        split(rows[i], high, low);
        if (fault == WideWeightsFault::lost_low)
          for (Fragment& half : low) half = 0;
#pragma unroll
        for (int j = 0; j < n8_tiles; ++j) mma_tf32(sums[i][j], low, high_b[j]);
#pragma unroll
        for (int j = 0; j < n8_tiles; ++j) mma_tf32(sums[i][j], high, low_b[j]);
#pragma unroll
        for (int j = 0; j < n8_tiles; ++j) mma_tf32(sums[i][j], high, high_b[j]);
      }
    }
  }

 private:
  template <int count>
  __device__ static void split(const float (&values)[count], Fragment (&high)[count],
                               Fragment (&low)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const WideTf32Halves halves(values[i]);
      high[i] = halves.high, low[i] = halves.low;
    }
  }
};

/// A consumer warp's part of a tile, and its sums. Warps have all pixels of a step or, beside
/// others with the same filters and columns, half of them. In three products sums move to other
/// registers; those of the larger tiles of half the pixels leave none, and move to workspace.
template <class Arithmetic, WideWeightsFault fault, WideShape shape>
class WeightsWarp {
 public:
  __device__ WeightsWarp(const WideWeightsParams& params, const WideWeightsWork& work)
      : params_(params), work_(work) {
    // The same for all lanes, and for the compiler too.
    const int warp = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 32, 0);
    // Warps of both parts are on all schedulers where the tile's rows are not all there.
    part_ = parts == 1 ? 0 : warp / 2 % 2;
    const int in_tile = parts == 1 ? warp : warp / 4 * 2 + warp % 2;
    row_ = in_tile / own.across * own.rows, column_ = in_tile % own.across * own.columns;
    has_sums_ = work.filter_block + row_ / block < params.filter_blocks &&
                work.column_block + column_ / block < work.column_end;
  }
  /// Sums so many steps, and writes the sums. They move before they are long.
  __device__ void multiply(const WideShared<shape>& shared, WideStage<shape>& stage, int steps) {
    if (!has_sums_) return pass(shared, stage, steps);
    constexpr int run = wide_weights_run(Arithmetic::host) / (block / parts);
    Sums moved = {};
    int begin = 0;
#pragma unroll 1
    do {
      Sums sums = {};
      multiply_run(shared, stage, min(run, steps - begin), sums);
      if constexpr (parts > 1)
        write(sums, begin > 0);
      else
        add(moved, sums);
      begin += run;
    } while (begin < steps);
    if constexpr (parts == 1) write(moved, false);
  }

 private:
  static constexpr int parts = weights_parts(Arithmetic::host), block = weights_block<Arithmetic>;
  static constexpr int slices = block / weights_slice / parts;
  static constexpr WeightsWarpShape own{shape, parts};
  static constexpr int m16_tiles = own.rows / 16, n8_tiles = own.columns / 8;
  static_assert(slices % 2 == 0 && own.rows % block == 0 && own.columns % block == 0);
  using Sums = float[m16_tiles][n8_tiles][4];

  __device__ static void release(const WideShared<shape>& shared, int number) {
    __syncwarp();  // all lanes have read
    if (threadIdx.x % 32 == 0) shared.empty(number).arrive();
  }
  /// Goes through the stages of filters or columns that are not there.
  __device__ static void pass(const WideShared<shape>& shared, WideStage<shape>& stage, int steps) {
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      shared.full(stage.number).wait(stage.parity);
      release(shared, stage.number);
      stage.advance();
    }
  }
  /// Sums a run of steps. The elements of a slice are read while the products of the slice before
  /// are under way.
  __device__ void multiply_run(const WideShared<shape>& shared, WideStage<shape>& stage, int steps,
                               Sums& sums) const {
    // Places that are made before all runs would take registers beside the sums that are written.
    const WeightsElements<Arithmetic::across> elements(thread_anew() % 32);
    WeightsFragment<Arithmetic, fault, m16_tiles, n8_tiles> fragments[2];
    const auto read = [&](int to, int number, int slice) {
      fragments[to].read(elements, shared.pixels(number) + row_ * swizzle_row_bytes,
                         shared.filters(number) + column_ * swizzle_row_bytes,
                         part_ * slices + slice);
    };
    if (steps > 0) shared.full(stage.number).wait(stage.parity), read(0, stage.number, 0);
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      const int number = stage.number;
      stage.advance();
#pragma unroll
      for (int slice = 0; slice < slices; ++slice) {
        if (slice + 1 < slices) {
          read((slice + 1) % 2, number, slice + 1);
        } else if (step + 1 < steps) {
          shared.full(stage.number).wait(stage.parity);
          read(0, fault == WideWeightsFault::stale_fragment ? number : stage.number, 0);
        }
        fragments[slice % 2].multiply(sums);
      }
      release(shared, number);
    }
  }
  __device__ static void add(Sums& to, const Sums& sums) {
#pragma unroll
    for (int i = 0; i < m16_tiles; ++i)
#pragma unroll
      for (int j = 0; j < n8_tiles; ++j)
#pragma unroll
        for (int k = 0; k < 4; ++k) to[i][j][k] += sums[i][j][k];
  }
  /// Writes sums to workspace, or adds them to what this thread has written there.
  __device__ void write(const Sums& sums, bool adds) const {
    const int lane = thread_anew() % 32, group = lane / 4;
    const int columns = number_anew(params_.columns), end = number_anew(work_.column_end * block);
    const int first_row = work_.filter_block * block + row_,
              first_column = number_anew(work_.column_block * block + column_);
    constexpr int n8_of_block = block / 8;
    const std::int64_t first =
        (std::int64_t{work_.split * parts + part_} * params_.groups + work_.group) * params_.rows;
#pragma unroll
    for (int i = 0; i < m16_tiles; ++i)
#pragma unroll
      for (int below = 0; below < 2; ++below) {
        const int row =
            first_row + 16 * i + (Arithmetic::across ? group + 8 * below : 2 * group + below);
        if (row >= params_.filters) continue;
        float* const to = params_.sums + (first + row) * columns + first_column + lane % 4 * 2;
#pragma unroll
        for (int n8 = 0; n8 < n8_tiles; n8 += n8_of_block) {
          if (n8 > 0 && first_column + 8 * n8 >= end) break;
          float2 old[n8_of_block] = {};
          auto* const at = reinterpret_cast<float2*>(to + 8 * n8);
          if (adds)
#pragma unroll
            for (int j = 0; j < n8_of_block; ++j) old[j] = at[4 * j];
#pragma unroll
          for (int j = 0; j < n8_of_block; ++j) {
            const float(&sum)[4] = sums[i][n8 + j];
            at[4 * j] = {sum[2 * below] + old[j].x, sum[2 * below + 1] + old[j].y};
          }
        }
      }
  }

  const WideWeightsParams& params_;
  const WideWeightsWork& work_;
  int part_, row_, column_;
  bool has_sums_;
};

}  // namespace plumb::cuda
