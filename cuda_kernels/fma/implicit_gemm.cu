// Implicit GEMM: the convolution as the product of the filters, a matrix of K/G rows and C/G R S
// columns, and the unrolled input, C/G R S rows and N P Q columns, for each group. The unrolled
// input is never written: each block unrolls into shared memory the tile that it is about to use.
//
// Tiling: a block of `tile` x `tile` threads makes that many outputs, one a thread: `tile` filters
//   by `tile` pixels, through steps of `tile` terms. At each step a thread loads one element of
//   either matrix to shared memory and does `tile` FMAs from there.
// Bytes: y is written once; x is read R S K/(G tile) times and w N P Q/tile times, mostly from L2,
//   since blocks that share pixels have neighbouring numbers, and the terms of neighbouring pixels
//   overlap.
// Wins: it wins over the direct kernel once the filters of a group fill a tile and the terms a few.
// Measured (one H200, fp32 tensors, N=10,000; ms on ece408_l1 / l2, eecs471_l1 / l2):
//   8x8 13 / 14.1 / 17.8 / 38
//   16x16 19.2 / 11 / 13.3 / 38.3
//   32x32 52.4 / 28.1 / 35.9 / 47.1
#include "cuda_kernels/conv/direct_sum.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/cost/fma.hpp"
#include "cuda_kernels/fma/unrolled.cuh"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

/// The number of blocks that a multiprocessor shall hold at once: as many as registers allow
/// without spilling. 0 leaves it to the compiler, for blocks so small that not every chip holds as
/// many.
template <int tile, class Accumulate, class Index>
inline constexpr int resident_blocks = [] {
  if (sizeof(Index) == 8) return 1;
  const int blocks = (sizeof(Accumulate) == 8 ? 1280 : 1536) / (tile * tile);
  return blocks > 16 ? 0 : std::max(blocks, 1);
}();

template <int tile, class Accumulate, class Stored, class Index>
__global__ void __launch_bounds__(tile* tile, resident_blocks<tile, Accumulate, Index>)
    implicit_gemm(const __grid_constant__ ConvShape<Index> shape, const Stored* x, const Stored* w,
                  Stored* y, const __grid_constant__ Epilogue<Stored> epilogue, Index pixels,
                  Divisor<Index> filter_tiles, Divisor<Index> groups, std::int64_t tiles) {
  // The arrays are aligned to 16 bytes so that four neighbouring terms of a filter come with one
  // load.
  alignas(16) __shared__ Accumulate w_tile[tile][tile];  // [filter][term]
  alignas(16) __shared__ Accumulate x_tile[tile][tile];  // [term][pixel]
  const Index row = static_cast<Index>(threadIdx.y), column = static_cast<Index>(threadIdx.x);

  for (std::int64_t number = blockIdx.x; number < tiles; number += gridDim.x) {
    const auto [rest, filter_tile] = filter_tiles.divide(static_cast<Index>(number));
    const auto [pixel_tile, group] = groups.divide(rest);
    const Index k_of_group = filter_tile * tile + row;
    const Index pixel_number = pixel_tile * tile + column;
    const bool has_filter = k_of_group < shape.group_k.value();
    const bool has_pixel = pixel_number < pixels;
    // Threads beyond the edge stand in for the first filter or pixel; their results are dropped.
    const Index k = group * shape.group_k.value() + (has_filter ? k_of_group : 0);
    const Pixel<Index> pixel(shape, has_pixel ? pixel_number : 0);
    const Stored* image = x + pixel.n * shape.x_step.n + group * shape.group_c * shape.x_step.c;
    const Stored* filter = w + k * shape.w_step.k;

    Accumulate sum = 0;
    for (Index first = 0; first < shape.terms; first += tile) {
      const Index w_term = first + column, x_term = first + row;
      w_tile[row][column] = w_term < shape.terms
                                ? convert<Accumulate>(filter[filter_offset(shape, w_term)])
                                : Accumulate{0};
      x_tile[row][column] =
          x_term < shape.terms ? unrolled<Accumulate>(shape, image, pixel, x_term) : Accumulate{0};
      __syncthreads();
#pragma unroll
      for (int term = 0; term < tile; ++term)
        sum = fma(w_tile[row][term], x_tile[term][column], sum);
      __syncthreads();
    }

    if (has_filter && has_pixel) {
      // A tap in the padding contributes nothing, but in the product above it met the filter as a
      // zero, and 0 * Inf is NaN. A NaN never leaves a sum again, so a sum that is a number met
      // none, and the loop need not look. A sum that is NaN, which is rare, is computed once more
      // without the padding, which keeps a NaN that came from the data.
      if (shape.padded && sum != sum)
        sum = direct_sum<Accumulate>(shape, image, filter, pixel.first_h, pixel.first_w);
      y[pixel.n * shape.y_step.n + k * shape.y_step.c + pixel.p * shape.y_step.h +
        pixel.q * shape.y_step.w] = epilogue(sum, k);
    }
  }
}

template <int tile, class Accumulate, class... Stored>
void launch(const ConvLaunch& call) {
  launch_product<tile, Stored...>(call, dim3(tile, tile), []<class S, class Index>(S, Index) {
    return implicit_gemm<tile, Accumulate, S, Index>;
  });
}

template <int tile, Accumulator accumulator>
double estimate(const ConvProblem& problem, const DeviceInfo& device) {
  return implicit_gemm_seconds(problem, device, accumulator,
                               {tile, TileCounts(problem, tile).all()});
}

Support single(const ConvProblem& problem, const DeviceInfo&) {
  return supports_dtypes({DType::f32, DType::f16, DType::bf16}, problem);
}

Support wide(const ConvProblem& problem, const DeviceInfo&) {
  return supports_dtypes({DType::f64, DType::f32}, problem);
}

/// Zeros fill up a tile's terms, and adding zero rounds nothing: numerics are those of the plain
/// sum.
template <int tile>
constexpr ConvAlgorithm single_entry(std::string_view name) {
  return {
      .name = name,
      .numerics = {.operand = Operand::fp32,
                   .accumulator = Accumulator::fp32_fma,
                   .reproducible = true,
                   .invariant = true},
      .plan = plan_of_parts<single, estimate<tile, Accumulator::fp32_fma>>,
      .launch = without_plan<launch<tile, float, float, __half, __nv_bfloat16>>,
  };
}

template <int tile>
constexpr ConvAlgorithm wide_entry(std::string_view name) {
  return {
      .name = name,
      .numerics = {.operand = Operand::fp64,
                   .accumulator = Accumulator::fp64_fma,
                   .reproducible = true,
                   .invariant = true},
      .plan = plan_of_parts<wide, estimate<tile, Accumulator::fp64_fma>>,
      .launch = without_plan<launch<tile, double, double, float>>,
  };
}

}  // namespace

extern const ConvAlgorithm implicit_gemm_fp32_8x8 =
    single_entry<8>("cuda.conv.implicit_gemm.fp32.8x8");
extern const ConvAlgorithm implicit_gemm_fp32_16x16 =
    single_entry<16>("cuda.conv.implicit_gemm.fp32.16x16");
extern const ConvAlgorithm implicit_gemm_fp32_32x32 =
    single_entry<32>("cuda.conv.implicit_gemm.fp32.32x32");
extern const ConvAlgorithm implicit_gemm_fp64_16x16 =
    wide_entry<16>("cuda.conv.implicit_gemm.fp64.16x16");

}  // namespace plumb::cuda
