// The ceilings of this machine's FMA units and memory are measured here.
#pragma once

#include <cstddef>

#include "cpu_kernels/primitives/instruction_set.hpp"
#include "plumb/device.hpp"

namespace plumb {

/// Measures with as many threads as the kernels use, and FMAs of `set`, which the machine must
/// have. The copy needs two arrays of at most half a GiB and an eighth of `free_bytes` each. Narrow
/// operands are computed in fp32 here, so their ceilings are those of fp32.
DeviceCeilings measure_cpu_ceilings(InstructionSet set, std::size_t free_bytes);

}  // namespace plumb
