// What the tests of one family of the CPU's kernels share: copies of its algorithm that compute
// another problem than the one they are asked, and the tiers that notice.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <initializer_list>
#include <set>
#include <string_view>

#include "plumb/plumb.hpp"

namespace plumb_test {

inline const plumb::ConvAlgorithm& algorithm_of(const plumb::Device& device,
                                                std::string_view name) {
  for (const plumb::ConvAlgorithm* algorithm : conv_algorithms(device))
    if (algorithm->name == name) return *algorithm;
  FAIL("the CPU has no such algorithm");
  throw;
}

/// The launch with another problem.
inline plumb::ConvLaunch with_problem(const plumb::ConvLaunch& launch,
                                      const plumb::ConvProblem& problem) {
  return {.problem = problem,
          .device = launch.device,
          .x = launch.x,
          .w = launch.w,
          .filters = launch.filters,
          .bias = launch.bias,
          .y = launch.y,
          .activation = launch.activation,
          .accumulate = launch.accumulate,
          .workspace = launch.workspace,
          .native_queue = nullptr};
}

/// What a copy of a forward algorithm gets wrong.
enum class ForwardFault { none, lost_channel, tap_off_at_border, lost_column };

template <ForwardFault fault>
plumb::ConvProblem damaged_forward(plumb::ConvProblem p) {
  if (fault == ForwardFault::lost_channel) p.c -= p.groups;
  if (fault == ForwardFault::tap_off_at_border) --p.padding.left, ++p.padding.right;
  if (fault == ForwardFault::lost_column) --p.padding.right;
  return check(p);
}

/// `copy`, which packs filters, with what the algorithm that `real` points to by then does of the
/// damaged problem.
template <const plumb::ConvAlgorithm*& real, ForwardFault fault>
constexpr plumb::ConvAlgorithm with_fault(plumb::ConvAlgorithm copy) {
  copy.plan = [](const plumb::ConvProblem& problem, const plumb::DeviceInfo& device) {
    return real->plan(damaged_forward<fault>(problem), device);
  };
  copy.pack_filters = [](const plumb::FilterPacking& packing, const plumb::KernelPlan* plan) {
    const plumb::ConvProblem problem = damaged_forward<fault>(packing.problem);
    real->pack_filters({.problem = problem,
                        .device = packing.device,
                        .w = packing.w,
                        .filters = packing.filters,
                        .native_queue = nullptr},
                       plan);
  };
  copy.launch = [](const plumb::ConvLaunch& launch, const plumb::KernelPlan* plan) {
    const plumb::ConvProblem problem = damaged_forward<fault>(launch.problem);
    real->launch(with_problem(launch, problem), plan);
  };
  return copy;
}

/// The tiers in which `copy` fails at one of the problems.
inline std::set<plumb::Tier> tiers_that_caught(const plumb::ConvAlgorithm* copy,
                                               std::initializer_list<plumb::ConvProblem> problems,
                                               plumb::Placement placement) {
  std::set<plumb::Tier> caught;
  for (const plumb::ConvProblem& problem : problems)
    for (const plumb::ValidationRecord& record :
         validate(plumb::Device::open("cpu"), {&copy, 1},
                  plumb::validation_case("", problem, placement), {.seed = 7})) {
      REQUIRE(record.verdict != plumb::Verdict::unsupported);
      if (record.verdict == plumb::Verdict::fail) caught.insert(record.tier);
    }
  return caught;
}

}  // namespace plumb_test
