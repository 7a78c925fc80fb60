// Plans and cuts slices of a batch.
#include "cuda_kernels/conv/batch_slices.hpp"

#include <string>

#include "cuda_kernels/conv/conv_shape.cuh"
#include "cuda_kernels/conv/conv_support.hpp"
#include "plumb/support.hpp"

namespace plumb::cuda {

Support fits_in_slices(const ConvProblem& problem) {
  ConvProblem one = problem;
  one.n = std::min<std::int64_t>(problem.n, 1);
  if (fits_32_bits(one)) return {};
  return {Reason::too_large, "an image of " + to_string(problem.x_extents()) + " to " +
                                 to_string(problem.y_extents()) +
                                 " elements, whose offsets pass 2^31; expected fewer in one image"};
}

Support supports_dtypes_in_slices(std::initializer_list<DType> stored, const ConvProblem& problem) {
  if (Support type = supports_dtypes(stored, problem); !type) return type;
  return fits_in_slices(problem);
}

std::int64_t slice_images(const ConvProblem& problem) {
  ConvProblem slice = problem;
  while (slice.n > 1 && !fits_32_bits(slice)) slice.n = (slice.n + 1) / 2;
  return std::max<std::int64_t>(slice.n, 1);
}

ConvLaunch slice(const ConvLaunch& call, const ConvProblem& problem, std::int64_t begin) {
  const auto element_bytes = static_cast<std::int64_t>(size_in_bytes(problem.dtype));
  const auto bytes = [&](const Strides& strides) { return begin * strides[0] * element_bytes; };
  return {.problem = problem,
          .device = call.device,
          .x = static_cast<const char*>(call.x) + bytes(problem.x_strides),
          .w = call.w,
          .filters = call.filters,
          .bias = call.bias,
          .y = static_cast<char*>(call.y) + bytes(problem.y_strides),
          .activation = call.activation,
          .workspace = call.workspace,
          .native_queue = call.native_queue};
}

}  // namespace plumb::cuda
