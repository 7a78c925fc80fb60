// The classes of the kernels in pointwise/, and problems of theirs.
#pragma once

#include <string>

#include "cuda_kernels/pointwise/pointwise.hpp"
#include "cuda_kernels/wide/emulation/placing.hpp"
#include "plumb/problem_text.hpp"

namespace plumb_test {

inline constexpr plumb::cuda::PointwiseClass pointwise_classes[] = {
    plumb::cuda::pointwise_class_fp16, plumb::cuda::pointwise_class_bf16,
    plumb::cuda::pointwise_class_tf32, plumb::cuda::pointwise_class_tf32x3};

inline std::string name(const plumb::cuda::PointwiseClass& of) {
  return std::string(to_string(of.stored)) + (of.splits() ? " in three products" : "");
}

inline plumb::ConvProblem pointwise_problem(const std::string& text,
                                            const plumb::cuda::PointwiseClass& of,
                                            emulation::Placing placing) {
  plumb::ConvProblem problem = plumb::parse_problem(text).problem;
  problem.dtype = of.stored;
  problem.x_strides = emulation::strides_of(problem.x_extents(), placing);
  problem.y_strides = emulation::strides_of(problem.y_extents(), placing);
  return check(problem);
}

}  // namespace plumb_test
