// This header says which kernels of streamed filters there are. Those of warps for themselves are
// compiled in a source of their own.
#pragma once

#include <algorithm>
#include <type_traits>

#include "cuda_kernels/few_channels/window_kernel.cuh"
#include "cuda_kernels/primitives/compile_time.hpp"

namespace plumb::cuda {

/// A lane has at most so many sums of one row where it has two rows.
inline constexpr std::size_t max_of_two_rows = 48;
template <class Scheme>
constexpr int n8_tiles_of_two_rows = max_of_two_rows * sizeof(float) / sizeof(typename Scheme::Sum);
/// Registers hold the sums of so many rows of outputs; streamed_unit is the unit of so many n8
/// tiles.
template <class Scheme, int n8_tiles>
constexpr int streamed_rows = [] {
  constexpr std::size_t sums = sizeof(typename Scheme::Sum) / sizeof(float) * n8_tiles;
  return sums <= 16 ? 4 : sums <= max_of_two_rows ? 2 : 1;
}();
template <class Scheme, bool warpgroups, int n8_tiles>
constexpr WindowKernelConfig streamed_unit =
    window_unit<Scheme, StreamedTerms<warpgroups>, streamed_rows<Scheme, n8_tiles>, n8_tiles>;

/// There are kernels for these numbers of n8 tiles of columns. Four warps together take up to those
/// of max_group_filters; warps by themselves make two rows or more.
using TogetherN8Tiles = CompileTime<2, 3, 4, 6, 8, 10, 12, 14, 16>;
template <class Scheme>
using AloneN8Tiles =
    std::conditional_t<Scheme::products == 3, CompileTime<1, 2, 4, 6>, CompileTime<1, 2, 4, 6, 8>>;
template <class Scheme>
constexpr int max_alone = std::min(n8_tiles_of_two_rows<Scheme>, 8);

using Fp16Windows = HalfWindows<__half>;
using Bf16Windows = HalfWindows<__nv_bfloat16>;

/// Launches the kernel of warps for themselves with as many n8 tiles as are packed.
template <class Scheme, class Stored>
void launch_streamed_alone(const ConvLaunch& call, const WindowTiles& tile,
                           const PackedWindows& packed);

}  // namespace plumb::cuda
