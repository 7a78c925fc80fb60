// What becomes of a warp's sums: bias, activation, 2x2 maximum, and the writing of outputs. And the
// outputs that zeros of a product have spoiled, which are summed again as the definition says.
#pragma once

#include "cuda_kernels/common/direct_sum.cuh"
#include "cuda_kernels/common/larger.cuh"
#include "cuda_kernels/common/window_products.cuh"
#include "cuda_kernels/common/window_shape.cuh"

namespace plumb::cuda {

/// Where results go.
template <class Stored>
struct WindowOutput {
  const WindowShape& shape;
  Stored* y;
  const Epilogue<Stored>& epilogue;
  bool pairs_aligned;  ///< neighbours at even columns of y can be written as one

  __device__ int at(int n, int k, int p, int q) const {
    const auto& step = shape.conv.y_step;
    return n * step.n + k * step.c + p * step.h + q * step.w;
  }
  __device__ void one(int to, float value) const { y[to] = convert<Stored>(value); }
  __device__ void pair(int to, float first, float second) const {
    if constexpr (sizeof(Stored) == sizeof(float))
      *reinterpret_cast<float2*>(y + to) = {first, second};
    else
      *reinterpret_cast<Fragment*>(y + to) = two_halves<Stored>(first, second);
  }
  __device__ void two(int to, float first, float second, bool both) const {
    one(to, first);
    if (both) one(to + shape.conv.y_step.w, second);
  }
};

/// What sums of one filter become.
template <class Stored>
struct FilterEnd {
  float bias, factor, least;

  __device__ FilterEnd(const Epilogue<Stored>& epilogue, int k, float scale)
      : bias(epilogue.template bias_of<float>(k)), factor(scale), least(epilogue.least) {}
  template <bool scaled>
  __device__ float finish(float sum) const {
    return larger(scaled ? fmaf(sum, factor, bias) : sum + bias, least);
  }
};

/// Writes a lane's sums of one filter and a strip where windows have two outputs: of[pair] are
/// those of rows p + 2 pair and the next, at columns q and q + 1. All that comes after the sum
/// grows with it, so that a maximum is taken first.
template <bool scaled, class Sum, int row_pairs, class Stored>
__device__ void store_columns(const WindowOutput<Stored>& output, const FilterEnd<Stored>& end,
                              const Sum* const (&of)[row_pairs], int n, int k, int p, int q) {
  const WindowShape& shape = output.shape;
  const int rows = shape.conv.p.value(), row_step = shape.conv.y_step.h;
  const bool both = q + 1 < shape.conv.q.value();
  if (shape.pools) {
    int to = output.at(n, k, p / 2, q / 2);
#pragma unroll
    for (int pair = 0; pair < row_pairs; ++pair, to += row_step) {
      const Sum& sum = *of[pair];
      if (both && p + 2 * pair + 1 < rows)
        output.one(to, end.template finish<scaled>(
                           larger(larger(sum[0], sum[1]), larger(sum[2], sum[3]))));
    }
    return;
  }
  int to = output.at(n, k, p, q);
  if (output.pairs_aligned && both && p + 2 * row_pairs <= rows) {
#pragma unroll
    for (int row = 0; row < 2 * row_pairs; ++row, to += row_step) {
      const Sum& sum = *of[row / 2];
      output.pair(to, end.template finish<scaled>(sum[row % 2 * 2]),
                  end.template finish<scaled>(sum[row % 2 * 2 + 1]));
    }
    return;
  }
#pragma unroll
  for (int row = 0; row < 2 * row_pairs; ++row, to += row_step) {
    const Sum& sum = *of[row / 2];
    if (p + row < rows)
      output.two(to, end.template finish<scaled>(sum[row % 2 * 2]),
                 end.template finish<scaled>(sum[row % 2 * 2 + 1]), both);
  }
}

/// Writes a lane's sums of a strip. `scales` undo those of the filters, `scale` that of the input.
template <bool scaled, class Sum, int row_pairs, int eights, class Stored>
__device__ void store_strip(const WindowOutput<Stored>& output,
                            const Sum (&sums)[row_pairs][eights], const float* scales, float scale,
                            int first_k, int n, int p, int q) {
  const WindowShape& shape = output.shape;
  const int t = static_cast<int>(threadIdx.x) % 4;
  if (q >= shape.conv.q.value()) return;
#pragma unroll
  for (int eight = 0; eight < eights; ++eight) {
    if (shape.shifts == 2) {
      const int filter = eight * 4 + t, k = first_k + filter;
      if (k >= shape.conv.k.value()) break;
      const FilterEnd<Stored> end(output.epilogue, k, scaled ? scales[filter] * scale : 1);
      const Sum* of[row_pairs];
#pragma unroll
      for (int pair = 0; pair < row_pairs; ++pair) of[pair] = &sums[pair][eight];
      store_columns<scaled>(output, end, of, n, k, p, q);
    } else {
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        const int filter = eight * 8 + 2 * t + column, k = first_k + filter;
        if (k >= shape.conv.k.value()) break;
        const FilterEnd<Stored> end(output.epilogue, k, scaled ? scales[filter] * scale : 1);
        int to = output.at(n, k, p, q);
#pragma unroll
        for (int row = 0; row < 2 * row_pairs; ++row, to += shape.conv.y_step.h)
          if (p + row < shape.conv.p.value())
            output.one(to, end.template finish<scaled>(sums[row / 2][eight][row % 2 * 2 + column]));
      }
    }
  }
}

/// Sums outputs of the tile again, one by one: all of them, or those that came out NaN. By the
/// whole block, after a barrier behind the writing.
template <class Stored>
__device__ void redo_tile(const WindowOutput<Stored>& output, const WindowItem& item,
                          int strip_rows, int first_k, bool all, const Stored* x, const Stored* w) {
  const WindowShape& shape = output.shape;
  const ConvShape<int>& conv = shape.conv;
  const int side = shape.pools ? 2 : 1;  // of the square of outputs under a stored one
  const int filters = min(shape.group_filters, conv.k.value() - first_k);
  const int rows = min(item.strips * strip_rows, conv.p.value() - item.p) / side;
  const int columns = min(shape.windows.value() * shape.shifts, conv.q.value() - item.q) / side;
  const int count = item.images * filters * rows * columns;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count; i += window_threads) {
    const int q = item.q / side + i % columns, p = item.p / side + i / columns % rows;
    const int k = first_k + i / columns / rows % filters;
    const int n = item.n + i / columns / rows / filters;
    Stored& result = output.y[output.at(n, k, p, q)];
    if (const float written = convert<float>(result); !all && written == written) continue;
    float largest = -infinity<float>;
#pragma unroll 1
    for (int of_square = 0; of_square < side * side; ++of_square) {
      const int row = p * side + of_square / side, column = q * side + of_square % side;
      largest =
          larger(largest, direct_sum<float>(conv, x + n * conv.x_step.n, w + k * conv.w_step.k,
                                            row * conv.stride_h - conv.top,
                                            column * conv.stride_w - conv.left));
    }
    result = output.epilogue(largest, k);
  }
}

}  // namespace plumb::cuda
