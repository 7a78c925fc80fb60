// Convolution of fields on the CPU, with vectors over a row's columns and sums of many rows in
// registers (README.md).
#pragma once

#include "plumb/algorithm.hpp"

namespace plumb {

/// "cpu.conv.fields.fp32" takes tensors stored as f32, f16 or bf16, and computes in fp32.
extern const ConvAlgorithm conv_fields_fp32;
/// "cpu.conv.fields.fp64" takes tensors of any dtype, and computes in fp64.
extern const ConvAlgorithm conv_fields_fp64;
/// "cpu.conv.fields_spec.fp32" and .fp64: the same with the order of sums that is specified for
/// ConvOptions::reproducible.
extern const ConvAlgorithm conv_fields_spec_fp32;
extern const ConvAlgorithm conv_fields_spec_fp64;  ///< likewise

}  // namespace plumb
