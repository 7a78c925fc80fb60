// Implicit GEMM on tensor cores reuses its indices: a thread loads along a row of the unrolled
// input, so that one term's channel and tap serve eight elements, and the places of the pixels are
// worked out once for all terms.
//
// Tiling: a block of 256 threads makes `tile` filters by 128 pixels through steps of 16 terms, in
//   FP16 with fp32 sums; each warp makes all filters by 16 pixels. Double buffering loads the
//   elements of the next step while a step is multiplied.
// Bytes: y is written once; x is read R S K/(G tile) times, mostly from L1, and w N P Q/128 times
//   from L2.
// Wins: it wins over tensor_core.cu, which divides twice for every element that it unrolls.
// Measured (one H200, fp32 tensors, N=10,000; ms on ece408_l1 / l2, eecs471_l1 / l2):
//   16_filters 5.17 / 2.37 / 3.61 / 7.33
//   32_filters 5.83 / 2.72 / 4.07 / 4.59
#include "cuda_kernels/conv/batch_slices.hpp"
#include "cuda_kernels/conv/direct_sum.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/cost/ladder.hpp"
#include "cuda_kernels/fma/unrolled.cuh"
#include "cuda_kernels/primitives/mma.cuh"

namespace plumb::cuda {
namespace {

constexpr int threads = 256, block_pixels = 128, values_per_thread = 8;
constexpr int x_pitch = block_pixels + 8;  // puts the rows of ldmatrix four banks apart

/// What a thread keeps of the eight pixels that it loads, which are pairs of neighbours 32 apart.
template <bool padded>
struct LoadedPixels {
  int offset[values_per_thread];
  int first_h[padded ? values_per_thread : 1], first_w[padded ? values_per_thread : 1];

  __device__ LoadedPixels(const ConvShape<int>& shape, int first, int pixels) {
#pragma unroll
    for (int i = 0; i < values_per_thread; ++i) {
      const int column = first + i / 2 * 32 + i % 2;
      const Pixel<int> pixel(shape, column < pixels ? column : 0);
      offset[i] = pixel.n * shape.x_step.n + pixel.first_h * shape.x_step.h +
                  pixel.first_w * shape.x_step.w;
      if constexpr (padded) first_h[i] = pixel.first_h, first_w[i] = pixel.first_w;
    }
  }

  /// Loads the elements that meet `term`.
  template <class Stored>
  __device__ void load(const ConvShape<int>& shape, const Stored* x_group, int term,
                       Stored (&values)[values_per_thread]) const {
    const auto [filter_rows, s] = shape.s.divide(term);
    const auto [c, r] = shape.r.divide(filter_rows);
    const int down = r * shape.dilation_h.value(), across = s * shape.dilation_w.value();
    const Stored* const from =
        x_group + c * shape.x_step.c + down * shape.x_step.h + across * shape.x_step.w;
#pragma unroll
    for (int i = 0; i < values_per_thread; ++i) {
      bool valid = term < shape.terms;
      if constexpr (padded) {
        const int h = first_h[i] + down, w = first_w[i] + across;
        valid = valid && h >= 0 && h < shape.h && w >= 0 && w < shape.w;
      }
      values[i] = valid ? from[offset[i]] : Stored(0.0f);
    }
  }
};

template <int tile, bool padded, class Stored>
__global__ void __launch_bounds__(threads)
    index_reuse(const __grid_constant__ ConvShape<int> shape, const Stored* x, const Stored* w,
                Stored* y, const __grid_constant__ Epilogue<Stored> epilogue, int pixels,
                Divisor<int> filter_tiles, Divisor<int> groups, std::int64_t tiles) {
  constexpr int filters_per_thread = tile * step_terms / threads;
  __shared__ TermTile<Fp16Product, tile> w_tiles[2];
  alignas(16) __shared__ __half x_tiles[2][step_terms][x_pitch];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  // Half a warp loads a row. The other half loads the row four further on, which is sixteen banks
  // away.
  const int x_row = warp % 4 + warp / 4 * 8 + lane / 16 * 4;
  const int x_column = lane % 16 * 2;
  const int warp_pixel = warp * 16;

  for (std::int64_t number = blockIdx.x; number < tiles; number += gridDim.x) {
    const auto [rest, filter_tile] = filter_tiles.divide(static_cast<int>(number));
    const auto [pixel_tile, group] = groups.divide(rest);
    const int first_k = filter_tile * tile, first_pixel = pixel_tile * block_pixels;
    const Stored* const x_group = x + group * shape.group_c * shape.x_step.c;
    const Stored* const w_group = w + group * shape.group_k.value() * shape.w_step.k;
    const LoadedPixels<padded> columns(shape, first_pixel + x_column, pixels);

    Stored x_values[values_per_thread], w_values[filters_per_thread];
    const auto load = [&](int first) {
      columns.load(shape, x_group, first + x_row, x_values);
      const int term = first + thread % step_terms;
      const int offset = term < shape.terms ? filter_offset(shape, term) : 0;
#pragma unroll
      for (int i = 0; i < filters_per_thread; ++i) {
        const int k = first_k + thread / step_terms + i * (threads / step_terms);
        const bool valid = k < shape.group_k.value() && term < shape.terms;
        w_values[i] = valid ? w_group[k * shape.w_step.k + offset] : Stored(0.0f);
      }
    };
    const auto leave_in = [&](int buffer) {
#pragma unroll
      for (int i = 0; i < values_per_thread; i += 2)
        *reinterpret_cast<__half2*>(&x_tiles[buffer][x_row][x_column + i * 16]) =
            __halves2half2(convert<__half>(x_values[i]), convert<__half>(x_values[i + 1]));
#pragma unroll
      for (int i = 0; i < filters_per_thread; ++i)
        w_tiles[buffer].at[thread / step_terms + i * (threads / step_terms)][thread % step_terms] =
            convert<__half>(w_values[i]);
    };

    float sums[tile / 16][2][4] = {};
    load(0);
    int buffer = 0;
    for (int first = 0; first < shape.terms; first += step_terms, buffer ^= 1) {
      leave_in(buffer);
      __syncthreads();
      if (first + step_terms < shape.terms) load(first + step_terms);
      Fragment b[4];
      load_transposed(b, &x_tiles[buffer][lane % 16][warp_pixel + lane / 16 * 8]);
#pragma unroll
      for (int sixteen = 0; sixteen < tile / 16; ++sixteen) {
        const int filter = sixteen * 16 + lane / 4, term = lane % 4 * 2;
        const auto& from = w_tiles[buffer];
        const Fragment a[4] = {from.fragment(filter, term), from.fragment(filter + 8, term),
                               from.fragment(filter, term + 8),
                               from.fragment(filter + 8, term + 8)};
        mma_fp16(sums[sixteen][0], a, {b[0], b[1]});
        mma_fp16(sums[sixteen][1], a, {b[2], b[3]});
      }
    }
    __syncthreads();  // the next tile's first step may take the buffer that was read last

    bool not_a_number = false;
    const auto column = [&](int i) {
      return first_pixel + warp_pixel + i / 2 * 8 + lane % 4 * 2 + i % 2;
    };
    const auto k_of_group = [&](int eight) { return first_k + eight * 8 + lane / 4; };
    const int first_k_of_group = group * shape.group_k.value();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (column(i) >= pixels) break;
      const Pixel<int> out(shape, column(i));
      const int to = out.n * shape.y_step.n + out.p * shape.y_step.h + out.q * shape.y_step.w +
                     first_k_of_group * shape.y_step.c;
#pragma unroll
      for (int eight = 0; eight < tile / 8; ++eight) {
        const float sum = sums[eight / 2][i / 2][eight % 2 * 2 + i % 2];
        const int k = k_of_group(eight);
        not_a_number = not_a_number || sum != sum;
        if (k < shape.group_k.value())
          y[to + k * shape.y_step.c] = epilogue(sum, first_k_of_group + k);
      }
    }
    // The padding met the filters as zeros, and 0 * Inf is NaN. A NaN that comes from the data
    // comes out again.
    if constexpr (padded)
      for (int i = 0; not_a_number && i < 4 && column(i) < pixels; ++i) {
        const Pixel<int> out(shape, column(i));
        for (int eight = 0; eight < tile / 8; ++eight)
          if (k_of_group(eight) < shape.group_k.value())
            do_over(shape, x, w, y, epilogue, out.n, first_k_of_group + k_of_group(eight), out.p,
                    out.q);
      }
  }
}

template <int tile>
void launch(const ConvLaunch& whole) {
  for_each_slice(whole, [](const ConvLaunch& call) {
    const ConvProblem& problem = call.problem;
    const TileCounts tiles(problem, tile, block_pixels);
    with_stored<float, __half>(problem.dtype, [&]<class S>(S) {
      const bool padded = problem.padding != Padding{};
      Launch(call.native_queue, blocks_for(tiles.all(), 1), threads)(
          padded ? index_reuse<tile, true, S> : index_reuse<tile, false, S>,
          ConvShape<int>(problem), static_cast<const S*>(call.x), static_cast<const S*>(call.w),
          static_cast<S*>(call.y), Epilogue<S>(call),
          static_cast<int>(problem.n * problem.p() * problem.q()), Divisor<int>(tiles.filters),
          Divisor<int>(tiles.groups), tiles.all());
    });
  });
}

template <int tile>
double estimate(const ConvProblem& problem, const DeviceInfo& device) {
  return index_reuse_seconds(
      problem, device, {tile, threads, step_terms, TileCounts(problem, tile, block_pixels).all()});
}

Support supports(const ConvProblem& problem, const DeviceInfo&) {
  return supports_dtypes_in_slices({DType::f32, DType::f16}, problem);
}

template <int tile>
constexpr ConvAlgorithm entry(std::string_view name) {
  return {
      .name = name,
      .numerics = {.operand = Operand::fp16,
                   .accumulator = Accumulator::tensor_core_fp32,
                   .term_multiple = step_terms},
      .plan = plan_of_parts<supports, estimate<tile>>,
      .launch = without_plan<launch<tile>>,
  };
}

}  // namespace

extern const ConvAlgorithm index_reuse_fp16_16 = entry<16>("cuda.conv.index_reuse.fp16.16_filters");
extern const ConvAlgorithm index_reuse_fp16_32 = entry<32>("cuda.conv.index_reuse.fp16.32_filters");

}  // namespace plumb::cuda
