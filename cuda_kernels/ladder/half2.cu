// Direct convolution in half2 arithmetic: a thread sums two outputs of one pixel, of filters k and
// k + 1, in the two halves of a register; each term is one multiply-add of both, rounded to fp16.
//
// Tiling: there is none. A block is 256 consecutive pixels in the order N K/2 P Q. A thread has two
//   filters and not two pixels: one pixel serves both halves, so that x is loaded half as often as
//   in direct, in any stride and dilation; the two taps have one address for a warp's neighbouring
//   pixels.
// Bytes: at best x, w and y move once from or to memory. A term of two outputs is three loads,
//   which L1 and L2 answer, where direct has four, and one instruction of arithmetic, where direct
//   has two.
// Wins: it runs only when forced, because sums of fp16 are a wide promise: the error grows by 2^-11
//   with each term, and past 2,047 terms nothing is promised. Sums beyond 65,504 are Inf. Where a
//   group has an odd number of filters, its last thread's second half idles.
// Measured (one H200, fp32 tensors, N=10,000; ms on ece408_l1 / l2, eecs471_l1 / l2):
//   6.27 / 16.5 / 12.8 / 45.9
#include "cuda_kernels/conv/batch_slices.hpp"
#include "cuda_kernels/conv/conv_shape.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/cost/ladder.hpp"
#include "cuda_kernels/primitives/elements.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

__device__ __half2 pack(float low, float high) { return __floats2half2_rn(low, high); }
__device__ __half2 pack(__half low, __half high) { return __halves2half2(low, high); }

/// Computes direct_sum() for two filters at once; the second lies `next` elements behind the first.
template <class Stored>
__device__ __half2 paired_sum(const ConvShape<int>& shape, const Stored* x, const Stored* w,
                              int next, int first_h, int first_w) {
  const Taps<int> rows = taps_inside(first_h, shape.h, shape.r.value(), shape.dilation_h);
  const Taps<int> columns = taps_inside(first_w, shape.w, shape.s.value(), shape.dilation_w);
  const int x_tap = shape.dilation_w.value() * shape.x_step.w;
  __half2 sum = pack(0.0f, 0.0f);
  for (int c = 0; c < shape.group_c; ++c) {
    for (int r = rows.begin; r < rows.end; ++r) {
      int x_offset = c * shape.x_step.c +
                     (first_h + r * shape.dilation_h.value()) * shape.x_step.h +
                     first_w * shape.x_step.w + columns.begin * x_tap;
      int w_offset = c * shape.w_step.c + r * shape.w_step.r + columns.begin * shape.w_step.s;
      for (int s = columns.begin; s < columns.end; ++s) {
        sum = __hfma2(pack(x[x_offset], x[x_offset]), pack(w[w_offset], w[w_offset + next]), sum);
        x_offset += x_tap;
        w_offset += shape.w_step.s;
      }
    }
  }
  return sum;
}

template <class Stored>
__global__ void __launch_bounds__(block_threads)
    half2_sums(const __grid_constant__ ConvShape<int> shape, const Stored* x, const Stored* w,
               Stored* y, const __grid_constant__ Epilogue<Stored> epilogue, Divisor<int> pairs,
               Divisor<int> group_pairs, std::int64_t elements) {
  for_each_element<block_threads>(
      elements, pairs, shape.p, shape.q, [&](int n, int pair, int p, int q) {
        const auto [group, pair_of_group] = group_pairs.divide(pair);
        const int k = group * shape.group_k.value() + 2 * pair_of_group;
        // Without a second filter the first is summed twice, and the second sum is dropped.
        const bool has_second = 2 * pair_of_group + 1 < shape.group_k.value();
        const __half2 sum =
            paired_sum(shape, x + n * shape.x_step.n + group * shape.group_c * shape.x_step.c,
                       w + k * shape.w_step.k, has_second ? shape.w_step.k : 0,
                       p * shape.stride_h - shape.top, q * shape.stride_w - shape.left);
        Stored* output =
            y + n * shape.y_step.n + k * shape.y_step.c + p * shape.y_step.h + q * shape.y_step.w;
        *output = epilogue(__low2float(sum), k);
        if (has_second) output[shape.y_step.c] = epilogue(__high2float(sum), k + 1);
      });
}

void launch(const ConvLaunch& call) {
  with_stored<float, __half>(call.problem.dtype, [&]<class Stored>(Stored) {
    for_each_slice(call, [](const ConvLaunch& part) {
      const ConvProblem& problem = part.problem;
      const std::int64_t group_pairs = (problem.k / problem.groups + 1) / 2;
      const std::int64_t pairs = problem.groups * group_pairs;
      const std::int64_t elements = problem.n * pairs * problem.p() * problem.q();
      Launch(part.native_queue, blocks_for(elements, block_threads), block_threads)(
          half2_sums<Stored>, ConvShape<int>(problem), static_cast<const Stored*>(part.x),
          static_cast<const Stored*>(part.w), static_cast<Stored*>(part.y), Epilogue<Stored>(part),
          Divisor<int>(pairs), Divisor<int>(group_pairs), elements);
    });
  });
}

Support supports(const ConvProblem& problem, const DeviceInfo&) {
  return supports_dtypes_in_slices({DType::f32, DType::f16}, problem);
}

}  // namespace

extern const ConvAlgorithm half2_fp16{
    .name = "cuda.conv.half2.fp16",
    .numerics = {.operand = Operand::fp16, .accumulator = Accumulator::fp16_fma},
    .forced_only = true,
    .plan = plan_of_parts<supports, half2_seconds>,
    .launch = without_plan<launch>,
};

}  // namespace plumb::cuda
