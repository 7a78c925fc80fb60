// For kernels that index in 32 bits: a batch that is too large for that goes in slices of images.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// Yes where one image, with all filters, can be indexed in 32 bits.
Support fits_in_slices(const ConvProblem& problem);

/// Yes to forward convolutions of tensors stored as one of `stored` that fit in slices.
Support forward_in_slices(std::initializer_list<DType> stored, const ConvProblem& problem);

/// The largest number of images, at most N, that 32 bits can index at once.
std::int64_t slice_images(const ConvProblem& problem);

/// `call` on the images [begin, begin + problem.n), where `problem` is the slice's.
ConvLaunch slice(const ConvLaunch& call, const ConvProblem& problem, std::int64_t begin);

/// Calls `launch(const ConvLaunch&)` for each slice of the batch, one after the other.
template <class Launch>
void for_each_slice(const ConvLaunch& call, Launch&& launch) {
  const std::int64_t images = slice_images(call.problem);
  ConvProblem problem = call.problem;
  for (std::int64_t begin = 0; begin < call.problem.n; begin += images) {
    problem.n = std::min(images, call.problem.n - begin);
    launch(slice(call, problem, begin));
  }
}

}  // namespace plumb::cuda
