// Matrix products in doubles, emulated.
#pragma once

#include "cuda_kernels/fields/emulation/emulation.hpp"

namespace plumb::cuda {

inline void mma_fp64(double (&d)[4], const double (&a)[4], const double (&b)[2]) {
  plumb_test::emulation::mma_fp64(d, a, b);
}

}  // namespace plumb::cuda
