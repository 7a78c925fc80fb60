// The CPU's kernels are chosen for an instruction set at run time.
#pragma once

#include <string_view>

namespace plumb {

/// The order is ascending: each includes the ones before.
enum class InstructionSet {
  baseline,     ///< what the compiler takes for granted: SSE2 on x86-64
  avx2,         ///< AVX2 and FMA
  avx512,       ///< AVX-512 F, DQ, BW and VL
  avx512_bf16,  ///< AVX512-BF16: dot products of pairs
  amx,          ///< AMX-BF16: products of tiles
};

/// Returns the enumerator's name; the baseline is "sse2" on x86-64 and "generic" elsewhere.
std::string_view to_string(InstructionSet);

/// Returns the best that this machine and operating system run, lowered by PLUMB_CPU_ISA where that
/// is set; the variable never raises it. Throws Error (invalid_argument) where the variable names
/// no instruction set.
InstructionSet choose_instruction_set();

/// Returns the instruction set that `name`, from to_string(), stands for; any other name is the
/// baseline.
InstructionSet instruction_set_of(std::string_view name);

}  // namespace plumb
