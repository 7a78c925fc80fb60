// What the copy engine is told to read patches by, the phases that it reads, and how outputs of
// planes are stored.
#include <algorithm>

#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/primitives/im2col_map.hpp"
#include "cuda_kernels/wide/wide_axes.hpp"
#include "cuda_kernels/wide_patch/wide_patch.hpp"
#include "cuda_kernels/wide_patch/wide_patch_phases.hpp"

namespace plumb::cuda {

PatchPhase patch_phase(const ConvProblem& problem, int number) {
  const PatchPlanePhases phases(problem);
  PatchPhase of;
  for (int i = 0; i < 2; ++i) {
    const WideMapAxis axis = phases.along(i).axis(phases.phase_along(i, number));
    // All of a phase without pixels is behind the one of its map.
    of.begin[i] = axis.extent > 0 ? static_cast<int>(axis.lower()) : 1;
    of.taps[i] = static_cast<int>(axis.taps);
  }
  of.tap =
      static_cast<int>(phases.phase_along(1, number) * problem.s + phases.phase_along(0, number));
  return of;
}

PatchMap patch_map(const ConvProblem& p, const WideFilters& filters, const PatchTile& tile,
                   const WideInput* repacked, int phase) {
  const WideMapAxes axes(p);
  const PatchPlanePhases phases(axes);
  const std::int64_t bytes = filters.of.operand_bytes(), unit = tensor_map_alignment;
  PatchMap of_phase;
  TiledMap& map = of_phase.map;
  map.extent[0] = repacked ? repacked->plane_channels() : p.c;
  // A stride along an extent of 1 may be any number: here it is that of a dense tensor.
  std::int64_t dense = repacked ? repacked->pixel_bytes() : ceil_div(p.c * bytes, unit) * unit;
  for (int i = 0; i < 3; ++i) {
    const WideMapAxis& of = axes.axis[i];
    map.extent[i + 1] = of.extent;
    map.stride_bytes[i + 1] = of.extent > 1 && !repacked ? of.x_stride * bytes : dense;
    dense = map.stride_bytes[i + 1] * of.extent;
    if (i == 2) continue;
    const PatchPhases& along = phases.along(i);
    const std::int64_t own = phases.phase_along(i, phase), pixels = along.axis(own).extent;
    map.extent[i + 1] = std::max<std::int64_t>(pixels, 1);
    if (pixels > 0) of_phase.first_byte += along.first_pixel(own) * map.stride_bytes[i + 1];
    if (pixels > 1) map.stride_bytes[i + 1] *= along.step();
  }
  map.extent[4] = p.n;
  map.stride_bytes[4] = p.n > 1 && !repacked ? p.x_strides[0] * bytes : dense;
  map.box[0] = filters.of.step_channels();
  map.box[1] = tile.pitch, map.box[2] = tile.lines, map.box[4] = tile.images;
  return of_phase;
}

int run_of_outputs(const ConvProblem& p, const PatchTile& tile, const void* y) {
  const Extents extents = p.y_extents();
  const int across = extents.rank() - 1;
  if (extents[across] > 1 && p.y_strides[across] != 1) return 1;
  // Neighbouring sums are staged together.
  if (tile.pitch % 2 != 0 || tile.columns % 2 != 0) return 1;
  // Lines follow each other where a tile has whole ones and nothing lies between them in y.
  const bool follow =
      across > 2 && tile.columns == extents[across] && p.y_strides[across - 1] == extents[across];
  const std::int64_t of_tile = follow ? std::int64_t{tile.rows} * tile.columns : tile.columns;
  const std::int64_t of_plane = follow ? extents[across - 1] * extents[across] : extents[across];
  const auto size = static_cast<std::int64_t>(size_in_bytes(p.dtype));
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(y) % 16);
  const auto fits = [&](std::int64_t run) {
    bool begins = address % (run * size) == 0;
    for (int i = 0; i < (follow ? across - 1 : across); ++i)
      begins = begins && (extents[i] <= 1 || p.y_strides[i] % run == 0);
    return begins && of_tile % run == 0 && of_plane % run == 0;
  };
  std::int64_t run = 16 / size;
  while (run > 1 && !fits(run)) run /= 2;
  return static_cast<int>(run);
}

TiledMap patch_across_map(const ConvProblem& p) {
  const auto bytes = static_cast<std::int64_t>(size_in_bytes(p.dtype));
  constexpr std::int64_t unit = tensor_map_alignment;
  // A stride along an extent of 1 may be any number: here it is that of a dense tensor.
  const std::int64_t plane = p.c > 1 ? p.x_strides[1] * bytes : ceil_div(p.w * bytes, unit) * unit;
  const std::int64_t image = p.n > 1 ? p.x_strides[0] * bytes : plane * p.c;
  TiledMap map;
  map.extent[0] = p.w, map.extent[1] = p.c, map.extent[4] = p.n;
  map.stride_bytes[1] = plane, map.stride_bytes[4] = image;
  map.stride_bytes[2] = map.stride_bytes[3] = plane * p.c;
  map.box[0] = patch_across_pixels, map.box[1] = swizzle_row_bytes / static_cast<int>(bytes);
  return map;
}

}  // namespace plumb::cuda
