// The second kernel of backward weights: it adds up the parts, and writes dw.
#pragma once

#include "cuda_kernels/primitives/dependent_launch.cuh"
#include "cuda_kernels/primitives/scalar.cuh"
#include "cuda_kernels/weights/weights_params.cuh"

namespace plumb::cuda::weights {

inline constexpr int finish_threads = finish_elements * finish_rows;

/// A sum, and what its additions have rounded away (Neumaier 1974).
struct ExactSum {
  double sum = 0, lost = 0;

  __device__ void add(double value) {
    const double next = sum + value;
    const bool larger = fabs(sum) >= fabs(value);
    lost += larger ? (sum - next) + value : (value - next) + sum;
    sum = next;
  }
  __device__ double value() const { return fabs(sum) <= 1.7976931348623157e308 ? sum + lost : sum; }
};

/// Sums a thread's share of an element of dw by its definition, without taps outside of the image:
/// zeros of the padding make a NaN of an infinite gradient, where there is no term.
template <class Real, class Stored>
__device__ double definition(const WeightsPlan& plan, const Stored* x, const Stored* dy,
                             std::int64_t element) {
  const WeightsSizes& sizes = plan.sizes;
  const WeightsStrides& strides = plan.strides;
  const std::int64_t k = element / sizes.terms(), term = element % sizes.terms();
  const std::int64_t s = term % sizes.w.taps, row = term / sizes.w.taps;
  const std::int64_t r = row % sizes.h.taps, plane = row / sizes.h.taps;
  const std::int64_t t = plane % sizes.d.taps;
  const std::int64_t c = k / sizes.group_k * sizes.group_c + plane / sizes.d.taps;
  const auto source = [](const WeightsAxis& axis, std::int64_t output, std::int64_t tap) {
    return axis.unit * (axis.stride * output + axis.dilation * tap) - axis.before;
  };
  const std::int64_t positions = sizes.images * sizes.h.outputs * sizes.w.outputs;
  const std::int64_t depth = sizes.n > 0 ? sizes.images / sizes.n : 1;
  ExactSum sum;
  for (std::int64_t at = threadIdx.x; at < positions; at += finish_threads) {
    const std::int64_t q = at % sizes.w.outputs, rows = at / sizes.w.outputs;
    const std::int64_t p = rows % sizes.h.outputs, image = rows / sizes.h.outputs;
    const std::int64_t z = image % depth, n = image / depth;
    const std::int64_t d = source(sizes.d, z, t), h = source(sizes.h, p, r),
                       w = source(sizes.w, q, s);
    if (d < 0 || d >= sizes.d.extent || h < 0 || h >= sizes.h.extent || w < 0 ||
        w >= sizes.w.extent)
      continue;
    const Stored with =
        dy[n * strides.y_n + k * strides.y_k + z * strides.y_z + p * strides.y_p + q * strides.y_q];
    const Stored of =
        x[n * strides.x_n + c * strides.x_c + d * strides.x_d + h * strides.x_h + w * strides.x_w];
    sum.add(static_cast<double>(convert<Real>(of)) * static_cast<double>(convert<Real>(with)));
  }
  return sum.value();
}

/// Adds a value of each row's thread by a tree, whose sum the first row gets.
template <class Value>
__device__ void add_rows(Value* memory, int every, int rows) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int half = rows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half * every) memory[thread] += memory[thread + half * every];
  }
  __syncthreads();
}

/// A block has `elements` of dw. With many of them it reads longer rows of the parts, with few
/// there are more threads for many parts. It may be launched early.
template <class Real, class Stored, int elements = finish_elements>
__global__ void __launch_bounds__(finish_threads)
    finish_weights(const __grid_constant__ WeightsPlan plan, const Stored* x, const Stored* dy,
                   const Real* parts, Stored* dw, bool accumulate) {
  __shared__ Real sums[finish_threads];
  __shared__ double exact[finish_threads];
  constexpr int rows = finish_threads / elements;
  const WeightsSizes& sizes = plan.sizes;
  const int thread = static_cast<int>(threadIdx.x), row = thread / elements;
  const std::int64_t all = sizes.weights();
  const std::int64_t first = std::int64_t{blockIdx.x} * elements;
  const std::int64_t element = first + thread % elements;
  Real sum = 0;
  wait_for_kernel_before();
  if (element < all)
    for (std::int64_t part = row; part < plan.cut.parts; part += rows)
      sum += parts[part * all + element];
  sums[thread] = sum;
  add_rows(sums, elements, rows);
  sum = sums[thread % elements];
  if (__syncthreads_or(sum != sum))
    for (int i = 0; i < elements; ++i) {
      if (first + i >= all || sums[i] == sums[i]) continue;
      exact[thread] = definition<Real>(plan, x, dy, first + i);
      add_rows(exact, 1, finish_threads);
      if (thread == i) sum = static_cast<Real>(exact[0]);
      __syncthreads();
    }
  if (row > 0 || element >= all) return;
  const std::int64_t k = element / sizes.terms(), term = element % sizes.terms();
  const std::int64_t s = term % sizes.w.taps, taps = term / sizes.w.taps;
  const std::int64_t r = taps % sizes.h.taps, planes = taps / sizes.h.taps;
  const WeightsStrides& strides = plan.strides;
  Stored& to = dw[k * strides.w_k + planes / sizes.d.taps * strides.w_c +
                  planes % sizes.d.taps * strides.w_t + r * strides.w_r + s * strides.w_s];
  if (accumulate) sum += convert<Real>(to);
  to = convert<Stored>(sum);
}

}  // namespace plumb::cuda::weights
