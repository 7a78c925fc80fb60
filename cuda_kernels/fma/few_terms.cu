// Filters of few terms, up to 32 of C R S: 1x1 over 32 channels, 2x2 over 8, 3x3 over 3. A thread
// holds all terms of its pixels in registers and goes through the filters, whose outputs it writes
// one after the other.
//
// Tiling: pixels of y are numbered through rows and images. A warp takes a run of an image's: 160
//   neighbours, of which it writes for each filter those 128 that are four lines of memory,
//   wherever planes of y begin (with more than 24 terms three lines). Where planes have gaps or are
//   small, and where rows of x and y are vectors of four, a thread makes four pixels by themselves
//   (two, with more than 16 terms), in vectors of 4, 2 or 1 neighbours; a plane without gaps,
//   strides and padding is one row then. A block is 128 threads with a share of the filters in
//   shared memory: all of them where 16 KB hold them and there are pixels enough for the device.
//   Blocks stay, and take tile after tile.
// Bytes: y once; x once for each share of the filters (from L2, but the first), where lines are
//   written a quarter of it twice, or a third, and from L1 each element for each of its taps; w
//   once a block.
// Wins: where terms are few: all that is left to do is to move x and y, and each is read or written
//   once and in the order in which it lies.
// Measured: docs/kernels/few_terms.md.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "cuda_kernels/conv/batch_slices.hpp"
#include "cuda_kernels/conv/conv_shape.cuh"
#include "cuda_kernels/conv/conv_support.hpp"
#include "cuda_kernels/conv/direct_sum.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/cost/fma.hpp"
#include "cuda_kernels/primitives/compile_time.hpp"
#include "cuda_kernels/primitives/dynamic_shared.cuh"
#include "cuda_kernels/primitives/vectors.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 128;
constexpr std::size_t max_filter_bytes = 16 << 10;  // of a share
constexpr int enough_blocks = 8;                    // on a multiprocessor

/// Numbers of terms that there are kernels for; those between take the next one.
using TermCounts = CompileTime<1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32>;
constexpr int max_terms = 32;

/// Pixels of a thread.
__host__ __device__ constexpr int pixels_of(int terms) { return terms <= 16 ? 4 : 2; }

/// From one filter to the next in shared memory: the weights of its terms, then its bias.
__host__ __device__ constexpr int filter_pitch(int terms) { return (terms + 1 + 3) / 4 * 4; }

/// Of a warp that writes lines of memory: the pixels of one, and lines of a filter. It holds one
/// more, to have them wherever they begin.
constexpr int line_pixels = 32;
__host__ __device__ constexpr int run_lines(int terms) { return terms <= 24 ? 4 : 3; }
__host__ __device__ constexpr int run_pixels(int terms) { return run_lines(terms) * line_pixels; }

/// Tiles of pixels, one for each block that has a share of the filters.
std::int64_t pixel_tiles(const ConvProblem& problem, int terms, int vector, bool lines) {
  const std::int64_t pixels = problem.p() * problem.q();
  return lines ? ceil_div(problem.n * ceil_div(pixels, run_pixels(terms)), block_threads / 32)
               : ceil_div(problem.n * pixels / vector, block_threads * pixels_of(terms) / vector);
}

/// Filters of a share: no more than fit, and so few that there are enough blocks.
std::int64_t share_filters(const ConvProblem& problem, const DeviceInfo& device, int terms,
                           std::int64_t tiles) {
  const auto bytes = static_cast<std::int64_t>(filter_pitch(terms) * sizeof(float));
  const std::int64_t fitting = static_cast<std::int64_t>(max_filter_bytes) / bytes;
  const std::int64_t wanted = std::max(ceil_div(problem.k, fitting),
                                       ceil_div(enough_blocks * std::max(device.units, 1), tiles));
  return ceil_div(problem.k, std::min(wanted, problem.k));
}

/// How pixels and filters are shared out.
struct Work {
  int vectors;               ///< of pixels, in all
  Divisor<int> row_vectors;  ///< in a row of outputs
  Divisor<int> image_runs;   ///< of run_pixels(), where lines are written
  Divisor<int> shares;       ///< of the filters
  int filters;               ///< of a share
  std::int64_t items;        ///< tiles of pixels x shares

  Work(const ConvProblem& problem, const DeviceInfo& device, int terms, int vector, bool lines)
      : vectors(static_cast<int>(problem.n * problem.p() * problem.q() / vector)),
        row_vectors(problem.q() / vector),
        image_runs(ceil_div(problem.p() * problem.q(), run_pixels(terms))) {
    const std::int64_t tiles = pixel_tiles(problem, terms, vector, lines);
    filters = static_cast<int>(share_filters(problem, device, terms, tiles));
    shares = Divisor<int>(ceil_div(problem.k, filters));
    items = tiles * shares.value();
  }
};

/// The terms of a pixel, as filters have them: in elements from the first one, and their weights
/// from the filter's.
struct Terms {
  int count;
  std::uint32_t of_channels = 0;  ///< a bit for the first term of each
  int x[max_terms] = {}, w[max_terms] = {};

  explicit Terms(const ConvProblem& problem) : count(static_cast<int>(problem.terms())) {
    const ConvShape<int> shape(problem);
    const int taps = shape.r.value() * shape.s.value();
    for (int i = 0; i < count; ++i) {
      const int c = i / taps, tap = i % taps;
      const auto [r, s] = shape.s.divide(tap);
      x[i] = c * shape.x_step.c + r * shape.dilation_h.value() * shape.x_step.h +
             s * shape.dilation_w.value() * shape.x_step.w;
      w[i] = c * shape.w_step.c + r * shape.w_step.r + s * shape.w_step.s;
      if (tap == 0) of_channels |= std::uint32_t{1} << i;
    }
  }

  /// A bit for each that lies in the image, where the first does so at a row and a column.
  template <bool padded>
  __device__ std::uint32_t inside(const ConvShape<int>& shape, int row, int column) const {
    if (!padded) return ~std::uint32_t{0} >> (max_terms - count);
    std::uint32_t columns = 0, rows = 0;
#pragma unroll 1
    for (int s = 0; s < shape.s.value(); ++s, column += shape.dilation_w.value())
      if (static_cast<unsigned>(column) < static_cast<unsigned>(shape.w))
        columns |= std::uint32_t{1} << s;
#pragma unroll 1
    for (int r = 0; r < shape.r.value(); ++r, row += shape.dilation_h.value())
      if (static_cast<unsigned>(row) < static_cast<unsigned>(shape.h))
        rows |= std::uint32_t{1} << r * shape.s.value();
    // Bits that are so far apart that none is carried.
    return columns * rows * of_channels;
  }
};

/// What a kernel works on.
struct Call {
  ConvShape<int> shape;
  Terms terms;
  Work work;
  const float *x, *w;
  float* y;
  Epilogue<float> epilogue;
};

/// A vector of pixels: where it is, and where it lies.
template <bool padded>
struct Pixels {
  int n, p, q;
  int x, y;              ///< offsets, of the first term and filter
  std::uint32_t inside;  ///< a bit for each term
  bool exists;

  __device__ Pixels(const Call& call, int vector, int number) : exists(number < call.work.vectors) {
    const ConvShape<int>& shape = call.shape;
    const auto [rows, first] = call.work.row_vectors.divide(exists ? number : 0);
    const auto [image, row_of_y] = shape.p.divide(rows);
    n = image, p = row_of_y, q = first * vector;
    const int row = p * shape.stride_h - shape.top, column = q * shape.stride_w - shape.left;
    x = n * shape.x_step.n + row * shape.x_step.h + column * shape.x_step.w;
    y = n * shape.y_step.n + p * shape.y_step.h + q * shape.y_step.w;
    inside = call.terms.template inside<padded>(shape, row, column);
  }
  template <int terms, int vector>
  __device__ void read(const Call& call, float (&values)[terms][vector]) const {
#pragma unroll
    for (int i = 0; i < terms; ++i)
      if ((inside >> i & 1) != 0) read_vectors<vector>(call.x + (x + call.terms.x[i]), values[i]);
  }
};

/// A share of the filters in shared memory.
template <int terms>
class Share {
 public:
  static constexpr int pitch = filter_pitch(terms);

  __device__ explicit Share(const Call& call)
      : call_(call), filters_(reinterpret_cast<float*>(dynamic_shared())) {}

  /// Takes that one, by the whole block.
  __device__ void take(int share) {
    if (share == share_) return;
    const ConvShape<int>& shape = call_.shape;
    if (share_ >= 0) __syncthreads();
    share_ = share;
    first_k = share * call_.work.filters;
    count = min(call_.work.filters, shape.k.value() - first_k);
    finite = true;
    for (int i = static_cast<int>(threadIdx.x); i < count * pitch; i += block_threads) {
      const int k = first_k + i / pitch, term = i % pitch;
      float value = 0;  // of terms that are not there
      if (term < call_.terms.count) value = call_.w[k * shape.w_step.k + call_.terms.w[term]];
      finite = finite && fabsf(value) < infinity<float>;
      if (term == terms) value = call_.epilogue.bias_of<float>(k);
      filters_[i] = value;
    }
    finite = __syncthreads_and(finite) != 0;
  }
  __device__ void read(int k, float (&weights)[pitch]) const {
    read_vectors<4>(filters_ + k * pitch, weights);
  }

  int first_k = 0, count = 0;
  bool finite = true;  ///< are the weights: of zeros for the padding others make NaN

 private:
  const Call& call_;
  float* const filters_;
  int share_ = -1;
};

template <int terms, int vector, bool padded>
__global__ void __launch_bounds__(block_threads, 4) few_terms(const __grid_constant__ Call call) {
  constexpr int vectors = pixels_of(terms) / vector;
  Share<terms> filters(call);
  for (std::int64_t item = blockIdx.x; item < call.work.items; item += gridDim.x) {
    const auto [tile, share] = call.work.shares.divide(static_cast<int>(item));
    const auto pixels_at = [&](int v) {
      return Pixels<padded>(call, vector,
                            (tile * vectors + v) * block_threads + static_cast<int>(threadIdx.x));
    };
    float values[vectors][terms][vector] = {};
    int y_at[vectors];
    bool exists[vectors];
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      const Pixels<padded> pixels = pixels_at(v);
      y_at[v] = pixels.y, exists[v] = pixels.exists;
      pixels.read(call, values[v]);
    }

    filters.take(share);
    float* y_plane = call.y + filters.first_k * call.shape.y_step.c;
    for (int k = 0; k < filters.count; ++k, y_plane += call.shape.y_step.c) {
      float weights[filters.pitch], sums[vectors][vector] = {};
      filters.read(k, weights);
#pragma unroll
      for (int i = 0; i < terms; ++i)
#pragma unroll
        for (int v = 0; v < vectors; ++v)
#pragma unroll
          for (int j = 0; j < vector; ++j)
            sums[v][j] = fma(values[v][i][j], weights[i], sums[v][j]);
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
#pragma unroll
        for (int j = 0; j < vector; ++j)
          sums[v][j] = call.epilogue.finish(sums[v][j], weights[terms]);
        if (exists[v]) write_row(y_plane + y_at[v], 1, vector, vector, sums[v]);
      }
    }
    if constexpr (padded) {
      if (filters.finite) continue;
      for (int v = 0; v < vectors; ++v)
        if (const Pixels<true> of = pixels_at(v); of.exists)
          for (int k = 0; k < filters.count; ++k)
            do_over(call.shape, call.x, call.w, call.y, call.epilogue, of.n, filters.first_k + k,
                    of.p, of.q);
    }
  }
}

/// The same where planes of y have no gaps and begin anywhere: a warp takes a run of an image's
/// pixels. Of each filter it writes run_lines() whole lines of memory, which begin up to a line
/// less one pixel behind its first; those in front are the run's before, or the plane's first.
template <int terms, bool padded>
__global__ void __launch_bounds__(block_threads, terms <= 8 ? 4 : 3)
    few_terms_lines(const __grid_constant__ Call call) {
  constexpr int lines = run_lines(terms), held_lines = lines + 1;
  const ConvShape<int>& shape = call.shape;
  Share<terms> filters(call);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int pixels = shape.p.value() * shape.q.value();
  for (std::int64_t item = blockIdx.x; item < call.work.items; item += gridDim.x) {
    const auto [tile, share] = call.work.shares.divide(static_cast<int>(item));
    const int number = tile * (block_threads / 32) + warp;
    const bool exists = number < shape.n * call.work.image_runs.value();
    const auto [n, run] = call.work.image_runs.divide(exists ? number : 0);
    const int first = run * run_pixels(terms);
    float values[held_lines][terms][1] = {};
#pragma unroll
    for (int v = 0; v < held_lines; ++v) {
      const int pixel = first + v * line_pixels + lane;
      Pixels<padded>(call, 1, n * pixels + min(pixel, pixels - 1)).read(call, values[v]);
    }

    filters.take(share);
    if (!exists) continue;
    // The lane's first pixel, and those of the plane that follow the run's first.
    float* const own_first =
        call.y + (n * shape.y_step.n + filters.first_k * shape.y_step.c + first + lane);
    const int left = pixels - first;
    int left_of_first = run == 0 ? left : 0;
    asm volatile("" : "+r"(left_of_first));  // or it is made anew for each filter
    // Of a filter whose first own pixel that is: those of the run in front of its first line.
    const auto lead_of = [&](const float* own) {
      const auto before = reinterpret_cast<std::uintptr_t>(own) / sizeof(float) - lane;
      return static_cast<int>(-before % line_pixels);
    };
    float* own = own_first;
    for (int k = 0; k < filters.count; ++k, own += shape.y_step.c) {
      float weights[filters.pitch], sums[held_lines] = {};
      filters.read(k, weights);
#pragma unroll
      for (int i = 0; i < terms; ++i)
#pragma unroll
        for (int v = 0; v < held_lines; ++v) sums[v] = fma(values[v][i][0], weights[i], sums[v]);
#pragma unroll
      for (int v = 0; v < held_lines; ++v) sums[v] = call.epilogue.finish(sums[v], weights[terms]);
      const int lead = lead_of(own);
      if (lane < min(lead, left_of_first)) *own = sums[0];
      float values_of_lines[lines];
#pragma unroll
      for (int line = 0; line < lines; ++line) {
        // No conditional expression: its operands would be places, and the choice an index.
        float value = sums[line + 1];
        if (lane >= lead) value = sums[line];
        values_of_lines[line] = __shfl_sync(0xffffffff, value, lane + lead);
      }
      const int left_of_lines = left - lead - lane;
#pragma unroll
      for (int line = 0; line < lines; ++line)
        if (line * line_pixels < left_of_lines)
          own[lead + line * line_pixels] = values_of_lines[line];
    }
    if constexpr (padded) {
      if (filters.finite) continue;
      own = own_first;
      for (int k = 0; k < filters.count; ++k, own += shape.y_step.c) {
        const auto over = [&](int pixel) {
          const auto [p, q] = shape.q.divide(pixel);
          do_over(shape, call.x, call.w, call.y, call.epilogue, n, filters.first_k + k, p, q);
        };
        const int lead = lead_of(own), end = min(lead + run_pixels(terms), left);
        if (lane < min(lead, left_of_first)) over(lane);
        for (int pixel = lead + lane; pixel < end; pixel += line_pixels) over(first + pixel);
      }
    }
  }
}

/// From one pixel of a plane to the next, where that is one number.
std::optional<std::int64_t> plane_step(const Extents& extents, const Strides& strides) {
  if (extents[3] == 1) return strides[2];
  if (extents[2] == 1 || strides[2] == extents[3] * strides[3]) return strides[3];
  return std::nullopt;
}

/// The same problem with planes of x and y that are single rows of pixels, and rows of filters as
/// channels, where x and y allow it.
ConvProblem flattened(const ConvProblem& problem) {
  if (problem.s > 1 || problem.padding != Padding{}) return problem;
  ConvProblem flat = problem;
  flat.h -= problem.dilation.h * (problem.r - 1);
  flat.r = 1;
  flat.c = problem.terms();
  const auto x_step = plane_step(flat.x_extents(), flat.x_strides);
  const auto y_step = plane_step(flat.y_extents(), flat.y_strides);
  const bool whole = flat.p() == flat.h && flat.q() == flat.w;
  if (!whole || !x_step || !y_step) return problem;
  flat.w = flat.h * flat.w;
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
  if (problem.s > 1 || problem.padding != Padding{} || problem.stride.w != 1) return 1;
  // A filter's rows lie as far apart as those of x did.
  const ConvProblem& of_x = original.r > 1 ? original : problem;
  int vector = std::min({pixels_of(static_cast<int>(problem.terms())),
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
  const std::int64_t run = run_pixels(TermCounts::at_least(problem.terms()));
  return vector <= 2 && dense_planes(problem) && 10 * pixels >= 7 * ceil_div(pixels, run) * run;
}

void launch(const ConvLaunch& whole) {
  for_each_slice(whole, [](const ConvLaunch& call) {
    const ConvProblem problem = flattened(call.problem);
    const int vector = vector_of(call.problem, problem, call.x, call.y);
    const auto launch_kernel = [&](auto kernel, int terms, const Work& work) {
      const std::size_t bytes = work.filters * filter_pitch(terms) * sizeof(float);
      Launch(call.native_queue, blocks_for(work.items, 1), block_threads, bytes)
          .resident(kernel, call.device)(
              kernel, Call{ConvShape<int>(problem), Terms(call.problem), work,
                           static_cast<const float*>(call.x), static_cast<const float*>(call.w),
                           static_cast<float*>(call.y), Epilogue<float>(call)});
    };
    const auto launch_terms = [&]<int terms, bool padded>() {
      if (writes_lines(problem, vector))
        return launch_kernel(few_terms_lines<terms, padded>, terms,
                             Work(problem, call.device, terms, 1, true));
      CompileTime<1, 2, 4>::with(vector, [&]<int width>() {
        if constexpr (width <= pixels_of(terms) && !(padded && width > 1))
          launch_kernel(few_terms<terms, width, padded>, terms,
                        Work(problem, call.device, terms, width, false));
      });
    };
    TermCounts::with(TermCounts::at_least(problem.terms()), [&]<int terms>() {
      if (problem.padding == Padding{})
        launch_terms.template operator()<terms, false>();
      else
        launch_terms.template operator()<terms, true>();
    });
  });
}

Support supports(const ConvProblem& problem, const DeviceInfo&) {
  if (const Support usual = supports_dtypes_in_slices({DType::f32}, problem); !usual) return usual;
  if (problem.groups != 1)
    return {Reason::geometry, std::to_string(problem.groups) + " groups; expected 1"};
  if (problem.terms() > max_terms)
    return {Reason::geometry, std::to_string(problem.terms()) + " terms; expected at most " +
                                  std::to_string(max_terms)};
  return {};
}

double estimate(const ConvProblem& problem, const DeviceInfo& device) {
  const ConvProblem flat = flattened(problem);
  const int terms = TermCounts::at_least(flat.terms());
  const int vector = vector_of(problem, flat, nullptr, nullptr);
  const bool lines = writes_lines(flat, vector);
  const int writes = lines ? run_lines(terms) : pixels_of(terms);
  const int makes = lines ? writes + 1 : writes;
  const std::int64_t pixels = flat.p() * flat.q();
  const std::int64_t image =
      lines ? ceil_div(pixels, run_pixels(terms)) * run_pixels(terms) : pixels;
  const std::int64_t of_share =
      share_filters(flat, device, terms, pixel_tiles(flat, terms, lines ? 1 : vector, lines));
  return few_terms_seconds(
      problem, device,
      {.terms = terms,
       .filter_pitch = filter_pitch(terms),
       .makes = makes,
       .reads = lines ? makes : makes / std::min(makes, vector),
       .writes = writes,
       .threads = static_cast<double>(flat.n) * static_cast<double>(image) / writes,
       .lines = lines,
       .vector = vector,
       .image_pixels = pixels,
       .share_filters = of_share,
       .shares = ceil_div(problem.k, of_share)});
}

}  // namespace

extern const ConvAlgorithm few_terms_fp32{
    .name = "cuda.conv.few_terms.fp32",
    .numerics = {.operand = Operand::fp32, .accumulator = Accumulator::fp32_fma},
    .plan = plan_of_parts<supports, estimate>,
    .launch = without_plan<launch>,
};

}  // namespace plumb::cuda
