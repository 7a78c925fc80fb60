// Direct convolution: y[n,k,z,p,q] is one thread's sum over c, t, r, s, straight from the
// definition. It takes every problem: any depth, boundary and size, and adds to what y holds.
//
// Tiling: there is none. A block is 256 consecutive outputs in the order N K Z P Q; neighbouring
//   threads are neighbouring pixels, so that in NCHW a warp reads x in runs and all of it the same
//   tap of w. Without a depth, and with zeros around the image, the taps inside are found once for
//   an output, otherwise tap by tap.
// Bytes: at best x, w and y move once from or to memory. Every term is two loads, which L1 and L2
//   answer where the image rows and filters in flight fit there.
// Wins: it wins with few channels, few filters and depthwise groups, where a matrix tile would
//   idle.
// Measured (one H200, fp32 tensors, N=10,000; ms on ece408_l1 / l2, eecs471_l1 / l2):
//   fp32 9.36 / 23.8 / 19.1 / 65.4
//   fp64 10.9 / 28.1 / 22.3 / 77.7
#include "cuda_kernels/conv/deep_shape.cuh"
#include "cuda_kernels/conv/direct_sum.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/cost/fma.hpp"
#include "cuda_kernels/primitives/elements.cuh"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

template <class Accumulate, class Stored, class Index>
__global__ void __launch_bounds__(block_threads)
    direct(const __grid_constant__ ConvShape<Index> shape, const Stored* x, const Stored* w,
           Stored* y, const __grid_constant__ Epilogue<Stored> epilogue, std::int64_t outputs) {
  for_each_element<block_threads>(
      outputs, shape.k, shape.p, shape.q, [&](Index n, Index k, Index p, Index q) {
        const Index group = shape.group_k.quotient(k);
        const Accumulate sum = direct_sum<Accumulate>(
            shape, x + n * shape.x_step.n + group * shape.group_c * shape.x_step.c,
            w + k * shape.w_step.k, p * shape.stride_h - shape.top,
            q * shape.stride_w - shape.left);
        epilogue.store(
            y[n * shape.y_step.n + k * shape.y_step.c + p * shape.y_step.h + q * shape.y_step.w],
            sum, k);
      });
}

template <class Accumulate, class Stored, class Index>
__global__ void __launch_bounds__(block_threads)
    direct_deep(const __grid_constant__ DeepShape<Index> shape, const Stored* x, const Stored* w,
                Stored* y, const __grid_constant__ Epilogue<Stored> epilogue,
                std::int64_t outputs) {
  for_each_element<block_threads>(
      outputs, shape.z, shape.p, shape.q, [&](Index image, Index z, Index p, Index q) {
        const auto [n, k] = shape.k.divide(image);
        const Index group = shape.group_k.quotient(k);
        const Accumulate sum =
            deep_sum<Accumulate>(shape, x + n * shape.x_n + group * shape.group_c * shape.x_c,
                                 w + k * shape.w_k, z, p, q);
        epilogue.store(y[n * shape.y_n + k * shape.y_k + z * shape.depth.y_step +
                         p * shape.rows.y_step + q * shape.columns.y_step],
                       sum, k);
      });
}

template <class Accumulate, class... Stored>
void launch(const ConvLaunch& call) {
  const ConvProblem& problem = call.problem;
  const std::int64_t outputs = element_count(problem.y_extents());
  const bool deep = problem.has_depth() || problem.boundary != Boundaries{};
  with_stored<Stored...>(problem.dtype, [&]<class S>(S) {
    const auto* const x = static_cast<const S*>(call.x);
    const auto* const w = static_cast<const S*>(call.w);
    auto* const y = static_cast<S*>(call.y);
    Launch on_grid(call.native_queue, blocks_for(outputs, block_threads), block_threads);
    if (deep)
      with_index(deep_fits_32_bits(problem), [&]<class Index>(Index) {
        on_grid(direct_deep<Accumulate, S, Index>, DeepShape<Index>(problem), x, w, y,
                Epilogue<S>(call), outputs);
      });
    else
      with_index(fits_32_bits(problem), [&]<class Index>(Index) {
        on_grid(direct<Accumulate, S, Index>, ConvShape<Index>(problem), x, w, y, Epilogue<S>(call),
                outputs);
      });
  });
}

template <Accumulator accumulator>
double estimate(const ConvProblem& problem, const DeviceInfo& device) {
  return direct_seconds(problem, device, accumulator);
}

Support single(const ConvProblem& problem, const DeviceInfo&) {
  return supports_dtypes({DType::f32, DType::f16, DType::bf16}, problem);
}

Support wide(const ConvProblem& problem, const DeviceInfo&) {
  return supports_dtypes({DType::f64, DType::f32}, problem);
}

}  // namespace

extern const ConvAlgorithm direct_fp32{
    .name = "cuda.conv.direct.fp32",
    .numerics = {.operand = Operand::fp32,
                 .accumulator = Accumulator::fp32_fma,
                 .reproducible = true,
                 .invariant = true},
    .takes_depth = true,
    .takes_boundaries = true,
    .accumulates = true,
    .plan = plan_of_parts<single, estimate<Accumulator::fp32_fma>>,
    .launch = without_plan<launch<float, float, __half, __nv_bfloat16>>,
};

extern const ConvAlgorithm direct_fp64{
    .name = "cuda.conv.direct.fp64",
    .numerics = {.operand = Operand::fp64,
                 .accumulator = Accumulator::fp64_fma,
                 .reproducible = true,
                 .invariant = true},
    .takes_depth = true,
    .takes_boundaries = true,
    .accumulates = true,
    .plan = plan_of_parts<wide, estimate<Accumulator::fp64_fma>>,
    .launch = without_plan<launch<double, double, float>>,
};

}  // namespace plumb::cuda
