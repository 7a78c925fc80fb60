// Pieces of the matrix that im2col would make, small enough for a level-2 cache.
#pragma once

#include "cpu_reference/conv_block.hpp"
#include "cpu_reference/products.inl"
#include "cpu_reference/rows.hpp"

namespace plumb {
namespace {

template <class Stored, class Real>
void load_panel_stored(const ConvShape& conv, const Panel& panel, Real* to) {
  const Stored* const x = static_cast<const Stored*>(conv.x);
  const std::int64_t step = conv.stride.w * conv.x_w;
  const std::int64_t outputs = conv.p * conv.q;
  const std::int64_t first_n = panel.first / outputs;
  const std::int64_t first_p = panel.first % outputs / conv.q, first_q = panel.first % conv.q;
  std::int64_t s = panel.first_term % conv.s;
  std::int64_t r = panel.first_term / conv.s % conv.r;
  std::int64_t c = panel.first_term / conv.s / conv.r;
  for (std::int64_t term = 0; term < panel.terms; ++term, to += panel.width) {
    // Output columns whose tap lies inside the image.
    const std::int64_t shift = s * conv.dilation.w - conv.left;
    const std::int64_t begin = greater(0, ceil_quotient(-shift, conv.stride.w));
    const std::int64_t end = ceil_quotient(conv.w - shift, conv.stride.w);
    std::int64_t n = first_n, p = first_p, q = first_q;
    for (std::int64_t place = 0; place < panel.count; q = 0) {
      const std::int64_t count = lesser(conv.q - q, panel.count - place);
      Real* const row = to + place;
      const std::int64_t h = p * conv.stride.h + r * conv.dilation.h - conv.top;
      const bool inside = h >= 0 && h < conv.h;
      const std::int64_t low = inside ? lesser(greater(begin - q, 0), count) : count;
      const std::int64_t high = inside ? greater(lesser(end - q, count), low) : count;
      for (std::int64_t i = 0; i < low; ++i) row[i] = 0;
      if (low < high) {
        const std::int64_t at = n * conv.x_n + (panel.group * conv.group_c + c) * conv.x_c +
                                h * conv.x_h + ((q + low) * conv.stride.w + shift) * conv.x_w;
        // What is written beyond the row is written again with the next, or lies behind them all.
        if (std::is_same_v<Stored, Real> && step == 1 &&
            at + high - low + product_places <= conv.x_elements)
          copy_vectors(reinterpret_cast<const Real*>(x) + at, high - low, row + low);
        else
          load_row(x + at, step, high - low, row + low);
      }
      for (std::int64_t i = high; i < count; ++i) row[i] = 0;
      place += count;
      if (++p == conv.p) p = 0, ++n;
    }
    if (++s == conv.s) {
      s = 0;
      if (++r == conv.r) r = 0, ++c;
    }
  }
}

}  // namespace
}  // namespace plumb
