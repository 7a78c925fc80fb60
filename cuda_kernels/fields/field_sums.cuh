// The sums of a thread, in registers, from input and filters in shared memory.
#pragma once

#include "cuda_kernels/fields/field_params.cuh"
#include "cuda_kernels/primitives/pin.cuh"

namespace plumb::cuda::fields {

template <class Scalar>
inline constexpr int thread_columns = 2 * vector_elements<Scalar>;

/// Reads vector number `i` of `to` from `bytes` in shared memory.
template <class Scalar, int count>
__device__ inline void read_vector(const char* from, int i, Scalar (&to)[count]) {
  constexpr int vector = vector_elements<Scalar>;
  static_assert(count % vector == 0);
  if constexpr (vector == 4) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    to[4 * i] = four.x, to[4 * i + 1] = four.y, to[4 * i + 2] = four.z, to[4 * i + 3] = four.w;
  } else {
    const double2 two = *reinterpret_cast<const double2*>(from);
    to[2 * i] = two.x, to[2 * i + 1] = two.y;
  }
}
template <class Scalar, int count>
__device__ inline void read_vectors(const char* from, Scalar (&to)[count]) {
#pragma unroll
  for (int i = 0; i < count / vector_elements<Scalar>; ++i)
    read_vector(from + i * vector_bytes, i, to);
}

/// The input that `taps` taps of a row meet, for a thread's outputs: vectors that lie one behind
/// the other but for the room behind every eight.
template <class Scalar, int taps>
struct Segment {
  static constexpr int vector = vector_elements<Scalar>;
  static constexpr int vectors = (thread_columns<Scalar> + taps - 1 + vector - 1) / vector;
  int at[vectors];  ///< bytes in shared memory

  /// Begins `first` vectors into the row that begins at `row`.
  __device__ Segment(int row, int first) {
#pragma unroll
    for (int i = 0; i < vectors; ++i) at[i] = row + place(first + i) * vector_bytes;
  }
  __device__ void move(int bytes) {
#pragma unroll
    for (int& vector_at : at) vector_at += bytes;
  }
  __device__ void read(const char* shared, Scalar (&to)[vectors * vector]) const {
#pragma unroll
    for (int i = 0; i < vectors; ++i) read_vector(shared + at[i], i, to);
  }
};

/// The tile: four lines along u. Of the input a thread has four lines in registers, and for the
/// next tap along u it reads one more.
template <class Scalar>
struct TileSums {
  static constexpr int lines = 4, columns = thread_columns<Scalar>;
  /// Taps that are taken at a time where there are as many: double has no registers for eight.
  static constexpr int widest = sizeof(Scalar) == 4 ? 8 : 4;
  Scalar of[lines][columns] = {};

  struct Shape {
    int taps_u, taps_v, taps_w, row_bytes, plane_bytes;
  };

  /// Adds a channel. The thread's first row begins at `row`. Each output gets its taps by chunks of
  /// their columns, so that a line of the input is read once for a chunk.
  __device__ void add_channel(const char* shared, int row, int first, const Shape& shape,
                              const char* filters) {
    int left = shape.taps_w;
    for (; left >= widest; left -= widest, first += widest / vector_elements<Scalar>)
      filters = add_chunk<widest>(shared, row, first, shape, filters);
    if (widest > 4 && left >= 4) {
      filters = add_chunk<4>(shared, row, first, shape, filters);
      left -= 4, first += 4 / vector_elements<Scalar>;
    }
    if (left == 1) add_chunk<1>(shared, row, first, shape, filters);
    if (left == 2) add_chunk<2>(shared, row, first, shape, filters);
    if (left == 3) add_chunk<3>(shared, row, first, shape, filters);
  }

  /// Adds a channel in the order that is specified for reproducible results: taps along u, then v,
  /// then w rise. A line of the input meets each line of outputs by another tap along u, and all
  /// taps of its row before the next; weights lie as the filter does, rows in fours.
  __device__ void add_in_order(const char* shared, int row, int first, const Shape& shape,
                               const char* filters) {
    const int row_bytes = (shape.taps_w + 3) / 4 * 4 * static_cast<int>(sizeof(Scalar));
    const int tap_bytes = shape.taps_v * row_bytes;
#pragma unroll 1
    for (int line = 0; line < shape.taps_u + lines - 1; ++line, row += shape.plane_bytes) {
      const bool all = line >= lines - 1 && line < shape.taps_u;
      const char* weights = filters + line * tap_bytes;
#pragma unroll 1
      for (int r = 0; r < shape.taps_v; ++r, weights += row_bytes) {
        const OrderedRow ordered{shared,      row + r * shape.row_bytes, weights, tap_bytes, line,
                                 shape.taps_u};
        if (all)
          add_ordered_row<true>(ordered, first, shape.taps_w);
        else
          add_ordered_row<false>(ordered, first, shape.taps_w);
      }
    }
  }

 private:
  /// A row of line number `line` of the input, and the weights that it meets for the first line of
  /// outputs; those for the next are `tap_bytes` before.
  struct OrderedRow {
    const char* shared;
    int row;
    const char* weights;
    int tap_bytes, line, taps_u;
  };

  /// Adds a row to the lines of outputs that it is a part of, which is `all`, or taps decide.
  template <bool all>
  __device__ void add_ordered_row(OrderedRow row, int first, int left) {
    for (; left >= 8; left -= 8) add_ordered_chunk<all, 8>(row, first);
    if (left >= 4) add_ordered_chunk<all, 4>(row, first), left -= 4;
    if (left == 1) add_ordered_chunk<all, 1>(row, first);
    if (left == 2) add_ordered_chunk<all, 2>(row, first);
    if (left == 3) add_ordered_chunk<all, 3>(row, first);
  }

  template <bool all, int taps>
  __device__ void add_ordered_chunk(OrderedRow& row, int& first) {
    const Segment<Scalar, taps> segment(row.row, first);
    Scalar x[segment.vectors * segment.vector];
    segment.read(row.shared, x);
#pragma unroll
    for (int j = 0; j < lines; ++j) {
      if (!all && (row.line < j || row.line - j >= row.taps_u)) continue;
      Scalar weights[taps > 4 ? 8 : 4];
      read_vectors(row.weights - j * row.tap_bytes, weights);
      add_line<taps>(of[j], x, weights);
    }
    row.weights += taps * sizeof(Scalar);
    first += taps / vector_elements<Scalar>;
  }

  template <int taps>
  static constexpr int filter_step = (taps > 4 ? 8 : 4) * static_cast<int>(sizeof(Scalar));

  template <int taps>
  __device__ const char* add_chunk(const char* shared, int row, int first, const Shape& shape,
                                   const char* filters) {
    for (int r = 0; r < shape.taps_v; ++r, row += shape.row_bytes) {
      add_lines<taps>(shared, Segment<Scalar, taps>(row, first), shape, filters);
      filters += shape.taps_u * filter_step<taps>;
    }
    return filters;
  }

  /// Line j of the outputs meets tap t in line j + t of the input, which is in x[(j + t) % lines].
  template <int taps>
  __device__ void add_lines(const char* shared, Segment<Scalar, taps> segment, const Shape& shape,
                            const char* filters) {
    Scalar x[lines][segment.vectors * segment.vector];
#pragma unroll
    for (int j = 0; j < lines - 1; ++j, segment.move(shape.plane_bytes)) segment.read(shared, x[j]);
#pragma unroll 1
    for (int turn = 0; turn < shape.taps_u; turn += lines, filters += lines * filter_step<taps>) {
#pragma unroll
      for (int t = 0; t < lines; ++t) {
        if (turn + t == shape.taps_u) return;
        segment.read(shared, x[(t + lines - 1) % lines]);
        segment.move(shape.plane_bytes);
        Scalar weights[taps > 4 ? 8 : 4];
        read_vectors(filters + t * filter_step<taps>, weights);
#pragma unroll
        for (int j = 0; j < lines; ++j) add_line<taps>(of[j], x[(j + t) % lines], weights);
      }
    }
  }

  template <int taps, int inputs, int count>
  __device__ static void add_line(Scalar (&sums)[columns], const Scalar (&x)[inputs],
                                  const Scalar (&weights)[count]) {
#pragma unroll
    for (int s = 0; s < taps; ++s)
#pragma unroll
      for (int i = 0; i < columns; ++i) sums[i] = fma(x[i + s], weights[s], sums[i]);
  }
};

/// The line: vectors of outputs side by side for each of `filters` filters, and the input under
/// them in a window that slides four taps at a time: each step reads what four taps need more, once
/// for all filters.
template <class Scalar, int filters>
struct LineSums {
  static constexpr int vectors = line_vectors(filters), vector = vector_elements<Scalar>;
  static constexpr int columns = vectors * vector;
  static constexpr int step = 4 / vector, window = vectors + step, turns = window / step;
  static_assert(window % step == 0);
  Scalar of[filters][columns] = {};

  /// Adds a channel: `steps` times four taps, of which the first `front` are none. The row begins
  /// at `row`, the thread's outputs `first` vectors into it. Of the weights, those of four taps lie
  /// one behind the other, filter by filter.
  __device__ void add_channel(const char* shared, int row, int first, int steps, int front,
                              const char* weights) {
    Scalar x[window * vector];
#pragma unroll
    for (int i = 0; i < window; ++i)
      read_vector(shared + row + place(first + i) * vector_bytes, i, x);
    first += window;
    if (front > 0) {
      add_first_taps(x, front, weights);
      weights += step_bytes;
      if (--steps == 0) return;
#pragma unroll
      for (int i = 0; i < (window - step) * vector; ++i) x[i] = x[i + 4];
      read_step(shared + row, first, window - step, x);
    }
    add_steps(shared + row, first, steps, weights, x);
  }

 private:
  using Weights = Scalar[filters][4];
  static constexpr int step_bytes = static_cast<int>(sizeof(Weights));

  __device__ static void read_step(const char* row, int& first, int at,
                                   Scalar (&x)[window * vector]) {
#pragma unroll
    for (int i = 0; i < step; ++i) read_vector(row + place(first + i) * vector_bytes, at + i, x);
    first += step;
  }
  __device__ static void read_weights(const char* from, Weights& weights) {
#pragma unroll
    for (int k = 0; k < filters; ++k)
      read_vectors(from + k * 4 * static_cast<int>(sizeof(Scalar)), weights[k]);
  }

  /// The first step, whose taps before `front` are outside the filter.
  __device__ void add_first_taps(const Scalar (&x)[window * vector], int front, const char* from) {
    Weights weights;
    read_weights(from, weights);
#pragma unroll
    for (int s = 1; s < 4; ++s) {
      if (s < front) continue;
#pragma unroll
      for (int i = 0; i < columns; ++i)
#pragma unroll
        for (int k = 0; k < filters; ++k) of[k][i] = fma(x[i + s], weights[k][s], of[k][i]);
    }
  }

  __device__ void add_steps(const char* row, int first, int steps, const char* from,
                            Scalar (&x)[window * vector]) {
#pragma unroll 1
    for (int begin = 0; begin < steps; begin += turns, from += turns * step_bytes) {
#pragma unroll
      for (int turn = 0; turn < turns; ++turn) {
        Weights weights;
        read_weights(from + turn * step_bytes, weights);
#pragma unroll
        for (int i = 0; i < columns; ++i)
#pragma unroll
          for (int s = 0; s < 4; ++s)
#pragma unroll
            for (int k = 0; k < filters; ++k)
              of[k][i] = fma(x[(4 * turn + i + s) % (window * vector)], weights[k][s], of[k][i]);
        if (begin + turn + 1 == steps) return;
        read_step(row, first, step * turn, x);
      }
    }
  }
};

}  // namespace plumb::cuda::fields
