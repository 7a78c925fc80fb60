// All tiers of algorithms on every instruction set, in every dtype and layout.
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

/// Validates each of the algorithms with shares of the problems: as f32 in the first placement,
/// `plain`, and in types and placements that take turns. prepare(test, device, algorithm,
/// turn) sets a case's options; verdicts must be passes, but for what may_refuse(record, set, text)
/// excuses.
template <class ProblemOf, class Prepare, class MayRefuse>
void check_all_tiers(std::span<const char* const> names, std::span<const char* const> texts,
                     const plumb::Placement (&placements)[3], const ProblemOf& problem_of,
                     const Prepare& prepare, const MayRefuse& may_refuse) {
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
          prepare(test, device, *algorithm, turn);
          for (const ValidationRecord& record :
               validate(device, {&algorithm, 1}, test, {.seed = 3})) {
            CAPTURE(record.sentence, to_string(record.tier));
            CHECK((record.verdict == Verdict::pass || may_refuse(record, set, text)));
          }
        }
      }
  }
}

/// The same of forward algorithms, with bias and ReLU in turns; bits may be missing where no
/// instruction fuses, and may_refuse(reason, text) excuses more.
template <class MayRefuse>
void check_forward_tiers(std::span<const char* const> names, std::span<const char* const> texts,
                         const plumb::Placement (&placements)[3], const MayRefuse& may_refuse) {
  using namespace plumb;
  check_all_tiers(
      names, texts, placements, problem_of,
      [](ValidationCase& test, const Device&, const ConvAlgorithm&, std::size_t turn) {
        test.bias = turn % 2 == 0;
        test.activation = turn % 4 < 2 ? Activation::relu : Activation::none;
      },
      [&](const ValidationRecord& record, std::string_view set, std::string_view text) {
        const bool unfused = record.reason == Reason::not_reproducible && set == "sse2";
        return unfused || may_refuse(record.reason, text);
      });
}

}  // namespace plumb_test
