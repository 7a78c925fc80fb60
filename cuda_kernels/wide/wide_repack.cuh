// How x comes to workspace, channels innermost: planes in vectors, anything else by elements.
#pragma once

#include "cuda_kernels/wide/wide_planes.cuh"

namespace plumb::cuda {

/// Repacks so many images of `Stored`.
template <class Stored, class Operand, int products>
void repack_wide(const WideInputParams& params, int images, void* stream) {
  const auto blocks = static_cast<unsigned>(std::int64_t{images} * params.tiles_of_image());
  if constexpr (!std::is_same_v<Stored, Operand>) {
    Launch(stream, static_cast<unsigned>(images * params.parts), wide_input_threads, 0)(
        look_at_wide_input<float>, params);
    unite_magnitudes(params, images, stream);
    Launch(stream, blocks, wide_input_threads, 0)
        .early()(repack_wide_input<float, products>, params);
  } else if constexpr (sizeof(Stored) == 8) {
    Launch(stream, blocks, wide_input_threads, 0)(repack_wide_input<std::uint64_t, 1>, params);
  } else {
    using Element = std::conditional_t<sizeof(Stored) == 4, std::uint32_t, std::uint16_t>;
    if (!repack_planes<Element>(params, images, stream))
      Launch(stream, blocks, wide_input_threads, 0)(repack_wide_input<Element, 1>, params);
  }
}

}  // namespace plumb::cuda
