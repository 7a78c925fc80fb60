// What every operator around convolution asks of its tensors. Each throws Error (invalid_argument)
// that names the value met and what was expected.
#pragma once

#include <initializer_list>

#include "plumb/device.hpp"
#include "plumb/nn.hpp"
#include "plumb/tensor.hpp"

namespace plumb {

/// A tensor and what it is called.
struct NamedView {
  const char* name;
  ConstTensorView view;
};

/// That a tensor is on the queue's device, has data, and offsets that fit into 64 bits.
void check_input(const char* operation, const Queue& queue, const NamedView& tensor);

/// The same of what is written, which must not overlap itself either.
void check_output(const char* operation, const Queue& queue, const NamedView& tensor);

/// That all of these are of the first one's dtype.
void check_one_dtype(const char* operation, std::initializer_list<NamedView> tensors);

/// That a tensor has these extents.
void check_extents(const char* operation, const NamedView& tensor, const Extents& expected);

/// That a tensor has so many extents, which `letters` tells: "two, N C".
void check_rank(const char* operation, const NamedView& tensor, int rank, const char* letters);

/// The geometry without what images of this rank have no use for.
PoolGeometry geometry_of_rank(PoolGeometry geometry, int rank);

/// With PLUMB_SYNC set every operator waits for itself.
void synchronize_if_asked(Queue& queue);

}  // namespace plumb
