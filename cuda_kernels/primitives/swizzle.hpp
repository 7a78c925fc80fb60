// The 128-byte swizzle of shared memory, in which the copy engine writes tiles and wgmma reads
// them (PTX ISA, "Swizzling modes").
#pragma once

#include "cuda_kernels/primitives/host_device.hpp"

namespace plumb::cuda {

inline constexpr int swizzle_row_bytes = 128;
inline constexpr int swizzle_rows = 8;  ///< of an atom, which begins at a multiple of its bytes
inline constexpr int swizzle_atom_bytes = swizzle_rows * swizzle_row_bytes;

/// Returns where the byte `at` of a tile of 128-byte rows lies: the eight units of 16 bytes of a
/// row change places by the row's number in its atom. A second call undoes the first.
PLUMB_HOST_DEVICE constexpr int swizzle_128(int at) { return at ^ (at >> 7 & 7) << 4; }

}  // namespace plumb::cuda
