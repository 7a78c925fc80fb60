// Registers are the host compiler's own affair.
#pragma once

namespace plumb::cuda {

template <class Scalar>
void pin(Scalar&) {}

}  // namespace plumb::cuda
