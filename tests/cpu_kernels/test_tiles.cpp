// bf16 by the processor's own instructions: each way to lay input and output out, in one to three
// dimensions, on both instruction sets; and what a lost channel, a tap off at a border or a lost
// column would do.
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string_view>

#include "conv_case.hpp"
#include "damaged_copy.hpp"
#include "support/sanitized.hpp"

using namespace plumb;
using namespace plumb_test;

namespace {

constexpr std::string_view name = "cpu.conv.tiles.bf16";

ConvProblem problem_of(const char* text) {
  ConvProblem problem = parse_problem(text).problem;
  problem.dtype = DType::bf16;
  return check(problem);
}

constexpr const char* texts[] = {
    "mb2ic19ih9iw30oc40kh1",                     // no filter's extent
    "mb2ic32ih9iw29oc49kh1",                     // and pixels read where they lie,
    "mb1ic64ih7oc40kh1",                         // in one tall block,
    "mb1ic32ih4oc8kh1",                          // as few as a tile takes,
    "mb1ic32ih3oc8kh1",                          // and fewer
    "mb2ic33ih9iw70oc40kh1sh2sw2",               // every second pixel
    "mb2ic3ih7iw35oc20kh1sh2sw2",                // of few channels
    "mb1ic21ih10iw20oc20kh1sh3sw3ph1pw2",        // every third, from the padding on
    "mb37ic64ih1oc40kh1",                        // images of a pixel,
    "mb9ic20ih3oc35kh3",                         // of one output,
    "mb20ic33ih2iw3oc5kh3ph1sh4sw5",             // with a padding
    "g2mb70ic64id2ih1iw2oc34kd2kh1kw2",          // and groups, as rows
    "mb1ic64ih7oc35kh3ph1",                      // rows joined, more than one block of filters
    "mb1ic32ih4iw40oc33kh3ph1",                  // rows by themselves, one filter left over
    "mb2ic3ih21iw23oc16kh7sh2ph3",               // the taps of a row are one run of terms
    "mb1ic40ih7iw19oc20kh3kw5ph2pw4dh0dw1",      // and are not
    "mb1ic6ih15iw14oc17kh3kw3sh4sw2ph2dh1dw2",   // strides and dilations
    "mb3ic1ih5iw6oc1kh2",                        // one channel, one filter
    "g4mb2ic32ih8iw7oc36kh3ph1",                 // groups
    "g18mb1ic18ih8iw9oc18kh3ph1",                // depthwise
    "mb2ic4iw190oc20kw9pw20dw3",                 // one dimension
    "mb1ic3id7ih6iw9oc20kd3kh2kw3sd2pd1ph1pw2",  // three
    "mb1ic6id5ih8iw9oc20kd3kh3kw3pd2ph2pw3_padperiodic",
    "mb2ic6ih8iw9oc20kh3kw4ph2pw3_padreflect",
    "mb1ic65ih9iw300oc2kh2ph1",       // several bands
    "mb1ic96ih9iw8oc40kh3kw2ph1dh1",  // channels in chunks
    "mb1ic64ih6iw9oc20kh1kw3pw2dw1",  // under dilated taps
};

/// A device that has the set, or nothing.
bool has(std::string_view set) { return Device::open("cpu").info().instruction_set == set; }

void hold(const Device& device, const ConvAlgorithm& algorithm, const ValidationCase& test) {
  const ConvAlgorithm* const one = &algorithm;
  for (const ValidationRecord& record : validate(device, {&one, 1}, test, {.seed = 3})) {
    CAPTURE(record.sentence, to_string(record.tier));
    CHECK(record.verdict == Verdict::pass);
  }
}

using Fault = ForwardFault;

const ConvAlgorithm* real = nullptr;

template <Fault fault>
constexpr ConvAlgorithm copy_with = with_fault<real, fault>({
    .name = "cpu.conv.tiles.copy.bf16",
    .numerics = {.operand = Operand::bf16,
                 .accumulator = Accumulator::fp32_flushed,
                 .term_multiple = 32},
    .takes_depth = true,
    .accumulates = true,
});

}  // namespace

TEST_CASE("cpu tiles: all tiers, on both instruction sets, in every layout") {
  constexpr Placement placements[] = {Placement::nhwc, Placement::nchw, Placement::strided};
  int sets = 0;
  for (const char* set : {"avx512_bf16", "amx"}) {
    const ForcedInstructionSet forced(set);
    if (!has(set)) continue;
    ++sets;
    const Device device = Device::open("cpu");
    const ConvAlgorithm& algorithm = algorithm_of(device, name);
    std::size_t turn = 0;
    for (const char* text : texts)
      for (const Placement placement : placements) {
        ++turn;
        if (is_sanitized && turn % 5 != 0) continue;
        CAPTURE(set, text, to_string(placement));
        ValidationCase test = validation_case("", problem_of(text), placement);
        test.accumulate = turn % 4 < 2;
        test.bias = turn % 2 == 0;
        test.activation = turn % 3 == 0 ? Activation::relu : Activation::none;
        hold(device, algorithm, test);
      }
  }
  if (sets == 0) SKIP("no instructions for bf16 on this machine");
}

TEST_CASE("cpu tiles: more filters than a cache has room for") {
  const Device device = Device::open("cpu");
  if (!has("amx") && !has("avx512_bf16")) SKIP("no instructions for bf16 on this machine");
  hold(device, algorithm_of(device, name),
       validation_case("", problem_of("mb1ic512ih5iw13oc520kh1"), Placement::nhwc));
}

TEST_CASE("cpu tiles: a lost channel, a tap off at a border, a lost column are found", "[faults]") {
  const Device device = Device::open("cpu");
  if (!has("amx") && !has("avx512_bf16")) SKIP("no instructions for bf16 on this machine");
  real = &algorithm_of(device, name);
  const auto caught = [](const ConvAlgorithm* copy) {
    return tiers_that_caught(
        copy, {problem_of("mb2ic5ih7iw8oc18kh3ph1"), problem_of("mb1ic40ih20oc16kh5ph2")},
        Placement::nhwc);
  };
  CHECK(caught(&copy_with<Fault::none>).empty());
  CHECK(caught(&copy_with<Fault::lost_channel>).contains(Tier::exact));
  CHECK(caught(&copy_with<Fault::tap_off_at_border>).contains(Tier::exact));
  CHECK(caught(&copy_with<Fault::lost_column>).contains(Tier::exact));
}

TEST_CASE("cpu tiles: sums below the smallest normal number are no promise of fp32") {
  const Device device = Device::open("cpu");
  const ConvAlgorithm& algorithm = algorithm_of(device, name);
  CHECK(math_class(algorithm.numerics, DType::bf16) == Math::bf16);
  const ForcedInstructionSet forced("avx512");
  const Device without = Device::open("cpu");
  const ConvCandidate refused = ask(algorithm, problem_of("mb1ic4ih5oc4kh3"), without.info());
  CHECK(refused.support.reason == Reason::device_limit);
  CHECK(refused.support.sentence.find("avx512_bf16 or amx") != std::string::npos);
}
