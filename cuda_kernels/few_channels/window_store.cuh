// A warp's sums become outputs: bias, activation and 2x2 maximum are applied, and the outputs are
// written. Outputs that zeros of a product have spoiled are summed again as the definition says.
#pragma once

#include "cuda_kernels/conv/direct_sum.cuh"
#include "cuda_kernels/conv/two_outputs.cuh"
#include "cuda_kernels/few_channels/window_input.cuh"
#include "cuda_kernels/few_channels/window_params.cuh"
#include "cuda_kernels/few_channels/window_products.cuh"
#include "cuda_kernels/primitives/max_nan.cuh"

namespace plumb::cuda {

/// Makes NaN, which redo_tile() sums again, of sums below `least`: what was dropped of small
/// operands may be too large a part of them.
template <class Sum, int rows, int n8_tiles>
__device__ void spoil_small(Sum (&sums)[rows][n8_tiles], float least) {
#pragma unroll
  for (auto& row : sums)
#pragma unroll
    for (Sum& sum : row)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (fabsf(sum[i]) < least) sum.spoil(i);
}

/// Says where results go. Outputs of a tile are gathered in shared memory first (params.y_pitch >
/// 0), in one stretch for each image and filter. Where rows follow each other a stretch is one run
/// of y, and lies as far from a multiple of 16 bytes as it does in y; otherwise each row is a run.
template <class Stored>
struct WindowOutput {
  static constexpr int vector = 16 / sizeof(Stored);
  const WindowKernelParams& params;
  Stored* y;         ///< a multiple of 16 bytes, params.y_before in front of the tensor
  Stored* gathered;  ///< in shared memory
  const Epilogue<Stored>& epilogue;

  /// Returns the row or column of y in which a row or column of outputs is stored. It shifts,
  /// because a division takes twenty instructions.
  __device__ int stored(int output) const { return output >> (params.pools ? 1 : 0); }
  __device__ bool gathers() const { return params.y_pitch > 0; }
  __device__ bool rows_follow() const { return params.y_row_pitch == 0; }
  /// Returns the place in y of a stored output of one of the item's images.
  __device__ int at(const WindowItem& item, int image, int k, int p, int q) const {
    const auto& step = params.conv.y_step;
    return params.y_before + item.y + image * params.conv.y_step.n + k * step.c + p * step.h +
           q * step.w;
  }
  /// Returns the place of a stretch's first element, whose run begins at `run` in y.
  __device__ int stretch(int image, int filter, int run) const {
    return (image * params.y_filters + filter) * params.y_pitch + (run & params.y_run_mask);
  }
};

/// Says where a lane's outputs of a strip go: to y, or to what is gathered.
template <bool gathers, class Stored>
struct StripPlace {
  const WindowOutput<Stored>& output;
  int first;  ///< place of the lane's first filter
  int run;    ///< where that filter's run begins in y

  /// The first output is the one that is stored for row `p` and column `q`.
  __device__ StripPlace(const WindowOutput<Stored>& output, const WindowItem& item, int image,
                        int filter, int first_k, int p, int q)
      : output(output), run(0) {
    const int k = first_k + filter;
    if constexpr (gathers) {
      const WindowKernelParams& params = output.params;
      run = output.at(item, image, k, output.stored(item.p), output.stored(item.q));
      first = (image * params.y_filters + filter) * params.y_pitch +
              output.stored(p - item.p) * params.y_row_step + output.stored(q - item.q);
    } else {
      first = output.at(item, image, k, output.stored(p), output.stored(q));
    }
  }
  /// Returns the place for the filter that is `filter` behind the lane's first.
  __device__ Stored* of(int filter) const {
    const WindowKernelParams& params = output.params;
    const int in_y = filter * params.conv.y_step.c;
    if constexpr (gathers)
      return output.gathered + first + filter * params.y_pitch + ((run + in_y) & params.y_run_mask);
    else
      return output.y + first + in_y;
  }
  __device__ int row_step() const {
    return gathers ? output.params.y_row_step : output.params.conv.y_step.h;
  }
};

/// Writes four elements to where they are aligned.
template <class Stored>
__device__ inline void write_four(Stored* to, const float (&four)[4]) {
  if constexpr (sizeof(Stored) < sizeof(float))
    *reinterpret_cast<uint2*>(to) = {two_halves<Stored>(four[0], four[1]),
                                     two_halves<Stored>(four[2], four[3])};
  else
    *reinterpret_cast<float4*>(to) = {four[0], four[1], four[2], four[3]};
}

/// Makes outputs of the sums of one filter; of[pair] are the sums of two rows.
template <bool scaled, class Sum, int row_pairs>
struct FilterSums {
  const Sum* of[row_pairs];
  float bias, factor, least;

  __device__ float operator()(int row, int column) const {
    return finish((*of[row / 2])[row % 2 * 2 + column]);
  }
  /// All that comes after the sum grows with it, so that the maximum can be taken first.
  __device__ float pooled(int pair) const {
    const Sum& sum = *of[pair];
    return finish(max_nan(max_nan(sum[0], sum[1]), max_nan(sum[2], sum[3])));
  }

 private:
  __device__ float finish(float sum) const {
    return max_nan(scaled ? fmaf(sum, factor, bias) : sum + bias, least);
  }
};

/// Writes a lane's sums of a strip, whose first output is at `p` and `q` of the tile's image.
/// `scale` undoes the scale of the input.
template <bool scaled, bool gathers, class Sum, int row_pairs, int n8_tiles, class Stored>
__device__ void store_strip(const WindowOutput<Stored>& output, const WindowItem& item,
                            const Sum (&sums)[row_pairs][n8_tiles], const WindowControl& control,
                            float scale, int first_k, int image, int p, int q) {
  const WindowKernelParams& params = output.params;
  const int columns = params.conv.q.value() - q, rows = params.conv.p.value() - p;
  if (columns <= 0) return;
  const int t = static_cast<int>(threadIdx.x) % 4;
  // A lane has two of the product's eight columns: one filter at two outputs, or two filters.
  const int lanes_filter = params.shifts == 2 ? t : 2 * t,
            filters_of_eight = params.shifts == 2 ? 4 : 8;
  const StripPlace<gathers, Stored> place(output, item, image, lanes_filter, first_k, p, q);
  const int filters = params.conv.k.value() - first_k - lanes_filter, row_step = place.row_step();
  const auto each = [&](auto&& write) {
#pragma unroll
    for (int eight = 0; eight < n8_tiles; ++eight) {
      const int filter = eight * filters_of_eight;
      if (filter >= filters) break;
      FilterSums<scaled, Sum, row_pairs> of{
          {},
          control.filter_bias[lanes_filter + filter],
          scaled ? control.filter_scales[lanes_filter + filter] * scale : 1,
          output.epilogue.least};
#pragma unroll
      for (int pair = 0; pair < row_pairs; ++pair) of.of[pair] = &sums[pair][eight];
      write(of, filter);
    }
  };
  if (params.shifts == 1) {
    each([&](auto& of, int filter) {
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        if (filter + column >= filters) break;
        if (column == 1) {
          of.bias = control.filter_bias[lanes_filter + filter + 1];
          if (scaled) of.factor = control.filter_scales[lanes_filter + filter + 1] * scale;
        }
        Stored* to = place.of(filter + column);
#pragma unroll
        for (int row = 0; row < 2 * row_pairs; ++row, to += row_step)
          if (row < rows) *to = convert<Stored>(of(row, column));
      }
    });
  } else if (params.pools) {
    each([&](const auto& of, int filter) {
      Stored* to = place.of(filter);
#pragma unroll
      for (int pair = 0; pair < row_pairs; ++pair, to += row_step)
        if (columns > 1 && 2 * pair + 1 < rows) *to = convert<Stored>(of.pooled(pair));
    });
  } else if (params.y_pairs && columns > 1 && rows >= 2 * row_pairs) {
    each([&](const auto& of, int filter) {
      Stored* to = place.of(filter);
#pragma unroll
      for (int row = 0; row < 2 * row_pairs; ++row, to += row_step)
        write_pair<gathers>(to, of(row, 0), of(row, 1));
    });
  } else {
    const int column_step = gathers ? 1 : params.conv.y_step.w;
    each([&](const auto& of, int filter) {
      Stored* to = place.of(filter);
#pragma unroll
      for (int row = 0; row < 2 * row_pairs; ++row, to += row_step) {
        if (row < rows) *to = convert<Stored>(of(row, 0));
        if (row < rows && columns > 1) to[column_step] = convert<Stored>(of(row, 1));
      }
    });
  }
}

/// How many images, filters, rows and columns a tile stores.
struct TileExtents {
  int images, filters, rows, columns;

  template <class Stored>
  __device__ TileExtents(const WindowOutput<Stored>& output, const WindowItem& item, int strip_rows,
                         int first_k)
      : images(item.images) {
    const WindowKernelParams& params = output.params;
    filters = min(params.group_filters, params.conv.k.value() - first_k);
    rows = output.stored(min(item.strips * strip_rows, params.conv.p.value() - item.p));
    columns =
        output.stored(min(params.windows.value() * params.shifts, params.conv.q.value() - item.q));
  }
};

/// Returns the sum of an output over the planes under it, as direct_sum() of each.
template <class Stored>
__device__ float volume_sum(const WindowKernelParams& params, const WindowItem& item, int image,
                            const Stored* x, const Stored* w, int first_h, int first_w) {
  float sum = 0;
#pragma unroll 1
  for (int tap = 0; tap < params.taps; ++tap) {
    const int d = item.first_plane + image * params.plane_stride + tap * params.plane_step;
    if (static_cast<unsigned>(d) < static_cast<unsigned>(params.planes))
      sum += direct_sum<float>(params.conv,
                               x + item.volume * params.x_volume + d * params.conv.x_step.n,
                               w + tap * params.w_tap, first_h, first_w);
  }
  return sum;
}

/// Sums outputs of the tile again, one by one: all of them, or those that came out NaN. The whole
/// block calls it, after a barrier that follows the writing.
template <class Stored>
__device__ void redo_tile(const WindowOutput<Stored>& output, const WindowItem& item,
                          int strip_rows, int first_k, bool all, const Stored* x, const Stored* w) {
  // The item is made anew, because it would cost registers beside the sums.
  const ConvShape<int>& conv = output.params.conv;
  const int side = output.params.pools ? 2 : 1;  // of the square of outputs under a stored one
  const TileExtents extents(output, item, strip_rows, first_k);
  const int count = extents.images * extents.filters * extents.rows * extents.columns;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    const int q = output.stored(item.q) + i % extents.columns;
    const int row = i / extents.columns % extents.rows, p = output.stored(item.p) + row;
    const int filter = i / extents.columns / extents.rows % extents.filters, k = first_k + filter;
    const int image = i / extents.columns / extents.rows / extents.filters;
    const int run = output.at(item, image, k, output.stored(item.p), output.stored(item.q));
    Stored& result =
        output.gathers()
            ? output.gathered[output.stretch(image, filter, run) + row * output.params.y_row_step +
                              q - output.stored(item.q)]
            : output.y[output.at(item, image, k, p, q)];
    if (const float written = convert<float>(result); !all && written == written) continue;
    float largest = -infinity<float>;
#pragma unroll 1
    for (int of_square = 0; of_square < side * side; ++of_square) {
      const int of_p = p * side + of_square / side, of_q = q * side + of_square % side;
      largest = max_nan(
          largest, volume_sum(output.params, item, image, x, w + k * conv.w_step.k,
                              of_p * conv.stride_h - conv.top, of_q * conv.stride_w - conv.left));
    }
    result = output.epilogue(largest, k);
  }
}

/// Writes to y what was gathered, run by run. Where a run is aligned as in y, the copy engine or a
/// warp writes whole vectors of 16 bytes, and lanes write what is before and after them one by one.
/// The whole block calls it after a barrier; the copy engine goes on reading after it returns.
template <class Stored>
__device__ void write_gathered(const WindowOutput<Stored>& output, const WindowItem& item,
                               int strip_rows, int first_k) {
  constexpr int vector = WindowOutput<Stored>::vector;
  const WindowKernelParams& params = output.params;
  const TileExtents extents(output, item, strip_rows, first_k);
  const bool follow = output.rows_follow();
  const int rows = follow ? 1 : extents.rows;
  const int length = follow ? extents.rows * extents.columns : extents.columns;
  const int count = extents.images * extents.filters * rows;
  const bool bulk = bulk_copies && params.bulk_stores;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  // So many lanes are enough for what is before and after the vectors; the copy engine needs one
  // thread.
  const int lanes = bulk ? 8 : 32, lane = thread % lanes;
#pragma unroll 1
  for (int i = thread / lanes; i < count; i += threads / lanes) {
    const int row = i % rows, filter = i / rows % extents.filters;
    const int image = i / rows / extents.filters;
    const int begin = output.at(item, image, first_k + filter, output.stored(item.p) + row,
                                output.stored(item.q));
    const int end = begin + length;
    const Stored* const from =
        output.gathered + output.stretch(image, filter, begin) + row * params.y_row_pitch - begin;
    const int first = params.y_in_vectors ? min((begin + vector - 1) & -vector, end) : end;
    const int last = max(end & -vector, first);
    for (int at = begin + lane; at < first; at += lanes) output.y[at] = from[at];
    for (int at = last + lane; at < end; at += lanes) output.y[at] = from[at];
    if (bulk) {
      if (lane == 0 && last > first)
        bulk_store(output.y + first, from + first,
                   (last - first) * static_cast<int>(sizeof(Stored)));
    } else {
      for (int at = first + lane * vector; at < last; at += lanes * vector)
        *reinterpret_cast<uint4*>(output.y + at) = *reinterpret_cast<const uint4*>(from + at);
    }
  }
  if (bulk) commit_stores();
}

}  // namespace plumb::cuda
