// Doubles on tensor cores, whose FMAs are twice as many as those of the FP64 units: a row of the
// filter is a Toeplitz matrix, each of whose columns has the taps one further down.
//
// A warp has 16 lines of outputs: rows of an image, or, where there are taps along w alone,
// stretches of one row that follow each other. Of a line it has `blocks` times eight outputs. Eight
// columns of the input times the part of the Toeplitz matrix that they meet are added to each eight
// outputs, and what is read of the input is used for all `blocks` of them. Of the products taps /
// (8 pairs) are the filter's, the others are with zeros: what comes out as NaN is summed anew by
// the definition, since an infinity may have met one of these.
#pragma once

#include "cuda_kernels/fields/field_load.cuh"
#include "cuda_kernels/fields/field_store.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"
#include "cuda_kernels/primitives/mma_fp64.cuh"

namespace plumb::cuda::fields {

/// Where a lane stands in the fragments.
struct ToeplitzLane {
  int warp, group, t;
  __device__ ToeplitzLane()
      : warp(static_cast<int>(threadIdx.x) / 32),
        group(static_cast<int>(threadIdx.x) % 32 / 4),
        t(static_cast<int>(threadIdx.x) % 4) {}
};

/// The sums of a warp: 16 lines of `blocks` times eight outputs.
template <int blocks>
struct ToeplitzSums {
  static_assert(blocks % 2 == 0);
  double of[blocks][4] = {};

  /// Adds a row of the filter. The lane's elements are at `x`, and eight lines further at `x` +
  /// `lines`; at `w` are its weights of the first eight columns.
  __device__ void add(const double* x, int lines, const double* w, int pairs) {
    double a[blocks][4];
#pragma unroll
    for (int i = 0; i < blocks - 1; ++i) read(x, lines, i, a[i]);
#pragma unroll 1
    for (int first = 0; first < pairs; first += blocks, x += place_of(blocks), w += 8 * blocks) {
#pragma unroll
      for (int turn = 0; turn < blocks; ++turn) {
        if (first + turn == pairs) return;
        read(x, lines, turn + blocks - 1, a[(turn + blocks - 1) % blocks]);
        const double weights[2] = {w[8 * turn], w[8 * turn + 4]};
#pragma unroll
        for (int i = 0; i < blocks; ++i) mma_fp64(of[i], a[(turn + i) % blocks], weights);
      }
    }
  }

 private:
  /// Where a tile of eight columns begins: two have 16 bytes of room behind them (place()).
  __device__ static constexpr int place_of(int tile) { return place_element<double>(8 * tile); }
  __device__ static void read(const double* x, int lines, int tile, double (&to)[4]) {
    x += place_of(tile);
    to[0] = x[0], to[1] = x[lines], to[2] = x[4], to[3] = x[lines + 4];
  }
};

/// Loads the filters of a channel, a row after the other with zeros around: the first tap is the
/// eighth element.
__device__ inline void load_toeplitz(const FieldParams& params, const double* w, int k, int c,
                                     double* to) {
  const FieldView& view = params.view;
  const int row = 8 * params.pairs + 8, count = view.u.taps * row;
  w += k * view.w_k + c * view.w_c;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    const int t = i / row, s = i - t * row - 7;
    to[i] = s >= 0 && s < view.w.taps ? w[t * view.u.w_step + s * view.w.w_step] : 0.0;
  }
}

/// Writes the outputs of a warp.
template <int blocks>
class ToeplitzWriter {
 public:
  __device__ ToeplitzWriter(const FieldParams& params, const FieldBlock<double>& block,
                            const double* w, double* y, const FieldEpilogue<double>& epilogue)
      : params_(params), block_(block), w_(w), y_(y + block.y_at), epilogue_(epilogue) {}

  /// The lane's outputs of eight: two side by side in `line`, and two in the eighth line after it.
  __device__ void write(const double (&sums)[4], int eight, int line, int t) const {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      write_two(sums[2 * half], sums[2 * half + 1], line + 8 * half, 8 * eight + 2 * t);
  }

 private:
  __device__ void write_two(double first, double second, int line, int column) const {
    int u = line;
    if (params_.lines_in_row) u = 0, column += line * 8 * blocks;
    if (u >= block_.count_u) return;
    const FieldView& view = params_.view;
    double* const to = y_ + (u * view.u.y_step + column * view.w.y_step);
    if (params_.y_vectors && column + 1 < block_.count_w && !epilogue_.accumulate) {
      *reinterpret_cast<double2*>(to) = {done(first, u, column, to),
                                         done(second, u, column + 1, to)};
      return;
    }
    write_one(first, u, column, to);
    write_one(second, u, column + 1, to + view.w.y_step);
  }
  __device__ void write_one(double sum, int u, int column, double* to) const {
    if (block_.w + column >= 0 && column < block_.count_w) *to = done(sum, u, column, to);
  }
  __device__ double done(double sum, int u, int column, const double* to) const {
    if (sum != sum) [[unlikely]]
      sum = sum_anew(u, column);
    return finished(sum, block_.bias, epilogue_, to);
  }
  __device__ __noinline__ double sum_anew(int u, int column) const {
    return defined_sum(params_.view, block_.x, w_ + block_.k * params_.view.w_k, block_.u + u,
                       block_.v, block_.w + column);
  }

  const FieldParams& params_;
  const FieldBlock<double>& block_;
  const double* const w_;
  double* const y_;
  const FieldEpilogue<double>& epilogue_;
};

template <int blocks>
__global__ void __launch_bounds__(toeplitz_residence(blocks).threads,
                                  toeplitz_residence(blocks).blocks)
    toeplitz_fields(const __grid_constant__ FieldParams params, const double* x, const double* w,
                    double* y, const __grid_constant__ FieldEpilogue<double> epilogue) {
  __shared__ FieldBlock<double> block;
  if (!begin_block(params, x, w, y, epilogue, block)) return;
  char* const shared = dynamic_shared();
  const FieldView& view = params.view;
  const FieldLoader<double> loader(params, block, shared);
  const ToeplitzLane lane;
  ToeplitzSums<blocks> sums;
  auto* const tile = reinterpret_cast<double*>(shared);
  auto* const filters = reinterpret_cast<double*>(shared + params.filters_at);
  // Lines that follow each other in a row are in memory as far apart as they have outputs.
  const int pitch = params.lines_in_row ? place_element<double>(8 * blocks) : params.pitch;
  loader.make_tables(params.planes);
  for (int c = 0; c < view.c; ++c) {
    __syncthreads();
    loader.load(tile, block.x + c * view.x_c, params.planes * params.rows.value());
    load_toeplitz(params, w, block.k, c, filters);
    wait_for_copies();
    __syncthreads();
    const double* from = tile + (16 * lane.warp + lane.group) * pitch + lane.t;
    const double* weights = filters + (7 + lane.t - lane.group);
#pragma unroll 1
    for (int t = 0; t < view.u.taps; ++t, from += pitch, weights += 8 * params.pairs + 8)
      sums.add(from, 8 * pitch, weights, params.pairs);
  }
  const ToeplitzWriter<blocks> writer(params, block, w, y, epilogue);
#pragma unroll
  for (int i = 0; i < blocks; ++i) writer.write(sums.of[i], i, 16 * lane.warp + lane.group, lane.t);
}

}  // namespace plumb::cuda::fields
