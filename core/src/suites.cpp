// The named problems.
#include "plumb/suites.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plumb/error.hpp"

namespace plumb {
namespace {

constexpr std::string_view four = R"(
ic1ih86oc4kh7n"ece408_l1"
ic4ih40oc16kh7n"ece408_l2"
ic1ih72oc12kh7n"eecs471_l1"
ic12ih33oc24kh7n"eecs471_l2"
)";

constexpr std::string_view resnet50 = R"(
ic3ih224oc64oh112kh7sh2ph3n"resnet50_stem"
ic64ih56oc64kh1n"resnet50_2_reduce"
ic64ih56oc64kh3ph1n"resnet50_2_3x3"
ic64ih56oc256kh1n"resnet50_2_expand"
ic256ih56oc128kh1n"resnet50_3_reduce"
ic128ih56oc128oh28kh3sh2ph1n"resnet50_3_3x3_stride2"
ic256ih56oc512oh28kh1sh2ph0n"resnet50_3_shortcut"
ic128ih28oc128kh3ph1n"resnet50_3_3x3"
ic512ih28oc256kh1n"resnet50_4_reduce"
ic256ih14oc256kh3ph1n"resnet50_4_3x3"
ic1024ih14oc256kh1n"resnet50_4_reduce_again"
ic1024ih14oc2048oh7kh1sh2ph0n"resnet50_5_shortcut"
ic512ih7oc512kh3ph1n"resnet50_5_3x3"
ic512ih7oc2048kh1n"resnet50_5_expand"
)";

}  // namespace

std::vector<NamedProblem> suite(std::string_view name, std::int64_t batch) {
  if (name != "four" && name != "resnet50")
    throw Error(ErrorCode::invalid_argument,
                fmt::format("suite '{}'; expected one of {}", name, fmt::join(suite_names, ", ")));
  std::vector<NamedProblem> problems = parse_problems(name == "four" ? four : resnet50);
  for (NamedProblem& named : problems) {
    named.problem.n = batch;
    // Strides of a dense tensor do not depend on N; check() judges the batch.
    named.problem = check(named.problem);
  }
  return problems;
}

}  // namespace plumb
