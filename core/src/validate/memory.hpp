// Cases that the machine has no memory for: refused before anything of them is allocated.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "plumb/validate.hpp"

namespace plumb {

using JudgeAll =
    std::function<std::vector<ValidationRecord>(std::span<const ConvAlgorithm* const> algorithms)>;

/// The verdicts of `judge` on the algorithms that can run the problem and that the memory is there
/// for, and of the others records that say `unsupported`, with the algorithm's own reason, or
/// Reason::too_large and the bytes. Nothing is allocated where none is left. Where memory runs out
/// all the same, because somebody else took it, the records of all say so with
/// Reason::out_of_memory.
std::vector<ValidationRecord> judge_within_memory(const Device& device,
                                                  std::span<const ConvAlgorithm* const> algorithms,
                                                  const ValidationCase& test,
                                                  const ValidationOptions& options,
                                                  const JudgeAll& judge);

}  // namespace plumb
