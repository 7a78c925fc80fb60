// Outputs leave registers through a little shared memory of the warp, so that a warp writes them
// side by side; and outputs that are summed as the definition says.
#pragma once

#include "cuda_kernels/fields/field_load.cuh"
#include "cuda_kernels/primitives/max_nan.cuh"

namespace plumb::cuda::fields {

/// Bytes that a warp needs to write `vectors` vectors a thread.
__host__ __device__ constexpr int scratch_bytes(int vectors) {
  return place(32 * vectors) * vector_bytes;
}

template <class Scalar>
struct alignas(vector_bytes) Vector {
  Scalar of[vector_elements<Scalar>];
};

template <class Scalar>
__device__ Scalar finished(Scalar sum, Scalar bias, const FieldEpilogue<Scalar>& epilogue,
                           const Scalar* y) {
  sum += bias;
  if (epilogue.accumulate) sum += *y;
  return epilogue.relu ? max_nan(sum, Scalar{0}) : sum;
}

template <class Scalar>
class FieldWriter {
  static constexpr int vector = vector_elements<Scalar>;

 public:
  __device__ FieldWriter(const FieldParams& params, const FieldBlock<Scalar>& block, char* scratch,
                         const FieldEpilogue<Scalar>& epilogue)
      : params_(params), block_(block), scratch_(scratch), epilogue_(epilogue) {}

  /// Writes one line of the block: each thread has `vectors` vectors side by side. The line lies
  /// in plane `u` of the tile for the first threads, and `step_u` planes further for the next; it
  /// is of filter `k` of the block.
  template <int vectors, int step_u = 1>
  __device__ void write(const Scalar (&values)[vectors * vector], int u, int k = 0) const {
    const int lane = static_cast<int>(threadIdx.x) & 31;
    char* const own = scratch_ + static_cast<int>(threadIdx.x) / 32 * scratch_bytes(vectors);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      Vector<Scalar> packed;
#pragma unroll
      for (int j = 0; j < vector; ++j) packed.of[j] = values[i * vector + j];
      *reinterpret_cast<Vector<Scalar>*>(own + place(lane * vectors + i) * vector_bytes) = packed;
    }
    __syncwarp();
    Rows rows = rows_of_warp<step_u>(u);
    rows.first += k * params_.view.y_k;
    if (k > 0 && epilogue_.bias) rows.bias = epilogue_.bias[block_.k + k] + Scalar{0};
    const int first = (static_cast<int>(threadIdx.x) & ~31) &
                      ((1 << params_.threads_w_bits) - 1);  // the warp's first thread in its row
    if (params_.y_vectors)
      write_vectors<vectors>(own, lane, rows, first * vectors);
    else
      write_elements<vectors>(own, lane, rows, first * vectors * vector);
  }

 private:
  /// The rows of outputs that a warp's threads share: where the first begins, how far it is to the
  /// next, and how many are inside.
  struct Rows {
    Scalar* first;
    std::int64_t step;
    int inside;
    Scalar bias;
  };
  /// A warp holds whole rows of threads along one axis, or a part of one.
  template <int step_u>
  __device__ Rows rows_of_warp(int u) const {
    const FieldView& view = params_.view;
    const int first = (static_cast<int>(threadIdx.x) & ~31) >> params_.threads_w_bits;
    const int v = first & ((1 << params_.threads_v_bits) - 1);
    u += (first >> params_.threads_v_bits) * step_u;
    Scalar* const y = block_.y + (u * view.u.y_step + v * view.v.y_step);
    const int left = block_.count_u - u;
    if (params_.threads_v_bits == 0)
      return {y, step_u * view.u.y_step, left > 0 ? (left + step_u - 1) / step_u : 0, block_.bias};
    return {y, view.v.y_step, left > 0 ? block_.count_v - v : 0, block_.bias};
  }

  template <int vectors>
  __device__ void write_vectors(const char* own, int lane, const Rows& rows, int first) const {
    const int in_row = vectors << params_.threads_w_bits;
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      const int at = 32 * i + lane, index = at / vectors >> params_.threads_w_bits;
      const int column = (first + at - index * in_row) * vector;
      if (index >= rows.inside || column >= block_.count_w) continue;
      auto values = *reinterpret_cast<const Vector<Scalar>*>(own + place(at) * vector_bytes);
      Scalar* const to = rows.first + (index * rows.step + column);
      if (column + vector <= block_.count_w) {
        Vector<Scalar> old{};
        if (epilogue_.accumulate) old = *reinterpret_cast<const Vector<Scalar>*>(to);
#pragma unroll
        for (int j = 0; j < vector; ++j)
          values.of[j] = finished(values.of[j], rows.bias, epilogue_, &old.of[j]);
        *reinterpret_cast<Vector<Scalar>*>(to) = values;
      } else {
#pragma unroll 1
        for (int j = 0; column + j < block_.count_w; ++j)
          to[j] = finished(reinterpret_cast<const Scalar*>(own)[place(at) * vector + j], rows.bias,
                           epilogue_, to + j);
      }
    }
  }

  template <int vectors>
  __device__ void write_elements(const char* own, int lane, const Rows& rows, int first) const {
    constexpr int elements = vectors * vector;  // of a thread
    const auto* const sums = reinterpret_cast<const Scalar*>(own);
    const int row_elements = elements << params_.threads_w_bits;
    const int before = block_.w < 0 ? static_cast<int>(-block_.w) : 0, end = block_.count_w;
    const std::int64_t step_w = params_.view.w.y_step;
    const Scalar bias = rows.bias;
    // A warp whose elements follow on each other in a row, and are all there.
    const bool dense = params_.threads_w_bits >= 5 && rows.inside > 0 && step_w == 1;
    if (dense && before == 0 && first + 32 * elements <= end && !epilogue_.relu &&
        !epilogue_.accumulate) {
      static_assert(32 % (8 * vector) == 0);
      const Scalar* const from = sums + place_element<Scalar>(lane);
      Scalar* const to = rows.first + (first + lane);
#pragma unroll
      for (int i = 0; i < elements; ++i) to[32 * i] = from[place_element<Scalar>(32) * i] + bias;
      return;
    }
#pragma unroll
    for (int i = 0; i < elements; ++i) {
      // 32 elements never reach over the end of a row of threads.
      const int index = (32 * i / elements) >> params_.threads_w_bits;
      const int at = 32 * i + lane, column = first + at - index * row_elements;
      if (index >= rows.inside || column < before || column >= end) continue;
      Scalar* const to = rows.first + (index * rows.step + column * step_w);
      *to = finished(sums[place_element<Scalar>(at)], bias, epilogue_, to);
    }
  }

  const FieldParams& params_;
  const FieldBlock<Scalar>& block_;
  char* scratch_;
  const FieldEpilogue<Scalar>& epilogue_;
};

/// Returns one output by its definition: a tap in a padding of zeros is no term.
template <class Scalar>
__device__ Scalar defined_sum(const FieldView& view, const Scalar* x, const Scalar* w,
                              std::int64_t u, std::int64_t v, std::int64_t q) {
  Scalar sum = 0;
  for (int c = 0; c < view.c; ++c)
    for (int t = 0; t < view.u.taps; ++t) {
      const std::int64_t from_u = mapped(u - view.u.before + t, view.u);
      if (from_u < 0) continue;
      for (int r = 0; r < view.v.taps; ++r) {
        const std::int64_t from_v = mapped(v - view.v.before + r, view.v);
        if (from_v < 0) continue;
        for (int s = 0; s < view.w.taps; ++s) {
          const std::int64_t from_w = mapped(q - view.w.before + s, view.w);
          if (from_w < 0) continue;
          sum =
              fma(x[c * view.x_c + from_u * view.u.x_step + from_v * view.v.x_step +
                    from_w * view.w.x_step],
                  w[c * view.w_c + t * view.u.w_step + r * view.v.w_step + s * view.w.w_step], sum);
        }
      }
    }
  return sum;
}

/// Says whether the block has to sum by definition: its tile would hold zeros for a padding, and
/// its filter an Inf or NaN, whose product with zero is NaN. All threads call this.
template <class Scalar>
__device__ bool zeros_meet_infinity(const FieldView& view, const FieldBlock<Scalar>& block,
                                    const Scalar* w, int filters) {
  if (!touches_zeros(view.u, block.u, block.count_u) &&
      !touches_zeros(view.v, block.v, block.count_v) &&
      !touches_zeros(view.w, block.w, block.count_w))
    return false;
  bool met = false;
  const int taps_vw = view.v.taps * view.w.taps, of_filter = view.c * view.u.taps * taps_vw;
  const int count = filters * of_filter;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    const int filter = i / of_filter, in_filter = i - filter * of_filter;
    const int plane = in_filter / taps_vw, in_plane = in_filter - plane * taps_vw;
    const int c = plane / view.u.taps, t = plane - c * view.u.taps;
    const int r = in_plane / view.w.taps, s = in_plane - r * view.w.taps;
    const Scalar weight = w[(block.k + filter) * view.w_k + c * view.w_c + t * view.u.w_step +
                            r * view.v.w_step + s * view.w.w_step];
    met = met || weight - weight != 0;
  }
  return __syncthreads_or(met);
}

/// Writes all outputs of a block by their definition, for one of its filters.
template <class Scalar>
__device__ __noinline__ void write_defined(const FieldParams& params,
                                           const FieldBlock<Scalar>& block, const Scalar* w,
                                           int filter, const FieldEpilogue<Scalar>& epilogue) {
  const FieldView& view = params.view;
  w += (block.k + filter) * view.w_k;
  const Scalar bias = epilogue.bias ? epilogue.bias[block.k + filter] + Scalar{0} : Scalar{0};
  const std::int64_t plane = std::int64_t{block.count_v} * block.count_w;
  for (std::int64_t i = threadIdx.x; i < plane * block.count_u; i += blockDim.x) {
    const std::int64_t u = i / plane, in_plane = i % plane;
    const std::int64_t v = in_plane / block.count_w, q = in_plane % block.count_w;
    if (block.w + q < 0) continue;
    Scalar* const to =
        block.y + (filter * view.y_k + u * view.u.y_step + v * view.v.y_step + q * view.w.y_step);
    *to = finished(defined_sum(view, block.x, w, block.u + u, block.v + v, block.w + q), bias,
                   epilogue, to);
  }
}

/// Says whether a tile is still to be computed. All threads call this.
template <class Scalar>
__device__ bool begin_tile(const FieldParams& params, const Scalar* w,
                           const FieldEpilogue<Scalar>& epilogue, const FieldBlock<Scalar>& block) {
  const int filters = min(params.filters, params.view.k - block.k);
  if (!zeros_meet_infinity(params.view, block, w, filters)) return true;
  for (int i = 0; i < filters; ++i) write_defined(params, block, w, i, epilogue);
  return false;
}

/// Finds what is the block's, and says whether it is still to be computed. All threads call this.
template <class Scalar>
__device__ bool begin_block(const FieldParams& params, const Scalar* x, const Scalar* w, Scalar* y,
                            const FieldEpilogue<Scalar>& epilogue, FieldBlock<Scalar>& block) {
  if (threadIdx.x == 0) block.find(params, static_cast<int>(blockIdx.x), x, y, epilogue);
  __syncthreads();
  return begin_tile(params, w, epilogue, block);
}

}  // namespace plumb::cuda::fields
