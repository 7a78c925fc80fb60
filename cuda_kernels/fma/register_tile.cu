// A block keeps the input under its outputs in shared memory, and each thread makes several outputs
// from values that it holds in registers.
//
// Tiling: a thread makes `images` x `rows` x `columns` outputs of `filters` filters. For each row
//   of the filters it reads the input columns that its outputs need once, and then does images x
//   rows x columns x filters FMAs for each vector of weights, which the threads of a warp read
//   together. A block is a band of up to 320 such threads; it goes through the channels in chunks
//   that fit shared memory. The kernel is persistent: a block takes band after band.
// Bytes: y is written once; x is read once, and its rows and columns where bands overlap again; w
//   is read once for each block where all its channels fit, otherwise for each band.
// Wins: it wins among exact fp32 kernels with few channels: a read from shared memory serves
//   several FMAs, where a thread with a single output needs two reads for each.
// Measured (one H200, fp32 tensors, N=10,000; ms on ece408_l1 / l2, eecs471_l1 / l2):
//   2x2 2.65 / 8.76 / 7.19 / 24.5
//   4_images 4.75 / 13.8 / 10.1 / 36.1
//   4_filters 1.03 / 2.34 / 2.24 / 7.59
//   8_filters 1.56 / 2.21 / 2.74 / 6.49
//   12_filters 2.17 / 3.19 / 2.14 / 7.17
#include "cuda_kernels/conv/batch_slices.hpp"
#include "cuda_kernels/conv/conv_support.hpp"
#include "cuda_kernels/conv/direct_sum.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/cost/fma.hpp"
#include "cuda_kernels/fma/band.cuh"
#include "cuda_kernels/primitives/vectors.cuh"

namespace plumb::cuda {
namespace {

constexpr int max_threads = 320;
constexpr std::size_t wanted_bytes = 56 << 10;  // four blocks on a multiprocessor with 228 KB

/// The outputs that a thread makes. It is a type because nvcc does not pass structs to kernel
/// templates.
template <int images_, int rows_, int columns_, int filters_>
struct ThreadTile {
  static constexpr int images = images_, rows = rows_, columns = columns_, filters = filters_;
};

/// The sums of a thread's outputs.
template <class Unit>
struct Sums {
  float of[Unit::images][Unit::rows][Unit::columns][Unit::filters] = {};

  /// Adds the products of one weight of each filter with the values from column `first` on.
  template <int columns>
  __device__ void add(const float (&values)[Unit::images][Unit::rows][columns], int first,
                      const float (&weights)[Unit::filters]) {
#pragma unroll
    for (int image = 0; image < Unit::images; ++image)
#pragma unroll
      for (int row = 0; row < Unit::rows; ++row)
#pragma unroll
        for (int column = 0; column < Unit::columns; ++column)
#pragma unroll
          for (int filter = 0; filter < Unit::filters; ++filter)
            of[image][row][column][filter] = fma(values[image][row][first + column],
                                                 weights[filter], of[image][row][column][filter]);
  }
};

/// Steps from one value to the next in the input's tile.
struct TileSteps {
  int image, row, column;
};

/// Adds one row of the filters, `width` taps that lie side by side, at stride 1.
template <class Unit, int width>
__device__ void add_filter_row(Sums<Unit>& sums, const float* x, const TileSteps& step,
                               const float* w, int w_pitch) {
  constexpr int vector = Unit::columns;
  constexpr int columns = (Unit::columns + width - 1 + vector - 1) / vector * vector;
  float values[Unit::images][Unit::rows][columns];
#pragma unroll
  for (int image = 0; image < Unit::images; ++image)
#pragma unroll
    for (int row = 0; row < Unit::rows; ++row)
      read_vectors<vector>(x + image * step.image + row * step.row, values[image][row]);
#pragma unroll
  for (int s = 0; s < width; ++s) {
    float weights[Unit::filters];
    read_vectors<Unit::filters % 4 == 0 ? 4 : 1>(w + s * w_pitch, weights);
    sums.add(values, s, weights);
  }
}

/// Adds one tap of the filters, at any stride.
template <class Unit>
__device__ void add_tap(Sums<Unit>& sums, const float* x, const TileSteps& step, const float* w) {
  float values[Unit::images][Unit::rows][Unit::columns], weights[Unit::filters];
#pragma unroll
  for (int image = 0; image < Unit::images; ++image)
#pragma unroll
    for (int row = 0; row < Unit::rows; ++row)
#pragma unroll
      for (int column = 0; column < Unit::columns; ++column)
        values[image][row][column] = x[image * step.image + row * step.row + column * step.column];
  read_vectors<Unit::filters % 4 == 0 ? 4 : 1>(w, weights);
  sums.add(values, 0, weights);
}

/// Copies a chunk's filters to w_tile[channel][r][s][filter], with zeros beyond the last filter.
__device__ void load_filters(const ConvShape<int>& shape, const Bands& bands,
                             const BandOrigin& origin, const float* w, int first_c, int channels,
                             float* w_tile) {
  const int terms = channels * shape.r.value() * shape.s.value();
  const int filters = min(bands.filters, shape.group_k.value() - origin.k_of_group);
  const float* const first =
      w + first_c * shape.w_step.c +
      (origin.group * shape.group_k.value() + origin.k_of_group) * shape.w_step.k;
  for (int term = static_cast<int>(threadIdx.x); term < terms; term += blockDim.x) {
    const auto [filter_rows, s] = shape.s.divide(term);
    const auto [c, r] = shape.r.divide(filter_rows);
    const float* const from = first + c * shape.w_step.c + r * shape.w_step.r + s * shape.w_step.s;
    for (int filter = 0; filter < bands.filters; ++filter)
      copy_async(w_tile + term * bands.filters + filter,
                 filter < filters ? from + filter * shape.w_step.k : w, filter < filters);
  }
}

/// The place of the thread's unit in its block, in outputs. Columns run first, so that a warp reads
/// neighbouring columns and, in most cases, one filter.
template <class Unit>
struct Place {
  int image, row, column, filter;

  __device__ explicit Place(const Bands& bands) {
    const auto [above_columns, column_unit] =
        bands.column_units.divide(static_cast<int>(threadIdx.x));
    const auto [above_rows, row_unit] = bands.row_units.divide(above_columns);
    const auto [image_unit, filter_unit] = bands.filter_units.divide(above_rows);
    image = image_unit * Unit::images;
    row = row_unit * Unit::rows;
    column = column_unit * Unit::columns;
    filter = filter_unit * Unit::filters;
  }
};

template <class Unit>
__device__ void store(const ConvShape<int>& shape, const BandOrigin& origin,
                      const Place<Unit>& place, const Sums<Unit>& sums, const float* x,
                      const float* w, float* y, int y_vector, const Epilogue<float>& epilogue) {
  const int first_q = origin.q + place.column;
  const int columns = min(Unit::columns, shape.q.value() - first_q);
  const int images = min(Unit::images, shape.n - origin.n - place.image);
  const int rows = min(Unit::rows, shape.p.value() - origin.p - place.row);
  const int filters = min(Unit::filters, shape.group_k.value() - origin.k_of_group - place.filter);
  const int first_n = origin.n + place.image, first_p = origin.p + place.row;
  const int first_k = origin.group * shape.group_k.value() + origin.k_of_group + place.filter;
  bool not_a_number = false;
#pragma unroll
  for (int filter = 0; filter < Unit::filters; ++filter) {
    if (filter >= filters) break;
    const float bias = epilogue.bias_of<float>(first_k + filter);
#pragma unroll
    for (int image = 0; image < Unit::images; ++image)
#pragma unroll
      for (int row = 0; row < Unit::rows; ++row) {
        if (image >= images || row >= rows) continue;
        float values[Unit::columns];
#pragma unroll
        for (int column = 0; column < Unit::columns; ++column) {
          const float sum = sums.of[image][row][column][filter];
          not_a_number = not_a_number || sum != sum;
          values[column] = epilogue.finish(sum, bias);
        }
        write_row(y + ((first_n + image) * shape.y_step.n + (first_k + filter) * shape.y_step.c +
                       (first_p + row) * shape.y_step.h + first_q * shape.y_step.w),
                  shape.y_step.w, columns, y_vector, values);
      }
  }
  // The padding met the filters as zeros, and 0 * Inf is NaN. A NaN that comes from the data comes
  // out again.
  if (!shape.padded || !not_a_number) return;
  for (int image = 0; image < images; ++image)
    for (int filter = 0; filter < filters; ++filter)
      for (int row = 0; row < rows; ++row)
        for (int column = 0; column < columns; ++column)
          do_over(shape, x, w, y, epilogue, first_n + image, first_k + filter, first_p + row,
                  first_q + column);
}

/// `width` is the width of filters with stride and dilation 1, or 0 for any filter, stride and
/// dilation.
template <class Unit, int width>
__global__ void __launch_bounds__(max_threads, 2)
    register_tile(const __grid_constant__ ConvShape<int> shape, const __grid_constant__ Bands bands,
                  const float* x, const float* w, float* y, int y_vector,
                  const __grid_constant__ Epilogue<float> epilogue) {
  extern __shared__ float4 shared[];
  float* const x_tile = reinterpret_cast<float*>(shared);
  float* const w_tile = x_tile + bands.x_elements();
  const Place<Unit> place(bands);
  const bool works = place.image < bands.images;
  int loaded_group = -1, loaded_filter = -1;
  const int x_plane = bands.x_rows.value() * bands.pitch;

  for (std::int64_t block = blockIdx.x; block < bands.blocks; block += gridDim.x) {
    BandOrigin origin(bands, block);
    // With 48 sums a thread has no register left for keep(), which makes it 4 % slower on an H200.
    if constexpr (Unit::filters < 12) origin.keep();
    Sums<Unit> sums;
    for (int first_c = 0; first_c < shape.group_c; first_c += bands.channels.value()) {
      const Divisor<int>& channels = bands.channels_from(first_c, shape.group_c);
      for_each_input(
          shape, bands, origin, x, first_c, channels,
          [&](int to, const float* from, bool valid) { copy_async(x_tile + to, from, valid); });
      // The filters stay for the next block of outputs where all their channels fit at once.
      if (first_c > 0 || origin.group != loaded_group || origin.k_of_group != loaded_filter ||
          bands.channels.value() < shape.group_c)
        load_filters(shape, bands, origin, w, first_c, channels.value(), w_tile);
      loaded_group = origin.group;
      loaded_filter = origin.k_of_group;
      wait_for_copies();
      __syncthreads();
      if (works) {
        const TileSteps step{bands.channels.value() * x_plane,
                             width > 0 ? bands.pitch : shape.stride_h * bands.pitch,
                             shape.stride_w};
        const float* x_channel = x_tile + place.image * step.image + place.row * step.row +
                                 place.column * (width > 0 ? 1 : step.column);
        const float* w_row = w_tile + place.filter;
        for (int c = 0; c < channels.value(); ++c, x_channel += x_plane)
          for (int r = 0; r < shape.r.value(); ++r) {
            if constexpr (width > 0) {
              add_filter_row<Unit, width>(sums, x_channel + r * bands.pitch, step, w_row,
                                          bands.filters);
              w_row += width * bands.filters;
            } else {
              const float* const x_row = x_channel + r * shape.dilation_h.value() * bands.pitch;
              for (int s = 0; s < shape.s.value(); ++s, w_row += bands.filters)
                add_tap(sums, x_row + s * shape.dilation_w.value(), step, w_row);
            }
          }
      }
      __syncthreads();
    }
    if (works) store(shape, origin, place, sums, x, w, y, y_vector, epilogue);
  }
}

template <class Unit>
BandTile tile_for(const ConvProblem& problem) {
  return make_band_tile(
      problem, {Unit::images, Unit::rows, Unit::columns, Unit::filters},
      {.units = max_threads, .columns = 32, .enough_units = max_threads, .bytes = wanted_bytes});
}

/// Returns the width of filters that there is a kernel for; 0 stands for any width.
int kernel_width(const ConvProblem& problem) {
  const bool plain = problem.stride == Pair{} && problem.dilation == Pair{};
  return plain && (problem.s == 3 || problem.s == 5 || problem.s == 7) ? static_cast<int>(problem.s)
                                                                       : 0;
}

using BandTiles = SlicePlans<BandTile>;

template <class Unit>
void launch(const ConvLaunch& whole, const KernelPlan* plan) {
  const auto& tiles = planned_value<BandTiles>(plan);
  for_each_slice(whole, tiles, [](const ConvLaunch& call, const BandTile& tile) {
    const ConvProblem& problem = call.problem;
    const Bands bands(problem, tile);
    const int threads = static_cast<int>(ceil_div(tile.units(), 32) * 32);
    const auto run = [&](auto kernel) {
      Launch(call.native_queue, blocks_for(bands.blocks, 1), threads, tile.bytes)
          .resident(kernel, call.device)(
              kernel, ConvShape<int>(problem), bands, static_cast<const float*>(call.x),
              static_cast<const float*>(call.w), static_cast<float*>(call.y),
              row_vector(call.y, problem.y_extents(), problem.y_strides, sizeof(float)),
              Epilogue<float>(call));
    };
    switch (kernel_width(problem)) {
      case 3: return run(register_tile<Unit, 3>);
      case 5: return run(register_tile<Unit, 5>);
      case 7: return run(register_tile<Unit, 7>);
      default: return run(register_tile<Unit, 0>);
    }
  });
}

template <class Unit>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  if (Support usual = supports_dtypes_in_slices({DType::f32}, problem); !usual) return {usual};
  const BandTile tile = tile_for<Unit>(problem);
  if (Support fits = fits_shared_memory(static_cast<double>(tile.bytes), device); !fits)
    return {fits};
  return {.estimate_seconds = register_tile_seconds(
              problem, device, {tile, Bands(problem, tile).blocks, kernel_width(problem) > 0}),
          .kernel = planned(BandTiles(problem, tile_for<Unit>))};
}

template <class Unit>
constexpr ConvAlgorithm entry(std::string_view name) {
  return {
      .name = name,
      .numerics = {.operand = Operand::fp32,
                   .accumulator = Accumulator::fp32_fma,
                   .reproducible = true,
                   .invariant = true},
      .plan = plan<Unit>,
      .launch = launch<Unit>,
  };
}

}  // namespace

extern const ConvAlgorithm register_tile_fp32_2x2 =
    entry<ThreadTile<1, 2, 2, 1>>("cuda.conv.register_tile.fp32.2x2");
extern const ConvAlgorithm register_tile_fp32_4_images =
    entry<ThreadTile<4, 1, 1, 1>>("cuda.conv.register_tile.fp32.4_images");
extern const ConvAlgorithm register_tile_fp32_4_filters =
    entry<ThreadTile<1, 1, 4, 4>>("cuda.conv.register_tile.fp32.4_filters");
extern const ConvAlgorithm register_tile_fp32_12_filters =
    entry<ThreadTile<1, 1, 4, 12>>("cuda.conv.register_tile.fp32.12_filters");
extern const ConvAlgorithm register_tile_fp32_8_filters =
    entry<ThreadTile<1, 1, 4, 8>>("cuda.conv.register_tile.fp32.8_filters");

}  // namespace plumb::cuda
