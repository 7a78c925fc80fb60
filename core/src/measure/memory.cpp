// Whether a problem can be measured here, and how much of it.
#include "memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../memory_need.hpp"
#include "buffers.hpp"
#include "plumb/error.hpp"
#include "plumb/problem_text.hpp"
#include "sample_check.hpp"

namespace plumb {
namespace {

/// One set of buffers and the workspace on the device; on the host what is checked of them.
MemoryNeed measuring_memory(const ConvProblem& problem, bool bias, bool check,
                            std::size_t workspace_bytes) {
  const SetLayout set(problem, bias);
  const std::size_t patterns = std::min<std::size_t>(set.bytes, std::size_t{3} << 23);
  return {
      .host_bytes = static_cast<double>(patterns) + (check ? SampleCheck::host_bytes(problem) : 0),
      .device_bytes = static_cast<double>(set.bytes) + static_cast<double>(workspace_bytes)};
}

}  // namespace

Support fits_in_memory(const Device& device, const ConvProblem& problem,
                       std::size_t workspace_bytes) {
  return fits(device, measuring_memory(check(problem), true, true, workspace_bytes), "measuring");
}

void require_memory(std::span<const ConvPlan> contestants, const MeasureOptions& options) {
  std::size_t workspace = 0;
  for (const ConvPlan& plan : contestants) workspace = std::max(workspace, plan.workspace_bytes());
  const ConvPlan& first = contestants.front();
  const MemoryNeed need =
      measuring_memory(first.problem(), first.options().bias, options.check, workspace);
  if (const Support support = fits(first.device(), need, "measuring"); !support)
    throw Error(ErrorCode::out_of_memory,
                fmt::format("{}: {}", to_string(first.problem()), support.sentence),
                support.reason);
}

ConvProblem fit_to_memory(const Device& device, ConvProblem problem, bool on_host_too) {
  problem = check(problem);
  const auto with_batch = [&](std::int64_t n) {
    ConvProblem part = problem;
    part.n = n;
    return part;
  };
  const auto support = [&](std::int64_t n) {
    const ConvProblem part = with_batch(n);
    MemoryNeed need = measuring_memory(part, true, true, 0);
    if (on_host_too && device.id() != host)
      need.host_bytes = std::max(need.host_bytes, static_cast<double>(SetLayout(part, true).bytes));
    // A fifth is left, for workspace: fits() leaves a tenth.
    need.device_bytes *= usable_share_of_memory / 0.8;
    return fits(device, need, fmt::format("a batch of {}", n));
  };
  if (support(problem.n)) return problem;
  std::int64_t fitting = 0, too_many = problem.n;
  while (too_many - fitting > 1) {
    const std::int64_t middle = fitting + (too_many - fitting) / 2;
    (support(middle) ? fitting : too_many) = middle;
  }
  if (fitting == 0)
    throw Error(ErrorCode::out_of_memory,
                fmt::format("{}: not one image fits: {}", to_string(problem), support(1).sentence),
                Reason::too_large);
  return with_batch(fitting);
}

}  // namespace plumb
