// What emulated convolutions of several families do alike: one call, and whose products they make.
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <vector>

#include "cuda_kernels/fields/emulation/judged_conv.hpp"
#include "plumb/algorithm.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test::emulation {

/// Calls convolve(x, y) with y in a copy and, if `shifted`, x one element behind an aligned
/// address. Returns what was thrown, that memory beside y was written, or what judge(values of y)
/// says.
template <class Convolve, class Judge>
std::string judged_outputs(const HostTensor& x, bool shifted, HostTensor y,
                           const Convolve& convolve, const Judge& judge) {
  std::vector<std::byte> memory;
  try {
    convolve(shifted ? shifted_copy(x, memory) : x.view().data(), y.view().data());
  } catch (const std::exception& error) {
    return error.what();
  }
  if (!y.surroundings_untouched()) return "wrote beside y";
  return judge(y.values());
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
