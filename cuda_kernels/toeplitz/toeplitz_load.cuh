// Copies of a pass's input to shared memory, in vectors of 16 bytes and, where the boundary shows
// what is no neighbour in memory, element by element.
#pragma once

#include "cuda_kernels/primitives/async_copy.cuh"
#include "cuda_kernels/toeplitz/toeplitz_input.cuh"

namespace plumb::cuda {

template <ToeplitzMode mode, ToeplitzFault fault>
class ToeplitzLoader {
 public:
  __device__ ToeplitzLoader(const ToeplitzParams& params, int thread)
      : params_(params), thread_(thread) {}

  /// Whether a line is one of the second plane.
  __device__ bool is_second(int line) const {
    return mode == ToeplitzMode::planes && line >= half_lines();
  }

  /// Begins to load a tile inside of the image.
  __device__ void load_even(const ToeplitzLoad& load, char* tile) const {
    const auto x = reinterpret_cast<std::uintptr_t>(load.x);
    const std::int64_t step = 4 * load.step, jump = 4 * load.jump;
    const int all = params_.lines * params_.vectors.value();
#pragma unroll 4
    for (int i = thread_; i < all; i += toeplitz_loaders) {
      const auto [line, vector] = params_.vectors.divide(i);
      const int number = line_number(line);
      std::uintptr_t first = x + number * step;
      if (is_second(number)) first += jump;
      const std::uintptr_t from = (first & ~std::uintptr_t{15}) + 16 * vector;
      copy_16_bytes_async(tile + 16 * i, reinterpret_cast<const char*>(from));
    }
  }

  /// Begins to load a tile whose lines are in a table. In rows and planes threads load elements of
  /// vectors that others look at.
  __device__ void load_lines(const ToeplitzTable& table, char* tile) const {
    const int all = params_.lines * params_.vectors.value();
#pragma unroll 2
    for (int i = thread_; i < all; i += toeplitz_loaders) {
      const auto [number, vector] = params_.vectors.divide(i);
      const ToeplitzLine line = table.lines[line_number(number)];
      const int at = 4 * vector;
      if (!is_beyond(params_.view.w, line, at)) {
        const bool nothing = !line.x || at + 4 <= line.begin || at >= line.end;
        const int elements = nothing ? 0 : min(line.end - at, 4);
        copy_16_bytes_async(tile + 16 * i, nothing ? params_.x_aligned : line.x + at, 4 * elements);
      } else if (by_vectors) {
        load_vector(params_, line.x, table.firsts[number] + at, at,
                    reinterpret_cast<float*>(tile + 16 * i));
      }
    }
    if (!by_vectors && table.beyond.count() > 0) load_beyond(params_, table, tile, thread_);
  }

  /// A tile of lines has segments of many rows, of which some may end after a few elements: what is
  /// beyond them is loaded by the threads whose vectors they are.
  static constexpr bool by_vectors = mode == ToeplitzMode::line;

 private:
  __device__ int half_lines() const { return params_.lines / 2; }
  __device__ int line_number(int number) const {
    const bool again = fault == ToeplitzFault::stale_plane && is_second(number);
    return again ? number - half_lines() : number;
  }
  /// Whether of the four elements of a line from `at` on some lie beyond the image, and are not
  /// zeros, or are no neighbours in memory.
  __device__ static bool is_beyond(const FieldAxis& w, const ToeplitzLine& line, int at) {
    if (!line.x) return false;
    if (w.x_step != 1) return true;
    if (w.boundary == Boundary::zeros) return at < line.begin && at + 4 > line.begin;
    return at < line.begin || at + 4 > line.end;
  }
  /// Loads what stands at `column`, which is element `at` of a line.
  __device__ static void load_element(const ToeplitzParams& params, const float* line,
                                      std::int64_t column, int at, float* to) {
    const FieldAxis& w = params.view.w;
    std::int64_t from = fields::mapped(column, w);
    if (fault == ToeplitzFault::wrong_wrap && from > 0 && from != column) --from;
    const bool inside = from >= 0;
    copy_async(to, inside ? line + (from - column + at) * w.x_step : params.x, inside);
  }
  // Static functions that are called, since producers have no registers to spare.
  __device__ __noinline__ static void load_vector(const ToeplitzParams& params, const float* line,
                                                  std::int64_t column, int at, float* to) {
#pragma unroll 1
    for (int i = 0; i < 4; ++i) load_element(params, line, column + i, at + i, to + i);
  }
  /// Loads the elements of vectors that are beyond, as many lines at once as a warp has lanes for
  /// those of a line: if each thread loaded those of its vectors, most would wait for a few.
  __device__ __noinline__ static void load_beyond(const ToeplitzParams& params,
                                                  const ToeplitzTable& table, char* tile,
                                                  int thread) {
    const ToeplitzBeyond beyond = table.beyond;
    const int lane_bits = beyond.lane_bits(), lanes = 1 << lane_bits;
#pragma unroll 1
    for (int number = thread >> lane_bits; number < params.lines;
         number += toeplitz_loaders >> lane_bits) {
      const ToeplitzLine line = table.lines[number];
      const std::int64_t first = table.firsts[number];
      auto* const to = reinterpret_cast<float*>(tile + number * params.line_bytes);
#pragma unroll 1
      for (int i = thread & (lanes - 1); i < beyond.count(); i += lanes) {
        const int at = beyond.element(i);
        if (is_beyond(params.view.w, line, at & ~3))
          load_element(params, line.x, first + at, at, to + at);
      }
    }
  }

  const ToeplitzParams& params_;
  const int thread_;
};

}  // namespace plumb::cuda
