// Device code of few_terms.cu beside its kernels: pixels, and the filters of a block.
#pragma once

#include <cstdint>

#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/fma/few_terms_work.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda::few_terms_kernels {

/// The terms of a pixel, in the order of a filter's weights: `x` and `w` are the elements from the
/// pixel's first term and from the filter's first weight.
struct Terms {
  int count;
  std::uint32_t of_channels = 0;  ///< a bit for the first term of each channel
  int x[max_terms] = {}, w[max_terms] = {};

  explicit Terms(const ConvProblem& problem) : count(static_cast<int>(problem.terms())) {
    const ConvShape<int> shape(problem);
    const int taps = shape.r.value() * shape.s.value();
    for (int i = 0; i < count; ++i) {
      const int c = i / taps, tap = i % taps;
      const auto [r, s] = shape.s.divide(tap);
      x[i] = c * shape.x_step.c + r * shape.dilation_h.value() * shape.x_step.h +
             s * shape.dilation_w.value() * shape.x_step.w;
      w[i] = c * shape.w_step.c + r * shape.w_step.r + s * shape.w_step.s;
      if (tap == 0) of_channels |= std::uint32_t{1} << i;
    }
  }

  /// Returns a bit for each term that lies in the image, where the first is at `row` and `column`.
  template <bool padded>
  __device__ std::uint32_t inside(const ConvShape<int>& shape, int row, int column) const {
    if (!padded) return ~std::uint32_t{0} >> (max_terms - count);
    std::uint32_t columns = 0, rows = 0;
#pragma unroll 1
    for (int s = 0; s < shape.s.value(); ++s, column += shape.dilation_w.value())
      if (static_cast<unsigned>(column) < static_cast<unsigned>(shape.w))
        columns |= std::uint32_t{1} << s;
#pragma unroll 1
    for (int r = 0; r < shape.r.value(); ++r, row += shape.dilation_h.value())
      if (static_cast<unsigned>(row) < static_cast<unsigned>(shape.h))
        rows |= std::uint32_t{1} << r * shape.s.value();
    // The product sets a bit for each pair: they are so far apart that none is carried.
    return columns * rows * of_channels;
  }
};

/// The argument of a kernel.
struct Call {
  ConvShape<int> shape;
  Terms terms;
  Work work;
  const float *x, *w;
  float* y;
  Epilogue<float> epilogue;
};

/// A vector of pixels: its position in y, and the offsets of its elements.
template <bool padded>
struct Pixels {
  int n, p, q;
  int x, y;              ///< offsets of its first term in x, and of its output for filter 0 in y
  std::uint32_t inside;  ///< a bit for each term
  bool exists;

  __device__ Pixels(const Call& call, int vector, int number) : exists(number < call.work.vectors) {
    const ConvShape<int>& shape = call.shape;
    const auto [rows, first] = call.work.row_vectors.divide(exists ? number : 0);
    const auto [image, row_of_y] = shape.p.divide(rows);
    n = image, p = row_of_y, q = first * vector;
    const int row = p * shape.stride_h - shape.top, column = q * shape.stride_w - shape.left;
    x = n * shape.x_step.n + row * shape.x_step.h + column * shape.x_step.w;
    y = n * shape.y_step.n + p * shape.y_step.h + q * shape.y_step.w;
    inside = call.terms.template inside<padded>(shape, row, column);
  }
  template <int terms, int vector>
  __device__ void read(const Call& call, float (&values)[terms][vector]) const {
#pragma unroll
    for (int i = 0; i < terms; ++i)
      if ((inside >> i & 1) != 0) read_vectors<vector>(call.x + (x + call.terms.x[i]), values[i]);
  }
};

/// A share of the filters in shared memory.
template <int terms>
class Share {
 public:
  static constexpr int pitch = filter_pitch(terms);

  __device__ explicit Share(const Call& call)
      : call_(call), filters_(reinterpret_cast<float*>(dynamic_shared())) {}

  /// Loads the share of that number, if it is not there already. The whole block calls it.
  __device__ void take(int share) {
    if (share == share_) return;
    const ConvShape<int>& shape = call_.shape;
    if (share_ >= 0) __syncthreads();
    share_ = share;
    first_k = share * call_.work.filters;
    count = min(call_.work.filters, shape.k.value() - first_k);
    finite = true;
    for (int i = static_cast<int>(threadIdx.x); i < count * pitch; i += block_threads) {
      const int k = first_k + i / pitch, term = i % pitch;
      float value = 0;  // for terms that the kernel has and the problem does not
      if (term < call_.terms.count) value = call_.w[k * shape.w_step.k + call_.terms.w[term]];
      finite = finite && fabsf(value) < infinity<float>;
      if (term == terms) value = call_.epilogue.bias_of<float>(k);
      filters_[i] = value;
    }
    finite = __syncthreads_and(finite) != 0;
  }
  __device__ void read(int k, float (&weights)[pitch]) const {
    read_vectors<4>(filters_ + k * pitch, weights);
  }

  int first_k = 0, count = 0;
  bool finite =
      true;  ///< whether all weights are finite; with zeros for the padding others make NaN

 private:
  const Call& call_;
  float* const filters_;
  int share_ = -1;
};

}  // namespace plumb::cuda::few_terms_kernels
