// The problem of tensors under the names that their caller knows them by.
#pragma once

#include "plumb/conv.hpp"

namespace plumb {

/// What messages call the three.
struct TensorNames {
  const char *x = "x", *w = "w", *y = "y";
};

/// The tensors of a forward convolution or of a gradient, by the extents that they have.
struct NamedTensors {
  ConstTensorView x, w, y;  ///< y may be empty
  TensorNames names = {};
};

/// As the public one, of any direction.
ConvProblem problem_of(const NamedTensors& tensors, Direction direction,
                       const ConvGeometry& geometry);

}  // namespace plumb
