// Direct convolution with the input in shared memory and the filters in constant memory: a block
// makes a square tile of outputs of one image and filter, as in shared_tile.cu. Either all threads
// read the taps straight from the constant bank, or, in the variants `copied`, each channel's taps
// are copied from the bank to shared memory first.
//
// Tiling: a block is `tile` x `tile` threads and outputs. Filters of 7x7 without dilation have both
//   loops unrolled, others run in loops.
// Bytes: y is written once; x is read as in shared_tile.cu, and w twice, to fill the bank. Straight
//   from the bank, a term is one read of shared memory: all threads of a block want the same tap,
//   which the constant cache gives a warp in a clock. Copied, a term is two reads, and the copy
//   itself is slow, since there each lane wants another tap, and the cache gives one at a time.
// Wins: straight from the bank, it wins over shared_tile, as reads of shared memory are its limit.
//   It runs only when forced: the filters must fit 64 KB, and launches on several streams take
//   turns where their filters together do not.
// Measured (one H200, fp32 tensors, N=10,000; ms on ece408_l1 / l2, eecs471_l1 / l2):
//   8x8 4.34 / 26 / 13.9 / 84.1
//   16x16 4.56 / 17.2 / 12 / 45.5
//   8x8.copied 5.57 / 17.7 / 12.7 / 51.3
//   16x16.copied 6.27 / 22.6 / 15.8 / 53.2
#include "cuda_kernels/conv/batch_slices.hpp"
#include "cuda_kernels/conv/direct_sum.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/conv/pack_filters.hpp"
#include "cuda_kernels/cost/ladder.hpp"
#include "cuda_kernels/ladder/constant_bank.hpp"
#include "cuda_kernels/ladder/input_tile.cuh"
#include "cuda_kernels/primitives/elements.cuh"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

__constant__ float filter_bank[ConstantBank::capacity];

ConstantBank& bank() {
  static ConstantBank& bank = *new ConstantBank(filter_bank);
  return bank;
}

enum class Filters { straight, copied };

/// The number of blocks that a multiprocessor shall hold at once. With 0 the compiler decides; it
/// then goes for two blocks of 1,024 threads, and spills.
template <int tile>
constexpr int min_blocks = tile == 32 ? 1 : 0;

template <int tile, Filters filters, int taps>
__global__ void __launch_bounds__(tile* tile, min_blocks<tile>)
    shared_tile_constant(const __grid_constant__ ConvShape<int> shape,
                         const __grid_constant__ InputTile input, const float* x, int first_filter,
                         float* y, const __grid_constant__ Epilogue<float> epilogue,
                         Divisor<int> tiles_down, Divisor<int> tiles_across, std::int64_t tiles) {
  extern __shared__ float x_tile[];
  [[maybe_unused]] float* const w_tile = x_tile + input.size;
  const int row = static_cast<int>(threadIdx.y), column = static_cast<int>(threadIdx.x);
  const float* const x_first =
      x_tile + row * shape.stride_h * input.pitch + column * shape.stride_w;
  const int filter_taps = shape.r.value() * shape.s.value();

  for_each_tile(tiles, shape.k, tiles_down, tiles_across, [&](int n, int k, int down, int across) {
    const int group = shape.group_k.quotient(k);
    const float* image = x + n * shape.x_step.n + group * shape.group_c * shape.x_step.c;
    const float* const filter = filter_bank + first_filter + k * shape.terms;
    const int tile_h = down * tile * shape.stride_h - shape.top;
    const int tile_w = across * tile * shape.stride_w - shape.left;
    const int p = down * tile + row, q = across * tile + column;
    const bool has_output = p < shape.p.value() && q < shape.q.value();

    float sum = 0;
    for (int c = 0; c < shape.group_c; ++c) {
      load_input<tile>(shape, input, image + c * shape.x_step.c, tile_h, tile_w, x_tile);
      if constexpr (filters == Filters::copied)
        for (int tap = row * tile + column; tap < filter_taps; tap += tile * tile)
          w_tile[tap] = filter[c * filter_taps + tap];
      __syncthreads();
      if (has_output) {
        if constexpr (filters == Filters::copied)
          sum = add_channel<taps>(sum, shape, input.pitch, x_first, w_tile);
        else
          sum = add_channel<taps>(sum, shape, input.pitch, x_first, filter + c * filter_taps);
      }
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

template <int tile, Filters filters>
constexpr SharedTile shared{.tile = tile, .filter = filters == Filters::copied};

constexpr int unrolled_taps = 7;

bool is_unrolled(const ConvProblem& problem) {
  return problem.r == unrolled_taps && problem.s == unrolled_taps && problem.dilation == Pair{1, 1};
}

template <int tile, Filters filters>
void launch(const ConvLaunch& call) {
  const ConstantBank::Lease lease(bank(), call);
  const auto kernel = is_unrolled(call.problem) ? shared_tile_constant<tile, filters, unrolled_taps>
                                                : shared_tile_constant<tile, filters, any_taps>;
  const auto bytes = static_cast<std::size_t>(shared_bytes(call.problem, shared<tile, filters>));
  for_each_slice(call, [&](const ConvLaunch& part) {
    const OutputTiles tiles(part.problem, tile);
    Launch(part.native_queue, blocks_for(tiles.all, 1), dim3(tile, tile), bytes)(
        kernel, ConvShape<int>(with_packed_filters(part.problem)),
        input_tile(part.problem, shared<tile, filters>), static_cast<const float*>(part.x),
        lease.first(), static_cast<float*>(part.y), Epilogue<float>(part), Divisor<int>(tiles.down),
        Divisor<int>(tiles.across), tiles.all);
  });
}

template <int tile, Filters filters>
Support supports(const ConvProblem& problem, const DeviceInfo& device) {
  if (const Support stored = supports_dtypes({DType::f32}, problem); !stored) return stored;
  if (const Support held = ConstantBank::holds(problem); !held) return held;
  return fits_shared_tile(problem, device, shared<tile, filters>);
}

template <int tile, Filters filters>
double estimate(const ConvProblem& problem, const DeviceInfo& device) {
  return shared_tile_constant_seconds(problem, device, issued_flop(problem, tile),
                                      filters == Filters::copied);
}

template <int tile, Filters filters>
constexpr ConvAlgorithm entry(std::string_view name) {
  return {
      .name = name,
      .numerics = {.operand = Operand::fp32, .accumulator = Accumulator::fp32_fma},
      .forced_only = true,
      .capturable = false,
      .plan = plan_of_parts<supports<tile, filters>, estimate<tile, filters>, nullptr,
                            ConstantBank::filter_bytes>,
      .pack_filters = pack_without_plan<pack_filters>,
      .launch = without_plan<launch<tile, filters>>,
  };
}

}  // namespace

extern const ConvAlgorithm shared_tile_constant_fp32_8x8 =
    entry<8, Filters::straight>("cuda.conv.shared_tile_constant.fp32.8x8");
extern const ConvAlgorithm shared_tile_constant_fp32_16x16 =
    entry<16, Filters::straight>("cuda.conv.shared_tile_constant.fp32.16x16");
extern const ConvAlgorithm shared_tile_constant_fp32_32x32 =
    entry<32, Filters::straight>("cuda.conv.shared_tile_constant.fp32.32x32");
extern const ConvAlgorithm shared_tile_constant_fp32_8x8_copied =
    entry<8, Filters::copied>("cuda.conv.shared_tile_constant.fp32.8x8.copied");
extern const ConvAlgorithm shared_tile_constant_fp32_16x16_copied =
    entry<16, Filters::copied>("cuda.conv.shared_tile_constant.fp32.16x16.copied");
extern const ConvAlgorithm shared_tile_constant_fp32_32x32_copied =
    entry<32, Filters::copied>("cuda.conv.shared_tile_constant.fp32.32x32.copied");

}  // namespace plumb::cuda
