// The parts of a direct convolution, compiled once for each instruction set. A source that includes
// this has defined PLUMB_VECTOR_BYTES and PLUMB_REGISTERS. Everything here has internal linkage:
// the linker keeps one copy of each inline function, and must not take one that was compiled for a
// machine better than the one it runs on.
#include "cpu_reference/direct_block.hpp"
#include "cpu_reference/rows.hpp"

namespace plumb {
namespace {

inline constexpr std::int64_t lanes = PLUMB_VECTOR_BYTES / sizeof(float);
// As wide as a register, and at any address that a float may have.
typedef float Vector __attribute__((vector_size(PLUMB_VECTOR_BYTES), aligned(4), may_alias));

inline std::int64_t greater(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
/// `vectors` vectors of places by `filters` filters, in registers from the first term to the last.
template <int filters, int vectors>
inline void sum_tile(const DirectRun& run, std::int64_t place) {
  Vector sums[filters][vectors] = {};
  const float* const x = run.x + place;
  const float* w = run.w;
  for (std::int64_t term = 0; term < run.terms; ++term, w += filters) {
    const float* const from = x + run.offsets[term];
    Vector values[vectors];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v)
      values[v] = *reinterpret_cast<const Vector*>(from + v * lanes);
#pragma GCC unroll 16
    for (int k = 0; k < filters; ++k)
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) sums[k][v] += values[v] * w[k];
  }
  // Unrolled, or the compiler keeps the sums in memory, to index them.
#pragma GCC unroll 16
  for (int k = 0; k < filters; ++k)
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v)
      *reinterpret_cast<Vector*>(run.sums + k * run.step + place + v * lanes) = sums[k][v];
}

/// What is left of a run behind its whole tiles: fewer than `vectors` vectors, in one tile.
template <int filters, int vectors>
inline void sum_rest(const DirectRun& run, std::int64_t place) {
  if constexpr (vectors > 0) {
    if (run.count - place == vectors * lanes)
      sum_tile<filters, vectors>(run, place);
    else
      sum_rest<filters, vectors - 1>(run, place);
  }
}

template <int filters>
inline void sum_filters(const DirectRun& run) {
  // sums, values and a weight: filters * vectors + vectors + 1 registers.
  constexpr int in_registers = (PLUMB_REGISTERS - 1) / (filters + 1);
  constexpr int vectors = in_registers < 8 ? in_registers : 8;
  std::int64_t place = 0;
  for (; place + vectors * lanes <= run.count; place += vectors * lanes)
    sum_tile<filters, vectors>(run, place);
  sum_rest<filters, vectors - 1>(run, place);
}

void sum(const DirectRun& run) {
  switch (run.filters) {
    case 8: return sum_filters<8>(run);
    case 4: return sum_filters<4>(run);
    case 2: return sum_filters<2>(run);
    default: return sum_filters<1>(run);
  }
}

template <class Stored>
inline void load_stored(const DirectConv& conv, const DirectBand& band, float* planes) {
  const Stored* const x = static_cast<const Stored*>(conv.x) + band.n * conv.x_n;
  const std::int64_t rows = conv.plane / conv.pitch;
  for (std::int64_t c = 0; c < conv.group_c; ++c)
    for (std::int64_t phase_h = 0; phase_h < conv.phases_h; ++phase_h)
      for (std::int64_t phase_w = 0; phase_w < conv.phases_w; ++phase_w, planes += conv.plane)
        for (std::int64_t row = 0; row < rows; ++row) {
          float* const to = planes + row * conv.pitch;
          const std::int64_t h = (band.p + row) * conv.stride.h + phase_h - conv.top;
          // Columns of the plane's row that lie inside the image.
          const std::int64_t first = phase_w - conv.left;
          std::int64_t begin = greater(0, ceil_divide(-first, conv.stride.w));
          std::int64_t end = ceil_divide(conv.w - first, conv.stride.w);
          begin = lesser(begin, conv.pitch);
          end = h >= 0 && h < conv.h ? lesser(greater(end, begin), conv.pitch) : begin;
          for (std::int64_t i = 0; i < begin; ++i) to[i] = 0;
          if (begin < end)
            load_row(x + ((band.group * conv.group_c + c) * conv.x_c + h * conv.x_h +
                          (first + begin * conv.stride.w) * conv.x_w),
                     conv.stride.w * conv.x_w, end - begin, to + begin);
          for (std::int64_t i = end; i < conv.pitch; ++i) to[i] = 0;
        }
}

/// Output (k, p, q) of the band's image straight from the definition: taps outside the image are
/// left out. `k` counts all filters.
template <class Stored>
inline float sum_without_padding(const DirectConv& conv, const DirectBand& band, std::int64_t k,
                                 std::int64_t p, std::int64_t q) {
  const Stored* const x =
      static_cast<const Stored*>(conv.x) + band.n * conv.x_n + band.group * conv.group_c * conv.x_c;
  const Stored* const w = static_cast<const Stored*>(conv.filters) + k * conv.w_k;
  float sum = 0;
  for (std::int64_t c = 0; c < conv.group_c; ++c)
    for (std::int64_t r = 0; r < conv.r; ++r)
      for (std::int64_t s = 0; s < conv.s; ++s) {
        const std::int64_t h = p * conv.stride.h + r * conv.dilation.h - conv.top;
        const std::int64_t column = q * conv.stride.w + s * conv.dilation.w - conv.left;
        if (h < 0 || h >= conv.h || column < 0 || column >= conv.w) continue;
        sum += static_cast<float>(widen(x[c * conv.x_c + h * conv.x_h + column * conv.x_w])) *
               static_cast<float>(widen(w[c * conv.w_c + r * conv.w_r + s * conv.w_s]));
      }
  return sum;
}

template <class Stored>
inline void store_stored(const DirectConv& conv, const DirectBand& band, std::int64_t first_k,
                         std::int64_t count, float* sums, std::int64_t step) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t k = band.group * conv.group_k + first_k + i;
    const float bias =
        conv.bias ? static_cast<float>(widen(static_cast<const Stored*>(conv.bias)[k])) : 0;
    for (std::int64_t row = 0; row < band.rows; ++row) {
      float* const from = sums + i * step + row * conv.pitch;
      const std::int64_t p = band.p + row;
      // A tap in the padding met the filter as a zero, and 0 * Inf is NaN; it shall contribute
      // nothing. A NaN never leaves a sum again, so sums that are numbers met none.
      if (conv.padded) {
        bool any = false;
        for (std::int64_t q = 0; q < conv.q; ++q) any |= from[q] != from[q];
        for (std::int64_t q = 0; any && q < conv.q; ++q)
          if (from[q] != from[q]) from[q] = sum_without_padding<Stored>(conv, band, k, p, q);
      }
      if (conv.bias)
        for (std::int64_t q = 0; q < conv.q; ++q) from[q] += bias;
      if (conv.relu)
        for (std::int64_t q = 0; q < conv.q; ++q) from[q] = from[q] < 0 ? 0.0f : from[q];
      store_row(from, conv.q,
                static_cast<Stored*>(conv.y) + (band.n * conv.y_n + k * conv.y_k + p * conv.y_p),
                conv.y_q);
    }
  }
}

void load(const DirectConv& conv, const DirectBand& band, float* planes) {
  with_type(conv.dtype, [&](auto stored) { load_stored<decltype(stored)>(conv, band, planes); });
}
void store(const DirectConv& conv, const DirectBand& band, std::int64_t k, std::int64_t count,
           float* sums, std::int64_t step) {
  with_type(conv.dtype,
            [&](auto stored) { store_stored<decltype(stored)>(conv, band, k, count, sums, step); });
}

constexpr DirectKernels kernels_here{PLUMB_REGISTERS == 32 ? 8 : 4, &load, &sum, &store};

}  // namespace
}  // namespace plumb
