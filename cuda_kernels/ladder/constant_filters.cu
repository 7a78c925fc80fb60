// Direct convolution with the filters in constant memory: y[n,k,p,q] is one thread's sum over c,
// r, s, as in direct.cu, but each tap of the filter comes from the constant bank.
//
// Tiling: there is none. A block is 256 consecutive outputs in the order N K P Q; the filters are
//   copied to the bank before each launch.
// Bytes: at best x and y move once from or to memory, and w twice. A term is one load of x, which
//   L1 and L2 answer, and one read of the constant cache, which gives a warp one address in a
//   clock: a warp that spans two filters reads twice.
// Wins: it wins over direct where loads are the limit, as it halves them. It runs only when forced:
//   the filters must fit 64 KB, and launches on several streams take turns where their filters
//   together do not.
// Measured (one H200, fp32 tensors, N=10,000; ms on ece408_l1 / l2, eecs471_l1 / l2):
//   8.45 / 20.9 / 17.2 / 57.1
#include "cuda_kernels/conv/batch_slices.hpp"
#include "cuda_kernels/conv/direct_sum.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/conv/pack_filters.hpp"
#include "cuda_kernels/cost/ladder.hpp"
#include "cuda_kernels/ladder/constant_bank.hpp"
#include "cuda_kernels/primitives/elements.cuh"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

__constant__ float filter_bank[ConstantBank::capacity];

ConstantBank& bank() {
  static ConstantBank& bank = *new ConstantBank(filter_bank);
  return bank;
}

__global__ void __launch_bounds__(block_threads)
    constant_filters(const __grid_constant__ ConvShape<int> shape, const float* x, int first_filter,
                     float* y, const __grid_constant__ Epilogue<float> epilogue,
                     std::int64_t outputs) {
  for_each_element<block_threads>(
      outputs, shape.k, shape.p, shape.q, [&](int n, int k, int p, int q) {
        const int group = shape.group_k.quotient(k);
        const float sum = direct_sum<float>(
            shape, x + n * shape.x_step.n + group * shape.group_c * shape.x_step.c,
            filter_bank + first_filter + k * shape.terms, p * shape.stride_h - shape.top,
            q * shape.stride_w - shape.left);
        y[n * shape.y_step.n + k * shape.y_step.c + p * shape.y_step.h + q * shape.y_step.w] =
            epilogue(sum, k);
      });
}

void launch(const ConvLaunch& call) {
  const ConstantBank::Lease filters(bank(), call);
  for_each_slice(call, [&](const ConvLaunch& part) {
    const std::int64_t outputs = element_count(part.problem.y_extents());
    Launch(part.native_queue, blocks_for(outputs, block_threads), block_threads)(
        constant_filters, ConvShape<int>(with_packed_filters(part.problem)),
        static_cast<const float*>(part.x), filters.first(), static_cast<float*>(part.y),
        Epilogue<float>(part), outputs);
  });
}

Support supports(const ConvProblem& problem, const DeviceInfo&) {
  if (const Support stored = supports_dtypes({DType::f32}, problem); !stored) return stored;
  if (const Support held = ConstantBank::holds(problem); !held) return held;
  return fits_in_slices(problem);
}

}  // namespace

extern const ConvAlgorithm constant_filters_fp32{
    .name = "cuda.conv.constant_filters.fp32",
    .numerics = {.operand = Operand::fp32, .accumulator = Accumulator::fp32_fma},
    .forced_only = true,
    .capturable = false,
    .plan = plan_of_parts<supports, constant_filters_seconds, nullptr, ConstantBank::filter_bytes>,
    .pack_filters = pack_without_plan<pack_filters>,
    .launch = without_plan<launch>,
};

}  // namespace plumb::cuda
