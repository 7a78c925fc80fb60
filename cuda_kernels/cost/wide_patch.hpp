// A model of the kernel in wide_patch/: tiles of a product on tensor cores, in which two warpgroups
// take turns, each with its patches from L2.
#pragma once

#include "cuda_kernels/cost/kernel_model.hpp"
#include "cuda_kernels/cost/wide.hpp"

namespace plumb::cuda {

/// What lanes write at once: vectors of filters that lie side by side, vectors of a plane's
/// outputs, or single ones.
enum class WidePatchWrites { filters, runs, elements };

/// How a problem is cut. A work is a tile of 64 filters.
struct WidePatchWork {
  int columns = 0;          ///< positions that are multiplied
  int terms = 64;           ///< of a step that are multiplied, in two bytes each
  double works = 0;         ///< of all groups
  double steps = 0;         ///< of a work: 128 bytes of channels under a tap
  double filter_bytes = 0;  ///< that a step loads
  double patch_bytes = 0;   ///< likewise, in the mean
  double outputs = 0;       ///< that a work stores
  WidePatchWrites writes = WidePatchWrites::filters;
  double read_bytes = 0, written_bytes = 0;  ///< of x and filters, and of y
  WideRepacking repacking{};
};

/// Returns the time of the kernel and of the one that repacks x.
double wide_patch_seconds(const DeviceInfo& device, const WidePatchWork& work);

}  // namespace plumb::cuda
