// Host code of few_terms.cu: how pixels and filters are divided among blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "cuda_kernels/conv/conv_shape.cuh"
#include "cuda_kernels/primitives/compile_time.hpp"
#include "cuda_kernels/primitives/vectors.cuh"
#include "plumb/conv.hpp"

namespace plumb::cuda::few_terms_kernels {

inline constexpr int block_threads = 128;
inline constexpr std::size_t max_filter_bytes = 16 << 10;  // of a share of the filters
inline constexpr int enough_blocks = 8;                    // of a multiprocessor

/// The numbers of terms that there are kernels for; a number between two takes the larger.
using TermCounts = CompileTime<1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32>;
inline constexpr int max_terms = 32;

/// The pixels of a thread.
__host__ __device__ constexpr int pixels_of(int terms) { return terms <= 16 ? 4 : 2; }

/// The elements from one filter to the next in shared memory: the weights of its terms, its bias,
/// and padding to a multiple of four.
__host__ __device__ constexpr int filter_pitch(int terms) { return (terms + 1 + 3) / 4 * 4; }

/// The pixels of a line of memory (128 bytes), and the lines that a warp writes for a filter. The
/// warp holds one line more, so that it has all pixels of its lines wherever those begin.
inline constexpr int line_pixels = 32;
__host__ __device__ constexpr int run_lines(int terms) { return terms <= 24 ? 4 : 3; }
__host__ __device__ constexpr int run_pixels(int terms) { return run_lines(terms) * line_pixels; }

/// The tiles of pixels; a block has one tile at a time, with a share of the filters.
inline std::int64_t pixel_tiles(const ConvProblem& problem, int terms, int vector, bool lines) {
  const std::int64_t pixels = problem.p() * problem.q();
  return lines ? ceil_div(problem.n * ceil_div(pixels, run_pixels(terms)), block_threads / 32)
               : ceil_div(problem.n * pixels / vector, block_threads * pixels_of(terms) / vector);
}

/// The filters of a share: no more than shared memory holds, and so few that there are enough
/// blocks.
inline std::int64_t share_filters(const ConvProblem& problem, const DeviceInfo& device, int terms,
                                  std::int64_t tiles) {
  const auto bytes = static_cast<std::int64_t>(filter_pitch(terms) * sizeof(float));
  const std::int64_t fitting = static_cast<std::int64_t>(max_filter_bytes) / bytes;
  const std::int64_t wanted = std::max(ceil_div(problem.k, fitting),
                                       ceil_div(enough_blocks * std::max(device.units, 1), tiles));
  return ceil_div(problem.k, std::min(wanted, problem.k));
}

/// The division of pixels and filters among blocks.
struct Work {
  int vectors;               ///< vectors of pixels, in all
  Divisor<int> row_vectors;  ///< vectors in a row of outputs
  Divisor<int> image_runs;   ///< runs of run_pixels() in an image, where lines are written
  Divisor<int> shares;       ///< shares of the filters
  int filters;               ///< filters of a share
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

/// The step from one pixel of a plane to the next, where it is the same for all.
inline std::optional<std::int64_t> plane_step(const Extents& extents, const Strides& strides) {
  if (extents[3] == 1) return strides[2];
  if (extents[2] == 1 || strides[2] == extents[3] * strides[3]) return strides[3];
  return std::nullopt;
}

/// Returns the same problem with planes of x and y that are single rows of pixels, and rows of
/// filters as channels, where the strides of x and y allow it; otherwise `problem`.
inline ConvProblem flattened(const ConvProblem& problem) {
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

/// The pixels of the widest vectors that divide the rows of x and of y. `problem` is the flattened
/// `original`; nullptr stands for tensors that begin at a multiple of 16 bytes.
inline int vector_of(const ConvProblem& original, const ConvProblem& problem, const void* x,
                     const void* y) {
  if (problem.s > 1 || problem.padding != Padding{} || problem.stride.w != 1) return 1;
  int vector = std::min({pixels_of(static_cast<int>(problem.terms())),
                         row_vector(x, problem.x_extents(), problem.x_strides, sizeof(float)),
                         row_vector(y, problem.y_extents(), problem.y_strides, sizeof(float))});
  // A filter's rows lie as far apart as those of x did.
  if (original.r > 1)
    vector =
        std::min(vector, row_vector(x, original.x_extents(), original.x_strides, sizeof(float)));
  while (problem.q() % vector != 0) vector /= 2;
  return vector;
}

/// Whether planes of y have no gaps.
inline bool dense_planes(const ConvProblem& problem) {
  const Extents y = problem.y_extents();
  const Strides& step = problem.y_strides;
  return (y[3] == 1 || step[3] == 1) && (y[2] == 1 || step[2] == y[3]);
}

/// Whether warps may write lines: planes of y have no gaps, and most of their runs are full.
inline bool may_write_lines(const ConvProblem& problem) {
  const std::int64_t pixels = problem.p() * problem.q();
  const std::int64_t run = run_pixels(TermCounts::at_least(problem.terms()));
  return dense_planes(problem) && 10 * pixels >= 7 * ceil_div(pixels, run) * run;
}
/// The widest vectors that are slower than lines are.
inline constexpr int max_vector_for_lines = 2;

/// The plan of a slice of the batch. Views may begin anywhere, so that there is work for each width
/// of vectors that a launch can meet.
struct SliceWork {
  ConvProblem problem;  ///< flattened
  int terms;            ///< the terms that the kernel is compiled for
  int vector;           ///< the pixels of the widest vector, for any x and y
  bool lines;           ///< whether warps may write lines
  Work in_lines;        ///< for warps that write lines
  Work in_vectors[3];   ///< for vectors of 1, 2 and 4 pixels; of `vector` where that is less

  SliceWork(const ConvProblem& original, const DeviceInfo& device)
      : problem(flattened(original)),
        terms(TermCounts::at_least(problem.terms())),
        vector(vector_of(original, problem, nullptr, nullptr)),
        lines(may_write_lines(problem)),
        in_lines(problem, device, terms, 1, true),
        in_vectors{{problem, device, terms, 1, false},
                   {problem, device, terms, std::min(2, vector), false},
                   {problem, device, terms, vector, false}} {}
};

}  // namespace plumb::cuda::few_terms_kernels
