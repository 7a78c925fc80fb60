// Depthwise convolutions of images whose channels lie side by side: the rows and columns under a
// block's outputs come to shared memory as they are stored, with zeros for the padding, by copies
// of 16 bytes. A thread has neighbouring channels of a run of columns and marches down the rows:
// each element is read and widened once for all outputs of the thread that it adds to.
#pragma once

#include "cuda_kernels/depthwise/depthwise_params.cuh"
#include "cuda_kernels/depthwise/depthwise_rounded.cuh"
#include "cuda_kernels/depthwise/depthwise_vectors.cuh"
#include "cuda_kernels/primitives/async_copy.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda::depthwise {

struct StagedParams {
  DeepShape<int> shape;
  Divisor<int> groups_c{}, tiles_w{}, tiles_p{};  ///< blocks
  Divisor<int> lanes{};                           ///< threads along the channels
  Divisor<int> runs{};                            ///< of columns, of a block
  Divisor<int> column_phases{}, row_phases{};     ///< the dilations
  Divisor<int> vectors{}, slots{};                ///< copies of a pixel and of a row
  int images = 0, all_images = 0;                 ///< of a block, and all
  int channels = 0, length = 0;                   ///< of a block, and rows of a thread
  int rows = 0, columns = 0;                      ///< of a tile of input
  int filter_bytes = 0, row_lanes = 0;
};

/// Returns a sum by its definition: zeros of the padding may have met an Inf, which gives a NaN.
template <class Stored>
__device__ __noinline__ Sum<Stored> staged_sum(const StagedParams& params, const Stored* x,
                                               const Stored* w, int n, int k, int p, int q) {
  const DeepShape<int>& shape = params.shape;
  return deep_sum<Sum<Stored>>(shape, x + (n * shape.x_n + k * shape.x_c), w + k * shape.w_k, 0, p,
                               q);
}

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
      : params_(params), x_(x), w_(w), thread_(static_cast<int>(threadIdx.x)) {
    const DeepShape<int>& shape = params.shape;
    filters_ = reinterpret_cast<Scalar*>(dynamic_shared());
    tile_ = reinterpret_cast<Stored*>(dynamic_shared() + params.filter_bytes);
    const auto [above_c, group] = params.groups_c.divide(static_cast<int>(blockIdx.x));
    const auto [above_w, tile_w] = params.tiles_w.divide(above_c);
    const auto [images, tile_p] = params.tiles_p.divide(above_w);
    first_k_ = group * params.channels;
    first_n_ = images * params.images;
    first_q_ = tile_w * params.runs.value() * columns;
    first_p_ = tile_p * params.length * params.row_phases.value();
    // Where taps are few rows of padding are zeros, otherwise they are left out.
    const int from = first_p_ * stride - shape.rows.before;
    const int span = (params.length * params.row_phases.value() - 1) * stride +
                     (taps - 1) * params.row_phases.value() + 1;
    first_h_ = few_taps ? from : max(from, 0);
    rows_ = few_taps ? span : max(min(from + span, shape.rows.extent) - first_h_, 0);
  }

  __device__ void run(Stored* y, const Epilogue<Stored>& epilogue) {
    load_tile();
    load_filters();
    wait_for_copies();
    __syncthreads();
    if (!find_place()) return;
    march(y, epilogue);
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
  static constexpr bool few_taps = staged_few_taps(taps);
  /// Sums move on to the next registers by name alone where so many steps are unrolled.
  static constexpr int unrolled = live <= 3 ? live : 1;
  static constexpr int vector = 16 / sizeof(Stored);

  /// Copies the tile, a slot of a row by one thread, down its rows. Columns and channels beyond the
  /// image are zeros.
  __device__ void load_tile() const {
    const DeepShape<int>& shape = params_.shape;
    const int slots = params_.slots.value(), all = slots * params_.row_lanes;
    const int pixel = params_.channels, row = params_.columns * pixel;
    const int first_w = first_q_ * stride - shape.columns.before;
    const int images = min(params_.images, params_.all_images - first_n_);
    for (int i = thread_; i < all; i += static_cast<int>(blockDim.x)) {
      const auto [first_row, slot] = params_.slots.divide(i);
      const auto [column, in_pixel] = params_.vectors.divide(slot);
      const int v = first_w + column, c = first_k_ + in_pixel * vector;
      const bool there = v >= 0 && v < shape.columns.extent && c < shape.k.value();
      const int offset = there ? v * shape.columns.x_step + c * shape.x_c : 0;
      for (int image = 0; image < images; ++image) {
        const Stored* from = x_ + ((first_n_ + image) * shape.x_n +
                                   (first_h_ + first_row) * shape.rows.x_step + offset);
        Stored* to = tile_ + ((image * params_.rows + first_row) * row + slot * vector);
#pragma unroll 4
        for (int j = first_row; j < rows_; j += params_.row_lanes) {
          const int h = first_h_ + j;
          const bool here = there && (!few_taps || (h >= 0 && h < shape.rows.extent));
          copy_16_bytes_async(to, here ? from : x_, here ? 16 : 0);
          from += params_.row_lanes * shape.rows.x_step, to += params_.row_lanes * row;
        }
      }
    }
    commit_copies();
  }

  /// Puts all taps of a thread's channels side by side: threads read them from different banks.
  /// Loads are under way together, since the stores behind them wait for all.
  __device__ void load_filters() const {
    constexpr int together = 4, of_channel = taps * taps;
    const DeepShape<int>& shape = params_.shape;
    const int all = min(params_.channels, shape.k.value() - first_k_) * of_channel;
    const int threads = static_cast<int>(blockDim.x);
    for (int i = thread_; i < all; i += together * threads) {
      Stored weights[together];
#pragma unroll
      for (int j = 0; j < together; ++j) {
        const int at = min(i + j * threads, all - 1);
        const int channel = at / of_channel, tap = at % of_channel;
        weights[j] = w_[(first_k_ + channel) * shape.w_k + tap / taps * shape.rows.w_step +
                        tap % taps * shape.columns.w_step];
      }
#pragma unroll
      for (int j = 0; j < together; ++j) {
        const int at = i + j * threads;
        if (at >= all) continue;
        const int channel = at / of_channel, tap = at % of_channel;
        filters_[(channel / width * of_channel + tap) * width + channel % width] =
            convert<Scalar>(weights[j]);
      }
    }
  }

  /// Sets which outputs the thread makes, and says whether there are any.
  __device__ bool find_place() {
    const DeepShape<int>& shape = params_.shape;
    const auto [item, lane] = params_.lanes.divide(thread_);
    const auto [above_w, run] = params_.runs.divide(item);
    const auto [image, row_phase] = params_.row_phases.divide(above_w);
    const auto [chunk, column_phase] = params_.column_phases.divide(run);
    const int in_tile = chunk * columns * params_.column_phases.value() + column_phase;
    n_ = first_n_ + image, k_ = first_k_ + lane * width;
    p_ = first_p_ + row_phase, q_ = first_q_ + in_tile;
    const int apart = params_.row_phases.value(), left = shape.p.value() - p_;
    count_ = left <= 0 ? 0 : min(params_.length, params_.row_phases.quotient(left + apart - 1));
    if (image >= params_.images || n_ >= params_.all_images || k_ >= shape.k.value() ||
        q_ >= shape.q.value() || count_ <= 0)
      return false;
    const int columns_apart = params_.column_phases.value();
    written_ =
        min(columns, params_.column_phases.quotient(shape.q.value() - q_ + columns_apart - 1));
    weights_at_ = lane * taps * taps * width;
    const int row = image * params_.rows + p_ * stride - shape.rows.before - first_h_;
    at_ = (row * params_.columns + in_tile * stride) * params_.channels + lane * width;
    hold(at_), hold(written_), hold(weights_at_);
    return true;
  }

  __device__ void march(Stored* y, const Epilogue<Stored>& epilogue) {
    const DeepShape<int>& shape = params_.shape;
    const int apart = params_.row_phases.value();
    const int row = apart * params_.columns * params_.channels;
    if constexpr (few_taps)
#pragma unroll
      for (int tap = 0; tap < taps * taps; ++tap) read_weight(tap, weights_[tap]);
    Scalar bias[width];
#pragma unroll
    for (int e = 0; e < width; ++e) bias[e] = epilogue.template bias_of<Scalar>(k_ + e);
    const bool plain = !epilogue.bias && epilogue.least < 0 && !epilogue.accumulate;
    const int steps = count_ + live - 1;
    int h = p_ * stride - shape.rows.before;
    Stored* to =
        y + (n_ * shape.y_n + k_ * shape.y_k + p_ * shape.rows.y_step + q_ * shape.columns.y_step);
    for (int base = 0; base < steps; base += unrolled)
#pragma unroll
      for (int u = 0; u < unrolled; ++u) {
        const int step = base + u;
        if (step >= steps) break;
        begin_output();
#pragma unroll
        for (int j = 0; j < stride; ++j) {
          // Behind the last row of taps of the last output the tile has no row.
          const bool reaches = (live - 1) * stride + j < taps || step < steps - 1;
          if (reaches && (few_taps || (h >= 0 && h < shape.rows.extent))) add_row(j, step);
          h += apart, at_ += row;
        }
        if (step < live - 1) continue;
        write(step - (live - 1), bias, plain, to, epilogue);
        to += apart * shape.rows.y_step;
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

  /// Adds the row of input that the thread has come to, number `j` of its step, to the outputs
  /// under way.
  __device__ __forceinline__ void add_row(int j, int step) {
    const int next = params_.column_phases.value() * params_.channels;
    const Stored* const line = tile_ + at_;
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
    if (!plain) finish(sums, bias, to, step, epilogue);
#pragma unroll
    for (int i = 0; i < columns; ++i) {
      const auto values = rounded_channels<Stored>(sums[i]);
      if (i < written_) write_channels(to + i * step, values);
    }
  }
  __device__ __forceinline__ void finish(Scalar (&sums)[columns][width],
                                         const Scalar (&bias)[width], const Stored* from, int step,
                                         const Epilogue<Stored>& epilogue) const {
#pragma unroll
    for (int i = 0; i < columns; ++i)
#pragma unroll
      for (int e = 0; e < width; ++e) sums[i][e] += bias[e];
    if (epilogue.accumulate) {
#pragma unroll
      for (int i = 0; i < columns; ++i) {
        if (i >= written_) continue;
        const auto old = read_channels<Stored, width>(from + i * step);
#pragma unroll
        for (int e = 0; e < width; ++e) sums[i][e] += convert<Scalar>(old.of[e]);
      }
    }
#pragma unroll
    for (int i = 0; i < columns; ++i)
#pragma unroll
      for (int e = 0; e < width; ++e)
        sums[i][e] = max_nan(sums[i][e], static_cast<Scalar>(epilogue.least));
  }

  __device__ void write_defined(int output, Stored* y, const Epilogue<Stored>& epilogue) const {
    const DeepShape<int>& shape = params_.shape;
    const int p = p_ + output * params_.row_phases.value();
    for (int k = k_; k < k_ + width; ++k)
      for (int i = 0; i < columns; ++i) {
        const int q = q_ + i * params_.column_phases.value();
        if (q >= shape.q.value()) break;
        epilogue.store(
            y[n_ * shape.y_n + k * shape.y_k + p * shape.rows.y_step + q * shape.columns.y_step],
            staged_sum(params_, x_, w_, n_, k, p, q), k);
      }
  }

  const StagedParams& params_;
  const Stored *x_, *w_;
  Scalar* filters_;
  Stored* tile_;
  int thread_;
  int first_k_, first_n_, first_q_, first_p_, first_h_, rows_;  ///< of the block
  int n_ = 0, k_ = 0, p_ = 0, q_ = 0, count_ = 0;               ///< of the thread
  int weights_at_ = 0;                                          ///< in the block's filters
  int written_ = 0;  ///< columns of the thread that y has
  int at_ = 0;       ///< where the row of input lies in the tile that the thread has come to
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
