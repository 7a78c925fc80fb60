// The reduction runs over the input: a thread takes one element of x and adds its products with all
// taps that meet it to the outputs they belong to, atomically. Before that a kernel sets y to zero,
// and after it one applies bias and activation.
//
// Tiling: there is none. A block is 256 consecutive elements of x in the order N C H W;
//   neighbouring threads add to neighbouring outputs of one filter, which reach L2 as one request
//   of a warp.
// Bytes: x is read once; y is written as zeros, then changed in L2 C/G R S times each, and read and
//   written once more where there is a bias or an activation. Each term is an atomic addition in
//   L2, where direct has an FMA in a register.
// Wins: it wins nowhere. Threads add in any order, so that results differ from run to run. Sums
//   below the smallest normal number are flushed to zero, as the hardware's addition does.
// Measured (one H200, fp32 tensors, N=10,000; ms on ece408_l1 / l2, eecs471_l1 / l2):
//   20.3 / 56.7 / 40.6 / 164
#include <string>

#include "cuda_kernels/conv/batch_slices.hpp"
#include "cuda_kernels/conv/conv_shape.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/cost/ladder.hpp"
#include "cuda_kernels/primitives/elements.cuh"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

__global__ void __launch_bounds__(block_threads)
    set_to_zero(const __grid_constant__ ConvShape<int> shape, float* y, std::int64_t outputs) {
  for_each_element<block_threads>(
      outputs, shape.k, shape.p, shape.q, [&](int n, int k, int p, int q) {
        y[n * shape.y_step.n + k * shape.y_step.c + p * shape.y_step.h + q * shape.y_step.w] = 0;
      });
}

__global__ void __launch_bounds__(block_threads)
    finish(const __grid_constant__ ConvShape<int> shape, float* y,
           const __grid_constant__ Epilogue<float> epilogue, std::int64_t outputs) {
  for_each_element<block_threads>(
      outputs, shape.k, shape.p, shape.q, [&](int n, int k, int p, int q) {
        float* output =
            y + n * shape.y_step.n + k * shape.y_step.c + p * shape.y_step.h + q * shape.y_step.w;
        *output = epilogue(*output, k);
      });
}

/// Takes an element of x apart, and finds the outputs that it belongs to.
struct InputSide {
  Divisor<int> c, h, w, group_c, stride_h, stride_w;

  explicit InputSide(const ConvProblem& problem)
      : c(problem.c),
        h(problem.h),
        w(problem.w),
        group_c(problem.c / problem.groups),
        // Without a second output a stride may be any number; 1 serves.
        stride_h(problem.p() > 1 ? problem.stride.h : 1),
        stride_w(problem.q() > 1 ? problem.stride.w : 1) {}
};

/// Returns the output along one direction for which a tap lies `distance` from the padded image's
/// edge, or -1 where there is none.
__device__ int output_at(int distance, const Divisor<int>& stride, int outputs) {
  if (distance < 0) return -1;
  const auto [output, beside] = stride.divide(distance);
  return beside == 0 && output < outputs ? output : -1;
}

__global__ void __launch_bounds__(block_threads)
    scatter(const __grid_constant__ ConvShape<int> shape, const __grid_constant__ InputSide input,
            const float* x, const float* w, float* y, std::int64_t elements) {
  for_each_element<block_threads>(
      elements, input.c, input.h, input.w, [&](int n, int c, int row, int column) {
        const float value = x[n * shape.x_step.n + c * shape.x_step.c + row * shape.x_step.h +
                              column * shape.x_step.w];
        const auto [group, c_of_group] = input.group_c.divide(c);
        const int filters = shape.group_k.value();
        const float* group_w = w + group * filters * shape.w_step.k + c_of_group * shape.w_step.c;
        float* group_y = y + n * shape.y_step.n + group * filters * shape.y_step.c;
        for (int r = 0; r < shape.r.value(); ++r) {
          const int down = row + shape.top - r * shape.dilation_h.value();
          const int p = output_at(down, input.stride_h, shape.p.value());
          if (p < 0) continue;
          for (int s = 0; s < shape.s.value(); ++s) {
            const int right = column + shape.left - s * shape.dilation_w.value();
            const int q = output_at(right, input.stride_w, shape.q.value());
            if (q < 0) continue;
            const float* tap = group_w + r * shape.w_step.r + s * shape.w_step.s;
            float* output = group_y + p * shape.y_step.h + q * shape.y_step.w;
            for (int k = 0; k < filters; ++k)
              atomicAdd(output + k * shape.y_step.c, value * tap[k * shape.w_step.k]);
          }
        }
      });
}

/// Returns the elements of one image, which broadcast strides may make more than offsets reach.
double image_elements(const ConvProblem& problem) {
  return count({problem.c, problem.h, problem.w});
}

void launch_slice(const ConvLaunch& call) {
  const ConvProblem& problem = call.problem;
  const ConvShape<int> shape(problem);
  auto* y = static_cast<float*>(call.y);
  const std::int64_t outputs = element_count(problem.y_extents());
  const std::int64_t elements = element_count(problem.x_extents());
  const unsigned output_blocks = blocks_for(outputs, block_threads);
  Launch(call.native_queue, output_blocks, block_threads)(set_to_zero, shape, y, outputs);
  Launch(call.native_queue, blocks_for(elements, block_threads), block_threads)(
      scatter, shape, InputSide(problem), static_cast<const float*>(call.x),
      static_cast<const float*>(call.w), y, elements);
  const Epilogue<float> epilogue(call);
  if (!epilogue.changes_nothing())
    Launch(call.native_queue, output_blocks, block_threads)(finish, shape, y, epilogue, outputs);
}

void launch(const ConvLaunch& call) {
  ConvProblem problem = call.problem;
  const auto counted = static_cast<std::int64_t>(index32_limit / image_elements(problem));
  const std::int64_t images = std::min(slice_images(problem), counted);
  for (std::int64_t begin = 0; begin < call.problem.n; begin += images) {
    problem.n = std::min(images, call.problem.n - begin);
    launch_slice(slice(call, problem, begin));
  }
}

Support supports(const ConvProblem& problem, const DeviceInfo&) {
  if (const Support stored = supports_dtypes({DType::f32}, problem); !stored) return stored;
  if (image_elements(problem) > index32_limit)
    return {Reason::too_large, "images of " + to_string(problem.x_extents()) +
                                   "; expected fewer than 2^31 elements in each"};
  return fits_in_slices(problem);
}

}  // namespace

/// A product is rounded before it is added, but the first addition is to zero and exact: no term is
/// rounded more often than in a chain of FMAs.
extern const ConvAlgorithm scatter_atomics_fp32{
    .name = "cuda.conv.scatter_atomics.fp32",
    .numerics = {.operand = Operand::fp32,
                 .accumulator = Accumulator::fp32_fma,
                 .deterministic = false},
    .forced_only = true,
    .plan = plan_of_parts<supports, scatter_atomics_seconds>,
    .launch = without_plan<launch>,
};

}  // namespace plumb::cuda
