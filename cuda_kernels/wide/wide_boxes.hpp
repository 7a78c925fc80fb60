// Outputs as boxes that the copy engine stores: host code alone.
#pragma once

#include <optional>

#include "cuda_kernels/primitives/tiled_map.hpp"
#include "cuda_kernels/wide/wide_filters.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// Pixels of a warp's box of rows.
inline constexpr int wide_box_pixels = 16;

/// Returns what the copy engine is told to store y by, where its boxes can be y's at that address:
/// rows of 128 bytes of a pixel's filters, or, of planes under one tap (`across`, a flat problem),
/// of a filter's pixels. Axes of rows are filters of a group, groups, pixels; those of planes
/// pixels, filters, images.
std::optional<TiledMap> boxes_of_outputs(const ConvProblem& problem, const WideGroups& groups,
                                         const void* y, bool across);

}  // namespace plumb::cuda
