// The named problems.
#include "plumb/suites.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plumb/did_you_mean.hpp"
#include "plumb/error.hpp"
#include "plumb/quote.hpp"
#include "validate/test_data.hpp"

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

// Each with an N of its own.
constexpr std::string_view few_special = R"(
mb1ic1ih86oc4kh7n"one image"
mb3ic1ih86oc4kh7n"three images"
mb64ic1ih86oc4kh7n"fewer images than units"
mb7ic12ih33oc24kh7n"seven images of many filters"
mb1ic1ih16384oc1kh11n"one huge image"
mb1ic1ih16384oc1kh11ph5n"one huge image, padded"
mb1ic3ih4096oc16kh3sh2ph1n"one large image with stride 2"
mb10000ic1ih87oc4kh7n"rows of 87, outputs of 81"
mb10000ic1ih85oc4kh7n"rows of 85, outputs of 79"
mb10000ic3ih33oc16kh5n"rows of 33, outputs of 29"
mb2000ic4ih101iw103oc16kh7ph3n"rows of 103, padded"
mb2000ic1ih61iw127oc8kh11sh2ph5pw4n"rows of 127, stride 2"
mb10000ic1ih7iw11oc32kh3n"images smaller than a tile"
mb100000ic1ih3oc64kh3n"one output an image"
mb500ic1ih5iw2048oc16kh5kw11n"one row of outputs"
mb500ic1ih2048iw5oc16kh11kw5n"one column of outputs"
)";

/// A size of any magnitude: an octave drawn evenly, then a number in it.
std::int64_t size_up_to_2048(Random& random) {
  const std::int64_t low = std::int64_t{1} << random.between(3, 10);
  return random.between(low, 2 * low);
}

/// The padding of one direction: none, half of the filter, or any on each side.
void pad(Random& random, std::int64_t filter, std::int64_t& before, std::int64_t& after) {
  const std::int64_t kind = random.between(1, 3);
  if (kind == 2) before = after = filter / 2;
  if (kind == 3) before = random.between(0, filter - 1), after = random.between(0, filter - 1);
}

/// A member of the family of few channels, and one with outputs.
ConvProblem few_channels(Random& random) {
  for (;;) {
    const auto one_in = [&](std::int64_t lots) { return random.between(1, lots) == 1; };
    ConvProblem problem;
    problem.c = random.between(1, 16);
    problem.k = random.between(1, 64);
    problem.r = random.between(1, 11);
    problem.s = one_in(4) ? random.between(1, 11) : problem.r;
    problem.h = size_up_to_2048(random);
    problem.w = one_in(2) ? size_up_to_2048(random) : problem.h;
    problem.stride.h = random.between(1, 2);
    problem.stride.w = one_in(4) ? random.between(1, 2) : problem.stride.h;
    pad(random, problem.r, problem.padding.top, problem.padding.bottom);
    pad(random, problem.s, problem.padding.left, problem.padding.right);
    if (problem.p() < 1 || problem.q() < 1) continue;
    // As its own text has it, without padding that no window reaches.
    problem = parse_problem(to_string(problem)).problem;
    constexpr std::int64_t output_elements = 250'000'000;  // 1 GB of f32
    problem.n =
        std::max<std::int64_t>(1, output_elements / (problem.k * problem.p() * problem.q()));
    return problem;
  }
}

std::vector<NamedProblem> few200() {
  Random random(200);
  std::vector<NamedProblem> problems;
  for (int i = 1; i <= 200; ++i)
    problems.push_back({fmt::format("few200_{:03}", i), few_channels(random)});
  return problems;
}

std::vector<NamedProblem> with_batch(std::vector<NamedProblem> problems, std::int64_t batch) {
  for (NamedProblem& named : problems) {
    named.problem.n = batch;
    // Strides of a dense tensor do not depend on N; check() judges the batch.
    named.problem = check(named.problem);
  }
  return problems;
}

}  // namespace

std::vector<NamedProblem> suite(std::string_view name, std::optional<std::int64_t> batch) {
  if (name == "four") return with_batch(parse_problems(four), batch.value_or(10000));
  if (name == "resnet50") return with_batch(parse_problems(resnet50), batch.value_or(128));
  if (name != "few200" && name != "few_special")
    throw Error(ErrorCode::invalid_argument,
                fmt::format("suite {}; expected one of {}{}", quoted(name),
                            fmt::join(suite_names, ", "), did_you_mean(name, suite_names)));
  std::vector<NamedProblem> problems = name == "few200" ? few200() : parse_problems(few_special);
  return batch ? with_batch(std::move(problems), *batch) : problems;
}

}  // namespace plumb
