// How outputs lie for those who write them: in vectors, in boxes, or one by one.
#include <cstdint>

#include "cuda_kernels/primitives/im2col_map.hpp"
#include "cuda_kernels/wide/wide.hpp"
#include "cuda_kernels/wide/wide_boxes.hpp"

namespace plumb::cuda {

WideAccess access_of_outputs(const ConvProblem& p, const WideGroups& groups, const void* y) {
  const Extents extents = p.y_extents();
  const auto address = reinterpret_cast<std::uintptr_t>(y);
  const auto size = static_cast<std::int64_t>(size_in_bytes(p.dtype));
  // Pixels that lie side by side, from axis `run` on.
  std::int64_t together = 1;
  int run = extents.rank();
  while (run > 2 && (extents[run - 1] == 1 || p.y_strides[run - 1] == together))
    together *= extents[--run];
  const auto lies = [&](std::int64_t bytes, bool along_filters) {
    const std::int64_t vector = bytes / size;
    bool aligned = address % static_cast<std::uintptr_t>(bytes) == 0;
    for (int i = 0; i < extents.rank(); ++i)
      if ((along_filters ? i != 1 : i < run) && extents[i] > 1)
        aligned = aligned && p.y_strides[i] % vector == 0;
    return aligned && (along_filters ? groups.filters : together) % vector == 0;
  };
  if ((p.k == 1 || p.y_strides[1] == 1) && lies(16, true)) return WideAccess::filters;
  if (lies(16, false)) return WideAccess::pixels;
  if (size < 8 && lies(8, false)) return WideAccess::half_pixels;
  return WideAccess::elements;
}

std::optional<TiledMap> boxes_of_outputs(const ConvProblem& p, const WideGroups& groups,
                                         const void* y, bool across) {
  const auto bytes = static_cast<std::int64_t>(size_in_bytes(p.dtype));
  constexpr std::int64_t unit = tensor_map_alignment;
  const int of_row = swizzle_row_bytes / static_cast<int>(bytes);
  if (reinterpret_cast<std::uintptr_t>(y) % unit != 0) return {};
  const Extents extents = p.y_extents();
  // The copy engine stores whole units of a row, also where the tensor ends within one.
  const auto is_whole = [&](std::int64_t elements) { return elements * bytes % unit == 0; };
  // A stride along an extent of 1 may be any number: here it is 16 bytes.
  const auto stride = [&](int axis) {
    return extents[axis] > 1 ? p.y_strides[axis] * bytes : unit;
  };
  const auto is_taken = [](std::int64_t of) {
    return of > 0 && of % unit == 0 && of <= max_tensor_map_stride;
  };
  TiledMap map;
  for (std::int64_t& of : map.stride_bytes) of = unit;
  map.box[0] = of_row;
  if (across) {
    const int last = extents.rank() - 1;
    if ((extents[last] > 1 && p.y_strides[last] != 1) || !is_whole(extents[last]) ||
        !is_taken(stride(0)) || !is_taken(stride(1)))
      return {};
    map.extent[0] = extents[last], map.extent[1] = p.k, map.extent[2] = p.n;
    map.stride_bytes[1] = stride(1), map.stride_bytes[2] = stride(0);
    map.box[1] = of_row;
    return map;
  }
  if ((p.k > 1 && p.y_strides[1] != 1) || !is_whole(groups.filters)) return {};
  // All pixels, from image to image too, are one row.
  std::int64_t step = 0, pixels = 1;
  for (int axis = extents.rank() - 1; axis >= 0; --axis) {
    if (axis == 1 || extents[axis] == 1) continue;
    if (step == 0) step = p.y_strides[axis];
    if (p.y_strides[axis] != step * pixels) return {};
    pixels *= extents[axis];
  }
  if (step == 0) step = unit;
  if (!is_taken(step * bytes)) return {};
  map.extent[0] = groups.filters, map.extent[1] = groups.count, map.extent[2] = pixels;
  map.stride_bytes[1] = groups.filters * bytes, map.stride_bytes[2] = step * bytes;
  map.box[2] = wide_box_pixels;
  return map;
}

}  // namespace plumb::cuda
