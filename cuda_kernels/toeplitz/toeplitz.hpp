// Large filters of few channels on Hopper's tensor cores: the problem, its packed filters and its
// tiles, which are decided on the host before a launch.
//
// A row of the filter is a Toeplitz matrix, and so is the filter along its rows: 64 outputs are the
// product of 64 rows of such a matrix with the input under them. The filter is wgmma's A and the
// input its B. Both are core matrices of 8 rows by 16 bytes that the descriptors' strides place, so
// that B is the input as it lies in a row and neighbouring columns of B overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cuda_kernels/fields/fields.hpp"
#include "cuda_kernels/primitives/host_device.hpp"
#include "plumb/algorithm.hpp"

namespace plumb::cuda {

/// How the 64 outputs of a column of B lie. `rows`: 8 columns of 8 rows, for filters with taps
/// along rows. `line`: 64 columns of one row. `planes`: 8 columns of 8 planes, for filters with
/// taps along all axes, so that a plane of the input is loaded once for eight of outputs.
enum class ToeplitzMode { rows, line, planes };

inline constexpr int toeplitz_consumers = 2;  ///< warpgroups, which take turns at tiles
inline constexpr int toeplitz_producers = 2;  ///< warpgroups, which load and split input together
inline constexpr int toeplitz_threads = 128 * (toeplitz_consumers + toeplitz_producers);
inline constexpr int toeplitz_loaders = 32 * (4 * toeplitz_producers - 1);  ///< threads
inline constexpr int toeplitz_groups = 16;  ///< n8 tiles of B: eight columns each
/// In planes both consumers share a tile, and a thread holds so many chunks of eight elements.
inline constexpr int toeplitz_plane_rows = toeplitz_consumers * toeplitz_groups;
inline constexpr int toeplitz_held = 4;
/// Rows of core matrices in planes that a pass meets: of two planes of input and eight of outputs.
inline constexpr int toeplitz_window = 9;
inline constexpr int toeplitz_core_bytes = 128;  ///< of a core matrix: 8 rows of 8 fp16
inline constexpr int toeplitz_max_lines = 176;
inline constexpr int toeplitz_max_line = 1536;     ///< elements
inline constexpr int toeplitz_max_stages = 4;      ///< of input
inline constexpr int toeplitz_header_bytes = 256;  ///< in front of a filter
inline constexpr int toeplitz_control_bytes = 1 << 10;
inline constexpr int toeplitz_table_bytes = 25 * toeplitz_max_lines + 16;  ///< of a stage

/// What is packed of a filter before its matrices.
struct ToeplitzHeader {
  float unscale;  ///< undoes the filter's scale
  int exponent;   ///< of the scale
  int flags;      ///< of ToeplitzFlags
};
static_assert(sizeof(ToeplitzHeader) <= toeplitz_header_bytes);

/// A filter is taken in parts of `rows` by `columns` taps, and each part of each plane and channel
/// is a pass: input is loaded for it, and its products are added. In planes a pass has two planes
/// of the input instead of one of the filter. The layout serves any batch.
struct ToeplitzFilters {
  ToeplitzMode mode{};
  int row_parts = 1, column_parts = 1;  ///< of a plane of the filter
  int rows = 1, columns = 1;            ///< taps of a part
  int chunks = 0;                       ///< core matrices along the terms of a row; even in lines
  int pairs = 0;   ///< of rows, in planes of planes, of the input under eight outputs; in lines 0
  int planes = 1;  ///< C T, in planes C `pairs`

  /// k16 steps of a pass.
  PLUMB_HOST_DEVICE int steps() const {
    if (mode == ToeplitzMode::planes) return rows * chunks;
    return mode == ToeplitzMode::rows ? pairs * chunks : chunks / 2;
  }
  PLUMB_HOST_DEVICE int passes() const { return planes * row_parts * column_parts; }
  /// What is packed by itself: a part of a plane, in planes of all planes.
  PLUMB_HOST_DEVICE int parts() const {
    return mode == ToeplitzMode::planes ? passes() / pairs : passes();
  }
  /// Rows of core matrices of a part, which are one output further each: of taps, and of seven
  /// times zeros on both sides.
  PLUMB_HOST_DEVICE int core_rows() const {
    return mode == ToeplitzMode::line ? chunks + 7 : 2 * pairs + 7;
  }
  /// Core matrices of such a row's high or low halves.
  PLUMB_HOST_DEVICE int row_cores() const {
    if (mode == ToeplitzMode::planes) return rows * chunks;
    return mode == ToeplitzMode::rows ? chunks : 1;
  }
  /// Core matrices of a part.
  PLUMB_HOST_DEVICE int cores() const { return core_rows() * row_cores(); }
  /// Bytes from high halves to low ones: in planes they follow each other row by row.
  PLUMB_HOST_DEVICE int half_bytes() const {
    return (mode == ToeplitzMode::planes ? row_cores() : cores()) * toeplitz_core_bytes;
  }
  /// Bytes of a part, and of a row of its core matrices in planes.
  PLUMB_HOST_DEVICE int part_bytes(int products) const {
    return cores() * toeplitz_core_bytes * (products == 3 ? 2 : 1);
  }
  PLUMB_HOST_DEVICE int row_bytes(int products) const {
    return row_cores() * toeplitz_core_bytes * (products == 3 ? 2 : 1);
  }
  /// Bytes that a pass meets.
  PLUMB_HOST_DEVICE int pass_bytes(int products) const {
    return mode == ToeplitzMode::planes ? toeplitz_window * row_bytes(products)
                                        : part_bytes(products);
  }
};

/// A tile: the outputs of a consumer warpgroup, in planes of both, and the input of a pass in a
/// stage of shared memory.
struct ToeplitzTiles {
  int lines = 0;               ///< of the input; in planes the second half is of the second plane
  int line = 0;                ///< elements of a line, a multiple of 8, in lines of 64
  int stages = 2;              ///< of input
  int filter_stages = 1;       ///< of the filters of a pass
  bool keeps_filters = false;  ///< a stage has a whole filter, which stays for all tiles
  int products = 3;            ///< 3 where operands are split, 1 where they are rounded
  double seconds = 0;          ///< predicted

  /// A line has room for what lies before its first element in 16 aligned bytes.
  PLUMB_HOST_DEVICE int line_bytes() const { return 4 * line + 16; }
  PLUMB_HOST_DEVICE int tile_bytes() const { return lines * line_bytes(); }
};

struct ToeplitzPlan {
  FieldView view;  ///< u: planes, v: rows, w: width; filters dense
  ToeplitzFilters filters;
  ToeplitzTiles tiles;

  int products() const { return tiles.products; }
  /// Bytes of the packed matrices of a filter, and of those in a stage.
  std::int64_t matrix_bytes() const {
    return std::int64_t{filters.part_bytes(products())} * filters.parts();
  }
  std::int64_t filter_stage_bytes() const {
    return tiles.keeps_filters ? matrix_bytes() : filters.pass_bytes(products());
  }
  std::int64_t filter_bytes() const { return toeplitz_header_bytes + matrix_bytes(); }
  /// Where the filters lie as they are, dense, behind the packed ones.
  std::int64_t dense_at() const { return filter_bytes() * view.k; }
  std::size_t packed_bytes() const;
  int shared_bytes() const;         ///< of a block
  std::int64_t tile_count() const;  ///< of a filter
};

/// Says whether the kernel takes a problem: fields, on a device with wgmma.
Support supports_toeplitz(const ConvProblem& problem, const DeviceInfo& device);

/// Plans a problem that is supported; nothing where no tile fits shared memory. Tests name the mode
/// that it is `only` to take: planes, or what there is besides.
std::optional<ToeplitzPlan> plan_toeplitz(const FieldProblem& problem, const DeviceInfo& device,
                                          int products, std::optional<ToeplitzMode> only = {});

}  // namespace plumb::cuda
