// A convolution with vectors over images is cut into bands of output rows of as many images as a
// vector has lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu_kernels/conv/blocks.hpp"
#include "cpu_kernels/conv/images_kernels.hpp"
#include "cpu_kernels/conv/tap_classes.hpp"
#include "plumb/conv.hpp"

namespace plumb {

struct ImagesPlan : KernelPlan {
  TapAxis h, w;
  std::vector<TapClass> p_classes, q_classes;
  std::int64_t lanes;
  std::int64_t group_c, group_k, p, q;
  std::int64_t rows, bands;    ///< output rows of a band; bands below each other
  std::int64_t blocks, block;  ///< of a group's channels, and the channels of one
  std::int64_t row, channel;   ///< in the slab, from a row and a channel to the next
  std::int64_t staged;         ///< filters whose sums a band keeps
  double products;             ///< that take as long as all work in caches does

  std::size_t slab_bytes, bias_bytes, sums_bytes;
  std::size_t slot_bytes() const { return slab_bytes + bias_bytes + sums_bytes; }

  std::int64_t taps() const { return h.taps * w.taps; }
  std::int64_t sums_row() const { return q * lanes; }
  std::int64_t tasks(const ConvProblem& problem) const {
    return ceil_div(problem.n, lanes) * problem.groups * bands;
  }
};

/// Returns the plan, or one of no bands where the smallest takes more than `workspace_limit_bytes`.
template <class Real>
ImagesPlan plan_images(const ConvProblem& problem, const ImagesKernels<Real>& kernels, int threads);

}  // namespace plumb
