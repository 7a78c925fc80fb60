// Barriers in shared memory and the copy engine, emulated.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "cuda_kernels/fields/emulation/mbarrier.hpp"
#include "cuda_kernels/primitives/tensor_map.hpp"

namespace plumb::cuda {

/// Returns what the copy engine makes of an fp32 value on its way: the nearest TF32, ties to even.
inline std::uint32_t rounded_to_tf32(std::uint32_t bits) {
  if ((bits & 0x7f800000u) == 0x7f800000u) return bits;
  return (bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu;
}

struct BoxCorner {
  std::int64_t at[TiledMap::rank];
  explicit BoxCorner(const int (&of)[TiledMap::rank]) { std::copy_n(of, TiledMap::rank, at); }
};
inline int rows_of_box(const CUtensorMap& map) {
  int rows = 1;
  for (int axis = 1; axis < TiledMap::rank; ++axis) rows *= map.tiled.box[axis];
  return rows;
}
inline void check_box(const CUtensorMap& map, const int (&at)[TiledMap::rank], const void* shared) {
  if (reinterpret_cast<std::uintptr_t>(shared) % swizzle_atom_bytes != 0)
    throw std::runtime_error("a box's rows are no swizzle atoms");
  if (std::int64_t{at[0]} * map.element_bytes % tiled_corner_alignment != 0)
    throw std::runtime_error("a box begins at channel " + std::to_string(at[0]));
}
/// Where a row of a box lies in the tensor.
struct BoxRow {
  const char* first;
  bool is_inside = true;
  std::int64_t corner, extent;

  BoxRow(const CUtensorMap& map, const BoxCorner& of, int row)
      : first(map.address), corner(of.at[0]), extent(map.tiled.extent[0]) {
    for (int axis = 1, rest = row; axis < TiledMap::rank; rest /= map.tiled.box[axis++]) {
      const std::int64_t here = of.at[axis] + rest % map.tiled.box[axis];
      is_inside = is_inside && here >= 0 && here < map.tiled.extent[axis];
      first += here * map.tiled.stride_bytes[axis];
    }
    first += corner * map.element_bytes;
  }
  bool has(int i) const { return is_inside && corner + i < extent; }
  /// A store writes whole units of 16 bytes.
  bool is_stored(int i, int element_bytes) const {
    const int of_unit = tensor_map_alignment / element_bytes;
    return has(i / of_unit * of_unit);
  }
};

class StageBarrier : public BulkCopyBarrier {
 public:
  void arrive_expecting(int bytes) { arrive_at_bytes(bytes); }
  void copy_im2col(void* to, const CUtensorMap& map, int axes, int c, const int (&at)[3], int n,
                   const int (&offset)[3]) {
    const Im2colMap& of = map.of;
    if (axes != of.axes) throw std::runtime_error("a copy of other axes than its map's");
    if (reinterpret_cast<std::uintptr_t>(to) % swizzle_atom_bytes != 0)
      throw std::runtime_error("a copy's rows are no swizzle atoms");
    if (std::int64_t{c} * of.element_bytes % tensor_map_alignment != 0)
      throw std::runtime_error("a copy begins at channel " + std::to_string(c));
    std::int64_t pixel[4] = {at[0], at[1], at[2], n}, tap[3] = {};
    for (int i = 0; i < axes; ++i) {
      tap[i] = offset[i];
      if (offset[i] < 0 || offset[i] >= im2col_offset[axes])
        throw std::runtime_error("a tap's offset is " + std::to_string(offset[i]));
    }
    of_->copy_bytes(of.pixels * swizzle_row_bytes, [=]() mutable {
      for (int row = 0; row < of.pixels; ++row) {
        copy_row(static_cast<char*>(to), row, map, c, pixel, tap);
        for (int i = 0; i < 4; ++i) {
          if (i == axes) i = 3;
          if (i == 3) {
            ++pixel[3];
            break;
          }
          if ((pixel[i] += of.axis[i].step) <= of.axis[i].extent - 1 + of.axis[i].upper) break;
          pixel[i] = of.axis[i].lower;
        }
      }
    });
  }
  void copy_tiled(void* to, const CUtensorMap& map, const int (&at)[5]) {
    const TiledMap& of = map.tiled;
    check_box(map, at, to);
    const int rows = rows_of_box(map);
    const BoxCorner corner(at);
    of_->copy_bytes(rows * swizzle_row_bytes, [=] {
      for (int row = 0; row < rows; ++row) {
        const BoxRow there(map, corner, row);
        for (int i = 0; i < of.box[0]; ++i)
          copy_element(static_cast<char*>(to), row, map, i, map.element_bytes, there.has(i),
                       there.first);
      }
    });
  }

 private:
  static void copy_row(char* tile, int row, const CUtensorMap& map, int c,
                       const std::int64_t (&pixel)[4], const std::int64_t (&tap)[3]) {
    const Im2colMap& of = map.of;
    bool inside = pixel[3] < of.images;
    const char* from = map.address + pixel[3] * of.image_stride_bytes;
    for (int i = 0; i < of.axes; ++i) {
      const std::int64_t here = pixel[i] + tap[i];
      inside = inside && here >= 0 && here < of.axis[i].extent;
      from += here * of.axis[i].stride_bytes;
    }
    for (int i = 0; i < of.channels; ++i)
      copy_element(tile, row, map, i, of.element_bytes, inside && c + i < of.channels_of_tensor,
                   from + c * of.element_bytes);
  }
  /// Copies element `i` of a row, or writes zeros.
  static void copy_element(char* tile, int row, const CUtensorMap& map, int i, int element_bytes,
                           bool inside, const char* from) {
    const auto bytes = static_cast<std::size_t>(element_bytes);
    char* const to = tile + swizzle_128(row * swizzle_row_bytes + i * element_bytes);
    if (!inside) {
      std::memset(to, 0, bytes);
      return;
    }
    std::memcpy(to, from + i * element_bytes, bytes);
    if (!map.rounds) return;
    std::uint32_t word;
    std::memcpy(&word, to, 4);
    word = rounded_to_tf32(word);
    std::memcpy(to, &word, 4);
  }
};

inline void store_tiled(const CUtensorMap& map, const int (&at)[TiledMap::rank],
                        const void* shared) {
  check_box(map, at, shared);
  const int rows = rows_of_box(map);
  plumb_test::emulation::store_late(shared, [&map, rows, corner = BoxCorner(at)](const char* from) {
    for (int row = 0; row < rows; ++row) {
      const BoxRow there(map, corner, row);
      for (int i = 0; i < map.tiled.box[0]; ++i)
        if (there.is_stored(i, map.element_bytes))
          std::memcpy(const_cast<char*>(there.first) + i * map.element_bytes,
                      from + swizzle_128(row * swizzle_row_bytes + i * map.element_bytes),
                      static_cast<std::size_t>(map.element_bytes));
    }
  });
}

inline void publish_barriers() {}
inline void prefetch_map(const CUtensorMap&) {}

}  // namespace plumb::cuda
