// What emulated convolutions of several families do alike: how their tensors lie, and whose
// products they make.
#pragma once

#include <string>

#include "cuda_kernels/fields/emulation/conv_tensors.hpp"
#include "cuda_kernels/fields/emulation/judged_conv.hpp"
#include "cuda_kernels/wide/emulation/placing.hpp"
#include "plumb/plumb.hpp"
#include "plumb/problem_text.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test::emulation {

/// Returns the problem with tensors of a type, that lie as the options say.
template <class Options>
plumb::ConvProblem placed(plumb::ConvProblem problem, plumb::DType stored, const Options& options) {
  problem.dtype = stored;
  plumb::Extents x = problem.x_extents();
  if constexpr (requires { options.gap; }) x[1] += options.gap;
  problem.x_strides = strides_of(x, options.x);
  problem.y_strides = strides_of(problem.y_extents(), options.y);
  if constexpr (requires { options.exchanged; })
    if (options.exchanged) {  // as those of backward data: channels outermost
      problem.w_strides = plumb::dense_strides(problem.w_extents());
      const std::int64_t taps = problem.w_strides[1];
      problem.w_strides[0] = taps, problem.w_strides[1] = taps * problem.k;
    }
  return plumb::check(problem);
}
template <class Options>
plumb::ConvProblem placed(const std::string& text, plumb::DType stored, const Options& options) {
  return placed(plumb::parse_problem(text).problem, stored, options);
}

/// What tensor cores multiply of tensors of this type.
inline plumb::Operand tensor_core_operand(plumb::DType stored) {
  switch (stored) {
    case plumb::DType::f64: return plumb::Operand::fp64;
    case plumb::DType::f16: return plumb::Operand::fp16;
    case plumb::DType::bf16: return plumb::Operand::bf16;
    default: return plumb::Operand::tf32_rounded;
  }
}

}  // namespace plumb_test::emulation
