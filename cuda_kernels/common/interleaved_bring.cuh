// The input of interleaved.cu's tiles on its way from x to records in shared memory: scaled by a
// power of two, as high and low halves.
#pragma once

#include "cuda_kernels/common/interleaved_shape.cuh"
#include "cuda_kernels/common/window_input.cuh"

namespace plumb::cuda {

__device__ inline int bringers(const InterleavedShape& shape) {
  return shape.places > 1 ? most_bringers - 32 : most_bringers;
}
__device__ inline int bringer() { return static_cast<int>(threadIdx.x) - first_bringer; }
__device__ inline void meet_bringers(const InterleavedShape& shape) {
  asm volatile("bar.sync 1, %0;" ::"r"(bringers(shape)) : "memory");
}

/// What is met of a tile's elements.
struct MetElements {
  __half2 most = __half2half2(0);    ///< of the magnitudes of high parts; NaN where one is
  std::uint32_t least = 0xffffffff;  ///< of the bits of magnitudes, less one: zeros are the largest

  /// WindowFlags. What overflows is met once more with the tile's `own_scale`, if it is finite.
  __device__ int flags(int exponent, bool own_scale) const {
    const float smallest = split_least * power_of_two(-exponent);
    const bool small = least < static_cast<std::uint32_t>(magnitude_bits(smallest)) - 1;
    const bool finite = __low2float(most) < infinity<float> && __high2float(most) < infinity<float>;
    if (finite) return small ? met_range : 0;
    return own_scale ? met_non_finite | (small ? met_range : 0) : met_range;
  }
};

/// Eight elements as a record of high parts and one of low ones.
__device__ inline void make_records(const float (&values)[8], float scale, MetElements& met,
                                    uint4& high, uint4& low) {
  Fragment parts[2][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float first = values[2 * i], second = values[2 * i + 1];
    met.least = min(met.least, static_cast<std::uint32_t>(magnitude_bits(first)) - 1);
    met.least = min(met.least, static_cast<std::uint32_t>(magnitude_bits(second)) - 1);
    const SplitHalves halves(first * scale, second * scale);
    parts[0][i] = halves.high, parts[1][i] = halves.low;
    met.most = __hmax2_nan(met.most, __habs2(*reinterpret_cast<const __half2*>(&halves.high)));
  }
  high = {parts[0][0], parts[0][1], parts[0][2], parts[0][3]};
  low = {parts[1][0], parts[1][1], parts[1][2], parts[1][3]};
}

/// Lines of a tile: rows and columns from its first, elements from there, and the image. By the
/// whole block, before a barrier.
__device__ inline void write_lines(const InterleavedShape& shape) {
  auto* const lines = reinterpret_cast<int4*>(dynamic_shared() + shape.lines_at);
  const auto& step = shape.conv.x_step;
  const int sheet_lines = shape.images * shape.sheet_rows.value();
  for (int i = static_cast<int>(threadIdx.x); i < shape.lines; i += interleaved_threads) {
    const auto& sheet = shape.sheets[i / sheet_lines];
    const auto [image, row] = shape.sheet_rows.divide(i % sheet_lines);
    const int h = sheet.row_phase + row * shape.stride_h, w = sheet.column_phase;
    lines[i] = {h, w, image * step.n + sheet.first_c * step.c + h * step.h + w * step.w, image};
  }
}

/// Brings a warp's records, `first` to before `last`, of planes of so many channels. Each thread
/// has several on their way, and fetches the next in the place of one that it has written.
/// `place_is_empty()` waits for that, behind the first reads.
template <int channels, class Wait>
__device__ void bring_plane(const InterleavedShape& shape, const InterleavedItem& item,
                            const DevicePlane& plane, int first, int last, float scale,
                            char* x_tile, MetElements& met, const Wait& place_is_empty) {
  constexpr int at_once = 4, taps = 8 / channels;
  const auto& step = shape.conv.x_step;
  const auto* const lines = reinterpret_cast<const int4*>(dynamic_shared() + shape.lines_at);
  const float* const x = shape.x + item.n * step.n + item.first_h * step.h + item.first_w * step.w;
  // Held in registers: read anew from constant memory they would take most of the time.
  int offsets[taps * channels], taps_bits = plane.taps_w_bits;
#pragma unroll
  for (int e = 0; e < taps * channels; ++e) {
    offsets[e] = plane.offsets[e];
    asm volatile("" : "+r"(offsets[e]));
  }
  asm volatile("" : "+r"(taps_bits));
  const auto fetch = [&](float(&values)[8], int number) {
    const auto [line, column] = shape.pitch.divide(min(number, last - 1));
    const int4 of = lines[line];
    const int right = column * shape.stride_w;
    const int h = item.first_h + of.x, w = item.first_w + of.y + right;
    const bool exists = of.w < item.images && number < last;
    const float* from = x + (of.z + right * step.w);
    // Else offsets would be added to the sum of x and these, in four instructions each.
    asm volatile("" : "+l"(from));
#pragma unroll
    for (float& value : values) value = 0;
#pragma unroll
    for (int tap = 0; tap < taps; ++tap) {
      const int below = taps == 1 ? 0 : tap >> taps_bits;
      const int beside = taps == 1 ? 0 : tap & ((1 << taps_bits) - 1);
      const bool inside = exists &&
                          static_cast<unsigned>(h + below) < static_cast<unsigned>(shape.conv.h) &&
                          static_cast<unsigned>(w + beside) < static_cast<unsigned>(shape.conv.w);
#pragma unroll
      for (int c = 0; c < channels; ++c) {
        const float* const at = from + offsets[tap * channels + c];
        if (inside) values[tap * channels + c] = *at;
      }
    }
  };
  int number = first + bringer() % 32;
  float values[at_once][8];
#pragma unroll
  for (int i = 0; i < at_once; ++i) fetch(values[i], number + i * 32);
  place_is_empty();
#pragma unroll 1
  for (; number < last; number += at_once * 32) {
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int of = number + i * 32;
      uint4 high, low;
      make_records(values[i], scale, met, high, low);
      fetch(values[i], of + at_once * 32);
      if (of >= last) continue;
      *reinterpret_cast<uint4*>(x_tile + of * 16) = high;
      *reinterpret_cast<uint4*>(x_tile + of * 16 + shape.low_apart) = low;
    }
  }
}

/// Brings all records of a tile, as many by each warp.
template <class Wait>
__device__ MetElements bring_tile(const InterleavedShape& shape, const InterleavedItem& item,
                                  float scale, char* x_tile, const Wait& place_is_empty) {
  MetElements met;
  const int warps = bringers(shape) / 32, warp = bringer() / 32;
  const int of_warp = (shape.lines * shape.pitch.value() + warps - 1) / warps;
#pragma unroll 1
  for (int i = 0; i < shape.plane_count; ++i) {
    const DevicePlane& plane = shape.planes[i];
    const int first = max(warp * of_warp, plane.first_line * shape.pitch.value());
    const int last = min((warp + 1) * of_warp, plane.end_line * shape.pitch.value());
    if (first >= last) continue;
    const auto bring = [&]<int channels>() {
      bring_plane<channels>(shape, item, plane, first, last, scale, x_tile, met, place_is_empty);
    };
    switch (plane.channels) {
      case 1: bring.template operator()<1>(); break;
      case 2: bring.template operator()<2>(); break;
      case 3: bring.template operator()<3>(); break;
      case 4: bring.template operator()<4>(); break;
      case 5: bring.template operator()<5>(); break;
      case 6: bring.template operator()<6>(); break;
      case 7: bring.template operator()<7>(); break;
      default: bring.template operator()<8>();
    }
  }
  return met;
}

/// The exponent of the scale that brings the largest finite value of a tile's input, and around it,
/// to between 2^14 and 2^15. By all bringers.
__device__ inline int find_exponent(const InterleavedShape& shape, InterleavedControl& control,
                                    const InterleavedItem& item) {
  const ConvShape<int>& conv = shape.conv;
  meet_bringers(shape);
  if (bringer() == 0) control.largest = 0;
  meet_bringers(shape);
  const int top = max(item.first_h, 0), left = max(item.first_w, 0);
  const int rows = max(min(item.first_h + shape.x_rows, conv.h) - top, 0);
  const int columns = min(item.first_w + shape.x_columns, conv.w) - left;
  // Several rows at once, as all wait for this.
  constexpr int at_once = 8;
  const int warps = bringers(shape) / 32, all = item.images * conv.group_c * rows;
  int most = 0;
#pragma unroll 1
  for (int first = bringer() / 32; first < all; first += at_once * warps) {
    const float* from[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int row = min(first + i * warps, all - 1), plane = row / rows;
      const int image = plane / conv.group_c, c = plane % conv.group_c;
      from[i] = shape.x + (item.n + image) * conv.x_step.n + c * conv.x_step.c +
                (top + row % rows) * conv.x_step.h + left * conv.x_step.w;
    }
#pragma unroll 1
    for (int column = bringer() % 32; column < columns; column += 32) {
      int bits[at_once];
#pragma unroll
      for (int i = 0; i < at_once; ++i) bits[i] = magnitude_bits(from[i][column * conv.x_step.w]);
#pragma unroll
      for (int of : bits)
        if (of < infinity_bits) most = max(most, of);
    }
  }
  most = __reduce_max_sync(0xffffffff, most);
  if (bringer() % 32 == 0) atomicMax(&control.largest, most);
  meet_bringers(shape);
  return scale_exponent(control.largest);
}

/// Brings tile after tile. The scale of the tile before fits most; what it does not fit is brought
/// again.
template <int rows>
__device__ void bring(const InterleavedShape& shape, InterleavedControl& control) {
  const InterleavedTeam team(shape);
  int exponent = 0, round = 0;
  for (int number = team.first; number < shape.items; number += team.members, ++round) {
    const InterleavedItem item(shape, number, rows);
    const int turn = round % 2;
    const auto place_is_empty = [&] {
      if (round >= 2) control.empty[turn].wait((round / 2 - 1) & 1);
    };
    char* const x_tile = dynamic_shared() + shape.x_at + turn * shape.x_apart;
    // Cleared a tile ahead: nobody looks at it any more, or tells it anything yet.
    int& met = control.met[round % 3];
    int flags = 0;
    for (bool own_scale = round == 0;; own_scale = true) {
      if (own_scale) exponent = find_exponent(shape, control, item);
      const int found = bring_tile(shape, item, power_of_two(exponent), x_tile, place_is_empty)
                            .flags(exponent, own_scale);
      if (found != 0) atomicOr(&met, found);
      if (bringer() == 0) control.met[(round + 1) % 3] = 0;
      meet_bringers(shape);
      flags = met;
      if (own_scale || flags == 0) break;
      meet_bringers(shape);
      if (bringer() == 0) met = 0;
    }
    if (bringer() == 0) control.exponent[turn] = exponent, control.flags[turn] = flags;
    order_shared_writes();
    control.full[turn].arrive();
  }
}

}  // namespace plumb::cuda
