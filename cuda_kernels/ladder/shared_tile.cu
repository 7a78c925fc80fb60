// Direct convolution works from shared memory: a block makes a square tile of outputs of one image
// and filter. Channel by channel, its threads load the input under the tile and the filter's taps
// to shared memory, once, and then each sums its own output from there.
//
// Tiling: a block is `tile` x `tile` threads and outputs; it loads (tile - 1) stride + (R - 1)
//   dilation + 1 rows of input, and with S as many columns. In the variants `padded` the rows in
//   shared memory are of odd length, so that lanes of a warp which lie in different rows begin in
//   different banks.
// Bytes: y is written once; x is read ((tile - 1) stride + R)^2 / (tile stride)^2 times for each of
//   the K/G filters of a group, from L2 beyond the first; w is read once for each tile. A term is
//   two reads of shared memory, one of them the same word for the whole warp.
// Wins: it wins over direct only where L1 does not do the same by itself: a term is as many reads
//   as in direct, and a block waits for its tile. The padding moves a warp's rows of lanes against
//   each other: the rows of a tile of 8 or 16 overlap in the banks either way, and a warp of a tile
//   of 32 has only one row.
// Measured (one H200, fp32 tensors, N=10,000; ms on ece408_l1 / l2, eecs471_l1 / l2):
//   8x8 7.51 / 25.1 / 18 / 70.2
//   16x16 7.47 / 30.5 / 20.4 / 65.3
//   32x32 12 / 67.7 / 34.4 / 85.8
//   16x16.padded 7.48 / 30.6 / 20.4 / 65.4
#include "cuda_kernels/conv/batch_slices.hpp"
#include "cuda_kernels/conv/direct_sum.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/cost/ladder.hpp"
#include "cuda_kernels/ladder/input_tile.cuh"
#include "cuda_kernels/primitives/elements.cuh"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

template <int tile>
__global__ void __launch_bounds__(tile* tile)
    shared_tile(const __grid_constant__ ConvShape<int> shape,
                const __grid_constant__ InputTile input, const float* x, const float* w, float* y,
                const __grid_constant__ Epilogue<float> epilogue, Divisor<int> tiles_down,
                Divisor<int> tiles_across, std::int64_t tiles) {
  extern __shared__ float x_tile[];
  float* const w_tile = x_tile + input.size;
  const int row = static_cast<int>(threadIdx.y), column = static_cast<int>(threadIdx.x);
  const float* const x_first =
      x_tile + row * shape.stride_h * input.pitch + column * shape.stride_w;

  for_each_tile(tiles, shape.k, tiles_down, tiles_across, [&](int n, int k, int down, int across) {
    const int group = shape.group_k.quotient(k);
    const float* image = x + n * shape.x_step.n + group * shape.group_c * shape.x_step.c;
    const float* filter = w + k * shape.w_step.k;
    const int tile_h = down * tile * shape.stride_h - shape.top;
    const int tile_w = across * tile * shape.stride_w - shape.left;
    const int p = down * tile + row, q = across * tile + column;
    const bool has_output = p < shape.p.value() && q < shape.q.value();

    float sum = 0;
    for (int c = 0; c < shape.group_c; ++c) {
      load_input<tile>(shape, input, image + c * shape.x_step.c, tile_h, tile_w, x_tile);
      for (int tap = row * tile + column; tap < shape.r.value() * shape.s.value();
           tap += tile * tile) {
        const auto [r, s] = shape.s.divide(tap);
        w_tile[tap] = filter[c * shape.w_step.c + r * shape.w_step.r + s * shape.w_step.s];
      }
      __syncthreads();
      if (has_output) sum = add_channel<any_taps>(sum, shape, input.pitch, x_first, w_tile);
      __syncthreads();
    }

    if (has_output) {
      // The filter met a zero in the padding, and 0 * Inf is NaN: such sums are computed again
      // without the padding, which keeps a NaN that came from the data.
      if (shape.padded && sum != sum)
        sum = direct_sum<float>(shape, image, filter, p * shape.stride_h - shape.top,
                                q * shape.stride_w - shape.left);
      y[n * shape.y_step.n + k * shape.y_step.c + p * shape.y_step.h + q * shape.y_step.w] =
          epilogue(sum, k);
    }
  });
}

enum class Rows { dense, padded };

template <int tile, Rows rows>
constexpr SharedTile shared{.tile = tile, .odd_pitch = rows == Rows::padded, .filter = true};

template <int tile, Rows rows>
void launch(const ConvLaunch& call) {
  const auto bytes = static_cast<std::size_t>(shared_bytes(call.problem, shared<tile, rows>));
  for_each_slice(call, [&](const ConvLaunch& part) {
    const OutputTiles tiles(part.problem, tile);
    Launch(part.native_queue, blocks_for(tiles.all, 1), dim3(tile, tile), bytes)(
        shared_tile<tile>, ConvShape<int>(part.problem),
        input_tile(part.problem, shared<tile, rows>), static_cast<const float*>(part.x),
        static_cast<const float*>(part.w), static_cast<float*>(part.y), Epilogue<float>(part),
        Divisor<int>(tiles.down), Divisor<int>(tiles.across), tiles.all);
  });
}

template <int tile, Rows rows>
Support supports(const ConvProblem& problem, const DeviceInfo& device) {
  if (const Support stored = supports_dtypes({DType::f32}, problem); !stored) return stored;
  return fits_shared_tile(problem, device, shared<tile, rows>);
}

template <int tile>
double estimate(const ConvProblem& problem, const DeviceInfo& device) {
  return shared_tile_seconds(problem, device, issued_flop(problem, tile));
}

template <int tile, Rows rows>
constexpr ConvAlgorithm entry(std::string_view name) {
  return {
      .name = name,
      .numerics = {.operand = Operand::fp32, .accumulator = Accumulator::fp32_fma},
      .plan = plan_of_parts<supports<tile, rows>, estimate<tile>>,
      .launch = without_plan<launch<tile, rows>>,
  };
}

}  // namespace

extern const ConvAlgorithm shared_tile_fp32_8x8 =
    entry<8, Rows::dense>("cuda.conv.shared_tile.fp32.8x8");
extern const ConvAlgorithm shared_tile_fp32_16x16 =
    entry<16, Rows::dense>("cuda.conv.shared_tile.fp32.16x16");
extern const ConvAlgorithm shared_tile_fp32_32x32 =
    entry<32, Rows::dense>("cuda.conv.shared_tile.fp32.32x32");
extern const ConvAlgorithm shared_tile_fp32_8x8_padded =
    entry<8, Rows::padded>("cuda.conv.shared_tile.fp32.8x8.padded");
extern const ConvAlgorithm shared_tile_fp32_16x16_padded =
    entry<16, Rows::padded>("cuda.conv.shared_tile.fp32.16x16.padded");
extern const ConvAlgorithm shared_tile_fp32_32x32_padded =
    entry<32, Rows::padded>("cuda.conv.shared_tile.fp32.32x32.padded");

}  // namespace plumb::cuda
