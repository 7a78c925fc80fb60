// Direct convolution with the filter's loops unrolled: y[n,k,p,q] is one thread's sum over c, r,
// s, as in direct.cu, with pointers that the compiler may take to be apart (__restrict__) and,
// variant by variant, with the number of filter columns, or of rows and columns, known to it.
//
// Tiling: there is none. A block is 256 consecutive outputs in the order N K P Q.
// Bytes: at best x, w and y move once from or to memory, and a term is two loads from L1 and L2, as
//   in direct.
// Wins: it wins over direct because it leaves out arithmetic between the loads: an unrolled tap
//   lies at a fixed distance from the one before, and its address is part of the load. Where
//   columns are not neighbours in memory (NHWC, dilation) or the filter reaches into the padding,
//   taps are summed by the loops of direct.
// Measured (one H200, fp32 tensors, N=10,000; ms on ece408_l1 / l2, eecs471_l1 / l2):
//   restrict 9.36 / 23.8 / 19.1 / 65.4
//   columns 4.26 / 13 / 8.67 / 38.7
//   both 3.96 / 13.1 / 8.36 / 38.9
#include <string>

#include "cuda_kernels/conv/batch_slices.hpp"
#include "cuda_kernels/conv/direct_sum.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/cost/fma.hpp"
#include "cuda_kernels/primitives/compile_time.hpp"
#include "cuda_kernels/primitives/elements.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

/// The constant stands for a number of rows or columns that is known at launch only.
constexpr int at_run_time = 0;

template <int columns>
__device__ float add_row(float sum, const float* x, const float* w) {
#pragma unroll
  for (int s = 0; s < columns; ++s) sum = fma(x[s], w[s], sum);
  return sum;
}

__device__ bool all_inside(int first, int extent, int taps, int dilation) {
  return first >= 0 && first + (taps - 1) * dilation < extent;
}

/// Computes direct_sum() for a filter of `columns` columns, and of `rows` rows if they are known.
template <int rows, int columns>
__device__ float unrolled_sum(const ConvShape<int>& shape, const float* x, const float* w,
                              int first_h, int first_w) {
  const bool neighbours =
      columns == 1 || (shape.x_step.w == 1 && shape.dilation_w.value() == 1 && shape.w_step.s == 1);
  const bool inside =
      all_inside(first_w, shape.w, columns, shape.dilation_w.value()) &&
      (rows == at_run_time || all_inside(first_h, shape.h, rows, shape.dilation_h.value()));
  if (!neighbours || !inside) return direct_sum<float>(shape, x, w, first_h, first_w);

  const int row_step = shape.dilation_h.value() * shape.x_step.h;
  const float* first = x + first_h * shape.x_step.h + first_w * shape.x_step.w;
  float sum = 0;
  for (int c = 0; c < shape.group_c; ++c) {
    const float* x_channel = first + c * shape.x_step.c;
    const float* w_channel = w + c * shape.w_step.c;
    const auto add = [&](int r) {
      sum = add_row<columns>(sum, x_channel + r * row_step, w_channel + r * shape.w_step.r);
    };
    if constexpr (rows == at_run_time) {
      const Taps<int> taps = taps_inside(first_h, shape.h, shape.r.value(), shape.dilation_h);
      for (int r = taps.begin; r < taps.end; ++r) add(r);
    } else {
#pragma unroll
      for (int r = 0; r < rows; ++r) add(r);
    }
  }
  return sum;
}

template <int rows, int columns>
__global__ void __launch_bounds__(block_threads)
    direct_unrolled(const __grid_constant__ ConvShape<int> shape, const float* __restrict__ x,
                    const float* __restrict__ w, float* __restrict__ y,
                    const __grid_constant__ Epilogue<float> epilogue, std::int64_t outputs) {
  for_each_element<block_threads>(
      outputs, shape.k, shape.p, shape.q, [&](int n, int k, int p, int q) {
        const int group = shape.group_k.quotient(k);
        const float* image = x + n * shape.x_step.n + group * shape.group_c * shape.x_step.c;
        const float* filter = w + k * shape.w_step.k;
        const int first_h = p * shape.stride_h - shape.top;
        const int first_w = q * shape.stride_w - shape.left;
        float sum;
        if constexpr (columns == at_run_time)
          sum = direct_sum<float>(shape, image, filter, first_h, first_w);
        else
          sum = unrolled_sum<rows, columns>(shape, image, filter, first_h, first_w);
        y[n * shape.y_step.n + k * shape.y_step.c + p * shape.y_step.h + q * shape.y_step.w] =
            epilogue(sum, k);
      });
}

template <int rows, int columns>
void launch_unrolled(const ConvLaunch& call) {
  for_each_slice(call, [](const ConvLaunch& part) {
    const std::int64_t outputs = element_count(part.problem.y_extents());
    Launch(part.native_queue, blocks_for(outputs, block_threads), block_threads)(
        direct_unrolled<rows, columns>, ConvShape<int>(part.problem),
        static_cast<const float*>(part.x), static_cast<const float*>(part.w),
        static_cast<float*>(part.y), Epilogue<float>(part), outputs);
  });
}

using Columns = CompileTime<1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11>;
using Squares = CompileTime<1, 3, 5, 7, 9, 11>;

void launch_columns(const ConvLaunch& call) {
  Columns::with(call.problem.s,
                [&]<int columns>() { launch_unrolled<at_run_time, columns>(call); });
}

void launch_both(const ConvLaunch& call) {
  Squares::with(call.problem.s, [&]<int taps>() { launch_unrolled<taps, taps>(call); });
}

Support supports(const ConvProblem& problem, const DeviceInfo&) {
  return supports_dtypes_in_slices({DType::f32}, problem);
}

Support supports_columns(const ConvProblem& problem, const DeviceInfo& device) {
  if (const Support general = supports(problem, device); !general) return general;
  if (Columns::has(problem.s)) return {};
  return {Reason::geometry,
          "filters of " + std::to_string(problem.s) + " columns; unrolled for " + Columns::list()};
}

Support supports_both(const ConvProblem& problem, const DeviceInfo& device) {
  if (const Support general = supports(problem, device); !general) return general;
  if (problem.r == problem.s && Squares::has(problem.s)) return {};
  return {Reason::geometry, "filters of " + std::to_string(problem.r) + "x" +
                                std::to_string(problem.s) + "; unrolled for squares of " +
                                Squares::list()};
}

template <UnrolledTaps unrolled>
double estimate(const ConvProblem& problem, const DeviceInfo& device) {
  return direct_unrolled_seconds(problem, device, unrolled);
}

template <UnrolledTaps unrolled, auto supports, auto launch>
constexpr ConvAlgorithm entry(std::string_view name) {
  return {
      .name = name,
      .numerics = {.operand = Operand::fp32,
                   .accumulator = Accumulator::fp32_fma,
                   .reproducible = true,
                   .invariant = true},
      .plan = plan_of_parts<supports, estimate<unrolled>>,
      .launch = without_plan<launch>,
  };
}

}  // namespace

extern const ConvAlgorithm direct_unrolled_fp32_restrict =
    entry<UnrolledTaps::none, supports, launch_unrolled<at_run_time, at_run_time>>(
        "cuda.conv.direct_unrolled.fp32.restrict");
extern const ConvAlgorithm direct_unrolled_fp32_columns =
    entry<UnrolledTaps::columns, supports_columns, launch_columns>(
        "cuda.conv.direct_unrolled.fp32.columns");
extern const ConvAlgorithm direct_unrolled_fp32_both =
    entry<UnrolledTaps::both, supports_both, launch_both>("cuda.conv.direct_unrolled.fp32.both");

}  // namespace plumb::cuda
