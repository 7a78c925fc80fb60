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

/// Two neighbouring outputs in a register, rounded to nearest.
template <class Stored>
struct WidePair {
  using Vector = std::conditional_t<std::is_same_v<Stored, __half>, __half2, __nv_bfloat162>;
  Vector of;

  __device__ static WidePair round(float first, float second) {
    if constexpr (std::is_same_v<Stored, __half>)
      return {__floats2half2_rn(first, second)};
    else
      return {__floats2bfloat162_rn(first, second)};
  }
  __device__ float2 floats() const {
    if constexpr (std::is_same_v<Stored, __half>)
      return __half22float2(of);
    else
      return __bfloat1622float2(of);
  }
  __device__ bool has_nan() const { return !__hbeq2(of, of); }
};

/// Eight neighbouring outputs, 16 bytes of y that are moved at once.
template <class Stored>
struct WideEight {
  uint4 words;

  __device__ WidePair<Stored> pair(int i) const {
    const std::uint32_t word = i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
    return *reinterpret_cast<const WidePair<Stored>*>(&word);
  }
  __device__ void set_pair(int i, WidePair<Stored> to) {
    const auto word = *reinterpret_cast<const std::uint32_t*>(&to);
    (i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w) = word;
  }
  __device__ bool has_nan() const {
    return pair(0).has_nan() || pair(1).has_nan() || pair(2).has_nan() || pair(3).has_nan();
  }
};

/// Writes a warp's outputs of 16 pixels. Where there is padding, a lane whose outputs of 64 filters
/// have a NaN leaves them out, and repair() sums them by their definition.
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

  /// Writes 64 filters' outputs from filter `k` on, of which sums has fragments of eight. Returns
  /// whether this lane has left its part out.
  template <int count>
  __device__ bool write(const float (&sums)[count], int first_sum, int k) {
    const Epilogue<Stored>& epilogue = params_.epilogue;
    if (epilogue.accumulate) {
      read_old(k);
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
        auto& to = *reinterpret_cast<WidePair<Stored>*>(staged(group + 8 * half, column));
        float2 sum = {sums[first_sum + 4 * j + 2 * half], sums[first_sum + 4 * j + 2 * half + 1]};
        if (epilogue.accumulate) {
          const float2 old = to.floats();
          sum.x += old.x, sum.y += old.y;
        }
        to = WidePair<Stored>::round(max_nan(sum.x + bias[0], epilogue.least),
                                     max_nan(sum.y + bias[1], epilogue.least));
      }
    }
    __syncwarp();
    const bool left_out = params_.repairs && has_nan(k);
    write_new(k, !left_out);
    __syncwarp();
    return left_out;
  }

  /// Sums what this lane has left out of the 64 filters from `k` on.
  __device__ void repair(int k) const {
    const Epilogue<Stored>& epilogue = params_.epilogue;
#pragma unroll 1
    for (int i = 0; i < 16 * columns / 32; ++i) {
      const Place place = params_.vectors ? vector(i / 8) : element(i);
      const int row = place.row, filter = k + place.column + (params_.vectors ? i % 8 : 0);
      if (!is_there(row, filter)) continue;
      const WidePixel pixel = params_.pixel(first_ + row);
      const float sum = wide_sum(params_, pixel, filter);
      epilogue.store(params_.y[params_.y_of(pixel) + filter * params_.y_k], sum, filter);
    }
  }

 private:
  struct Place {
    int row, column;
  };
  /// Where this lane's vectors of eight filters lie, four of them.
  __device__ Place vector(int i) const { return {4 * i + lane_ / 8, lane_ % 8 * 8}; }
  /// Where this lane's 32 elements lie. Lanes go along what lies side by side: filters, or pixels.
  __device__ Place element(int i) const {
    return params_.lays_out_filters ? Place{i / 2, lane_ + 32 * (i % 2)}
                                    : Place{lane_ % 16, lane_ / 16 + 2 * i};
  }
  __device__ bool is_there(int row, int filter) const {
    return first_ + row < params_.pixels && filter < params_.k;
  }
  /// Where an output is staged: rows of 128 bytes, swizzled, so that fragments and rows meet no
  /// bank twice.
  __device__ Stored* staged(int row, int column) const {
    return reinterpret_cast<Stored*>(staged_ + swizzle_128(row * swizzle_row_bytes + 2 * column));
  }
  /// Returns where the outputs of one of the pixels begin. All lanes call it.
  __device__ Stored* y_row(int row) const {
    constexpr unsigned all = 0xffffffff;
    const int low = __shfl_sync(all, static_cast<int>(at_), row);
    const int high = __shfl_sync(all, static_cast<int>(at_ >> 32), row);
    return params_.y + (static_cast<std::int64_t>(high) << 32 | static_cast<std::uint32_t>(low));
  }

  /// Calls `f(y, staged)` for this lane's outputs that are there, as vectors or one by one.
  template <class F>
  __device__ void for_each(int k, const F& f) const {
    if (params_.vectors) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Place at = vector(i);
        Stored* const y = y_row(at.row) + k + at.column;
        if (is_there(at.row, k + at.column))
          f(*reinterpret_cast<WideEight<Stored>*>(y),
            *reinterpret_cast<WideEight<Stored>*>(staged(at.row, at.column)));
      }
    } else {
#pragma unroll 2
      for (int i = 0; i < 16 * columns / 32; ++i) {
        const Place at = element(i);
        Stored* const y = y_row(at.row) + (k + at.column) * params_.y_k;
        if (is_there(at.row, k + at.column)) f(*y, *staged(at.row, at.column));
      }
    }
  }
  __device__ void read_old(int k) const {
    for_each(k, [](const auto& y, auto& here) { here = y; });
  }
  __device__ void write_new(int k, bool writes) const {
    for_each(k, [writes](auto& y, const auto& here) {
      if (writes) y = here;
    });
  }
  __device__ bool has_nan(int k) const {
    bool found = false;
    for_each(k, [&found](const auto&, const auto& here) { found = found || is_nan(here); });
    return found;
  }
  __device__ static bool is_nan(const WideEight<Stored>& of) { return of.has_nan(); }
  __device__ static bool is_nan(const Stored& of) {
    const float value = convert<float>(of);
    return value != value;
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
    unsigned left_out = 0;  // a bit for each 64 filters
#pragma unroll
    for (int k = 0; k < shape.warpgroup_columns(); k += columns)
      if (filter + k < params.k && rows.write(sums.of[i], k / 2, filter + k))
        left_out |= 1u << k / columns;
#pragma unroll 1
    for (int k = filter; left_out != 0; left_out >>= 1, k += columns)
      if (left_out % 2 != 0) rows.repair(k);
    __syncwarp();
  }
}

}  // namespace plumb::cuda
