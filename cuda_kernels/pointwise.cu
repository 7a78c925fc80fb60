// Filters of 1x1 over few channels: a thread holds the channels of its pixels in registers and goes
// through the filters, whose outputs it writes one after the other. Filters of Rx1 without padding
// above and below are the same: each of their rows is one more channel.
//
// Tiling: pixels are numbered through rows and images, and a plane without gaps, strides and
//   padding is one row. A thread makes four (two, with more than 16 channels), in vectors of 4, 2
//   or 1 neighbours, so that what a warp reads or writes at a time are whole lines of memory
//   whatever the width of a row. A block is 128 threads with a share of the filters in shared
//   memory: all of them where 16 KB hold them and there are pixels enough for the device. Blocks
//   stay, and take tile after tile. Where vectors would be of one pixel or two, a warp writes lines
//   of memory all the same: it makes 160 neighbouring pixels, and writes for each filter those 128
//   of them that are four lines (of more than 12 channels three, of more than 16 two).
// Bytes: y once, x once for each share of the filters (from L2, but the first; where lines are
//   written a quarter of it twice, or a third, or half), w once a block.
// Wins: where few channels meet filters of 1x1: all that is left to do is to move x and y, and
//   each is read or written once and in the order in which it lies.
// Measured: docs/few_channels.md.
#include <algorithm>
#include <optional>
#include <string>

#include "cuda_kernels/common/batch_slices.hpp"
#include "cuda_kernels/common/compile_time.hpp"
#include "cuda_kernels/common/conv_shape.cuh"
#include "cuda_kernels/common/conv_support.hpp"
#include "cuda_kernels/common/dynamic_shared.cuh"
#include "cuda_kernels/common/epilogue.cuh"
#include "cuda_kernels/common/launch.cuh"
#include "cuda_kernels/common/vectors.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 128;
constexpr std::size_t most_filter_bytes = 16 << 10;  // of a share
constexpr int enough_blocks = 8;                     // on a multiprocessor

/// Numbers of channels that there are kernels for; those between take the next one.
using Channels = CompileTime<1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32>;
constexpr int most_channels = 32;

/// Pixels of a thread.
__host__ __device__ constexpr int pixels_of(int channels) { return channels <= 16 ? 4 : 2; }

/// From one filter to the next in shared memory: the weights of its channels, then its bias.
__host__ __device__ constexpr int filter_pitch(int channels) { return (channels + 1 + 3) / 4 * 4; }

/// Of a warp that writes lines of memory: the pixels of one, and lines of a filter. It holds one
/// more, to have them wherever they begin.
constexpr int line_pixels = 32;
__host__ __device__ constexpr int run_lines(int channels) {
  return channels <= 12 ? 4 : channels <= 16 ? 3 : 2;
}
__host__ __device__ constexpr int run_pixels(int channels) {
  return run_lines(channels) * line_pixels;
}
constexpr int most_line_channels = 24;  // of more, registers hold too few warps

/// How pixels and filters are shared out.
struct Work {
  int vectors;               ///< of pixels, in all
  Divisor<int> row_vectors;  ///< in a row of outputs
  Divisor<int> image_runs;   ///< of run_pixels(), where lines are written
  Divisor<int> shares;       ///< of the filters
  int filters;               ///< of a share
  std::int64_t items;        ///< tiles of pixels x shares

  Work(const ConvProblem& problem, const DeviceInfo& device, int channels, int vector, bool lines)
      : vectors(static_cast<int>(problem.n * problem.p() * problem.q() / vector)),
        row_vectors(problem.q() / vector),
        image_runs(tiles_of(problem.p() * problem.q(), run_pixels(channels))) {
    const std::int64_t tiles =
        lines ? tiles_of(problem.n * image_runs.value(), block_threads / 32)
              : tiles_of(vectors, block_threads * pixels_of(channels) / vector);
    const auto bytes = static_cast<std::int64_t>(filter_pitch(channels) * sizeof(float));
    const std::int64_t fitting = static_cast<std::int64_t>(most_filter_bytes) / bytes;
    const std::int64_t wanted = std::max(
        tiles_of(problem.k, fitting), tiles_of(enough_blocks * std::max(device.units, 1), tiles));
    filters = static_cast<int>(tiles_of(problem.k, std::min(wanted, problem.k)));
    shares = Divisor<int>(tiles_of(problem.k, filters));
    items = tiles * shares.value();
  }
};

/// The terms of a pixel, a channel after the other: in elements from its first one, and their
/// weights from the filter's.
struct Terms {
  int count;
  int x[most_channels] = {}, w[most_channels] = {};

  explicit Terms(const ConvProblem& problem) : count(static_cast<int>(problem.terms())) {
    for (int i = 0; i < count; ++i) {
      const std::int64_t c = i / problem.r, r = i % problem.r;
      x[i] = static_cast<int>(c * problem.x_strides[1] +
                              r * problem.dilation.h * problem.x_strides[2]);
      w[i] = static_cast<int>(c * problem.w_strides[1] + r * problem.w_strides[2]);
    }
  }
};

/// Where a vector of pixels lies.
struct Pixels {
  int x, y;     ///< offsets, of the first channel and filter
  bool inside;  ///< the image: in the padding a pixel has nothing to sum
  bool exists;

  __device__ Pixels(const ConvShape<int>& shape, const Work& work, int vector, int number)
      : exists(number < work.vectors) {
    const auto [rows, first] = work.row_vectors.divide(exists ? number : 0);
    const auto [n, p] = shape.p.divide(rows);
    const int q = first * vector;
    const int row = p * shape.stride_h - shape.top, column = q * shape.stride_w - shape.left;
    inside = row >= 0 && row < shape.h && column >= 0 && column < shape.w;
    x = inside ? n * shape.x_step.n + row * shape.x_step.h + column * shape.x_step.w : 0;
    y = n * shape.y_step.n + p * shape.y_step.h + q * shape.y_step.w;
  }
};

/// Copies `count` filters from `first` on to shared memory; channels that are not there are zeros.
template <int channels>
__device__ void load_filters(const ConvShape<int>& shape, const Terms& terms, const float* w,
                             const Epilogue<float>& epilogue, int first, int count,
                             float* filters) {
  constexpr int pitch = filter_pitch(channels);
  for (int i = static_cast<int>(threadIdx.x); i < count * pitch; i += block_threads) {
    const int k = first + i / pitch, c = i % pitch;
    float value = 0;
    if (c < terms.count) value = w[k * shape.w_step.k + terms.w[c]];
    if (c == channels) value = epilogue.bias_of<float>(k);
    filters[i] = value;
  }
}

/// The same by the whole block, which has them behind it; `others`: in the place of others, which
/// it has done with.
template <int channels>
__device__ void change_filters(const ConvShape<int>& shape, const Terms& terms, const float* w,
                               const Epilogue<float>& epilogue, int first, int count, bool others,
                               float* filters) {
  if (others) __syncthreads();
  load_filters<channels>(shape, terms, w, epilogue, first, count, filters);
  __syncthreads();
}

template <int channels, int vector>
__global__ void __launch_bounds__(block_threads, 4)
    pointwise(const __grid_constant__ ConvShape<int> shape, const __grid_constant__ Terms terms,
              const __grid_constant__ Work work, const float* x, const float* w, float* y,
              const __grid_constant__ Epilogue<float> epilogue) {
  constexpr int vectors = pixels_of(channels) / vector, pitch = filter_pitch(channels);
  float* const filters = reinterpret_cast<float*>(dynamic_shared());
  int loaded = -1;
  for (std::int64_t item = blockIdx.x; item < work.items; item += gridDim.x) {
    const auto [tile, share] = work.shares.divide(static_cast<int>(item));
    const auto pixels_at = [&](int v) {
      return Pixels(shape, work, vector,
                    (tile * vectors + v) * block_threads + static_cast<int>(threadIdx.x));
    };
    float values[channels][vectors][vector] = {};
    int y_at[vectors];
    bool inside[vectors], exists[vectors];
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      const Pixels pixels = pixels_at(v);
      y_at[v] = pixels.y, inside[v] = pixels.inside, exists[v] = pixels.exists;
#pragma unroll
      for (int c = 0; c < channels; ++c)
        if (c < terms.count) read_vectors<vector>(x + (pixels.x + terms.x[c]), values[c][v]);
    }

    const int first_k = share * work.filters;
    const int count = min(work.filters, shape.k.value() - first_k);
    if (share != loaded) {
      change_filters<channels>(shape, terms, w, epilogue, first_k, count, loaded >= 0, filters);
      loaded = share;
    }
    float* y_plane = y + first_k * shape.y_step.c;
    for (int k = 0; k < count; ++k, y_plane += shape.y_step.c) {
      float weights[pitch], sums[vectors][vector] = {};
      read_vectors<4>(filters + k * pitch, weights);
#pragma unroll
      for (int c = 0; c < channels; ++c)
#pragma unroll
        for (int v = 0; v < vectors; ++v)
#pragma unroll
          for (int i = 0; i < vector; ++i)
            sums[v][i] = fma(values[c][v][i], weights[c], sums[v][i]);
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
#pragma unroll
        for (int i = 0; i < vector; ++i)
          sums[v][i] = epilogue.finish(inside[v] ? sums[v][i] : 0.0f, weights[channels]);
        if (exists[v]) write_row(y_plane + y_at[v], 1, vector, vector, sums[v]);
      }
    }
  }
}

/// The same where planes of y have no gaps and begin anywhere: a warp takes a run of an image's
/// pixels. Of each filter it writes run_lines() whole lines of memory, which begin up to a line
/// less one pixel behind its first; those in front are the run's before, or the plane's first.
template <int channels>
__global__ void __launch_bounds__(block_threads, channels <= 8 ? 4 : 3)
    pointwise_lines(const __grid_constant__ ConvShape<int> shape,
                    const __grid_constant__ Terms terms, const __grid_constant__ Work work,
                    const float* x, const float* w, float* y,
                    const __grid_constant__ Epilogue<float> epilogue) {
  constexpr int pitch = filter_pitch(channels);
  constexpr int lines = run_lines(channels), held_lines = lines + 1;
  float* const filters = reinterpret_cast<float*>(dynamic_shared());
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int pixels = shape.p.value() * shape.q.value();
  int loaded = -1;
  for (std::int64_t item = blockIdx.x; item < work.items; item += gridDim.x) {
    const auto [tile, share] = work.shares.divide(static_cast<int>(item));
    const int number = tile * (block_threads / 32) + warp;
    const bool exists = number < shape.n * work.image_runs.value();
    const auto [n, run] = work.image_runs.divide(exists ? number : 0);
    const int first = run * run_pixels(channels);
    float values[channels][held_lines] = {};
    bool inside[held_lines];
#pragma unroll
    for (int v = 0; v < held_lines; ++v) {
      const int pixel = first + v * line_pixels + lane;
      const Pixels of(shape, work, 1, n * pixels + min(pixel, pixels - 1));
      inside[v] = of.inside;
#pragma unroll
      for (int c = 0; c < channels; ++c)
        if (c < terms.count) values[c][v] = x[of.x + terms.x[c]];
    }

    const int first_k = share * work.filters;
    const int count = min(work.filters, shape.k.value() - first_k);
    if (share != loaded) {
      change_filters<channels>(shape, terms, w, epilogue, first_k, count, loaded >= 0, filters);
      loaded = share;
    }
    if (!exists) continue;
    // The lane's first pixel, and those of the plane that follow the run's first.
    float* own_pixel = y + (n * shape.y_step.n + first_k * shape.y_step.c + first + lane);
    const int left = pixels - first;
    int left_of_first = run == 0 ? left : 0;
    asm volatile("" : "+r"(left_of_first));  // or it is made anew for each filter
    for (int k = 0; k < count; ++k, own_pixel += shape.y_step.c) {
      float weights[pitch], sums[held_lines] = {};
      read_vectors<4>(filters + k * pitch, weights);
#pragma unroll
      for (int c = 0; c < channels; ++c)
#pragma unroll
        for (int v = 0; v < held_lines; ++v) sums[v] = fma(values[c][v], weights[c], sums[v]);
#pragma unroll
      for (int v = 0; v < held_lines; ++v)
        sums[v] = epilogue.finish(inside[v] ? sums[v] : 0.0f, weights[channels]);
      // The run's pixels in front of its first line.
      const auto before = reinterpret_cast<std::uintptr_t>(own_pixel) / sizeof(float) - lane;
      const int lead = static_cast<int>(-before % line_pixels);
      if (lane < min(lead, left_of_first)) *own_pixel = sums[0];
      float values_of_lines[lines];
#pragma unroll
      for (int line = 0; line < lines; ++line) {
        // No conditional expression: its operands would be places, and the choice an index.
        float own = sums[line + 1];
        if (lane >= lead) own = sums[line];
        values_of_lines[line] = __shfl_sync(0xffffffff, own, lane + lead);
      }
      const int left_of_lines = left - lead - lane;
#pragma unroll
      for (int line = 0; line < lines; ++line)
        if (line * line_pixels < left_of_lines)
          own_pixel[lead + line * line_pixels] = values_of_lines[line];
    }
  }
}

/// From one pixel of a plane to the next, where that is one number.
std::optional<std::int64_t> plane_step(const Extents& extents, const Strides& strides) {
  if (extents[3] == 1) return strides[2];
  if (extents[2] == 1 || strides[2] == extents[3] * strides[3]) return strides[3];
  return std::nullopt;
}

/// The same problem with terms as channels: a pixel is the one under a filter's first row.
ConvProblem with_terms(ConvProblem problem) {
  problem.c = problem.terms();
  problem.h -= problem.dilation.h * (problem.r - 1);
  problem.r = 1;
  return problem;
}

/// And with planes that are single rows, where x and y allow it.
ConvProblem flattened(const ConvProblem& original) {
  const ConvProblem problem = with_terms(original);
  const auto x_step = plane_step(problem.x_extents(), problem.x_strides);
  const auto y_step = plane_step(problem.y_extents(), problem.y_strides);
  const bool whole =
      problem.padding == Padding{} && problem.p() == problem.h && problem.q() == problem.w;
  if (!whole || !x_step || !y_step) return problem;
  ConvProblem flat = problem;
  flat.w = problem.h * problem.w;
  flat.h = 1;
  flat.stride = {};
  flat.x_strides[3] = *x_step;
  flat.y_strides[3] = *y_step;
  return flat;
}

/// The widest vectors of pixels that rows of x and of y can be divided in, of a problem that is
/// flattened.
int vector_of(const ConvProblem& original, const ConvProblem& problem, const void* x,
              const void* y) {
  if (problem.padding != Padding{} || problem.stride.w != 1) return 1;
  // A filter's rows lie as far apart as those of x did.
  const ConvProblem& of_x = original.r > 1 ? original : problem;
  int vector = std::min({pixels_of(static_cast<int>(problem.c)),
                         row_vector(x, of_x.x_extents(), of_x.x_strides, sizeof(float)),
                         row_vector(y, problem.y_extents(), problem.y_strides, sizeof(float))});
  while (problem.q() % vector != 0) vector /= 2;
  return vector;
}

/// Whether planes of y have no gaps.
bool dense_planes(const ConvProblem& problem) {
  const Extents y = problem.y_extents();
  const Strides& step = problem.y_strides;
  return (y[3] == 1 || step[3] == 1) && (y[2] == 1 || step[2] == y[3]);
}

/// Whether warps write lines: where vectors are of two pixels at most, planes of y have no gaps,
/// and most runs in them are full.
bool writes_lines(const ConvProblem& problem, int vector) {
  const std::int64_t pixels = problem.p() * problem.q();
  const std::int64_t run = run_pixels(Channels::at_least(problem.c));
  return vector <= 2 && problem.c <= most_line_channels && dense_planes(problem) &&
         10 * pixels >= 7 * tiles_of(pixels, run) * run;
}

template <class Kernel>
void launch_kernel(const ConvLaunch& call, const ConvProblem& problem, Kernel kernel, int channels,
                   const Work& work) {
  const std::size_t bytes = work.filters * filter_pitch(channels) * sizeof(float);
  Launch(call.native_queue, blocks_for(work.items, 1), block_threads, bytes)
      .resident(kernel, call.device)(kernel, ConvShape<int>(problem), Terms(call.problem), work,
                                     static_cast<const float*>(call.x),
                                     static_cast<const float*>(call.w), static_cast<float*>(call.y),
                                     Epilogue<float>(call));
}

template <int channels>
void launch_lines(const ConvLaunch& call, const ConvProblem& problem) {
  if constexpr (channels <= most_line_channels)
    launch_kernel(call, problem, pointwise_lines<channels>, channels,
                  Work(problem, call.device, channels, 1, true));
}

template <int channels>
void launch_vectors(const ConvLaunch& call, const ConvProblem& problem, int vector) {
  CompileTime<1, 2, 4>::with(vector, [&]<int pixels>() {
    if constexpr (pixels <= pixels_of(channels))
      launch_kernel(call, problem, pointwise<channels, pixels>, channels,
                    Work(problem, call.device, channels, pixels, false));
  });
}

void launch(const ConvLaunch& whole) {
  for_each_slice(whole, [](const ConvLaunch& call) {
    const ConvProblem problem = flattened(call.problem);
    const int vector = vector_of(call.problem, problem, call.x, call.y);
    Channels::with(Channels::at_least(problem.c), [&]<int channels>() {
      if (writes_lines(problem, vector))
        launch_lines<channels>(call, problem);
      else
        launch_vectors<channels>(call, problem, vector);
    });
  });
}

Support supports(const ConvProblem& problem, const DeviceInfo&) {
  if (const Support usual = forward_in_slices({DType::f32}, problem); !usual) return usual;
  if (problem.s != 1)
    return {Reason::geometry, "filters " + std::to_string(problem.s) + " wide; expected 1"};
  if (problem.r != 1 && (problem.padding.top != 0 || problem.padding.bottom != 0))
    return {Reason::geometry, "filters of " + std::to_string(problem.r) +
                                  " rows with padding above or below; expected none"};
  if (problem.groups != 1)
    return {Reason::geometry, std::to_string(problem.groups) + " groups; expected 1"};
  if (problem.terms() > most_channels)
    return {Reason::geometry, std::to_string(problem.terms()) + " terms; expected at most " +
                                  std::to_string(most_channels)};
  return {};
}

double estimate(const ConvProblem& problem, const DeviceInfo& device) {
  const ConvProblem flat = flattened(problem);
  const int channels = Channels::at_least(flat.c);
  const int vector = vector_of(problem, flat, nullptr, nullptr);
  const bool lines = writes_lines(flat, vector);
  // Of a thread: pixels that it writes and makes, and what it reads or writes them in.
  const int writes = lines ? run_lines(channels) : pixels_of(channels);
  const int makes = lines ? writes + 1 : writes;
  const int reads = lines ? makes : makes / std::min(makes, vector);
  const auto number = [](auto value) { return static_cast<double>(value); };
  const std::int64_t pixels = flat.p() * flat.q();
  const std::int64_t image =
      lines ? tiles_of(pixels, run_pixels(channels)) * run_pixels(channels) : pixels;
  const double threads = number(flat.n) * number(image) / writes;
  // For each filter: FMAs, bias and ReLU, reads of weights, writes; and what comes before.
  const double filter = (channels + 3) * makes + filter_pitch(channels) / 4 +
                        (lines ? 4 * writes + 14 : 3 * reads + 4);
  const double before = reads * (30 + 2 * channels) + 40;
  const double issuing = model_seconds(
      problem, device,
      {.instructions = threads * (number(problem.k) * filter + before),
       .shared_waves = threads / 32 * number(problem.k) * filter_pitch(channels) / 4});
  return std::max(issuing, moving_seconds(problem, device, lines ? 4 : vector));
}

}  // namespace

extern const ConvAlgorithm pointwise_fp32{
    .name = "cuda.conv.pointwise.fp32",
    .numerics = {.operand = Operand::fp32, .accumulator = Accumulator::fp32_fma},
    .supports = supports,
    .workspace_bytes = no_workspace,
    .estimate_seconds = estimate,
    .launch = launch,
};

}  // namespace plumb::cuda
