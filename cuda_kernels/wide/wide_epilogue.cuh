// Sums become outputs: each consumer warp stages 16 pixels by 64 filters of its own, so that rows
// of y are written in whole runs.
#pragma once

#include "cuda_kernels/primitives/scalar.cuh"
#include "cuda_kernels/wide/wide_consumer.cuh"
#include "cuda_kernels/wide/wide_params.cuh"

namespace plumb::cuda {

/// Returns an output's sum by its definition, for one that came out NaN: a tap outside the image is
/// left out, where the product had a zero that may have met an Inf.
template <class Params>
__device__ float wide_sum(const Params& params, const WidePixel& pixel, int k) {
  using Stored = typename Params::Stored;
  const WideAxis &w = params.axis[0], &h = params.axis[1], &d = params.axis[2];
  const int first[3] = {pixel.at[0] * w.stride - w.before, pixel.at[1] * h.stride - h.before,
                        pixel.at[2] * d.stride - d.before};
  float sum = 0;
  int step = 0;
#pragma unroll 1
  for (int t = 0; t < d.taps; ++t)
#pragma unroll 1
    for (int r = 0; r < h.taps; ++r)
#pragma unroll 1
      for (int s = 0; s < w.taps; ++s, step += params.channel_blocks) {
        const int at[3] = {first[0] + s * w.dilation, first[1] + r * h.dilation,
                           first[2] + t * d.dilation};
        if (at[0] < 0 || at[0] >= w.extent || at[1] < 0 || at[1] >= h.extent || at[2] < 0 ||
            at[2] >= d.extent)
          continue;
        const Stored* const x = params.x + pixel.n * params.x_n + at[2] * d.x_step +
                                at[1] * h.x_step + at[0] * w.x_step;
#pragma unroll 1
        for (int c = 0; c < params.c; ++c) {
          const int row = k % swizzle_rows;
          const char* const atom =
              params.filters + (std::int64_t{step + c / wide_channels} * params.rows + (k - row)) *
                                   swizzle_row_bytes;
          const auto* filter = reinterpret_cast<const Stored*>(
              atom + swizzle_128(row * swizzle_row_bytes + 2 * (c % wide_channels)));
          sum = fma(convert<float>(x[c]), convert<float>(*filter), sum);
        }
      }
  return sum;
}

/// Returns an output that came out as `value`, of the pixel with that number, as it is to be
/// written to `y`, which still has its old value.
template <class Params>
__device__ typename Params::Stored repaired(const Params& params, typename Params::Stored value,
                                            int pixel, int k, const typename Params::Stored& y) {
  const float number = convert<float>(value);
  if (number == number) return value;
  const float sum = wide_sum(params, params.pixel(pixel), k);
  return params.epilogue(params.epilogue.accumulate ? sum + convert<float>(y) : sum, k);
}

/// Eight neighbouring outputs, 16 bytes of y.
template <class Stored>
struct WideEight {
  std::uint32_t words[4];

  __device__ static WideEight read(const void* from) {
    const uint4 of = *static_cast<const uint4*>(from);
    return {of.x, of.y, of.z, of.w};
  }
  __device__ void write(void* to) const {
    *static_cast<uint4*>(to) = {words[0], words[1], words[2], words[3]};
  }
  __device__ bool has_nan() const {
    using Pair = std::conditional_t<std::is_same_v<Stored, __half>, __half2, __nv_bfloat162>;
    bool numbers = true;
#pragma unroll
    for (const std::uint32_t& word : words) {
      const Pair pair = *reinterpret_cast<const Pair*>(&word);
      numbers = numbers && __hbeq2(pair, pair);
    }
    return !numbers;
  }
  __device__ Stored first() const {
    const auto bits = static_cast<std::uint16_t>(words[0]);
    return *reinterpret_cast<const Stored*>(&bits);
  }
  /// Takes the first away and puts `last` behind the others.
  __device__ void rotate(Stored last) {
    const std::uint32_t bits = *reinterpret_cast<const std::uint16_t*>(&last);
#pragma unroll
    for (int i = 0; i < 3; ++i) words[i] = words[i] >> 16 | words[i + 1] << 16;
    words[3] = words[3] >> 16 | bits << 16;
  }
};

/// Writes a warp's outputs of 16 pixels.
template <class Params>
class WideRows {
 public:
  using Stored = typename Params::Stored;
  static constexpr int columns = 64;  ///< that are staged at once

  /// `first` is the first pixel's number.
  __device__ WideRows(const Params& params, char* staged, int first)
      : params_(params), staged_(staged), first_(first), lane_(static_cast<int>(threadIdx.x) % 32) {
    const int pixel = min(first + lane_ % 16, params.pixels - 1);
    at_ = params.y_of(params.pixel(pixel));
  }

  /// Writes 64 filters' outputs from filter `k` on, of which sums has fragments of eight.
  template <int count>
  __device__ void write(const float (&sums)[count], int first_sum, int k) {
    const Epilogue<Stored>& epilogue = params_.epilogue;
    if (epilogue.accumulate) {
      transfer<true>(k);
      __syncwarp();
    }
    const int group = lane_ / 4, beside = lane_ % 4 * 2;
#pragma unroll
    for (int j = 0; j < columns / 8; ++j) {
      const int column = 8 * j + beside, filter = k + column;
      float bias[2] = {};
      if (epilogue.bias) {
        if (filter < params_.k) bias[0] = epilogue.template bias_of<float>(filter);
        if (filter + 1 < params_.k) bias[1] = epilogue.template bias_of<float>(filter + 1);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Stored* const to = staged(group + 8 * half, column);
        float sum[2] = {sums[first_sum + 4 * j + 2 * half], sums[first_sum + 4 * j + 2 * half + 1]};
        if (epilogue.accumulate) sum[0] += convert<float>(to[0]), sum[1] += convert<float>(to[1]);
        to[0] = epilogue.finish(sum[0], bias[0]), to[1] = epilogue.finish(sum[1], bias[1]);
      }
    }
    __syncwarp();
    transfer<false>(k);
    __syncwarp();
  }

 private:
  /// Where an output is staged: rows of 128 bytes, swizzled, so that fragments and rows meet no
  /// bank twice.
  __device__ Stored* staged(int row, int column) const {
    return reinterpret_cast<Stored*>(staged_ + swizzle_128(row * swizzle_row_bytes + 2 * column));
  }
  __device__ std::int64_t at_row(int row) const {
    const int low = __shfl_sync(0xffffffff, static_cast<int>(at_), row);
    const int high = __shfl_sync(0xffffffff, static_cast<int>(at_ >> 32), row);
    return static_cast<std::int64_t>(high) << 32 | static_cast<std::uint32_t>(low);
  }
  /// Moves outputs between y and where they are staged.
  template <bool reads>
  __device__ void transfer(int k) {
    if (params_.vectors)
      transfer_vectors<reads>(k);
    else
      transfer_elements<reads>(k);
  }
  template <bool reads>
  __device__ void transfer_vectors(int k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = 4 * i + lane_ / 8, column = lane_ % 8 * 8;
      const std::int64_t at = at_row(row);
      if (first_ + row >= params_.pixels || k + column >= params_.k) continue;
      Stored* const y = params_.y + at + k + column;
      auto& here = *reinterpret_cast<uint4*>(staged(row, column));
      if constexpr (reads) {
        here = *reinterpret_cast<const uint4*>(y);
      } else {
        auto eight = WideEight<Stored>::read(&here);
        if (params_.repairs && eight.has_nan()) repair(eight, first_ + row, k + column, y);
        eight.write(y);
      }
    }
  }
  __device__ void repair(WideEight<Stored>& eight, int pixel, int k, const Stored* y) const {
#pragma unroll 1
    for (int i = 0; i < 8; ++i) eight.rotate(repaired(params_, eight.first(), pixel, k + i, y[i]));
  }
  /// Lanes go along what lies side by side: filters, or pixels.
  template <bool reads>
  __device__ void transfer_elements(int k) {
#pragma unroll 4
    for (int i = 0; i < 16 * columns / 32; ++i) {
      const int row = params_.lays_out_filters ? i / 2 : lane_ % 16;
      const int column = params_.lays_out_filters ? lane_ + 32 * (i % 2) : lane_ / 16 + 2 * i;
      const std::int64_t at = at_row(row);
      if (first_ + row >= params_.pixels || k + column >= params_.k) continue;
      Stored& y = params_.y[at + (k + column) * params_.y_k];
      Stored& here = *staged(row, column);
      if constexpr (reads)
        here = y;
      else
        y = params_.repairs ? repaired(params_, here, first_ + row, k + column, y) : here;
    }
  }

  const Params& params_;
  char* staged_;
  int first_, lane_;
  std::int64_t at_;  ///< where the outputs of pixel lane % 16 begin
};

/// Writes a split's sums to workspace, where sum_splits() finds them.
template <WideShape shape, class Params>
__device__ void write_sums(const Params& params, const WideSums<shape>& sums,
                           const WideWorkItem& work, int pixel, int filter) {
  const int lane = static_cast<int>(threadIdx.x) % 32,
            warp = static_cast<int>(threadIdx.x) / 32 % 4;
#pragma unroll
  for (int i = 0; i < WideSums<shape>::m64_tiles; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = pixel + 64 * i + 16 * warp + 8 * half + lane / 4;
      if (row >= params.pixels) continue;
      float* const to =
          params.sums + (std::int64_t{work.split} * params.pixels + row) * params.rows;
#pragma unroll
      for (int j = 0; j < WideSums<shape>::n8_tiles; ++j)
        if (filter + 8 * j < params.rows)
          *reinterpret_cast<float2*>(to + filter + 8 * j + lane % 4 * 2) = {
              sums.of[i][4 * j + 2 * half], sums.of[i][4 * j + 2 * half + 1]};
    }
}

/// Writes a warpgroup's sums of a tile.
template <WideShape shape, class Params>
__device__ void write_tile(const Params& params, const WideShared<shape>& shared,
                           const WideSums<shape>& sums, const WideWorkItem& work) {
  const int warpgroup = consumer_warpgroup();
  const int pixel = work.pixel + (shape.across == 1 ? warpgroup * shape.warpgroup_rows() : 0);
  const int filter = work.filter + (shape.across == 1 ? 0 : warpgroup * shape.warpgroup_columns());
  if (params.splits > 1) return write_sums<shape>(params, sums, work, pixel, filter);
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int i = 0; i < WideSums<shape>::m64_tiles; ++i) {
    WideRows<Params> rows(params, shared.staged(warp), pixel + 64 * i + 16 * (warp % 4));
    constexpr int columns = WideRows<Params>::columns;
#pragma unroll
    for (int k = 0; k < shape.warpgroup_columns(); k += columns)
      if (filter + k < params.k) rows.write(sums.of[i], k / 2, filter + k);
  }
}

}  // namespace plumb::cuda
