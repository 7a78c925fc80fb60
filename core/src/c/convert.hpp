// The structs and enumerations of plumb.h as those of C++, checked on the way. Error
// (invalid_argument) names the field and the value met.
#pragma once

#include "plumb/c_bridge.hpp"
#include "plumb/conv.hpp"
#include "plumb/nn.hpp"
#include "plumb/plumb.h"
#include "plumb/tensor.hpp"

namespace plumb::c {

DType dtype_of(plumb_dtype);
Memory memory_of(plumb_memory);
plumb_memory to_c(Memory);
plumb_math to_c(Math);

/// Null: the plain geometry.
ConvGeometry geometry_of(const plumb_conv_geometry*);
ConvGeometry geometry_of(const plumb_conv_geometry_nd*);
ConvProblem problem_of(const plumb_conv_problem*);
/// Null: no option is set.
ConvOptions options_of(const plumb_conv_options*);
PoolGeometry pool_geometry_of(const plumb_pool_geometry*);

LinearBackwardTensors linear_gradients_of(const plumb_linear_gradients*);
/// Null: a learning rate of 0.001 alone.
SgdOptions sgd_options_of(const plumb_sgd_options*);

TensorView view_of(const plumb_tensor* tensor, const char* name);
/// A null tensor is none.
TensorView view_if(const plumb_tensor* tensor, const char* name);
/// A null bias is none.
ConvTensors tensors_of(const plumb_tensor* x, const plumb_tensor* w, const plumb_tensor* bias,
                       const plumb_tensor* y);

}  // namespace plumb::c
