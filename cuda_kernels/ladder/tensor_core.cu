// Implicit GEMM on tensor cores: the filters times the unrolled input, as in implicit_gemm.cu,
// with the products of a warp done by matrix instructions in TF32 or FP16 that sum in fp32.
//
// Tiling: a block makes `tile` filters by `tile` pixels through steps of 16 terms; each of its
//   warps makes 16 by 16 of them, two fragments of 16x8. At each step a thread finds the place of
//   each element it loads, rounds it, and leaves it in shared memory, where the terms of a filter
//   or pixel lie side by side as fragments want them.
// Bytes: the bytes are those of implicit_gemm.cu.
// Wins: it wins over implicit_gemm.cu, whose time goes to FMAs and their operands. What is left is
//   the index arithmetic of each element, which index_reuse.cu does away with.
// Measured (one H200, fp32 tensors, N=10,000; ms on ece408_l1 / l2, eecs471_l1 / l2):
//   tf32.16x16 11.5 / 7.2 / 8.65 / 24.5
//   tf32.32x32 17.3 / 8.52 / 11.9 / 14.5
//   fp16.16x16 10.7 / 6.71 / 8.06 / 22.4
//   fp16.32x32 15.6 / 7.82 / 10.8 / 13.5
#include "cuda_kernels/conv/direct_sum.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/cost/ladder.hpp"
#include "cuda_kernels/fma/unrolled.cuh"
#include "cuda_kernels/primitives/mma.cuh"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

template <class Product, int tile, class Stored, class Index>
__global__ void __launch_bounds__(tile* tile / 8)
    tensor_core(const __grid_constant__ ConvShape<Index> shape, const Stored* x, const Stored* w,
                Stored* y, const __grid_constant__ Epilogue<Stored> epilogue, Index pixels,
                Divisor<Index> filter_tiles, Divisor<Index> groups, std::int64_t tiles) {
  constexpr int threads = tile * tile / 8;
  constexpr int per_register = static_cast<int>(4 / sizeof(typename Product::Element));
  __shared__ TermTile<Product, tile> w_tile, x_tile;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int row_of_lane = lane / 4, term_of_lane = lane % 4 * per_register;
  const int warp_filter = warp / (tile / 16) * 16, warp_pixel = warp % (tile / 16) * 16;

  for (std::int64_t number = blockIdx.x; number < tiles; number += gridDim.x) {
    const auto [rest, filter_tile] = filter_tiles.divide(static_cast<Index>(number));
    const auto [pixel_tile, group] = groups.divide(rest);
    const Index first_k = filter_tile * tile, first_pixel = pixel_tile * tile;
    const Stored* const x_group = x + group * shape.group_c * shape.x_step.c;
    const Stored* const w_group = w + group * shape.group_k.value() * shape.w_step.k;

    // A thread loads elements of this pixel and of this filter; `tile` divides the threads.
    const Index own_pixel = first_pixel + thread % tile, own_k = first_k + thread / step_terms;
    const Pixel<Index> pixel(shape, own_pixel < pixels ? own_pixel : 0);
    const Stored* const image = x_group + pixel.n * shape.x_step.n;

    float sums[2][4] = {};
    for (Index first = 0; first < shape.terms; first += step_terms) {
#pragma unroll
      for (int row = thread / tile; row < step_terms; row += threads / tile) {
        const Index term = first + row;
        const float value = term < shape.terms ? unrolled<float>(shape, image, pixel, term) : 0.0f;
        x_tile.at[thread % tile][row] = Product::element(value);
      }
      const Index term = first + thread % step_terms;
#pragma unroll
      for (int row = 0; row < tile; row += threads / step_terms) {
        const Index k = own_k + row;
        const bool valid = k < shape.group_k.value() && term < shape.terms;
        const float value =
            valid ? convert<float>(w_group[k * shape.w_step.k + filter_offset(shape, term)]) : 0.0f;
        w_tile.at[thread / step_terms + row][thread % step_terms] = Product::element(value);
      }
      __syncthreads();
#pragma unroll
      for (int step = 0; step < step_terms; step += Product::terms) {
        const int low = step + term_of_lane, high = low + Product::terms / 2;
        const int filter = warp_filter + row_of_lane;
        const Fragment a[4] = {w_tile.fragment(filter, low), w_tile.fragment(filter + 8, low),
                               w_tile.fragment(filter, high), w_tile.fragment(filter + 8, high)};
#pragma unroll
        for (int eight = 0; eight < 2; ++eight) {
          const int column = warp_pixel + eight * 8 + row_of_lane;
          const Fragment b[2] = {x_tile.fragment(column, low), x_tile.fragment(column, high)};
          Product::step(sums[eight], a, b);
        }
      }
      __syncthreads();
    }

#pragma unroll
    for (int eight = 0; eight < 2; ++eight)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Index column = first_pixel + warp_pixel + eight * 8 + lane % 4 * 2 + i;
        if (column >= pixels) continue;
        const Pixel<Index> out(shape, column);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const Index k_of_group = first_k + warp_filter + row_of_lane + half * 8;
          if (k_of_group >= shape.group_k.value()) continue;
          float sum = sums[eight][half * 2 + i];
          // The padding met the filter as zeros, and 0 * Inf is NaN: see implicit_gemm.cu.
          if (shape.padded && sum != sum)
            sum =
                direct_sum<float>(shape, x_group + out.n * shape.x_step.n,
                                  w_group + k_of_group * shape.w_step.k, out.first_h, out.first_w);
          const Index k = group * shape.group_k.value() + k_of_group;
          y[out.n * shape.y_step.n + k * shape.y_step.c + out.p * shape.y_step.h +
            out.q * shape.y_step.w] = epilogue(sum, k);
        }
      }
  }
}

template <class Product, int tile, class... Stored>
void launch(const ConvLaunch& call) {
  launch_product<tile, Stored...>(call, tile * tile / 8, []<class S, class Index>(S, Index) {
    return tensor_core<Product, tile, S, Index>;
  });
}

template <int tile>
double estimate(const ConvProblem& problem, const DeviceInfo& device) {
  return tensor_core_seconds(problem, device, {tile, step_terms, TileCounts(problem, tile).all()});
}

Support single(const ConvProblem& problem, const DeviceInfo&) {
  return supports_dtypes({DType::f32, DType::f16, DType::bf16}, problem);
}
Support half(const ConvProblem& problem, const DeviceInfo&) {
  return supports_dtypes({DType::f32, DType::f16}, problem);
}

template <int tile>
constexpr ConvAlgorithm tf32_entry(std::string_view name) {
  return {
      .name = name,
      .numerics = {.operand = Operand::tf32_rounded,
                   .accumulator = Accumulator::tensor_core_fp32,
                   .term_multiple = step_terms},
      .plan = plan_of_parts<single, estimate<tile>>,
      .launch = without_plan<launch<Tf32Product, tile, float, __half, __nv_bfloat16>>,
  };
}

template <int tile>
constexpr ConvAlgorithm fp16_entry(std::string_view name) {
  return {
      .name = name,
      .numerics = {.operand = Operand::fp16,
                   .accumulator = Accumulator::tensor_core_fp32,
                   .term_multiple = step_terms},
      .plan = plan_of_parts<half, estimate<tile>>,
      .launch = without_plan<launch<Fp16Product, tile, float, __half>>,
  };
}

}  // namespace

extern const ConvAlgorithm tensor_core_tf32_16x16 =
    tf32_entry<16>("cuda.conv.tensor_core.tf32.16x16");
extern const ConvAlgorithm tensor_core_tf32_32x32 =
    tf32_entry<32>("cuda.conv.tensor_core.tf32.32x32");
extern const ConvAlgorithm tensor_core_fp16_16x16 =
    fp16_entry<16>("cuda.conv.tensor_core.fp16.16x16");
extern const ConvAlgorithm tensor_core_fp16_32x32 =
    fp16_entry<32>("cuda.conv.tensor_core.fp16.32x32");

}  // namespace plumb::cuda
