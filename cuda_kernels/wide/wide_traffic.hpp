// What launches of wide/, wide_patch/ and wide_mma/ move besides what their steps load: host code
// alone, for their estimates.
#pragma once

#include <algorithm>

#include "cuda_kernels/cost/wide.hpp"
#include "cuda_kernels/wide/wide_filters.hpp"
#include "cuda_kernels/wide/wide_input.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// Returns the bytes of packed filters that products are made of.
inline double bytes_of_operands(const WideFilters& filters) {
  const bool one = filters.of.products == 1;
  return static_cast<double>(one ? filters.plane_bytes() : filters.dense_at());
}

/// Returns what x goes through first.
inline WideRepacking repacking_of(const ConvProblem& problem, const WideFilters& filters,
                                  const WideInput& input) {
  if (!input.repacks) return {};
  const auto images = static_cast<double>(problem.n);
  constexpr double tile_elements = 1.0 * wide_input_pixels * wide_input_channels;
  // Three products look for the largest magnitudes first.
  const int kernels = std::min(input.planes, 2);
  return {.kernels = kernels,
          .folds = filters.fold.axes != 0,
          .plane_vector = input.plane_vector,
          .elements = images * input.pixel_tiles() * input.channel_tiles() * tile_elements,
          .bytes = kernels * bytes_of(problem, problem.x_extents()) +
                   images * static_cast<double>(input.image_bytes())};
}

}  // namespace plumb::cuda
