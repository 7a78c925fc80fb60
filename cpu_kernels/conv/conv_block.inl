// All functions of ConvKernels are compiled here, once for each instruction set and with internal
// linkage (primitives/vectors.inl says why): packing, the micro-kernel and stores of all families.
#pragma once

#include <type_traits>

#include "cpu_kernels/channels/channels.inl"
#include "cpu_kernels/conv/conv_block.hpp"
#include "cpu_kernels/conv/micro_kernel.inl"
#include "cpu_kernels/conv/pack.inl"
#include "cpu_kernels/conv/planes.inl"
#include "cpu_kernels/fields/fields.inl"
#include "cpu_kernels/images/images.inl"
#include "cpu_kernels/panels/panels.inl"
#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_kernels/primitives/transpose.inl"
#include "cpu_kernels/primitives/vectors.inl"
#include "cpu_kernels/weights/weights.inl"

namespace plumb {
namespace {

/// Computes output (k, p, q) by the definition, without the taps outside the image. The filter's
/// taps lie `w_step` apart.
template <class Stored, class Real>
inline Real sum_without_padding(const ConvShape& conv, const OutputRow& row, std::int64_t k,
                                std::int64_t q, const Real* w, std::int64_t w_step) {
  const Stored* const x =
      static_cast<const Stored*>(conv.x) + row.n * conv.x_n + row.group * conv.group_c * conv.x_c;
  Real sum = 0;
  for (std::int64_t c = 0; c < conv.group_c; ++c)
    for (std::int64_t r = 0; r < conv.r; ++r)
      for (std::int64_t s = 0; s < conv.s; ++s) {
        const std::int64_t h = row.p * conv.stride.h + r * conv.dilation.h - conv.top;
        const std::int64_t column = q * conv.stride.w + s * conv.dilation.w - conv.left;
        if (h < 0 || h >= conv.h || column < 0 || column >= conv.w) continue;
        sum += static_cast<Real>(widen(x[c * conv.x_c + h * conv.x_h + column * conv.x_w])) *
               w[((c * conv.r + r) * conv.s + s) * w_step];
      }
  if (conv.bias) {
    const std::int64_t filter = row.group * conv.group_k + k;
    sum += static_cast<Real>(widen(static_cast<const Stored*>(conv.bias)[filter]));
  }
  sum += Real{0};
  return conv.relu_of_sums() && sum < 0 ? Real{0} : sum;
}

/// A zero of the padding makes a NaN of a weight that is not finite: NaNs of other filters are what
/// the definition says too, however many there are.
template <class Stored, class Real>
void recompute_stored(const ConvShape& conv, const OutputRow& row, FilterRange filters,
                      const Real* packed, Real* sums, std::int64_t step) {
  Real zeros[max_filters] = {};
  for (std::int64_t term = 0; term < conv.group_c * conv.r * conv.s; ++term)
    for (std::int64_t i = 0; i < filters.count; ++i)
      zeros[i] += Real{0} * packed[term * filters.count + i];
  for (std::int64_t i = 0; i < filters.count; ++i)
    for (std::int64_t q = 0; q < row.count && zeros[i] != 0; ++q)
      if (Real& sum = sums[i * step + q]; sum != sum)
        sum = sum_without_padding<Stored>(conv, row, filters.k + i, row.q + q, packed + i,
                                          filters.count);
}

/// Copies rows of `count` elements. A row shorter than a vector is read alone: a vector over two
/// rows would wait for the stores of both.
template <class Real, int max_count = lanes<Real> - 1>
inline void copy_rows_of(std::int64_t count, const Real* from, std::int64_t from_step,
                         std::int64_t rows, Real* to, std::int64_t to_step) {
  if constexpr (max_count > 0) {
    if (count < max_count)
      return copy_rows_of<Real, max_count - 1>(count, from, from_step, rows, to, to_step);
    for (; count == max_count && rows > 0; --rows, from += from_step, to += to_step)
      __builtin_memcpy(to, from, max_count * sizeof(Real));
  }
  for (; rows > 0; --rows, from += from_step, to += to_step)
    for (std::int64_t i = 0; i < count; i += lanes<Real>)
      store_lanes(to + i, load_vector(from + i), count - i);
}

/// Stores the sums of some rows of filters, one by one.
template <bool plus_zero, class Stored, class Real>
inline void store_rows(const ConvShape& conv, std::int64_t count, std::int64_t rows,
                       std::int64_t filters, const Real* sums, std::int64_t step,
                       std::int64_t pitch, Stored* y) {
  for (std::int64_t i = 0; i < filters; ++i)
    for (std::int64_t row = 0; row < rows; ++row) {
      const Real* const from = sums + i * step + row * pitch;
      Stored* const to = y + i * conv.y_k + row * conv.y_p;
      if (conv.accumulate && conv.y_q == 1)
        add_row<plus_zero>(from, count, conv.relu, to, 1);
      else if (conv.accumulate)
        add_row<plus_zero>(from, count, conv.relu, to, conv.y_q);
      else
        store_row<plus_zero>(from, count, to, conv.y_q);
    }
}

template <class Stored, class Real>
void store_stored(const ConvShape& conv, const OutputRow& first, std::int64_t rows,
                  FilterRange filters, const Real* sums, std::int64_t step, std::int64_t pitch) {
  Stored* const y = static_cast<Stored*>(conv.y) + first.n * conv.y_n +
                    (first.group * conv.group_k + filters.k) * conv.y_k + first.p * conv.y_p +
                    first.q * conv.y_q;
  // Sums that are stored as they are have been without -0 since their bias.
  if (conv.reproducible && (conv.accumulate || !std::is_same_v<Stored, Real>))
    return store_rows<true>(conv, first.count, rows, filters.count, sums, step, pitch, y);
  if (conv.accumulate)
    return store_rows<false>(conv, first.count, rows, filters.count, sums, step, pitch, y);
  if constexpr (std::is_same_v<Stored, float> && std::is_same_v<Real, float>)
    if (conv.y_k == 1 && conv.y_q != 1) {
      for (std::int64_t row = 0; row < rows; ++row)
        transpose(sums + row * pitch, step, filters.count, first.count, y + row * conv.y_p,
                  conv.y_q);
      return;
    }
  for (std::int64_t i = 0; i < filters.count; ++i) {
    const Real* const from = sums + i * step;
    Stored* const to = y + i * conv.y_k;
    if constexpr (std::is_same_v<Stored, Real>)
      if (conv.y_q == 1) {
        copy_rows_of(first.count, from, pitch, rows, to, conv.y_p);
        continue;
      }
    for (std::int64_t row = 0; row < rows; ++row)
      store_row(from + row * pitch, first.count, to + row * conv.y_p, conv.y_q);
  }
}

/// Returns the greater of two, or NaN where one is NaN.
template <class Real>
inline Real greatest(Real max, Real value) {
  return value <= max || max != max ? max : value;
}

template <class Stored, class Real>
void store_pooled_stored(const ConvShape& conv, const OutputRow& row, FilterRange filters,
                         const Real* sums, std::int64_t step, std::int64_t pitch) {
  Stored* const y = static_cast<Stored*>(conv.y) + row.n * conv.y_n +
                    (row.group * conv.group_k + filters.k) * conv.y_k + row.p / 2 * conv.y_p;
  for (std::int64_t i = 0; i < filters.count; ++i)
    for (std::int64_t q = 0; q < row.count / 2; ++q) {
      const Real* const square = sums + i * step + 2 * q;
      const Real max =
          greatest(greatest(square[0], square[1]), greatest(square[pitch], square[pitch + 1]));
      y[i * conv.y_k + q * conv.y_q] =
          conv.reproducible ? narrowed<true, Stored>(max) : narrow<Stored>(max);
    }
}

template <class Real>
void load_planes(const ConvShape& conv, const Planes& planes, const OutputRow& row, Real* to) {
  with_stored<Real>(conv.dtype, [&](auto stored) {
    load_planes_stored<decltype(stored)>(conv, planes, row, to);
  });
}
template <class Real>
void pack_panel(const ConvShape& conv, const Panel& panel, Real* to) {
  with_stored<Real>(conv.dtype,
                    [&](auto stored) { pack_panel_stored<decltype(stored)>(conv, panel, to); });
}
template <class Real>
void pack(const ConvShape& conv, std::int64_t group, FilterRange range, Real* packed) {
  with_stored<Real>(
      conv.dtype, [&](auto stored) { pack_stored<decltype(stored)>(conv, group, range, packed); });
}
template <class Real>
void recompute(const ConvShape& conv, const OutputRow& row, FilterRange filters, const Real* packed,
               Real* sums, std::int64_t step) {
  with_stored<Real>(conv.dtype, [&](auto stored) {
    recompute_stored<decltype(stored)>(conv, row, filters, packed, sums, step);
  });
}
template <class Real>
void store(const ConvShape& conv, const OutputRow& first, std::int64_t rows, FilterRange filters,
           const Real* sums, std::int64_t step, std::int64_t pitch) {
  with_stored<Real>(conv.dtype, [&](auto stored) {
    store_stored<decltype(stored)>(conv, first, rows, filters, sums, step, pitch);
  });
}
template <class Real>
void store_pooled(const ConvShape& conv, const OutputRow& row, FilterRange filters,
                  const Real* sums, std::int64_t step, std::int64_t pitch) {
  with_stored<Real>(conv.dtype, [&](auto stored) {
    store_pooled_stored<decltype(stored)>(conv, row, filters, sums, step, pitch);
  });
}

template <class Real>
constexpr ConvKernels<Real> kernels_for{.filters = max_filters,
                                        .tile_positions = tile_vectors(max_filters) * lanes<Real>,
                                        .blocks_terms = PLUMB_REGISTERS == 16,
                                        .micro_kernel = &micro_kernel<Real>,
                                        .load_planes = &load_planes<Real>,
                                        .pack_panel = &pack_panel<Real>,
                                        .pack = &pack<Real>,
                                        .recompute = &recompute<Real>,
                                        .store = &store<Real>,
                                        .store_pooled = &store_pooled<Real>};

template <class Real>
constexpr KernelsOf<Real> all_kernels_for{kernels_for<Real>, field_kernels_for<Real>,
                                          weights_kernels_for<Real>, channels_kernels_for<Real>,
                                          images_kernels_for<Real>};

constexpr ConvKernelSet kernels_here{all_kernels_for<float>, all_kernels_for<double>};

}  // namespace
}  // namespace plumb
