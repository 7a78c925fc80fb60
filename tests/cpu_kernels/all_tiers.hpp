// All tiers of forward algorithms on every instruction set, in every dtype and layout.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <span>
#include <string_view>

#include "conv_case.hpp"
#include "damaged_copy.hpp"
#include "support/sanitized.hpp"

namespace plumb_test {

inline plumb::ConvProblem problem_of(const char* text, plumb::DType dtype = plumb::DType::f32) {
  plumb::ConvProblem problem = plumb::parse_problem(text).problem;
  problem.dtype = dtype;
  return plumb::check(problem);
}

/// Validates each of the algorithms with shares of the problems: as f32 in the first placement, and
/// in types and placements that take turns. Verdicts must be passes, but for bits where no
/// instruction fuses and for what may_refuse(reason, text) excuses.
template <class MayRefuse>
void check_all_tiers(std::span<const char* const> names, std::span<const char* const> texts,
                     const plumb::Placement (&placements)[3], const MayRefuse& may_refuse) {
  using namespace plumb;
  constexpr DType dtypes[] = {DType::f32, DType::f16, DType::bf16, DType::f64};
  std::size_t turn = 0;
  for (const char* set : {"sse2", "avx2", "avx512"}) {
    const ForcedInstructionSet forced(set);
    const Device device = Device::open("cpu");
    for (const char* name : names)
      for (const char* text : texts) {
        ++turn;
        if (is_for_others(turn)) continue;
        const std::size_t types = std::string_view(name).ends_with("fp32") ? 3 : 4;
        const ConvAlgorithm* const algorithm = &algorithm_of(device, name);
        for (const bool plain : {true, false}) {
          const ConvProblem problem = problem_of(text, plain ? DType::f32 : dtypes[turn % types]);
          const Placement placement = plain ? placements[0] : placements[turn % 3];
          CAPTURE(set, name, to_string(problem), to_string(placement));
          ValidationCase test = validation_case("", problem, placement);
          test.accumulate = !plain;
          test.bias = turn % 2 == 0;
          test.activation = turn % 4 < 2 ? Activation::relu : Activation::none;
          for (const ValidationRecord& record :
               validate(device, {&algorithm, 1}, test, {.seed = 3})) {
            CAPTURE(record.sentence, to_string(record.tier));
            const bool unfused =
                record.reason == Reason::not_reproducible && std::string_view(set) == "sse2";
            CHECK((record.verdict == Verdict::pass || unfused || may_refuse(record.reason, text)));
          }
        }
      }
  }
}

}  // namespace plumb_test
