// What a test calls a class of the wide kernels.
#pragma once

#include <string>

#include "cuda_kernels/wide/wide.hpp"

namespace plumb_test::emulation {

inline std::string name(const plumb::cuda::WideClass& of) {
  return std::string(to_string(of.stored)) +
         (of.products == 3 ? " in three products of " : " in ") +
         (of.operand == plumb::DType::f32 ? "TF32" : std::string(to_string(of.operand)));
}

}  // namespace plumb_test::emulation
