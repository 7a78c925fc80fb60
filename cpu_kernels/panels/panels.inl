// Panels are parts of the im2col matrix small enough for a level-2 cache, and are packed here.
#pragma once

#include <type_traits>
#include <utility>

#include "cpu_kernels/conv/conv_block.hpp"
#include "cpu_kernels/panels/panel.hpp"
#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_kernels/primitives/transpose.inl"
#include "cpu_kernels/primitives/vectors.inl"

namespace plumb {
namespace {

/// Calls `f(position, count, low, high, at)` for each row of outputs in a panel, which has `count`
/// outputs from `position` on. The tap of outputs in [low, high) lies inside the image, that of the
/// others in the padding. `at` is where the first output's tap lies, or would lie, counted from the
/// group's first channel. All channels have the same rows.
template <class F>
inline void for_each_row_of_tap(const ConvShape& conv, const Panel& panel, std::int64_t r,
                                std::int64_t s, const F& f) {
  // These are the output columns whose tap lies inside the image.
  const std::int64_t shift = s * conv.dilation.w - conv.left;
  const std::int64_t begin = greater(0, ceil_quotient(-shift, conv.stride.w));
  const std::int64_t end = ceil_quotient(conv.w - shift, conv.stride.w);
  const std::int64_t outputs = conv.p * conv.q;
  std::int64_t n = panel.first / outputs;
  std::int64_t p = panel.first % outputs / conv.q, q = panel.first % conv.q;
  for (std::int64_t position = 0; position < panel.count; q = 0) {
    const std::int64_t count = lesser(conv.q - q, panel.count - position);
    const std::int64_t h = p * conv.stride.h + r * conv.dilation.h - conv.top;
    const bool inside = h >= 0 && h < conv.h;
    const std::int64_t low = inside ? lesser(greater(begin - q, 0), count) : count;
    const std::int64_t high = inside ? greater(lesser(end - q, count), low) : count;
    f(position, count, low, high,
      n * conv.x_n + h * conv.x_h + (q * conv.stride.w + shift) * conv.x_w);
    position += count;
    if (++p == conv.p) p = 0, ++n;
  }
}

/// Neighbouring outputs of a panel whose tap lies in one row of the image, or in the padding.
struct Piece {
  std::int64_t position, count;
  std::int64_t at;
  bool padding;
};

/// Cuts a panel into pieces for a tap, in order; returns how many there are.
inline std::int64_t cut_pieces(const ConvShape& conv, const Panel& panel, std::int64_t r,
                               std::int64_t s, Piece (&pieces)[image_positions]) {
  const std::int64_t step = conv.stride.w * conv.x_w;
  std::int64_t pieces_cut = 0;
  const auto add = [&](std::int64_t position, std::int64_t count, std::int64_t at, bool padding) {
    if (count > 0) pieces[pieces_cut++] = {position, count, at, padding};
  };
  for_each_row_of_tap(conv, panel, r, s,
                      [&](std::int64_t position, std::int64_t count, std::int64_t low,
                          std::int64_t high, std::int64_t at) {
                        add(position, low, 0, true);
                        add(position + low, high - low, at + low * step, false);
                        add(position + high, count - high, 0, true);
                      });
  return pieces_cut;
}

/// Lines of the channel this far ahead are prefetched: rows of channels lie pages apart, in the
/// image and often in the panel, and no hardware prefetcher follows.
inline constexpr std::int64_t channels_ahead = 4;

/// How far ahead to prefetch, in elements.
struct Ahead {
  std::int64_t from, to;
};

/// Copies to[i] = from[i * step] for i in [0, count), in whole vectors, which reads and writes
/// beyond `count`.
template <int step, class Real, int... lane>
inline void copy_stepping(const Real* from, std::int64_t count, Real* to, const Ahead& ahead,
                          std::integer_sequence<int, lane...>) {
  static_assert(step == 1 || step == 2);
  for (std::int64_t i = 0; i < count; i += lanes<Real>, from += step * lanes<Real>) {
    __builtin_prefetch(to + i + ahead.to, 1);
    for (std::int64_t k = 0; k < step * lanes<Real>; k += 64 / sizeof(Real))
      __builtin_prefetch(from + ahead.from + k);
    Vector<Real> values = load_vector(from);
    if constexpr (step == 2)
      values = __builtin_shufflevector(values, load_vector(from + lanes<Real>), (step * lane)...);
    *reinterpret_cast<Vector<Real>*>(to + i) = values;
  }
}

/// Returns the range that copy_stepping() reads of all pieces, counted from a channel's first
/// element.
template <class Real>
inline ReadableRange read_range(const Piece* pieces, std::int64_t count, std::int64_t step) {
  ReadableRange range;
  bool any = false;
  for (const Piece* piece = pieces; piece < pieces + count; ++piece) {
    if (piece->padding) continue;
    const std::int64_t end = piece->at + step * in_whole_vectors<Real>(piece->count);
    range = any ? ReadableRange{lesser(range.begin, piece->at), greater(range.end, end)}
                : ReadableRange{piece->at, end};
    any = true;
  }
  return range;
}

/// Packs one term's row of the panel. A piece may write beyond its end; the next piece overwrites
/// that.
template <int step, class Real>
inline void copy_pieces(const Real* x, const Piece* pieces, std::int64_t count, Real* to,
                        const Ahead& ahead) {
  for (const Piece* piece = pieces; piece < pieces + count; ++piece)
    if (piece->padding)
      for (std::int64_t i = 0; i < piece->count; i += lanes<Real>)
        *reinterpret_cast<Vector<Real>*>(to + piece->position + i) = Vector<Real>{};
    else
      copy_stepping<step>(x + piece->at, piece->count, to + piece->position, ahead,
                          std::make_integer_sequence<int, lanes<Real>>{});
}

#ifdef __AVX2__
/// A vector of a panel has lanes of a row of the image, and zeros where the tap lies in the
/// padding.
template <class Real>
struct PanelVector {
  std::int64_t position, at;
  Lanes<Real> inside;
};

/// Cuts a panel into vectors for a tap, in order; returns how many there are. It serves horizontal
/// stride 1 and columns side by side.
template <class Real>
inline std::int64_t cut_vectors(const ConvShape& conv, const Panel& panel, std::int64_t r,
                                std::int64_t s, PanelVector<Real> (&vectors)[image_positions]) {
  std::int64_t vectors_cut = 0;
  const auto lane = [](std::int64_t i) { return lesser(greater(i, 0), lanes<Real>); };
  for_each_row_of_tap(conv, panel, r, s,
                      [&](std::int64_t position, std::int64_t count, std::int64_t low,
                          std::int64_t high, std::int64_t at) {
                        for (std::int64_t i = 0; i < count; i += lanes<Real>)
                          vectors[vectors_cut++] = {
                              .position = position + i,
                              .at = low < high ? at + i : 0,
                              .inside = lanes_between<Real>(lane(low - i), lane(high - i))};
                      });
  return vectors_cut;
}

/// Packs the rows of `channels` terms of a tap, `to_step` apart, without a branch for the padding,
/// which short rows would mispredict again and again. A vector may write beyond a row's end; the
/// next vector overwrites that.
template <class Real>
inline void copy_padded(const ConvShape& conv, const Panel& panel, std::int64_t tap, const Real* x,
                        std::int64_t channels, Real* to, std::int64_t to_step) {
  PanelVector<Real> vectors[image_positions];
  const std::int64_t count = cut_vectors(conv, panel, tap / conv.s, tap % conv.s, vectors);
  for (std::int64_t c = 0; c < channels; ++c, x += conv.x_c, to += to_step)
    for (const PanelVector<Real>* vector = vectors; vector < vectors + count; ++vector) {
      __builtin_prefetch(to + vector->position + channels_ahead * to_step, 1);
      *reinterpret_cast<Vector<Real>*>(to + vector->position) =
          load_between(x + vector->at, vector->inside);
    }
}
#endif

template <class Stored, class Real>
inline void load_pieces(const Stored* x, std::int64_t step, const Piece* pieces, std::int64_t count,
                        Real* to) {
  for (const Piece* piece = pieces; piece < pieces + count; ++piece)
    if (piece->padding)
      for (std::int64_t i = 0; i < piece->count; ++i) to[piece->position + i] = 0;
    else
      load_row(x + piece->at, step, piece->count, to + piece->position);
}

/// Packs the rows of `channels` terms, `to_step` apart, from an image whose channels lie side by
/// side (NHWC).
inline void turn_pieces(const float* x, std::int64_t step, const Piece* pieces, std::int64_t count,
                        std::int64_t channels, float* to, std::int64_t to_step) {
  for (const Piece* piece = pieces; piece < pieces + count; ++piece)
    if (piece->padding)
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t i = 0; i < piece->count; ++i) to[c * to_step + piece->position + i] = 0;
    else
      transpose(x + piece->at, step, piece->count, channels, to + piece->position, to_step);
}

template <class Stored, class Real>
void pack_panel_stored(const ConvShape& conv, const Panel& panel, Real* to) {
  // This many channels share the cutting into pieces, and their rows of the image stay in a level-1
  // cache for all taps.
  constexpr std::int64_t channels_together = 16;
  const std::int64_t before = panel.group * conv.group_c * conv.x_c;
  const Stored* const x = static_cast<const Stored*>(conv.x) + before;
  const std::int64_t step = conv.stride.w * conv.x_w, taps = conv.r * conv.s;
  const std::int64_t last = panel.first_term + panel.terms, to_step = taps * panel.step;
  const Ahead ahead{.from = channels_ahead * conv.x_c, .to = channels_ahead * to_step};
  Piece pieces[image_positions];
  for (std::int64_t c = panel.first_term / taps; c * taps < last; c += channels_together)
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const std::int64_t first = greater(c, ceil_quotient(panel.first_term - tap, taps));
      const std::int64_t end = lesser(c + channels_together, ceil_quotient(last - tap, taps));
      if (first >= end) continue;
      Real* row = to + (first * taps + tap - panel.first_term) * panel.step;
#ifdef __AVX2__
      if constexpr (std::is_same_v<Stored, Real>)
        if (conv.padded && step == 1) {
          copy_padded(conv, panel, tap, x + first * conv.x_c, end - first, row, to_step);
          continue;
        }
#endif
      const std::int64_t count = cut_pieces(conv, panel, tap / conv.s, tap % conv.s, pieces);
      if constexpr (std::is_same_v<Stored, float> && std::is_same_v<Real, float>)
        if (conv.x_c == 1 && step != 1) {
          turn_pieces(x + first, step, pieces, count, end - first, row, to_step);
          continue;
        }
      const ReadableRange reads = read_range<Real>(pieces, count, step);
      for (std::int64_t channel = first; channel < end; ++channel, row += to_step) {
        const Stored* const from = x + channel * conv.x_c;
        if constexpr (std::is_same_v<Stored, Real>)
          if ((step == 1 || step == 2) &&
              conv.x_readable.holds(before + channel * conv.x_c + reads.begin,
                                    before + channel * conv.x_c + reads.end)) {
            if (step == 1)
              copy_pieces<1>(from, pieces, count, row, ahead);
            else
              copy_pieces<2>(from, pieces, count, row, ahead);
            continue;
          }
        load_pieces(from, step, pieces, count, row);
      }
    }
}

}  // namespace
}  // namespace plumb
