// The threads of cuda_kernels/fma/weights_tree.cu, one after the other on the host.
#pragma once

#include "plumb/conv.hpp"

namespace plumb_test::emulation {

/// Adds or writes dw, of f32 or f64, in at most so many parts of the segments.
void weights_tree_on_host(const plumb::ConvProblem& problem, const void* x, const void* dy,
                          void* dw, bool accumulate, std::int64_t parts);

}  // namespace plumb_test::emulation
