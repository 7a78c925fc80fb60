// Sums of a block's tile become outputs. Where pixels of a filter lie side by side they go through
// shared memory, in which a filter's outputs lie as they do in y beside multiples of 16 bytes, so
// that whole vectors leave wherever the filter's plane begins, and a block's run of pixels has two
// incomplete sectors.
#pragma once

#include "cuda_kernels/pointwise/pointwise_taps_params.cuh"
#include "cuda_kernels/primitives/thread_anew.cuh"
#include "cuda_kernels/wide/wide_outputs.cuh"

namespace plumb::cuda {

/// Sums of a warp's tile and a chunk, with the biases of a lane's filters and without rounding.
template <class Arithmetic>
using TapsSums = float[Arithmetic::m16_tiles][taps_n8_tiles][4];

/// A lane's sum of one of its pixels and of one of its four filters.
template <int m16_tiles>
__device__ inline float& taps_sum(float (&sums)[m16_tiles][taps_n8_tiles][4], int pixel,
                                  int filter) {
  return sums[pixel / 2][filter / 2][pixel % 2 * 2 + filter % 2];
}

/// Two outputs after the activation, rounded.
template <class Stored>
__device__ WidePair<Stored> taps_rounded(float first, float second, float least) {
  if constexpr (!WidePair<Stored>::rounds) {
    return {{max_nan(first, least), max_nan(second, least)}};
  } else {
    // Rounding keeps order, 0 and -Inf, so that the limit may be applied behind it, to pairs.
    WidePair<Stored> pair = WidePair<Stored>::round(first, second);
    pair.of = __hmax2_nan(pair.of, WidePair<Stored>::round(least, least).of);
    return pair;
  }
}

/// A part of a block's tile whose pixels lie in one run of y, numbered from the tile's first run
/// on. In shared memory there are two vectors between parts, so that no vector has pixels of two.
template <class Params>
struct TapsPiece {
  static constexpr int vector = Params::Arithmetic::vector;
  int begin, end;  ///< pixels of the tile
  int y;           ///< where the first lies in y, for filter 0
  int number;

  __device__ TapsPiece(const Params& params, int first, int piece) : number(piece) {
    const int run = params.run.quotient(first) + piece,
              last = min(first + Params::tile_pixels, params.images.pixels);
    begin = piece == 0 ? 0 : run * params.run.value() - first;
    end = min((run + 1) * params.run.value(), last) - first;
    y = begin < end ? params.images.of_y(params.images.place(first + begin)) : 0;
  }
  /// Where the first output lies in the filter's row of shared memory: as far behind a multiple of
  /// a vector as in y.
  __device__ int staged(const Params& params, int filter) const {
    const int behind = params.misaligned + y + filter * params.images.y.c - begin;
    return begin + 2 * vector * number + (behind & (vector - 1));
  }
};

/// Where a block's tile lies in y, which is found once for all chunks.
template <class Params>
struct TapsTile {
  int first;                ///< pixel
  TapsPiece<Params> piece;  ///< the first
  int pieces;

  __device__ TapsTile(const Params& params, int first_pixel)
      : first(first_pixel), piece(params, first_pixel, 0) {
    const int last = min(first + Params::tile_pixels, params.images.pixels) - 1;
    pieces = params.run.quotient(last) - params.run.quotient(first) + 1;
  }
};

/// The filters' rows are in an order in which those of the four lanes of a group, which have four
/// filters each, are neighbours.
__device__ inline int taps_row(int filter_of_chunk) {
  return filter_of_chunk % 4 * 4 + filter_of_chunk / 4;
}
__device__ inline int taps_filter_of_row(int row) { return row % 4 * 4 + row / 4; }

/// Stores of planes, by way of shared memory.
template <class Params>
class TapsPlanes {
 public:
  using Arithmetic = typename Params::Arithmetic;
  using Stored = typename Params::Stored;
  static constexpr int vector = Arithmetic::vector, bytes = sizeof(Stored);
  /// Pairs of halves are words of shared memory, so that an odd place is the even one before, and
  /// vectors are shifted by a half when they are read.
  static constexpr int odd = bytes == 2 ? 1 : 0;

  __device__ TapsPlanes(const Params& params, char* stage, const TapsTile<Params>& tile, int chunk)
      : params_(params), stage_(stage), tile_(tile), chunk_(chunk) {}

  /// Writes a warp's outputs to shared memory.
  __device__ void put(TapsSums<Arithmetic>& sums) const {
    if (tile_.pieces == 1) return put_piece<true>(tile_.piece, sums);
#pragma unroll 1
    for (int piece = 0; piece < tile_.pieces; ++piece)
      put_piece<false>(TapsPiece<Params>(params_, tile_.first, piece), sums);
  }
  /// Stores what all warps of the block have put there.
  __device__ void store() const {
    constexpr int rows = taps_chunk / taps_warps;
    const int thread = thread_anew(), lane = thread % 32;
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const int row = thread / 32 * rows + i;
      const int filter = chunk_ * taps_chunk + taps_filter_of_row(row);
      if (filter >= params_.k) continue;
      store_piece(tile_.piece, filter, stage_ + row * taps_row_bytes, lane);
#pragma unroll 1
      for (int piece = 1; piece < tile_.pieces; ++piece)
        store_piece(TapsPiece<Params>(params_, tile_.first, piece), filter,
                    stage_ + row * taps_row_bytes, lane);
    }
  }

 private:
  using Pair = WidePair<Stored>;

  __device__ Pair pair(TapsSums<Arithmetic>& sums, int pixel, int filter) const {
    return taps_rounded<Stored>(taps_sum(sums, pixel, filter), taps_sum(sums, pixel + 1, filter),
                                params_.epilogue.least);
  }
  __device__ static void put_pair(char* to, const Pair& pair) {
    if constexpr (bytes == 2)
      *reinterpret_cast<Pair*>(to) = pair;
    else
      reinterpret_cast<float*>(to)[0] = pair.of.x, reinterpret_cast<float*>(to)[1] = pair.of.y;
  }
  /// Writes the outputs that are of a piece, one by one where it is not the whole tile: a pair may
  /// be of two.
  template <bool whole>
  __device__ void put_piece(const TapsPiece<Params>& piece, TapsSums<Arithmetic>& sums) const {
    const int thread = thread_anew(), lane = thread % 32;
    const int begin = thread / 32 * Arithmetic::pixels + taps_lane_pixel(0, lane);
#pragma unroll
    for (int filter = 0; filter < 4; ++filter) {
      const int of_chunk = lane % 4 * 4 + filter;
      const int first = piece.staged(params_, chunk_ * taps_chunk + of_chunk) & ~odd;
      char* const to =
          stage_ + taps_row(of_chunk) * taps_row_bytes + (begin - piece.begin + first) * bytes;
#pragma unroll
      for (int i = 0; i < vector; i += 2) {
        const Pair outputs = pair(sums, i, filter);
        if constexpr (whole) {
          put_pair(to + i * 8 * bytes, outputs);
        } else {
          auto* const alone = reinterpret_cast<Stored*>(to + i * 8 * bytes);
          const int pixel = begin + i * 8;
          if (pixel >= piece.begin && pixel < piece.end) alone[0] = outputs.of.x;
          if (pixel + 1 >= piece.begin && pixel + 1 < piece.end) alone[1] = outputs.of.y;
        }
      }
    }
  }
  __device__ void store_piece(const TapsPiece<Params>& piece, int filter, const char* row,
                              int lane) const {
    const int begin = piece.staged(params_, filter), end = begin + piece.end - piece.begin;
    const int shifted = begin & odd;
    Stored* const to = params_.y + (piece.y + filter * params_.images.y.c - begin);
    const int whole = (begin + vector - 1) & -vector, behind = end & -vector;
#pragma unroll
    for (int i = 0; i < Params::tile_pixels; i += 32 * vector)
      if (const int at = whole + lane * vector + i; at < behind)
        *reinterpret_cast<uint4*>(to + at) = read(row + at * bytes, shifted);
    // What is left before and behind, fewer than a vector each.
    const bool is_before = lane < vector;
    const int at = is_before ? begin + lane : max(behind, min(whole, end)) + lane - vector;
    if (lane < 2 * vector && at < (is_before ? min(whole, end) : end))
      to[at] = reinterpret_cast<const Stored*>(row)[at - shifted];
  }
  /// A vector that lies one element before where it belongs if it is `shifted`.
  __device__ static uint4 read(const char* from, int shifted) {
    const uint4 of = *reinterpret_cast<const uint4*>(from);
    if (odd == 0 || shifted == 0) return of;
    constexpr unsigned upper_and_next = 0x5432;
    const Fragment before = reinterpret_cast<const Fragment*>(from)[-1];
    return {__byte_perm(before, of.x, upper_and_next), __byte_perm(of.x, of.y, upper_and_next),
            __byte_perm(of.y, of.z, upper_and_next), __byte_perm(of.z, of.w, upper_and_next)};
  }

  const Params& params_;
  char* stage_;
  const TapsTile<Params>& tile_;
  int chunk_;
};

/// Stores of single outputs, or of a lane's four filters of a pixel together, with what y holds.
template <class Params>
class TapsDirect {
 public:
  using Arithmetic = typename Params::Arithmetic;
  using Stored = typename Params::Stored;
  static constexpr int vector = Arithmetic::vector;

  /// `first` is the warp's first pixel, `chunk` of all.
  __device__ TapsDirect(const Params& params, int first, int chunk)
      : params_(params),
        lane_(lane_anew()),
        first_(first),
        filter_(chunk * taps_chunk + lane_ % 4 * 4) {}

  __device__ void store(TapsSums<Arithmetic>& sums) const {
#pragma unroll
    for (int i = 0; i < vector; ++i) {
      const int pixel = first_ + taps_lane_pixel(i, lane_);
      if (pixel >= params_.images.pixels || filter_ >= params_.k) continue;
      Stored* const to = params_.y + place(pixel) + filter_ * params_.images.y.c;
      float of[4];
#pragma unroll
      for (int filter = 0; filter < 4; ++filter) of[filter] = taps_sum(sums, i, filter);
      if (params_.output == TapsOutput::filters)
        store_together(of, to);
      else
        store_alone(of, to);
    }
  }

 private:
  __device__ int place(int pixel) const {
    if (params_.run.value() >= params_.images.pixels) return pixel * params_.run_step;
    return params_.images.of_y(params_.images.place(pixel));
  }
  __device__ void store_together(const float (&of)[4], Stored* to) const {
    using Vector = WideVector<Stored, 4 * sizeof(Stored)>;
    float2 before[2] = {};
    if (params_.epilogue.accumulate) {
      const Vector old = Vector::load(to);
      before[0] = old.pair[0].floats(), before[1] = old.pair[1].floats();
    }
    Vector outputs;
#pragma unroll
    for (int i = 0; i < 2; ++i)
      outputs.pair[i] = taps_rounded<Stored>(of[2 * i] + before[i].x, of[2 * i + 1] + before[i].y,
                                             params_.epilogue.least);
    outputs.store(to);
  }
  __device__ void store_alone(const float (&of)[4], Stored* to) const {
#pragma unroll
    for (int filter = 0; filter < 4; ++filter) {
      if (filter_ + filter >= params_.k) break;
      Stored& y = to[filter * params_.images.y.c];
      const float before = params_.epilogue.accumulate ? convert<float>(y) : 0.0f;
      y = convert<Stored>(max_nan(of[filter] + before, params_.epilogue.least));
    }
  }

  const Params& params_;
  int lane_, first_, filter_;
};

}  // namespace plumb::cuda
