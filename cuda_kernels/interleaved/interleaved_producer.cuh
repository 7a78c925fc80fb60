// Producer warps load the input of interleaved_kernel.cuh's tiles from x to core rows in shared
// memory: scaled by a power of two, as high and low halves, or as it is.
#pragma once

#include "cuda_kernels/few_channels/window_input.cuh"
#include "cuda_kernels/interleaved/interleaved_params.cuh"

namespace plumb::cuda {

/// Collects what is met of a tile's elements.
template <class Scheme>
struct MetElements {
  using Pair = HalfPair<typename Scheme::Half>;
  Pair most = {0, 0};                ///< the largest magnitudes of high parts; NaN where one is NaN
  std::uint32_t least = 0xffffffff;  ///< the least element in the order of ordered()

  __device__ void look_at(Fragment high) {
    most = __hmax2_nan(most, __habs2(*reinterpret_cast<const Pair*>(&high)));
  }
  /// Looks at two elements before they are scaled. It takes one instruction for each, and one for
  /// the least of three.
  __device__ void look_at(float first, float second) {
    least = min(min(least, ordered(first)), ordered(second));
  }
  /// Returns WindowFlags. A value that overflows with the scale of another tile is met once more
  /// with the tile's `own_scale`, where it overflows only if it is not finite.
  __device__ int flags(int exponent, bool own_scale) const {
    const bool finite = __low2float(most) < infinity<float> && __high2float(most) < infinity<float>;
    if (!Scheme::scaled) return finite ? 0 : met_non_finite;
    const float smallest = split_least * power_of_two(-exponent);
    const bool small = least < ordered(smallest);
    if (!finite && !own_scale) return met_range;
    return (finite ? 0 : met_non_finite) | (small ? met_small : 0);
  }

 private:
  /// Returns a number that orders magnitudes, but for zeros, which are the largest.
  __device__ static std::uint32_t ordered(float value) { return 2 * __float_as_uint(value) - 1; }
};

/// An element on its way. A half has a register of its own, in which two are soon put together.
template <class Stored>
using LoadedElement = std::conditional_t<std::is_same_v<Stored, float>, float, std::uint32_t>;
template <class Stored>
__device__ LoadedElement<Stored> load_element(const Stored* from) {
  if constexpr (std::is_same_v<Stored, float>)
    return *from;
  else
    return *reinterpret_cast<const std::uint16_t*>(from);
}

/// Makes a core row of eight elements, or one of their high parts and one of their low parts.
template <class Scheme>
__device__ void make_core_rows(const LoadedElement<typename Scheme::Stored> (&values)[8],
                               float scale, MetElements<Scheme>& met,
                               uint4 (&core_rows)[Scheme::elements.parts]) {
  Fragment parts[Scheme::elements.parts][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto first = values[2 * i], second = values[2 * i + 1];
    if constexpr (!Scheme::scaled) {
      parts[0][i] = __byte_perm(first, second, 0x5410);
    } else {
      met.look_at(first, second);
      if constexpr (Scheme::elements.parts == 1) {
        parts[0][i] = two_halves<__half>(first * scale, second * scale);
      } else {
        const SplitHalves halves(first * scale, second * scale);
        parts[0][i] = halves.high, parts[1][i] = halves.low;
      }
    }
    met.look_at(parts[0][i]);
  }
#pragma unroll
  for (int i = 0; i < Scheme::elements.parts; ++i)
    core_rows[i] = {parts[i][0], parts[i][1], parts[i][2], parts[i][3]};
}

/// Writes the lines of a tile: rows and columns from the tile's first, elements from `x_before`
/// elements in front of it, and the image. The whole block calls it, before a barrier.
template <class Params>
__device__ void write_lines(const Params& params) {
  auto* const lines = reinterpret_cast<int4*>(dynamic_shared() + params.lines_at);
  const auto& step = params.conv.x_step;
  const int phase_plane_lines = params.images * params.phase_plane_rows.value();
  for (int i = static_cast<int>(threadIdx.x); i < params.lines; i += Params::Roles::threads) {
    const auto& phase_plane = params.phase_planes[i / phase_plane_lines];
    const auto [image, row] = params.phase_plane_rows.divide(i % phase_plane_lines);
    const int h = phase_plane.row_phase + row * params.stride_h, w = phase_plane.column_phase;
    lines[i] = {
        h, w,
        params.x_before + image * step.n + phase_plane.first_c * step.c + h * step.h + w * step.w,
        image};
  }
}

/// The cursor is at the next core row that a lane fetches, 32 further on than its last, and knows
/// where that is without a division.
class CoreRowCursor {
 public:
  template <class Params>
  __device__ CoreRowCursor(const Params& params, int first)
      : number_(first + static_cast<int>(threadIdx.x) % 32),
        right_end_(params.pitch.value() * params.stride_w) {
    const auto [lines_on, columns_on] = params.pitch.divide(32);
    const auto [line, column] = params.pitch.divide(number_);
    line_ = line, lines_on_ = lines_on;
    right_ = column * params.stride_w, right_on_ = columns_on * params.stride_w;
  }

  __device__ int number() const { return number_; }
  __device__ int right() const { return right_; }  ///< columns of x from its line's first
  /// Returns the core row's line in the table (write_lines()); behind the tile's last line it
  /// returns the last.
  template <class Params>
  __device__ int4 line(const Params& params) const {
    const auto* const lines = reinterpret_cast<const int4*>(dynamic_shared() + params.lines_at);
    return lines[min(line_, params.lines - 1)];
  }
  __device__ void advance() {
    number_ += 32;
    line_ += lines_on_, right_ += right_on_;
    if (right_ >= right_end_) right_ -= right_end_, ++line_;
  }

 private:
  int number_, line_, lines_on_, right_, right_on_, right_end_;
};

/// Holds the addresses of a tile's first core row of a channel block in registers: read anew from
/// constant memory they would take most of the time. `neighbours` taps of a core row follow each
/// other in x.
template <int channels, int neighbours, class Stored>
struct CoreRowElements {
  static constexpr int taps = 8 / channels;
  const Stored* at[taps / neighbours][channels];
  int taps_bits;

  template <class Params>
  __device__ CoreRowElements(const Params& params, const InterleavedItem& item,
                             const DeviceChannelBlock& channel_block)
      : taps_bits(channel_block.taps_w_bits) {
    const auto& step = params.conv.x_step;
    const Stored* const x = params.x - params.x_before + item.n * step.n + item.first_c * step.c +
                            item.first_h * step.h + item.first_w * step.w;
#pragma unroll
    for (int i = 0; i < taps / neighbours; ++i)
#pragma unroll
      for (int c = 0; c < channels; ++c) {
        at[i][c] = x + channel_block.offsets[i * neighbours * channels + c];
        asm volatile("" : "+l"(at[i][c]));
      }
    asm volatile("" : "+r"(taps_bits));
  }

  /// Fetches the elements of the core row where the lane's cursor is, or zeros: outside of the
  /// image, and from `last` on.
  template <class Params>
  __device__ void fetch(const Params& params, const InterleavedItem& item,
                        const CoreRowCursor& cursor, int last,
                        LoadedElement<Stored> (&values)[8]) const {
    const int4 line = cursor.line(params);
    const int h = item.first_h + line.x, w = item.first_w + line.y + cursor.right();
    const bool exists = line.w < item.images && cursor.number() < last;
    // The offset is never negative, by x_before, and without a sign it is added in fewer
    // instructions.
    const auto offset = static_cast<std::uint32_t>(line.z + cursor.right() * params.conv.x_step.w);
#pragma unroll
    for (auto& value : values) value = 0;
#pragma unroll
    for (int i = 0; i < taps; i += neighbours) {
      const int below = taps == 1 ? 0 : i >> taps_bits;
      const int beside = taps == 1 ? 0 : i & ((1 << taps_bits) - 1);
      const bool in_rows =
          exists && static_cast<unsigned>(h + below) < static_cast<unsigned>(params.conv.h);
#pragma unroll
      for (int j = 0; j < neighbours; ++j) {
        if (!in_rows ||
            static_cast<unsigned>(w + beside + j) >= static_cast<unsigned>(params.conv.w))
          continue;
#pragma unroll
        for (int c = 0; c < channels; ++c) {
          const Stored* const from = at[i / neighbours][c] + offset + j;
          __builtin_assume(__isGlobal(from));
          values[(i + j) * channels + c] = load_element(from);
        }
      }
    }
  }
};

/// Loads a warp's core rows, `first` to before `last`, of channel blocks of `channels` channels.
/// Each thread has several in flight, and fetches the next into the registers of one that it has
/// stored. `wait_until_empty()` is called after the first reads, and waits until their stage is
/// empty.
template <int channels, int neighbours, class Params, class Wait>
__device__ void load_channel_block(const Params& params, const InterleavedItem& item,
                                   const DeviceChannelBlock& channel_block, int first, int last,
                                   float scale, char* x_tile,
                                   MetElements<typename Params::Scheme>& met,
                                   const Wait& wait_until_empty) {
  using Stored = typename Params::Stored;
  constexpr int at_once = 4, parts = Params::elements.parts;
  const CoreRowElements<channels, neighbours, Stored> elements(params, item, channel_block);
  CoreRowCursor cursor(params, first);
  LoadedElement<Stored> values[at_once][8];
  const auto fetch_next = [&](int i) {
    elements.fetch(params, item, cursor, last, values[i]);
    cursor.advance();
  };
  int number = cursor.number();
#pragma unroll
  for (int i = 0; i < at_once; ++i) fetch_next(i);
  wait_until_empty();
#pragma unroll 1
  for (;;) {
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      uint4 core_rows[parts];
      make_core_rows(values[i], scale, met, core_rows);
      fetch_next(i);
      if (number < last)
#pragma unroll
        for (int part = 0; part < parts; ++part)
          *reinterpret_cast<uint4*>(x_tile + number * 16 + part * params.low_apart) =
              core_rows[part];
      number += 32;
      first += 32;
      if (first >= last) return;
    }
  }
}

/// Loads all core rows of a tile; each producer warp loads its stretch.
template <class Params, class Wait>
__device__ MetElements<typename Params::Scheme> load_tile(const Params& params,
                                                          const InterleavedItem& item, float scale,
                                                          char* x_tile,
                                                          const Wait& wait_until_empty) {
  using Roles = typename Params::Roles;
  MetElements<typename Params::Scheme> met;
  const int warp = Roles::producer() / 32;
  const int begin = params.stretches[warp], end = params.stretches[warp + 1];
#pragma unroll 1
  for (int i = 0; i < params.channel_block_count; ++i) {
    const DeviceChannelBlock& channel_block = params.channel_blocks[i];
    const int first = max(begin, channel_block.first_line * params.pitch.value());
    const int last = min(end, channel_block.end_line * params.pitch.value());
    if (first >= last) continue;
    const auto load = [&]<int channels, int neighbours = 1>() {
      load_channel_block<channels, neighbours>(params, item, channel_block, first, last, scale,
                                               x_tile, met, wait_until_empty);
    };
    // Taps side by side that follow each other in x are read from one address.
    const bool pairs = channel_block.taps_w_bits > 0 && params.conv.x_step.w == 1;
    const auto load_taps = [&]<int channels>() {
      pairs ? load.template operator()<channels, 2>() : load.template operator()<channels>();
    };
    switch (channel_block.channels) {
      case 1: load_taps.template operator()<1>(); break;
      case 2: load_taps.template operator()<2>(); break;
      case 3: load_taps.template operator()<3>(); break;
      case 4: load_taps.template operator()<4>(); break;
      case 5: load.template operator()<5>(); break;
      case 6: load.template operator()<6>(); break;
      case 7: load.template operator()<7>(); break;
      default: load.template operator()<8>();
    }
  }
  return met;
}

/// Returns the exponent of the scale that moves the largest finite value in and around a tile's
/// input to between 2^14 and 2^15. All producers call it.
template <class Params>
__device__ int find_exponent(const Params& params, InterleavedControl& control,
                             const InterleavedItem& item) {
  using Roles = typename Params::Roles;
  const ConvShape<int>& conv = params.conv;
  const int producer = Roles::producer();
  Roles::sync_producers(params.streams());
  if (producer == 0) control.largest = 0;
  Roles::sync_producers(params.streams());
  const int top = max(item.first_h, 0), left = max(item.first_w, 0);
  const int rows = max(min(item.first_h + params.x_rows, conv.h) - top, 0);
  const int columns = min(item.first_w + params.x_columns, conv.w) - left;
  // Several rows are read at once, because all producers wait for this.
  constexpr int at_once = 8;
  const int warps = Roles::producer_warps(params.streams()),
            all = item.images * params.chunk_channels * rows;
  int most = 0;
#pragma unroll 1
  for (int first = producer / 32; first < all; first += at_once * warps) {
    const float* from[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int row = min(first + i * warps, all - 1), plane = row / rows;
      const int image = plane / params.chunk_channels,
                c = item.first_c + plane % params.chunk_channels;
      from[i] = params.x + (item.n + image) * conv.x_step.n + c * conv.x_step.c +
                (top + row % rows) * conv.x_step.h + left * conv.x_step.w;
    }
#pragma unroll 1
    for (int column = producer % 32; column < columns; column += 32) {
      int bits[at_once];
#pragma unroll
      for (int i = 0; i < at_once; ++i) bits[i] = magnitude_bits(from[i][column * conv.x_step.w]);
#pragma unroll
      for (int of : bits)
        if (of < infinity_bits) most = max(most, of);
    }
  }
  most = __reduce_max_sync(0xffffffff, most);
  if (producer % 32 == 0) atomicMax(&control.largest, most);
  Roles::sync_producers(params.streams());
  return scale_exponent(control.largest);
}

/// The producer warps load tile after tile, and of a tile chunk after chunk, each in a round of its
/// own. The scale of the round before fits most rounds; one that it does not fit is loaded again.
template <int rows, int columns, class Params>
__device__ void produce(const Params& params, InterleavedControl& control) {
  using Roles = typename Params::Roles;
  constexpr bool scaled = Params::Scheme::scaled;
  const InterleavedTeam team(params);
  const int producer = Roles::producer();
  const int rounds = team.tiles(params) * params.chunks;
  int exponent = 0, number = team.first, chunk = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    InterleavedItem item(params, number, rows, columns);
    item.first_c = chunk_begin(chunk, params.chunk_channels, params.conv.group_c);
    if (++chunk == params.chunks) chunk = 0, number += team.members;
    const int turn = round % 2;
    const auto wait_until_empty = [&] {
      if (round >= 2) control.empty[turn].wait((round / 2 - 1) & 1);
    };
    char* const x_tile = dynamic_shared() + params.x_at + turn * params.x_apart;
    // The flags are cleared a round ahead, when nobody looks at them any more or adds to them yet.
    int& met = control.met[round % 3];
    int flags = 0;
    for (bool own_scale = round == 0;; own_scale = true) {
      if constexpr (scaled)
        if (own_scale) exponent = find_exponent(params, control, item);
      const int found = load_tile(params, item, power_of_two(exponent), x_tile, wait_until_empty)
                            .flags(exponent, own_scale);
      if (found != 0) atomicOr(&met, found);
      if (producer == 0) control.met[(round + 1) % 3] = 0;
      Roles::sync_producers(params.streams());
      flags = met;
      if (!scaled || own_scale || flags == 0) break;
      Roles::sync_producers(params.streams());
      if (producer == 0) met = 0;
    }
    if (producer == 0) control.exponent[turn] = exponent, control.flags[turn] = flags;
    order_shared_writes();
    control.full[turn].arrive();
  }
}

}  // namespace plumb::cuda
