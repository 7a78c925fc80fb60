// Fragments hold eight filters, and shared memory the indices of the terms. Pixels are the rows of
// the product and filters its columns, of which a tensor core's fragment has only eight: few
// filters leave little idle. Nothing is unrolled: fragments are gathered from the image itself.
//
// Tiling: a block keeps the input under a band of pixels in shared memory, rounded to TF32, with
//   its filters as fragments and a table of where each term lies from a pixel. A warp makes 64
//   pixels of all the block's filters at a time, through steps of eight terms. The kernel is
//   persistent: a block takes band after band.
// Bytes: y is written once; x is read once, and its rows where bands overlap again; w is read once
//   for each block.
// Wins: it wins over index_reuse.cu with few filters: an element of the unrolled input costs one
//   read and one addition, where index_reuse.cu loads, rounds, writes and reads it again.
// Measured (one H200, fp32 tensors, N=10,000; ms on ece408_l1 / l2, eecs471_l1 / l2):
//   8_filters 1.48 / 1.92 / 2.15 / 6.19
//   16_filters 1.72 / 1.16 / 1.5 / 4.87
//   24_filters 2.01 / 1.27 / 1.65 / 2.74
#include <cmath>
#include <limits>

#include "cuda_kernels/conv/batch_slices.hpp"
#include "cuda_kernels/conv/conv_support.hpp"
#include "cuda_kernels/conv/direct_sum.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/cost/ladder.hpp"
#include "cuda_kernels/fma/band.cuh"
#include "cuda_kernels/primitives/mma.cuh"

namespace plumb::cuda {
namespace {

constexpr int threads = 256, warps = threads / 32;
constexpr int sixteens = 4;  // fragments of sixteen pixels that a warp makes at a time: a task
constexpr int task_pixels = sixteens * 16;
constexpr int element_bytes = sizeof(float);
constexpr int lane_pixels = 8;  // distance from one pixel of a lane to its next

/// The contents of shared memory, one behind the other: input, filters, table.
struct Layout {
  int steps;  ///< of eight terms
  int x_elements, w_elements, table_elements;

  Layout(const ConvProblem& problem, const BandTile& tile)
      : steps(
            static_cast<int>(ceil_div(tile.channels * problem.r * problem.s, Tf32Product::terms))),
        x_elements(static_cast<int>(tile.images * tile.channels * tile.x_rows * tile.pitch)),
        w_elements(steps * Tf32Product::terms * tile.unit.filters),
        table_elements(steps * Tf32Product::terms) {}
  std::size_t bytes() const {
    return sizeof(float) * static_cast<std::size_t>(x_elements + w_elements + table_elements);
  }
};

/// What an address adds to go from a pixel of the band to the pixel eight further on.
struct AddressSteps {
  int eight_on, at_row_end, at_image_end;
};

/// How the pixels of a lane, every eighth of the band, follow each other.
struct PixelSteps {
  int images, rows, columns;  ///< eight pixels as whole images, whole rows and the rest
  AddressSteps place;         ///< in the input's tile, in bytes
  AddressSteps output;        ///< in y, in elements

  PixelSteps(const ConvProblem& problem, const Bands& bands)
      : images(lane_pixels / (bands.rows * bands.columns)),
        rows(lane_pixels / bands.columns % bands.rows),
        columns(lane_pixels % bands.columns) {
    const ConvShape<int> shape(problem);
    const int place_row = shape.stride_h * bands.pitch;
    place = steps(element_bytes * bands.channels.value() * bands.x_rows.value() * bands.pitch,
                  element_bytes * place_row, element_bytes * shape.stride_w, bands);
    output = steps(shape.y_step.n, shape.y_step.h, shape.y_step.w, bands);
  }

 private:
  AddressSteps steps(int image, int row, int column, const Bands& bands) const {
    return {images * image + rows * row + columns * column, row - bands.columns * column,
            image - bands.rows * row};
  }
};

/// Loads a chunk of the input, rounded to TF32.
template <class Stored>
__device__ void load_input(const ConvShape<int>& shape, const Bands& bands,
                           const BandOrigin& origin, const Stored* x, int first_c,
                           const Divisor<int>& channels, float* x_tile) {
  if constexpr (sizeof(Stored) == sizeof(float)) {
    for_each_input(
        shape, bands, origin, x, first_c, channels,
        [&](int to, const float* from, bool valid) { copy_async(x_tile + to, from, valid); });
    wait_for_copies();
    // Each thread rounds the elements that it copied itself, so that no barrier is needed in
    // between.
    for_each_input(shape, bands, origin, x, first_c, channels,
                   [&](int to, const float*, bool) { x_tile[to] = to_tf32(x_tile[to]); });
  } else {
    for_each_input(shape, bands, origin, x, first_c, channels,
                   [&](int to, const Stored* from, bool valid) {
                     x_tile[to] = valid ? convert<float>(*from) : 0.0f;
                   });
  }
}

/// Writes the chunk's filters as B fragments: w_tile[step][eight filters][lane]{term t, term t +
/// 4}.
template <int n8_tiles, class Stored>
__device__ void load_filters(const ConvShape<int>& shape, const BandOrigin& origin, const Stored* w,
                             int first_c, int terms, int steps, float2* w_tile) {
  for (int i = static_cast<int>(threadIdx.x); i < steps * n8_tiles * 32; i += threads) {
    const int lane = i % 32, eight = i / 32 % n8_tiles, step = i / 32 / n8_tiles;
    const int k_of_group = origin.k_of_group + eight * 8 + lane / 4;
    const Stored* const from =
        w + (origin.group * shape.group_k.value() + k_of_group) * shape.w_step.k;
    const auto element = [&](int term) {
      if (term >= terms || k_of_group >= shape.group_k.value()) return 0.0f;
      const auto [filter_rows, s] = shape.s.divide(term);
      const auto [c, r] = shape.r.divide(filter_rows);
      return to_tf32(convert<float>(
          from[(first_c + c) * shape.w_step.c + r * shape.w_step.r + s * shape.w_step.s]));
    };
    const int term = step * Tf32Product::terms + lane % 4;
    w_tile[i] = {element(term), element(term + 4)};
  }
}

/// Writes how many bytes each term lies from its pixel: table[step][t]{term t, term t + 4}. Terms
/// beyond the last meet zeros among the filters.
__device__ void make_table(const ConvShape<int>& shape, const Bands& bands, int steps,
                           int2* table) {
  const int terms = bands.channels.value() * shape.r.value() * shape.s.value();
  const auto distance = [&](int term) {
    if (term >= terms) return 0;
    const auto [filter_rows, s] = shape.s.divide(term);
    const auto [c, r] = shape.r.divide(filter_rows);
    return ((c * bands.x_rows.value() + r * shape.dilation_h.value()) * bands.pitch +
            s * shape.dilation_w.value()) *
           element_bytes;
  };
  for (int i = static_cast<int>(threadIdx.x); i < steps * 4; i += threads) {
    const int term = i / 4 * Tf32Product::terms + i % 4;
    table[i] = {distance(term), distance(term + 4)};
  }
}

/// A pixel of the band, found from its number. For a number beyond the last pixel, `image` is the
/// band's number of images or more.
struct BandPixel {
  int image, row, column;

  __device__ BandPixel(const Bands& bands, int number) {
    const auto [above_columns, column_of_row] = bands.column_units.divide(number);
    const auto [image_of_band, row_of_image] = bands.row_units.divide(above_columns);
    image = image_of_band;
    row = row_of_image;
    column = column_of_row;
  }
};

/// The filters whose sums a lane holds: two neighbours of each eight.
template <int n8_tiles>
struct LaneFilters {
  int first_k;
  int left;  ///< filters of the group from the first one on
  float biases[n8_tiles * 2];

  template <class Stored>
  __device__ LaneFilters(const ConvShape<int>& shape, const BandOrigin& origin,
                         const Epilogue<Stored>& epilogue) {
    const int first_of_group = origin.group * shape.group_k.value();
    const int first_k_of_group = origin.k_of_group + static_cast<int>(threadIdx.x) % 4 * 2;
    first_k = first_of_group + first_k_of_group;
    left = shape.group_k.value() - first_k_of_group;
#pragma unroll
    for (int j = 0; j < n8_tiles * 2; ++j)
      biases[j] = has(j) ? epilogue.template bias_of<float>(first_k + distance(j)) : 0.0f;
  }
  __device__ static int distance(int j) { return j / 2 * 8 + j % 2; }
  __device__ bool has(int j) const { return distance(j) < left; }
};

/// The 64 pixels that a warp makes at a time, of which a lane has every eighth.
template <int n8_tiles>
struct Task {
  static constexpr int nowhere = std::numeric_limits<int>::min();
  int places[sixteens][2];    ///< bytes to the first tap of each pixel in the input's tile
  int outputs[sixteens * 2];  ///< elements to each pixel's first filter in y, or `nowhere`
  float sums[sixteens][n8_tiles][4] = {};

  __device__ Task(const ConvShape<int>& shape, const Bands& bands, const PixelSteps& step,
                  const BandOrigin& origin, int first_k, int first_number) {
    BandPixel pixel(bands, first_number);
    const int channels = bands.channels.value();
    int place =
        element_bytes * (pixel.image * channels * bands.x_rows.value() * bands.pitch +
                         pixel.row * shape.stride_h * bands.pitch + pixel.column * shape.stride_w);
    int output = (origin.n + pixel.image) * shape.y_step.n +
                 (origin.p + pixel.row) * shape.y_step.h +
                 (origin.q + pixel.column) * shape.y_step.w + first_k * shape.y_step.c;
    const int images = min(bands.images, shape.n - origin.n);
    const int rows = shape.p.value() - origin.p, columns = shape.q.value() - origin.q;
#pragma unroll
    for (int i = 0; i < sixteens * 2; ++i) {
      const bool inside = pixel.image < images && pixel.row < rows && pixel.column < columns;
      places[i / 2][i % 2] = inside ? place : 0;
      outputs[i] = inside ? output : nowhere;
      pixel.image += step.images;
      pixel.row += step.rows;
      pixel.column += step.columns;
      place += step.place.eight_on;
      output += step.output.eight_on;
      if (pixel.column >= bands.columns) {
        pixel.column -= bands.columns;
        ++pixel.row;
        place += step.place.at_row_end;
        output += step.output.at_row_end;
      }
      if (pixel.row >= bands.rows) {
        pixel.row -= bands.rows;
        ++pixel.image;
        place += step.place.at_image_end;
        output += step.output.at_image_end;
      }
    }
  }

  __device__ static Fragment at(const float* x_tile, int bytes) {
    return *reinterpret_cast<const Fragment*>(reinterpret_cast<const char*>(x_tile) + bytes);
  }

  /// Adds the products of `steps` steps.
  __device__ void multiply(const float* x_tile, const float2* w_tile, const int2* table,
                           int steps) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int step = 0; step < steps; ++step) {
      const int2 term = table[step * 4 + lane % 4];
      Fragment b[n8_tiles][2];
#pragma unroll
      for (int eight = 0; eight < n8_tiles; ++eight) {
        const float2 pair = w_tile[(step * n8_tiles + eight) * 32 + lane];
        b[eight][0] = __float_as_uint(pair.x), b[eight][1] = __float_as_uint(pair.y);
      }
#pragma unroll
      for (int i = 0; i < sixteens; ++i) {
        const int low = places[i][0], high = places[i][1];
        const Fragment a[4] = {at(x_tile, low + term.x), at(x_tile, high + term.x),
                               at(x_tile, low + term.y), at(x_tile, high + term.y)};
#pragma unroll
        for (int eight = 0; eight < n8_tiles; ++eight) mma_tf32(sums[i][eight], a, b[eight]);
      }
    }
  }
};

template <int n8_tiles, class Stored>
__device__ void store(const ConvShape<int>& shape, const Bands& bands, const BandOrigin& origin,
                      const LaneFilters<n8_tiles>& filters, const Task<n8_tiles>& task,
                      int first_number, const Stored* x, const Stored* w, Stored* y,
                      const Epilogue<Stored>& epilogue) {
  bool not_a_number = false;
#pragma unroll
  for (int i = 0; i < sixteens * 2; ++i) {
    const int to = task.outputs[i];
#pragma unroll
    for (int j = 0; j < n8_tiles * 2; ++j) {
      const float sum = task.sums[i / 2][j / 2][i % 2 * 2 + j % 2];
      not_a_number = not_a_number || sum != sum;
      if (to != task.nowhere && filters.has(j))
        y[to + filters.distance(j) * shape.y_step.c] = epilogue.finish(sum, filters.biases[j]);
    }
  }
  // The input behind the last step's terms may be Inf, and 0 * Inf is NaN, as in the padding. A NaN
  // that comes from the data comes out again.
  const int taps = shape.r.value() * shape.s.value();
  const bool filled = shape.padded || bands.channels.value() * taps % Tf32Product::terms != 0 ||
                      shape.terms % Tf32Product::terms != 0;
  if (!filled || !not_a_number) return;
#pragma unroll 1
  for (int i = 0; i < sixteens * 2; ++i) {
    const BandPixel pixel(bands, first_number + i * lane_pixels);
    const int n = origin.n + pixel.image, p = origin.p + pixel.row, q = origin.q + pixel.column;
    if (pixel.image >= bands.images || n >= shape.n || p >= shape.p.value() || q >= shape.q.value())
      continue;
#pragma unroll 1
    for (int j = 0; j < n8_tiles * 2; ++j)
      if (filters.has(j))
        do_over(shape, x, w, y, epilogue, n, filters.first_k + filters.distance(j), p, q);
  }
}

template <int n8_tiles, class Stored>
__global__ void __launch_bounds__(threads, n8_tiles > 1 ? 2 : 3)
    narrow_fragments(const __grid_constant__ ConvShape<int> shape,
                     const __grid_constant__ Bands bands, const __grid_constant__ Layout layout,
                     const __grid_constant__ PixelSteps step, const Stored* x, const Stored* w,
                     Stored* y, const __grid_constant__ Epilogue<Stored> epilogue) {
  extern __shared__ float4 shared[];
  float* const x_tile = reinterpret_cast<float*>(shared);
  float2* const w_tile = reinterpret_cast<float2*>(x_tile + layout.x_elements);
  int2* const table = reinterpret_cast<int2*>(x_tile + layout.x_elements + layout.w_elements);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int taps = shape.r.value() * shape.s.value();
  const int pixels = bands.images * bands.rows * bands.columns;
  // A warp takes several tasks from a band where all channels are loaded at once. Otherwise it has
  // one task, and keeps its sums from chunk to chunk.
  const bool one_chunk = bands.channels.value() == shape.group_c;
  int loaded_group = -1, loaded_filter = -1;
  make_table(shape, bands, layout.steps, table);

  for (std::int64_t block = blockIdx.x; block < bands.blocks; block += gridDim.x) {
    BandOrigin origin(bands, block);
    origin.keep();
    const LaneFilters<n8_tiles> filters(shape, origin, epilogue);
    for (int first_of_round = 0; first_of_round < pixels; first_of_round += warps * task_pixels) {
      const int first_pixel = first_of_round + warp * task_pixels + lane / 4;
      Task<n8_tiles> task(shape, bands, step, origin, filters.first_k, first_pixel);
      for (int first_c = 0; first_c < shape.group_c; first_c += bands.channels.value()) {
        const Divisor<int>& channels = bands.channels_from(first_c, shape.group_c);
        const int terms = channels.value() * taps;
        if (!one_chunk || first_of_round == 0) {
          __syncthreads();  // the last chunk or band has been read
          load_input(shape, bands, origin, x, first_c, channels, x_tile);
          if (!one_chunk || loaded_group != origin.group || loaded_filter != origin.k_of_group)
            load_filters<n8_tiles>(shape, origin, w, first_c, terms, layout.steps, w_tile);
          loaded_group = origin.group;
          loaded_filter = origin.k_of_group;
          __syncthreads();
        }
        if (first_pixel - lane / 4 < pixels)
          task.multiply(x_tile, w_tile, table, (terms - 1) / Tf32Product::terms + 1);
      }
      store(shape, bands, origin, filters, task, first_pixel, x, w, y, epilogue);
    }
  }
}

/// Returns a tile with all channels at once where three blocks, or else two, then fit a
/// multiprocessor of 228 KB; otherwise it has as many pixels as the warps make at a time, and
/// chunks of channels.
template <int n8_tiles>
BandTile tile_for(const ConvProblem& problem) {
  const auto tile = [&](std::int64_t max_pixels, std::size_t bytes) {
    return make_band_tile(problem, {.images = 1, .rows = 1, .columns = 1, .filters = 8 * n8_tiles},
                          {.units = max_pixels,
                           .columns = 256,
                           .filters = 1,
                           .enough_units = warps * task_pixels,
                           .bytes = bytes});
  };
  constexpr std::size_t third = 72 << 10, half = 108 << 10;
  for (const std::size_t bytes : {third, half})
    for (std::int64_t max_pixels = 16 * warps * task_pixels; max_pixels >= 512; max_pixels /= 2) {
      const BandTile whole = tile(max_pixels, bytes);
      if (whole.channels == problem.c / problem.groups) return whole;
    }
  return tile(warps * task_pixels, third);
}

using BandTiles = SlicePlans<BandTile>;

template <int n8_tiles>
void launch(const ConvLaunch& whole, const KernelPlan* plan) {
  const auto& tiles = planned_value<BandTiles>(plan);
  for_each_slice(whole, tiles, [](const ConvLaunch& call, const BandTile& tile) {
    const ConvProblem& problem = call.problem;
    const Bands bands(problem, tile);
    const Layout layout(problem, tile);
    with_stored<float, __half, __nv_bfloat16>(problem.dtype, [&]<class S>(S) {
      const auto kernel = narrow_fragments<n8_tiles, S>;
      Launch(call.native_queue, blocks_for(bands.blocks, 1), threads, layout.bytes())
          .resident(kernel, call.device)(kernel, ConvShape<int>(problem), bands, layout,
                                         PixelSteps(problem, bands), static_cast<const S*>(call.x),
                                         static_cast<const S*>(call.w), static_cast<S*>(call.y),
                                         Epilogue<S>(call));
    });
  });
}

template <int n8_tiles>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  if (Support usual = supports_dtypes_in_slices({DType::f32, DType::f16, DType::bf16}, problem);
      !usual)
    return {usual};
  const BandTile tile = tile_for<n8_tiles>(problem);
  if (Support rough = fits_shared_memory(static_cast<double>(tile.bytes), device); !rough)
    return {rough};
  const Layout layout(problem, tile);
  if (Support fits = fits_shared_memory(static_cast<double>(layout.bytes()), device); !fits)
    return {fits};
  return {.estimate_seconds = narrow_fragments_seconds(problem, device,
                                                       {.n8_tiles = n8_tiles,
                                                        .tile = tile,
                                                        .blocks = Bands(problem, tile).blocks,
                                                        .block_warps = warps,
                                                        .task_pixels = task_pixels,
                                                        .fragments = sixteens,
                                                        .steps = layout.steps}),
          .kernel = planned(BandTiles(problem, tile_for<n8_tiles>))};
}

template <int n8_tiles>
constexpr ConvAlgorithm entry(std::string_view name) {
  return {
      .name = name,
      .numerics = {.operand = Operand::tf32_rounded,
                   .accumulator = Accumulator::tensor_core_fp32,
                   .term_multiple = Tf32Product::terms},
      .plan = plan<n8_tiles>,
      .launch = launch<n8_tiles>,
  };
}

}  // namespace

extern const ConvAlgorithm narrow_fragments_tf32_8 =
    entry<1>("cuda.conv.narrow_fragments.tf32.8_filters");
extern const ConvAlgorithm narrow_fragments_tf32_16 =
    entry<2>("cuda.conv.narrow_fragments.tf32.16_filters");
extern const ConvAlgorithm narrow_fragments_tf32_24 =
    entry<3>("cuda.conv.narrow_fragments.tf32.24_filters");

}  // namespace plumb::cuda
