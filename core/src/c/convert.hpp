// The structs and enumerations of plumb.h as those of C++, checked on the way. Error
// (invalid_argument) names the field and the value met. What is PLUMB_API here is so for Plumb's
// own libraries beside libplumb (mpi/).
#pragma once

#include "plumb/conv.hpp"
#include "plumb/nn.hpp"
#include "plumb/plumb.h"
#include "plumb/tensor.hpp"

namespace plumb::c {

PLUMB_API DType dtype_of(plumb_dtype);
Memory memory_of(plumb_memory);
plumb_memory to_c(Memory);
plumb_math to_c(Math);

/// Null: the plain geometry.
ConvGeometry geometry_of(const plumb_conv_geometry*);
ConvGeometry geometry_of(const plumb_conv_geometry_nd*);
ConvProblem problem_of(const plumb_conv_problem*);
PLUMB_API ConvProblem problem_of(const plumb_conv_problem_nd*);
/// Null: no option is set.
ConvOptions options_of(const plumb_conv_options*);
PLUMB_API ConvOptions options_of(const plumb_conv_options_nd*);
PoolGeometry pool_geometry_of(const plumb_pool_geometry*);

PLUMB_API TensorView view_of(const plumb_tensor* tensor, const char* name);
/// A null bias is none.
ConvTensors tensors_of(const plumb_tensor* x, const plumb_tensor* w, const plumb_tensor* bias,
                       const plumb_tensor* y);

}  // namespace plumb::c
