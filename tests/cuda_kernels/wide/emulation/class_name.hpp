// The classes of the wide kernel, and what a test calls them.
#pragma once

#include <string>

#include "cuda_kernels/wide/wide.hpp"

namespace plumb_test::emulation {

inline constexpr plumb::cuda::WideClass wide_classes[] = {
    plumb::cuda::wide_class_fp16, plumb::cuda::wide_class_bf16, plumb::cuda::wide_class_tf32,
    plumb::cuda::wide_class_fp16x3, plumb::cuda::wide_class_tf32x3};

inline std::string name(const plumb::cuda::WideClass& of) {
  return std::string(to_string(of.stored)) +
         (of.products == 3 ? " in three products of " : " in ") +
         (of.operand == plumb::DType::f32 ? "TF32" : std::string(to_string(of.operand)));
}

}  // namespace plumb_test::emulation
