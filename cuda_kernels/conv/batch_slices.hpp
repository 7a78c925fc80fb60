// Kernels that index in 32 bits take a batch that is too large for that in slices of images.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// Says yes where 32 bits can index one image together with all filters.
Support fits_in_slices(const ConvProblem& problem);

/// Says yes to forward convolutions of tensors stored as one of `stored` that fit in slices.
Support supports_dtypes_in_slices(std::initializer_list<DType> stored, const ConvProblem& problem);

/// The largest number of images, at most N, that 32 bits can index at once.
std::int64_t slice_images(const ConvProblem& problem);

/// Restricts `call` to the images [begin, begin + problem.n), where `problem` is the slice's.
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

/// Holds the plans of a batch's slices: all slices but the last are of one size.
template <class Plan>
struct SlicePlans {
  std::int64_t images = 0, slices = 0;  ///< images of a full slice, and the number of such slices
  Plan full;                            ///< the plan of each full slice
  std::optional<Plan> last;             ///< the plan of the images that are left, if there are any

  /// `make(const ConvProblem&)` plans one slice; the problem has passed fits_in_slices().
  template <class Make>
  SlicePlans(ConvProblem problem, const Make& make)
      : images(slice_images(problem)),
        slices(problem.n / images),
        full(plan(problem, images, make)) {
    if (const std::int64_t rest = problem.n % images; rest != 0 && slices > 0)
      last = plan(problem, rest, make);
  }
  /// The predicted time of the whole batch.
  double seconds() const {
    return std::max<double>(static_cast<double>(slices), 1) * full.seconds +
           (last ? last->seconds : 0);
  }

 private:
  template <class Make>
  static Plan plan(ConvProblem problem, std::int64_t n, const Make& make) {
    problem.n = std::min(problem.n, n);
    return make(problem);
  }
};

/// Calls `launch(const ConvLaunch&, const Plan&)` for each slice of the batch, one after the other.
template <class Plan, class Launch>
void for_each_slice(const ConvLaunch& call, const SlicePlans<Plan>& plans, Launch&& launch) {
  ConvProblem problem = call.problem;
  for (std::int64_t begin = 0; begin < call.problem.n; begin += plans.images) {
    const bool whole = call.problem.n - begin >= plans.images || !plans.last;
    problem.n = std::min(plans.images, call.problem.n - begin);
    launch(slice(call, problem, begin), whole ? plans.full : *plans.last);
  }
}

}  // namespace plumb::cuda
