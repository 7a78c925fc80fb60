// Direct convolution: y[n,k,p,q] is one thread's sum over c, r, s, straight from the definition.
//
// Tiling: there is none. A block is 256 consecutive outputs in the order N K P Q; neighbouring
//   threads are neighbouring pixels, so that in NCHW a warp reads x in runs and all of it the same
//   tap of w.
// Bytes: at best x, w and y move once from or to memory. Every term is two loads, which L1 and L2
//   answer where the image rows and filters in flight fit there.
// Wins: it wins with few channels, few filters and depthwise groups, where a matrix tile would
//   idle.
// Measured (one H200, fp32 tensors, N=10,000; ms on ece408_l1 / l2, eecs471_l1 / l2):
//   fp32 9.36 / 23.8 / 19.1 / 65.4
//   fp64 10.9 / 28.1 / 22.3 / 77.7
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
        y[n * shape.y_step.n + k * shape.y_step.c + p * shape.y_step.h + q * shape.y_step.w] =
            epilogue(sum, k);
      });
}

template <class Accumulate, class... Stored>
void launch(const ConvLaunch& call) {
  const std::int64_t outputs = element_count(call.problem.y_extents());
  with_stored<Stored...>(call.problem.dtype, [&]<class S>(S) {
    with_index(fits_32_bits(call.problem), [&]<class Index>(Index) {
      Launch(call.native_queue, blocks_for(outputs, block_threads), block_threads)(
          direct<Accumulate, S, Index>, ConvShape<Index>(call.problem),
          static_cast<const S*>(call.x), static_cast<const S*>(call.w), static_cast<S*>(call.y),
          Epilogue<S>(call), outputs);
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
    .numerics = {.operand = Operand::fp32, .accumulator = Accumulator::fp32_fma},
    .plan = plan_of_parts<single, estimate<Accumulator::fp32_fma>>,
    .launch = without_plan<launch<float, float, __half, __nv_bfloat16>>,
};

extern const ConvAlgorithm direct_fp64{
    .name = "cuda.conv.direct.fp64",
    .numerics = {.operand = Operand::fp64, .accumulator = Accumulator::fp64_fma},
    .plan = plan_of_parts<wide, estimate<Accumulator::fp64_fma>>,
    .launch = without_plan<launch<double, double, float>>,
};

}  // namespace plumb::cuda
