// Depthwise convolutions of the common small filters: a thread has a few neighbouring channels and
// columns of outputs, and marches along the remaining axis with its weights and the sums of all
// outputs under way in registers. What it reads comes through L1 in vectors, some steps ahead of
// the sums, and each row of the input is read once for all outputs that it adds to.
//
// An image of rows is marched along its rows, a volume along its planes, a line along itself where
// channels lie side by side and along the images of the batch otherwise. The marched axis is the
// outermost of the sums, so that each is the chain of FMAs over t, r, s rising.
#pragma once

#include <climits>

#include "cuda_kernels/depthwise/depthwise_params.cuh"
#include "cuda_kernels/depthwise/depthwise_vectors.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda::depthwise {

struct MarchParams {
  DeepShape<int> shape;                    ///< its depth is the marched axis
  Divisor<int> vectors{}, groups{};        ///< of the channels, and of the columns of outputs
  Divisor<int> segments{};                 ///< of the marched axis
  Divisor<int> phases{}, column_phases{};  ///< a dilation: outputs that meet the same input
  int length = 0;                          ///< outputs of a segment
  int total = 0;                           ///< threads that have work
  bool lanes_along_channels = false;       ///< otherwise lanes are along the columns
  bool x_vectors = false;                  ///< rows of x may be read in vectors of columns
  bool y_vectors = false;                  ///< and those of y written so
};

/// Which outputs a thread makes: `count` of the marched axis and those of some columns, each a
/// dilation behind the one before.
struct MarchPlace {
  int n, vector, p, q, first, count;
};

__device__ inline MarchPlace march_place(const MarchParams& params, int columns, int id) {
  int rest = id, n, vector, segment;
  if (params.lanes_along_channels) {
    const auto by_vector = params.vectors.divide(rest);
    rest = by_vector.quotient, vector = by_vector.remainder;
  }
  const auto by_group = params.groups.divide(rest);
  const auto by_row = params.shape.p.divide(by_group.quotient);
  rest = by_row.quotient;
  if (!params.lanes_along_channels) {
    const auto by_vector = params.vectors.divide(rest);
    rest = by_vector.quotient, vector = by_vector.remainder;
  }
  const auto by_segment = params.segments.divide(rest);
  n = by_segment.quotient, segment = by_segment.remainder;
  const auto by_phase = params.phases.divide(segment);
  const int apart = params.phases.value(), columns_apart = params.column_phases.value();
  const int first = by_phase.quotient * params.length * apart + by_phase.remainder;
  const auto column = params.column_phases.divide(by_group.remainder);
  const int left = params.shape.depth.outputs - first + apart - 1;
  return {n,
          vector,
          by_row.remainder,
          column.quotient * columns * columns_apart + column.remainder,
          first,
          left < apart ? 0 : min(params.length, params.phases.quotient(left))};
}

/// Writes some neighbouring outputs by their definition: zeros that stand for a padding may have
/// met an Inf, which gives a NaN. One that comes from the data comes out again.
template <class Stored>
__device__ __forceinline__ void write_defined(const MarchParams& params, const Stored* x,
                                              const Stored* w, Stored* y,
                                              const Epilogue<Stored>& epilogue, MarchPlace at,
                                              int z, int width, int columns) {
  const DeepShape<int>& shape = params.shape;
  for (int k = at.vector * width; k < (at.vector + 1) * width; ++k)
    for (int i = 0; i < columns; ++i) {
      const int q = at.q + i * params.column_phases.value();
      if (q >= shape.q.value()) break;
      const Stored* const image = x + (at.n * shape.x_n + shape.group_k.quotient(k) * shape.x_c);
      const auto sum = deep_sum<Sum<Stored>>(shape, image, w + k * shape.w_k, z, at.p, q);
      epilogue.store(y[at.n * shape.y_n + k * shape.y_k + z * shape.depth.y_step +
                       at.p * shape.rows.y_step + q * shape.columns.y_step],
                     sum, k);
    }
}

template <class Stored, int width, int columns, int taps_m, int taps_r, int taps_s, int stride>
class March {
 public:
  using Scalar = Sum<Stored>;

  __device__ March(const MarchParams& params, const Stored* x, const Stored* w)
      : params_(params), x_(x), w_(w) {
    const int first = static_cast<int>(blockIdx.x * blockDim.x);
    const int id = first + static_cast<int>(threadIdx.x);
    active_ = id < params.total;
    at_ = march_place(params, columns, active_ ? id : 0);
    // Where a dilation leaves phases of fewer outputs.
    active_ = active_ && at_.count > 0 && at_.q < params.shape.q.value();
    if (params.lanes_along_channels)
      load_filters_of_block(params.vectors.divide(first).remainder);
    else
      load_filters();
  }

  __device__ void run(Stored* y, const Epilogue<Stored>& epilogue) {
    if (!active_) return;
    begin();
    Scalar bias[width];
#pragma unroll
    for (int e = 0; e < width; ++e)
      bias[e] = epilogue.template bias_of<Scalar>(at_.vector * width + e);
    Input input[ahead + 1];
#pragma unroll
    for (int i = 0; i < ahead; ++i) load(i, input[i]);
    for (int base = 0; base < steps_; base += period)
#pragma unroll
      for (int u = 0; u < period; ++u) {
        const int step = base + u;
        if (step >= steps_) break;
        load(step + ahead, input[ahead]);
        add(u, step, input[0]);
        if ((u + period - (taps_m - 1)) % stride == 0 && step >= taps_m - 1)
          write((step - (taps_m - 1)) / stride, sums_[slot(u, taps_m - 1)], bias, y, epilogue);
#pragma unroll
        for (int i = 0; i < ahead; ++i) input[i] = input[i + 1];
      }
    // A call among the sums would have all of them saved around it.
    for (int output = 0; undefined_ >> output != 0; ++output)
      if (undefined_ >> output & 1)
        write_defined(params_, x_, w_, y, epilogue, at_,
                      at_.first + output * params_.phases.value(), width, columns);
  }

 private:
  static constexpr MarchForm form{width, columns, taps_m, taps_r, taps_s, stride};
  static constexpr int taps = form.taps();
  static constexpr int window = march_window(form);
  static constexpr int live = (taps_m + stride - 1) / stride;  ///< outputs under way
  static constexpr int period = live * stride;
  static constexpr int ahead = march_ahead(form);
  static constexpr int absent = INT_MIN;
  /// Of a filter's taps along a row, those before the first column of the outputs, where rows are
  /// read in vectors.
  static constexpr int lead = march_lead(taps_s);
  static constexpr bool may_read_vectors = march_reads_vectors(width, columns, taps_s, stride);

  /// What one step along the marched axis reads. Nothing is there in a padding of zeros.
  struct Input {
    Channels<Stored, width> of[taps_r][window];
    bool there;
  };

  /// Where the sums lie of the output that the tap `m` of the step `u` adds to.
  static constexpr __device__ int slot(int u, int m) { return (u + period - m) / stride % live; }

  __device__ int filter_offset(int k, int tap) const {
    const DeepShape<int>& shape = params_.shape;
    return k * shape.w_k + tap / (taps_r * taps_s) * shape.depth.w_step +
           tap / taps_s % taps_r * shape.rows.w_step + tap % taps_s * shape.columns.w_step;
  }

  __device__ void load_filters() {
#pragma unroll
    for (int tap = 0; tap < taps; ++tap)
#pragma unroll
      for (int e = 0; e < width; ++e)
        weights_[tap][e] = convert<Scalar>(w_[filter_offset(at_.vector * width + e, tap)]);
  }

  /// Lanes along the channels would read filters far apart: they come by way of shared memory.
  __device__ void load_filters_of_block(int first) {
    auto* const shared = reinterpret_cast<Scalar*>(dynamic_shared());
    const int vectors = params_.vectors.value();
    const int all = min(vectors, static_cast<int>(blockDim.x)) * width * taps;
    for (int i = static_cast<int>(threadIdx.x); i < all; i += static_cast<int>(blockDim.x)) {
      const int channel = i / taps;
      int vector = first + channel / width;
      if (vector >= vectors) vector -= vectors;
      shared[i] = convert<Scalar>(w_[filter_offset(vector * width + channel % width, i % taps)]);
    }
    __syncthreads();
    int here = at_.vector - first;
    if (here < 0) here += vectors;
    if (!active_) return;
#pragma unroll
    for (int tap = 0; tap < taps; ++tap)
#pragma unroll
      for (int e = 0; e < width; ++e) weights_[tap][e] = shared[(here * width + e) * taps + tap];
  }

  __device__ void begin() {
    const DeepShape<int>& shape = params_.shape;
    steps_ = (at_.count - 1) * stride + taps_m;
    first_ = shape.depth.first(at_.first);
    x_image_ = x_ + (at_.n * shape.x_n + shape.group_k.quotient(at_.vector * width) * shape.x_c);
#pragma unroll
    for (int r = 0; r < taps_r; ++r) {
      rows_[r] = 0;
      if constexpr (taps_r == 1) continue;
      const int h =
          at_boundary(shape.rows.boundary, shape.rows.first(at_.p) + r * shape.rows.dilation,
                      shape.rows.extent);
      rows_[r] = h < 0 ? absent : h * shape.rows.x_step;
    }
    const ConvAxis<int>& axis = shape.columns;
#pragma unroll
    for (int i = 0; i < window; ++i) {
      columns_[i] = 0;
      if constexpr (window == 1) continue;
      const int v = at_boundary(axis.boundary,
                                axis.first(at_.q) + i * params_.column_phases.value(), axis.extent);
      columns_[i] = v < 0 ? absent : v * axis.x_step;
    }
  }

  __device__ void load(int step, Input& input) const {
    const ConvAxis<int>& axis = params_.shape.depth;
    const int d = step < steps_ ? at_boundary(axis.boundary, first_ + step * params_.phases.value(),
                                              axis.extent)
                                : -1;
    input.there = d >= 0;
    const Stored* const plane = x_image_ + d * axis.x_step;
#pragma unroll
    for (int r = 0; r < taps_r; ++r) {
      const bool here = d >= 0 && rows_[r] != absent;
      if constexpr (may_read_vectors) {
        if (params_.x_vectors) {
          read_row(plane + (here ? rows_[r] : 0), here, input.of[r]);
          continue;
        }
      }
#pragma unroll
      for (int i = 0; i < window; ++i) {
        Channels<Stored, width> values{};
        if (here && columns_[i] != absent)
          values = read_channels<Stored, width>(plane + rows_[r] + columns_[i]);
        input.of[r][i] = values;
      }
    }
  }

  /// Reads three aligned vectors: that under the outputs, and those beside it.
  __device__ void read_row(const Stored* row, bool here,
                           Channels<Stored, width> (&to)[window]) const {
    using Vector = Channels<Stored, columns>;
    constexpr int behind = taps_s - 1 - lead;
    Vector left{}, middle{}, right{};
    const Stored* const from = row + at_.q;
    if (here) middle = read_channels<Stored, columns>(from);
    if (lead > 0 && here && at_.q > 0) left = read_channels<Stored, columns>(from - columns);
    if (behind > 0 && here && at_.q + columns < params_.shape.columns.extent)
      right = read_channels<Stored, columns>(from + columns);
#pragma unroll
    for (int i = 0; i < window; ++i) {
      const int at = i - lead;
      to[i].of[0] = at < 0         ? left.of[at + columns]
                    : at < columns ? middle.of[at < 0 ? 0 : at]
                                   : right.of[at < columns ? 0 : at - columns];
    }
  }

  /// Adds what step `step`, number `u` of its period, has read to the outputs under way.
  __device__ __forceinline__ void add(int u, int step, const Input& input) {
    if (u % stride == 0) {
#pragma unroll
      for (int i = 0; i < columns; ++i)
#pragma unroll
        for (int e = 0; e < width; ++e) sums_[slot(u, 0)][i][e] = 0;
    }
    if (!input.there) return;
    const unsigned span = static_cast<unsigned>(steps_ - taps_m);
#pragma unroll
    for (int r = 0; r < taps_r; ++r) {
      Scalar values[window][width];
#pragma unroll
      for (int i = 0; i < window; ++i)
#pragma unroll
        for (int e = 0; e < width; ++e) values[i][e] = convert<Scalar>(input.of[r][i].of[e]);
#pragma unroll
      for (int m = 0; m < taps_m; ++m) {
        if ((u + period - m) % stride != 0) continue;
        // At the ends of a segment a few taps meet outputs of the neighbouring ones.
        if (taps_m > 3 && static_cast<unsigned>(step - m) > span) continue;
#pragma unroll
        for (int s = 0; s < taps_s; ++s)
#pragma unroll
          for (int i = 0; i < columns; ++i)
#pragma unroll
            for (int e = 0; e < width; ++e) {
              Scalar& sum = sums_[slot(u, m)][i][e];
              sum = fma(values[i * stride + s][e], weights_[(m * taps_r + r) * taps_s + s][e], sum);
            }
      }
    }
  }

  /// Writes the outputs of number `output` of the segment.
  __device__ __forceinline__ void write(int output, const Scalar (&sums)[columns][width],
                                        const Scalar (&bias)[width], Stored* y,
                                        const Epilogue<Stored>& epilogue) {
    const DeepShape<int>& shape = params_.shape;
    const int z = at_.first + output * params_.phases.value();
    bool numbers = true;
#pragma unroll
    for (int i = 0; i < columns; ++i)
#pragma unroll
      for (int e = 0; e < width; ++e) numbers = numbers && sums[i][e] == sums[i][e];
    if (!numbers) {
      undefined_ |= 1ull << output;
      return;
    }
    Stored* const to =
        y + (at_.n * shape.y_n + at_.vector * width * shape.y_k + z * shape.depth.y_step +
             at_.p * shape.rows.y_step + at_.q * shape.columns.y_step);
    if constexpr (width == 1 && columns > 1) {
      if (params_.y_vectors) {
        Channels<Stored, columns> values{};
        if (epilogue.accumulate) values = read_channels<Stored, columns>(to);
#pragma unroll
        for (int i = 0; i < columns; ++i)
          values.of[i] = finish(sums[i][0] + bias[0], values.of[i], epilogue);
        write_channels(to, values);
        return;
      }
    }
#pragma unroll
    for (int i = 0; i < columns; ++i) {
      const int beyond = i * params_.column_phases.value();
      if (at_.q + beyond >= shape.q.value()) break;
      Stored* const here = to + beyond * shape.columns.y_step;
      Channels<Stored, width> values{};
      if (epilogue.accumulate) values = read_channels<Stored, width>(here);
#pragma unroll
      for (int e = 0; e < width; ++e)
        values.of[e] = finish(sums[i][e] + bias[e], values.of[e], epilogue);
      write_channels(here, values);
    }
  }
  __device__ static Stored finish(Scalar sum, Stored old, const Epilogue<Stored>& epilogue) {
    return epilogue.finish(sum, epilogue.accumulate ? convert<Scalar>(old) : Scalar{0});
  }

  const MarchParams& params_;
  const Stored *x_, *w_, *x_image_ = nullptr;
  MarchPlace at_;
  bool active_;
  int steps_ = 0;  ///< of the input under the thread's outputs
  int first_ = 0;  ///< where the first of them lies
  int rows_[taps_r], columns_[window];
  unsigned long long undefined_ = 0;  ///< outputs of the segment that are left, a bit each
  Scalar weights_[taps][width];
  Scalar sums_[live][columns][width] = {};
};

template <class Stored, int width, int columns, int taps_m, int taps_r, int taps_s, int stride>
inline constexpr int march_blocks_of =
    march_blocks(MarchForm{width, columns, taps_m, taps_r, taps_s, stride}, sizeof(Stored));

template <class Stored, int width, int columns, int taps_m, int taps_r, int taps_s, int stride>
__global__ void __launch_bounds__(
    depthwise_march_threads,
    march_blocks_of<Stored, width, columns, taps_m, taps_r, taps_s, stride>)
    depthwise_march(const __grid_constant__ MarchParams params, const Stored* x, const Stored* w,
                    Stored* y, const __grid_constant__ Epilogue<Stored> epilogue) {
  March<Stored, width, columns, taps_m, taps_r, taps_s, stride> march(params, x, w);
  march.run(y, epilogue);
}

}  // namespace plumb::cuda::depthwise
