// A warp's sums become outputs: bias, what y held, activation, one rounding. They go through the
// warp's own shared memory, so that y is written in whole vectors of filters or of pixels.
#pragma once

#include "cuda_kernels/grouped/grouped_products.cuh"
#include "cuda_kernels/wide/wide_outputs.cuh"

namespace plumb::cuda {

/// Returns an output by its definition, of the filters as they are packed. A NaN that comes from
/// the data comes out again.
template <class Params>
__device__ typename Params::Stored defined_output(const Params& params, int image, int p, int q,
                                                  int filter) {
  using Stored = typename Params::Stored;
  const DeepShape<int>& shape = params.shape;
  const auto* const filters = reinterpret_cast<const Stored*>(params.filters);
  const int first = shape.group_k.quotient(filter) * shape.group_c;
  const Stored* const x = params.x + image * shape.x_n;
  float sum = 0;
#pragma unroll 1
  for (int c = 0; c < shape.group_c; ++c)
#pragma unroll 1
    for (int tap = 0; tap < params.packed.rows * params.packed.columns; ++tap) {
      const int r = tap / params.w.taps, s = tap - r * params.w.taps;
      const int h = shape.rows.source(shape.rows.first(p), r),
                w = shape.columns.source(shape.columns.first(q), s);
      if (h < 0 || w < 0) continue;
      sum = fma(convert<float>(
                    x[(first + c) * shape.x_c + h * shape.rows.x_step + w * shape.columns.x_step]),
                convert<float>(filters[params.packed.place(filter, first + c, r, s)]), sum);
    }
  sum += params.epilogue.template bias_of<float>(filter);
  const Stored& old = params.y[image * shape.y_n + filter * shape.y_k + p * shape.rows.y_step +
                               q * shape.columns.y_step];
  return params.epilogue.finish(sum, params.epilogue.accumulate ? convert<float>(old) : 0.0f);
}

template <class Stored>
__device__ bool is_nan_output(Stored output) {
  const float value = convert<float>(output);
  return value != value;
}

/// Makes anew which of a warp's staged outputs are NaN: zeros of the padding, of other groups'
/// channels or of what fills up a step may have met an Inf. They are of a tile's outputs from
/// `pixel` on, and of filters from `filter` on. That is rare, and a function that takes no
/// registers from the rest.
template <GroupedShape shape, class Params>
__device__ __noinline__ void mend_outputs(const Params& params, int number_of_tile, char* staged,
                                          int pixel, int filter) {
  const GroupedTile tile(params, number_of_tile);
  const bool by_pixels = params.cut.output == GroupedOutput::filters;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) % 32; i < shape.pixels() * shape.filters(); i += 32) {
    const int row = i % shape.pixels(), column = i / shape.pixels();
    constexpr int size = Params::size;
    char* const at = staged + (by_pixels ? row * shape.pixel_pitch(size) + size * column
                                         : column * shape.filter_pitch(size) + size * row);
    auto& output = *reinterpret_cast<typename Params::Stored*>(at);
    const GroupedPixel of(params, pixel + row);
    if (is_nan_output(output) && of.is_there(params, tile) && filter + column < params.packed.k)
      output = defined_output(params, tile.n + of.image, tile.p + of.row, tile.q + of.column,
                              filter + column);
  }
}

/// Two neighbouring outputs of a lane.
template <class Stored>
class GroupedPair {
 public:
  __device__ GroupedPair(float first, float second, float least)
      : bits_(depthwise_toeplitz::rounded_pair<Stored>(first, second, least)) {}

  /// Returns what is a suspect where one of the pair is not finite, or `before` is one.
  __device__ std::uint32_t suspects(std::uint32_t before) const {
    return depthwise_toeplitz::plus_zero_times<Stored>(before, bits_);
  }
  __device__ static bool is_suspect(std::uint32_t of) { return (of & 0x7fff7fff) != 0; }
  __device__ void store(char* to) const { *reinterpret_cast<std::uint32_t*>(to) = bits_; }
  __device__ void store(char* first, char* second) const {
    *reinterpret_cast<std::uint16_t*>(first) = static_cast<std::uint16_t>(bits_);
    *reinterpret_cast<std::uint16_t*>(second) = static_cast<std::uint16_t>(bits_ >> 16);
  }

 private:
  std::uint32_t bits_;
};
template <>
class GroupedPair<float> {
 public:
  // A sum of fragments may be -0: zeros have no sign.
  __device__ GroupedPair(float first, float second, float least)
      : of_{max_nan(first, least) + 0.0f, max_nan(second, least) + 0.0f} {}

  __device__ std::uint32_t suspects(std::uint32_t before) const {
    return __float_as_uint(fmaf(of_.x, 0.0f, fmaf(of_.y, 0.0f, __uint_as_float(before))));
  }
  __device__ static bool is_suspect(std::uint32_t of) { return (of & 0x7fffffff) != 0; }
  __device__ void store(char* to) const { *reinterpret_cast<float2*>(to) = of_; }
  __device__ void store(char* first, char* second) const {
    *reinterpret_cast<float*>(first) = of_.x;
    *reinterpret_cast<float*>(second) = of_.y;
  }

 private:
  float2 of_;
};

/// Writes outputs of a strip, of the tile's pixels from `pixel` on.
template <class Params, GroupedShape shape>
class GroupedStore {
 public:
  using Stored = typename Params::Stored;
  using Pair = GroupedPair<Stored>;

  /// `places` are those of the pixels.
  __device__ GroupedStore(const Params& params, int tile, const GroupedPlace* places, char* staged,
                          int pixel, int filter)
      : params_(params),
        places_(places),
        staged_(staged),
        tile_(tile),
        lane_(static_cast<int>(threadIdx.x) % 32),
        pixel_(pixel),
        filter_(filter) {}

  __device__ void write(GroupedSums<shape>& sums) const {
    if (params_.epilogue.accumulate) add_old(sums);
    const bool by_filters = params_.cut.output == GroupedOutput::filters;
    const std::uint32_t suspects = by_filters ? stage<true>(sums) : stage<false>(sums);
    __syncwarp();
    if (__any_sync(0xffffffff, Pair::is_suspect(suspects))) {
      mend_outputs<shape>(params_, tile_, staged_, pixel_, filter_);
      __syncwarp();
    }
    if (by_filters) {
      write_filters();
    } else {
      switch (params_.cut.y_run) {
        case 1: write_runs<1>(); break;
        case 2: write_runs<2>(); break;
        case 4: write_runs<4>(); break;
        default:
          if constexpr (Params::unit == 8) write_runs<8>();
      }
    }
    __syncwarp();
  }

 private:
  static constexpr int size_ = Params::size, pixel_pitch_ = shape.pixel_pitch(size_),
                       filter_pitch_ = shape.filter_pitch(size_);

  /// Adds the bias, and what y holds: rare, and one by one.
  __device__ void add_old(GroupedSums<shape>& sums) const {
#pragma unroll 1
    for (int row = 0; row < 2 * shape.m16; ++row) {
      const int at = places_[8 * row + lane_ / 4].to;
      if (at == grouped_nowhere) continue;
#pragma unroll
      for (int i = 0; i < 2 * shape.m16; ++i)
        if (i == row)
#pragma unroll
          for (int t = 0; t < 2 * shape.n8(); ++t) {
            const int filter = filter_ + t / 2 * 8 + lane_ % 4 * 2 + t % 2;
            if (filter >= params_.packed.k) continue;
            float& sum = sums[i / 2][t / 2][i % 2 * 2 + t % 2];
            sum += params_.epilogue.template bias_of<float>(filter);
            sum += convert<float>(params_.y[at + filter * params_.shape.y_k]);
          }
    }
  }
  /// Stages rounded outputs, a pixel's filters or a filter's pixels side by side. Returns what is
  /// not a zero where one of the lane's is not finite.
  template <bool by_pixels>
  __device__ std::uint32_t stage(const GroupedSums<shape>& sums) const {
    const Epilogue<Stored>& epilogue = params_.epilogue;
    std::uint32_t suspects = 0;
#pragma unroll
    for (int t = 0; t < shape.n8(); ++t) {
      const int column = 8 * t + lane_ % 4 * 2, filter = filter_ + column;
      float bias[2] = {};
      if (epilogue.bias && !epilogue.accumulate)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (filter + i < params_.packed.k) bias[i] = epilogue.template bias_of<float>(filter + i);
#pragma unroll
      for (int row = 0; row < 2 * shape.m16; ++row) {
        const int pixel = 8 * row + lane_ / 4;
        const float* const both = sums[row / 2][t] + row % 2 * 2;
        const Pair pair(both[0] + bias[0], both[1] + bias[1], epilogue.least);
        suspects = pair.suspects(suspects);
        if constexpr (by_pixels) {
          pair.store(staged_ + pixel * pixel_pitch_ + size_ * column);
        } else {
          char* const to = staged_ + column * filter_pitch_ + size_ * pixel;
          pair.store(to, to + filter_pitch_);
        }
      }
    }
    return suspects;
  }

  /// 16 bytes of a pixel's filters at once: neighbouring lanes have a pixel's neighbouring ones.
  __device__ void write_filters() const {
    using Vector = WideVector<Stored, 16>;
    constexpr int vectors = shape.filters() / Params::unit,
                  rows = 32 / vectors;  // of a pixel, of a warp at once
    const int row = lane_ / vectors, column = lane_ % vectors * Params::unit;
    const bool has_filters = filter_ + column < params_.packed.k;
    const char* const from = staged_ + row * pixel_pitch_ + size_ * column;
    Stored* const to = params_.y + (filter_ + column);
#pragma unroll
    for (int i = 0; i < shape.pixels(); i += rows) {
      const int at = places_[i + row].to;
      if (has_filters && at != grouped_nowhere)
        Vector::load(from + i * pixel_pitch_).store(to + at);
    }
  }
  /// Some pixels of a filter at once: neighbouring lanes have a filter's neighbouring ones.
  template <int run>
  __device__ void write_runs() const {
    constexpr int vectors = shape.pixels() / run,
                  lanes = vectors < 32 ? vectors : 32;  // of a filter
#pragma unroll
    for (int i = 0; i < vectors; i += lanes) {
      const int row = (i + lane_ % lanes) * run, at = places_[row].to;
      const char* const from = staged_ + lane_ / lanes * filter_pitch_ + size_ * row;
      int filter = filter_ + lane_ / lanes;
      Stored* to = params_.y + (at == grouped_nowhere ? 0 : at + filter * params_.shape.y_k);
      const int filters = at == grouped_nowhere ? 0 : params_.packed.k;
#pragma unroll 4
      for (int j = 0; j < shape.filters(); j += 32 / lanes) {
        if (filter < filters) {
          if constexpr (run == 1)
            *to = *reinterpret_cast<const Stored*>(from + j * filter_pitch_);
          else
            WideVector<Stored, size_ * run>::load(from + j * filter_pitch_).store(to);
        }
        filter += 32 / lanes, to += 32 / lanes * params_.shape.y_k;
      }
    }
  }

  const Params& params_;
  const GroupedPlace* places_;
  char* staged_;
  int tile_, lane_, pixel_, filter_;
};

}  // namespace plumb::cuda
