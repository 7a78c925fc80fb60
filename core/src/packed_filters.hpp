// What stands behind PackedFilters.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "conv_run.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// Written once, by the work that packs.
struct FilterStorage {
  const ConvAlgorithm* algorithm;
  DeviceId device;
  std::string instruction_set;
  ConvProblem problem;  ///< as the algorithm runs it; N has no say
  std::string phases;   ///< as ConvRun::phases_text()
  bool reproducible;    ///< as the run is, on which it depends how the planes of a depth lie
  std::size_t bytes;
  std::shared_ptr<void> memory;  ///< keeps the device
  const void* filters;           ///< in the algorithm's own layout, or null
  const void* w;                 ///< the element of index zero of a copy with w's strides, or null
};

/// Puts the packing on the queue, which is of the run's device. `w` is what the run's problem says.
std::shared_ptr<const FilterStorage> pack_filters(Queue& queue, const ConvRun& run,
                                                  const ConstTensorView& w);

/// Why the run cannot take the filters (null: there are none), or nothing.
std::string misfit(const FilterStorage* filters, const Device& device, const ConvRun& run);

}  // namespace plumb
