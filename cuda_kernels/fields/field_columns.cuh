// Small filters: threads go along u, and read the input as it lies, through L1.
//
// A thread has a few outputs of each plane: rows below each other where the filter has taps along
// v, otherwise columns that are a warp apart. Lanes are neighbouring columns, so that every read of
// a warp is a run of a row, however rows are aligned. Of the sums of each plane's outputs, one for
// each tap along u is in registers: every element is read from memory once, and each tap along w
// reads it once more from L1.
#pragma once

#include "cuda_kernels/fields/field_column_input.cuh"
#include "cuda_kernels/fields/field_store.cuh"
#include "cuda_kernels/fields/field_sums.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda::fields {

/// How the columns' weights lie in shared memory: those of a channel and a tap along w together.
template <class Scalar, int taps_u, int taps_v>
inline constexpr int column_weights = in_vectors<Scalar>(taps_u* taps_v);

/// The sums of a thread, and what they are made of. Of the taps along w there are `taps_w`, or, for
/// 0, as many as the view says.
template <class Scalar, int taps_u, int taps_v, int taps_w, int outputs, class Input>
class ColumnSums {
 public:
  __device__ ColumnSums(const FieldView& view, const Input& input) : view_(view), input_(input) {}

  /// Goes along the planes, whose offsets end with none. Weights are in shared memory.
  template <class Write>
  __device__ void run(const std::int64_t* offsets, int planes, const Scalar* weights,
                      const Write& write) {
    bool here = offsets[0] != no_plane;
    std::int64_t reached = here ? offsets[0] : 0;
    read_first({here, reached});
    for (int plane = 0; plane < planes; ++plane) {
      const std::int64_t offset = offsets[plane + 1];
      const bool is_next = offset != no_plane;
      const Next next{is_next, is_next ? offset - reached : 0};
      if (here) {
        add_channels(next, weights);
      } else {
        move();
        read_first(next);
      }
      reached += next.distance;
      here = is_next;
      if (plane >= taps_u - 1) write(of_[taps_u - 1]);
    }
  }

 private:
  static constexpr int inputs = Input::inputs;
  static constexpr int step = column_weights<Scalar, taps_u, taps_v>;

  __device__ int count_w() const { return taps_w > 0 ? taps_w : view_.w.taps; }

  /// What is read after a plane: whether there is anything, and how far from it.
  struct Next {
    bool is;
    std::int64_t distance;
  };

  __device__ void add_channels(const Next& next, const Scalar* weights) {
    if (view_.c == 1) {
      add_plane<true>(next, weights);
      return;
    }
    add_plane<true>({true, view_.x_c}, weights);
#pragma unroll 1
    for (int c = 1; c < view_.c; ++c) {
      weights += count_w() * step;
      const bool last = c + 1 == view_.c;
      add_plane<false>({!last || next.is, last ? next.distance - c * view_.x_c : view_.x_c},
                       weights);
    }
    if (!next.is) input_.move((1 - view_.c) * view_.x_c);
  }

  /// Reads what the first tap of the next plane meets.
  __device__ void read_first(const Next& next) {
    if (!next.is) return;
    input_.move(next.distance);
    input_.read(0, first_);
  }

  /// Adds a plane. Where it `comes`, what was the sum of tap t is then that of tap t + 1. Reads run
  /// ahead of the sums: by two taps, and at the end into the next plane.
  template <bool comes>
  __device__ void add_plane(const Next& next, const Scalar* weights) {
    if constexpr (taps_w > 2) {
      Scalar x[2][inputs];
      input_.read(1, x[1]);
      input_.read(2, x[0]);
      add_tap<comes>(first_, weights);
#pragma unroll
      for (int s = 1; s < taps_w; ++s) {
        if (s == taps_w - 2) read_first(next);
        add_tap<false>(x[s % 2], weights + s * step);
        if (s + 2 < taps_w) input_.read(s + 2, x[s % 2]);
      }
    } else {
      add_taps<comes>(next, weights);
    }
  }

  /// The same for any number of taps along w, with reads one tap ahead where registers are left.
  template <bool comes>
  __device__ void add_taps(const Next& next, const Scalar* weights) {
    constexpr bool is_ahead = outputs == 4;
    const int taps = view_.w.taps;
    Scalar ahead[inputs];
    if (is_ahead && taps > 1) input_.read(1, ahead);
    add_tap<comes>(first_, weights);
    if (taps == 1) read_first(next);
#pragma unroll 1
    for (int s = 1; s < taps; ++s) {
      Scalar x[inputs];
      if constexpr (is_ahead) {
#pragma unroll
        for (int i = 0; i < inputs; ++i) x[i] = ahead[i];
        if (s + 1 < taps) input_.read(s + 1, ahead);
      } else {
        input_.read(s, x);
      }
      if (s + 1 == taps) read_first(next);
      weights += step;
      add_tap<false>(x, weights);
    }
  }

  template <bool comes>
  __device__ void add_tap(const Scalar (&x)[inputs], const Scalar* from) {
    Scalar weights[step];
    read_vectors(reinterpret_cast<const char*>(from), weights);
#pragma unroll
    for (int t = taps_u - 1; t >= 0; --t) {
#pragma unroll
      for (int r = 0; r < taps_v; ++r)
#pragma unroll
        for (int i = 0; i < outputs; ++i) {
          const Scalar before = !comes || r > 0 ? of_[t][i] : t > 0 ? of_[t - 1][i] : Scalar{0};
          of_[t][i] = fma(x[taps_v > 1 ? i + r : i], weights[t * taps_v + r], before);
        }
      if constexpr (comes) keep(t);
    }
  }

  __device__ void move() {
#pragma unroll
    for (int t = taps_u - 1; t >= 0; --t) {
#pragma unroll
      for (int i = 0; i < outputs; ++i) of_[t][i] = t > 0 ? of_[t - 1][i] : Scalar{0};
      keep(t);
    }
  }

  /// Has the sums of a tap moved before those that take their place, which costs no copies.
  __device__ void keep(int t) {
#pragma unroll
    for (int i = 0; i < outputs; ++i) pin(of_[t][i]);
  }

  const FieldView& view_;
  Input input_;
  Scalar first_[inputs];  ///< what the first tap of the next plane meets
  Scalar of_[taps_u][outputs] = {};
};

/// Writes a plane's outputs of a thread after another's.
template <class Scalar, bool by_rows, int outputs>
class ColumnWriter {
 public:
  __device__ ColumnWriter(const FieldView& view, const FieldBlock<Scalar>& block, Scalar* y, int v,
                          int w, const FieldEpilogue<Scalar>& epilogue)
      : to_(y + (block.y_at + v * view.v.y_step + w * view.w.y_step)),
        step_(by_rows ? view.v.y_step : 32 * view.w.y_step),
        next_(view.u.y_step),
        bias_(block.bias),
        relu_(epilogue.relu),
        accumulate_(epilogue.accumulate) {
    const int lane = static_cast<int>(threadIdx.x) & 31;
    count_ = by_rows ? w < block.count_w ? block.count_v - v : 0 : (block.count_w - w + 31) >> 5;
    count_ = min(count_, outputs);
    plain_ =
        !accumulate_ && (by_rows ? v + outputs <= block.count_v && w - lane + 32 <= block.count_w
                                 : w - lane + 32 * outputs <= block.count_w);
    dense_ = plain_ && !by_rows && step_ == 32;
  }

  __device__ void operator()(Scalar (&sums)[outputs]) {
#pragma unroll
    for (int i = 0; i < outputs; ++i) sums[i] += bias_;
    if (relu_ && !accumulate_)
#pragma unroll
      for (int i = 0; i < outputs; ++i) sums[i] = max_nan(sums[i], Scalar{0});
    Scalar* to = to_;
    if (dense_) {
#pragma unroll
      for (int i = 0; i < outputs; ++i) to[32 * i] = sums[i];
    } else if (plain_) {
#pragma unroll
      for (int i = 0; i < outputs; ++i, to += step_) *to = sums[i];
    } else {
#pragma unroll
      for (int i = 0; i < outputs; ++i, to += step_)
        if (i < count_) *to = accumulate_ ? added(sums[i], *to) : sums[i];
    }
    to_ += next_;
  }

 private:
  __device__ Scalar added(Scalar sum, Scalar old) const {
    return relu_ ? max_nan(sum + old, Scalar{0}) : sum + old;
  }

  Scalar* to_;
  std::int64_t step_, next_;
  const Scalar& bias_;  ///< in shared memory; not -0, so that no sum with it is
  bool relu_, accumulate_;
  bool plain_, dense_;  ///< whether all outputs of the warp are written, and side by side
  int count_;           ///< outputs of the thread that there are
};

template <class Scalar, int taps_u, int taps_v, int outputs>
inline constexpr FieldResidence columns_of = column_residence(sizeof(Scalar), taps_u, taps_v > 1,
                                                              outputs);

template <class Scalar, int taps_u, int taps_v>
__device__ void load_column_filters(const FieldView& view, const Scalar* w, int k, Scalar* to) {
  constexpr int step = column_weights<Scalar, taps_u, taps_v>;
  for (int c = 0; c < view.c; ++c, to += view.w.taps * step)
    load_filter(view, w, k, c, to, [&](int t, int r, int s) { return s * step + t * taps_v + r; });
}

/// Where a thread's outputs begin in its block, and whether its warp reads inside of the image
/// alone, where rows are contiguous.
struct ColumnThread {
  int v, w;
  bool inside;

  template <class Scalar>
  __device__ ColumnThread(const FieldParams& params, const FieldBlock<Scalar>& block, bool by_rows,
                          int outputs) {
    const FieldView& view = params.view;
    const int lane = static_cast<int>(threadIdx.x) & 31, warp = static_cast<int>(threadIdx.x) >> 5;
    const int warps_w_bits = params.threads_w_bits - 5;
    const int columns = by_rows ? 32 : 32 * outputs, rows = by_rows ? outputs : 1;
    w = (warp & ((1 << warps_w_bits) - 1)) * columns;
    v = (warp >> warps_w_bits) * rows;
    const std::int64_t left = block.first_w + w, top = block.first_v + v;
    inside = view.w.x_step == 1 && left >= 0 && left + columns + view.w.taps - 1 <= view.w.extent &&
             top >= 0 && top + rows + view.v.taps - 1 <= view.v.extent;
    w += lane;
  }
};

template <class Scalar, int taps_u, int taps_v, int taps_w, int outputs>
__global__ void __launch_bounds__(columns_of<Scalar, taps_u, taps_v, outputs>.threads,
                                  columns_of<Scalar, taps_u, taps_v, outputs>.blocks)
    column_fields(const __grid_constant__ FieldParams params, const Scalar* x, const Scalar* w,
                  Scalar* y, const __grid_constant__ FieldEpilogue<Scalar> epilogue) {
  constexpr bool by_rows = taps_v > 1;
  __shared__ FieldBlock<Scalar> block;
  if (!begin_block(params, x, w, y, epilogue, block)) return;
  const FieldView& view = params.view;
  char* const shared = dynamic_shared();
  auto* const weights = reinterpret_cast<Scalar*>(shared);
  auto* const planes = reinterpret_cast<std::int64_t*>(shared + params.lines_at);
  auto* const columns = reinterpret_cast<int*>(shared + params.columns_at);
  load_column_filters<Scalar, taps_u, taps_v>(view, w, block.k, weights);
  find_planes(view, block, planes);
  find_columns(params, block, columns);
  __syncthreads();
  const ColumnThread thread(params, block, by_rows, outputs);
  if (thread.v >= block.count_v || (thread.w & ~31) >= block.count_w) return;
  const int count = block.count_u + taps_u - 1;
  ColumnWriter<Scalar, by_rows, outputs> writer(view, block, y, thread.v, thread.w, epilogue);
  const auto write = [&](Scalar(&sums)[outputs]) { writer(sums); };
  // At the border reads cost more than the taps' loop.
  if (thread.inside) {
    using Input = InsideInput<Scalar, taps_v, outputs>;
    ColumnSums<Scalar, taps_u, taps_v, taps_w, outputs, Input>(
        view, Input(view, block, thread.v, thread.w))
        .run(planes, count, weights, write);
  } else {
    using Input = BorderInput<Scalar, taps_v, outputs>;
    ColumnSums<Scalar, taps_u, taps_v, 0, outputs, Input>(
        view, Input(view, block, thread.v, columns + thread.w))
        .run(planes, count, weights, write);
  }
}

}  // namespace plumb::cuda::fields
