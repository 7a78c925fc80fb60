// Depthwise convolutions of images whose channels lie side by side. Each warp marches down the rows
// of some columns by itself: rows of x come as they are stored to a ring in shared memory, by
// copies of 16 bytes that are some rows ahead of the sums. A thread has neighbouring channels of a
// run of columns: each element is read and widened once for all outputs of the thread that it adds
// to.
#pragma once

#include "cuda_kernels/depthwise/depthwise_filters.cuh"
#include "cuda_kernels/depthwise/depthwise_finish.cuh"
#include "cuda_kernels/depthwise/depthwise_params.cuh"
#include "cuda_kernels/depthwise/depthwise_ring.cuh"

namespace plumb::cuda::depthwise {

/// Keeps a number in a register: the compiler would rather make it anew in each step.
__device__ __forceinline__ void hold(int& number) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(number));
#else
  static_cast<void>(number);
#endif
}

template <class Stored, int taps, int stride>
class Staged {
 public:
  using Scalar = Sum<Stored>;

  __device__ Staged(const StagedParams& params, const Stored* x, const Stored* w)
      : params_(params), x_(x), w_(w) {
    const auto [item_group, slice] = params.slices.divide(static_cast<int>(blockIdx.x));
    first_k_ = slice * params.channels;
    find_rows(item_group * static_cast<int>(blockDim.x / 32) + static_cast<int>(threadIdx.x / 32));
    filters_ = reinterpret_cast<Scalar*>(dynamic_shared());
  }

  __device__ void run(Stored* y, const Epilogue<Stored>& epilogue) {
    Rows rows(params_, ring());
    if (images_ > 0)
      rows.begin(x_ + first_n_ * params_.shape.x_n, images_,
                 {first_h_, begin_, end_, (count_ + live - 1) * stride},
                 q_ * stride - params_.shape.columns.before, first_k_,
                 staged_window({taps, stride}, params_.runs));
    load_filters<taps, width, 4>(params_.shape, w_, first_k_, params_.channels, filters_);
    __syncthreads();
    if (images_ <= 0) return;
    find_place();
    if constexpr (few_taps)
#pragma unroll
      for (int tap = 0; tap < taps * taps; ++tap) read_weight(tap, weights_[tap]);
    for (int image = 0; image < images_; ++image) {
      march(rows, image * count_, first_output(y, image), epilogue);
    }
    // A call among the sums would have all of them saved around it.
#pragma unroll 1
    for (int output = 0; undefined_ >> output != 0; ++output)
      if (undefined_ >> output & 1) write_defined(output, y, epilogue);
  }

 private:
  static constexpr int width = staged_width(sizeof(Stored));
  static constexpr int columns = staged_columns;
  static constexpr int window = (columns - 1) * stride + taps;
  static constexpr int live = (taps + stride - 1) / stride;  ///< outputs under way
  static constexpr int depth = staged_depth(stride, sizeof(Stored));
  static constexpr bool few_taps = staged_few_taps(taps);
  /// Sums move on to the next registers by name alone where so many steps are unrolled.
  static constexpr int unrolled = live <= 3 ? live : 1;
  using Rows = RowRing<Stored, depth, staged_copies(taps, stride, sizeof(Stored)), few_taps>;

  __device__ Stored* ring() const {
    return reinterpret_cast<Stored*>(dynamic_shared() + params_.filter_bytes) +
           static_cast<int>(threadIdx.x / 32) * depth * params_.row_elements;
  }
  __device__ Stored* first_output(Stored* y, int image) const {
    const DeepShape<int>& shape = params_.shape;
    return y + ((first_n_ + image) * shape.y_n + k_ * shape.y_k + p_ * shape.rows.y_step +
                q_ * shape.columns.y_step);
  }

  /// Sets which rows of outputs the warp makes, the columns they begin at, and the rows under them.
  __device__ void find_rows(int item) {
    const DeepShape<int>& shape = params_.shape;
    const auto [above_w, chunk] = params_.chunks.divide(item);
    const auto [above_phase, column_phase] = params_.column_phases.divide(above_w);
    const auto [above_segment, segment] = params_.segments.divide(above_phase);
    const auto [sequence, row_phase] = params_.row_phases.divide(above_segment);
    const int apart = params_.row_phases.value(), columns_apart = params_.column_phases.value();
    first_n_ = sequence * params_.images;
    p_ = segment * params_.length * apart + row_phase;
    q_ = chunk * params_.runs * columns * columns_apart + column_phase;
    const int left = shape.p.value() - p_;
    count_ = left <= 0 ? 0 : min(params_.length, params_.row_phases.quotient(left + apart - 1));
    // A dilation may leave phases of fewer outputs, and the last block warps without any.
    const bool some = count_ > 0 && q_ < shape.q.value();
    images_ = some ? min(params_.images, params_.all_images - first_n_) : 0;
    const int above = shape.rows.before - p_ * stride, below = shape.rows.extent + above;
    begin_ = above > 0 ? params_.row_phases.quotient(above + apart - 1) : 0;
    end_ = min((count_ - 1) * stride + taps,
               below > 0 ? params_.row_phases.quotient(below + apart - 1) : 0);
    first_h_ = -above;
  }

  /// Sets which columns and channels of the warp's outputs are the thread's.
  __device__ void find_place() {
    const DeepShape<int>& shape = params_.shape;
    const int columns_apart = params_.column_phases.value();
    const auto [run, lane] = params_.lanes.divide(static_cast<int>(threadIdx.x % 32));
    k_ = first_k_ + lane * width, q_ += run * columns * columns_apart;
    const bool some = run < params_.runs && k_ < shape.k.value() && q_ < shape.q.value();
    written_ = some ? min(columns,
                          params_.column_phases.quotient(shape.q.value() - q_ + columns_apart - 1))
                    : 0;
    // A thread without outputs sums those of another.
    if (!some) k_ = first_k_;
    weights_at_ = some ? lane * taps * taps * width : 0;
    const int at = some ? run * columns * stride * params_.channels + lane * width : 0;
    line_ = ring() + at;
    hold(written_), hold(weights_at_);
  }

  /// Sums an image, whose rows of outputs are numbered from `first` on.
  __device__ void march(Rows& rows, int first, Stored* to, const Epilogue<Stored>& epilogue) {
    // No sum lives from image to image, which takes registers.
#pragma unroll
    for (int m = 0; m < live; ++m)
#pragma unroll
      for (int i = 0; i < columns; ++i)
#pragma unroll
        for (int e = 0; e < width; ++e) sums_[m][i][e] = 0;
    Scalar bias[width];
#pragma unroll
    for (int e = 0; e < width; ++e) bias[e] = epilogue.template bias_of<Scalar>(k_ + e);
    const bool plain = is_plain(epilogue);
    const int steps = count_ + live - 1,
              y_row = params_.row_phases.value() * params_.shape.rows.y_step;
    for (int base = 0; base < steps; base += unrolled)
#pragma unroll
      for (int u = 0; u < unrolled; ++u) {
        const int step = base + u;
        if (step >= steps) break;
        begin_output();
#pragma unroll
        for (int j = 0; j < stride; ++j) {
          const int row = step * stride + j;
          if (few_taps || (row >= begin_ && row < end_)) add_row(j, step, line_ + rows.next());
        }
        if (step < live - 1) continue;
        write(first + step - (live - 1), bias, plain, to, epilogue);
        to += y_row;
      }
  }

  /// Each output under way meets its next rows of taps.
  __device__ __forceinline__ void begin_output() {
#pragma unroll
    for (int m = live - 1; m >= 0; --m)
#pragma unroll
      for (int i = 0; i < columns; ++i)
#pragma unroll
        for (int e = 0; e < width; ++e) sums_[m][i][e] = m > 0 ? sums_[m > 0 ? m - 1 : 0][i][e] : 0;
  }

  __device__ __forceinline__ void read_weight(int tap, Scalar (&to)[width]) const {
    const auto values = read_channels<Scalar, width>(filters_ + (weights_at_ + tap * width));
#pragma unroll
    for (int e = 0; e < width; ++e) to[e] = values.of[e];
  }

  /// Adds a row of input, number `j` of its step, to the outputs under way.
  __device__ __forceinline__ void add_row(int j, int step, const Stored* line) {
    const int next = params_.channels;
    Scalar input[window][width];
#pragma unroll
    for (int i = 0; i < window; ++i) {
      const auto values = read_channels<Stored, width>(line + i * next);
#pragma unroll
      for (int e = 0; e < width; ++e) input[i][e] = convert<Scalar>(values.of[e]);
    }
#pragma unroll
    for (int m = live - 1; m >= 0; --m) {
      const int r = m * stride + j;
      if (r >= taps) continue;
      // At the ends of a segment most taps meet outputs of its neighbours.
      if (!few_taps && static_cast<unsigned>(step - m) >= static_cast<unsigned>(count_)) continue;
#pragma unroll
      for (int s = 0; s < taps; ++s) {
        Scalar weight[width];
        if constexpr (few_taps) {
#pragma unroll
          for (int e = 0; e < width; ++e) weight[e] = weights_[r * taps + s][e];
        } else {
          read_weight(r * taps + s, weight);
        }
#pragma unroll
        for (int i = 0; i < columns; ++i)
#pragma unroll
          for (int e = 0; e < width; ++e)
            sums_[m][i][e] = fma(input[i * stride + s][e], weight[e], sums_[m][i][e]);
      }
    }
  }

  /// Writes the row of outputs that is complete, the thread's number `output`.
  __device__ __forceinline__ void write(int output, const Scalar (&bias)[width], bool plain,
                                        Stored* to, const Epilogue<Stored>& epilogue) {
    Scalar(&sums)[columns][width] = sums_[live - 1];
    // A NaN, and an Inf too, makes this a NaN.
    Scalar never[width] = {};
#pragma unroll
    for (int i = 0; i < columns; ++i)
#pragma unroll
      for (int e = 0; e < width; ++e) never[e] = fma(sums[i][e], Scalar{0}, never[e]);
#pragma unroll
    for (int e = 1; e < width; ++e) never[0] += never[e];
    if (never[0] != 0) {
      undefined_ |= 1ull << output;
      return;
    }
    const int step = params_.column_phases.value() * params_.shape.columns.y_step;
    if (!plain) finish_sums(sums, bias, to, step, written_, epilogue);
#pragma unroll
    for (int i = 0; i < columns; ++i) {
      const auto values = rounded_channels<Stored>(sums[i]);
      if (i < written_) write_channels(to + i * step, values);
    }
  }
  __device__ void write_defined(int output, Stored* y, const Epilogue<Stored>& epilogue) const {
    const int image = output / count_, row = (output - image * count_) * params_.row_phases.value();
    const int apart = params_.column_phases.value(), y_column = params_.shape.columns.y_step;
    Stored* const to = first_output(y, image) + row * params_.shape.rows.y_step;
    for (int e = 0; e < width; ++e)
      for (int i = 0; i < written_; ++i)
        epilogue.store(
            to[e * params_.shape.y_k + i * apart * y_column],
            sum_of_image(params_.shape, x_, w_, first_n_ + image, k_ + e, p_ + row, q_ + i * apart),
            k_ + e);
  }

  const StagedParams& params_;
  const Stored *x_, *w_;
  Scalar* filters_;
  const Stored* line_ = nullptr;      ///< the thread's columns of the ring's first row
  int first_k_;                       ///< of the block
  int first_n_, images_, first_h_;    ///< of the warp
  int begin_, end_;                   ///< of the rows under its outputs, those of x
  int k_ = 0, p_, q_, count_;         ///< of the thread
  int weights_at_ = 0;                ///< in the block's filters
  int written_ = 0;                   ///< columns of the thread that y has
  unsigned long long undefined_ = 0;  ///< rows of outputs that are left, a bit each
  Scalar weights_[few_taps ? taps * taps : 1][width];
  Scalar sums_[live][columns][width] = {};
};

template <class Stored, int taps, int stride>
__global__ void __launch_bounds__(staged_threads, staged_blocks(taps, stride))
    depthwise_staged(const __grid_constant__ StagedParams params, const Stored* x, const Stored* w,
                     Stored* y, const __grid_constant__ Epilogue<Stored> epilogue) {
  Staged<Stored, taps, stride> block(params, x, w);
  block.run(y, epilogue);
}

}  // namespace plumb::cuda::depthwise
