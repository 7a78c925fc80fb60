// The named problems.
#include "plumb/suites.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plumb/did_you_mean.hpp"
#include "plumb/error.hpp"
#include "plumb/quote.hpp"
#include "suite_wide.hpp"
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

// Each with an N of its own: fields of one to four components, filtered in one to three dimensions.
constexpr std::string_view fields = R"(
mb1ic1iw67108864oc1kw129pw64n"line, 129 taps"
mb1ic1iw67108863oc1kw31pw15padperiodicn"line, 31 taps, periodic"
mb1ic1iw33554433oc1kw5pw2n"line, 5 taps"
mb1ic1iw16777216oc1kw1024n"line, 1024 taps, valid"
mb64ic1iw1048577oc1kw65pw32n"64 lines, 65 taps"
mb1000ic1iw44100oc1kw257pw128padsymmetricn"1000 lines, 257 taps, symmetric"
mb1ic3iw10000019oc3kw9pw4padreflectn"line of 3 components, 9 taps, reflect"
mb16ic4iw1000003oc4kw33pw16padclampn"16 lines of 4 components, 33 taps, clamp"
mb4096ic2iw8191oc2kw15pw7n"4096 lines of 2 components, 15 taps"
mb1ic1iw67108864oc1kw3pw1n"line, 3 taps"
mb1ic1ih16384oc1kh3ph1n"plane, 3x3"
mb1ic1ih8192oc1kh9ph4n"plane, 9x9"
mb1ic1ih4096oc1kh31ph15n"plane, 31x31"
mb100ic1ih530iw1430oc1kh30n"100 planes, 30x30, valid"
mb1ic1ih16383iw16381oc1kh5ph2padperiodicn"odd plane, 5x5, periodic"
mb8ic1ih4001iw3999oc1kh7ph3n"8 odd planes, 7x7"
mb1ic3ih4096oc3kh5ph2padreflectn"plane of 3 components, 5x5, reflect"
mb2ic4ih4096oc4kh3ph1n"2 planes of 4 components, 3x3"
mb1ic2ih6001iw6007oc1kh13ph6padclampn"odd plane of 2 components, 13x13, clamp"
mb1ic1ih2048oc1kh63ph31n"plane, 63x63"
mb1ic1ih8192oc1kh1kw31ph0pw15n"plane, along rows, 31 taps"
mb1ic1ih8192oc1kh31kw1ph15pw0n"plane, along columns, 31 taps"
mb1ic1ih8192oc1kh3kw17ph1pw8n"plane, 3x17"
mb64ic1ih513iw511oc1kh11ph5padsymmetricn"64 odd planes, 11x11, symmetric"
mb1ic1ih1000iw100000oc1kh5ph2n"wide plane, 5x5"
mb1ic1id512oc1kd3pd1n"volume, 3x3x3"
mb1ic1id512oc1kd5pd2n"volume, 5x5x5"
mb1ic1id256oc1kd9pd4n"volume, 9x9x9"
mb1ic1id384oc1kd7pd3padperiodicn"volume, 7x7x7, periodic"
mb1ic1id511ih509iw507oc1kd3pd1padperiodicn"odd volume, 3x3x3, periodic"
mb1ic1id400ih401iw403oc1kd5pd2padclampn"odd volume, star of radius 2, clamp"
mb4ic1id200oc1kd3pd1padreflectn"4 volumes, 3x3x3, reflect"
mb1ic4id256oc4kd3pd1n"volume of 4 components, 3x3x3"
mb1ic3id256oc3kd3pd1padperiodicn"volume of 3 components, 3x3x3, periodic"
mb1ic1id192oc1kd15pd7n"volume, 15x15x15"
mb1ic1id256ih1024iw1024oc1kd1kh5kw5pd0ph2pw2n"volume, plane by plane, 5x5"
mb1ic1id512oc1kd9kh1kw1pd4ph0pw0n"volume, along the depth, 9 taps"
mb1ic1id512oc1kd1kh1kw9pd0ph0pw4n"volume, along rows, 9 taps"
mb1ic1id321oc1kd3kh5kw7pd1ph2pw3padzeros/reflect/symmetricn"odd volume, 3x5x7, mixed"
mb32ic1id64ih65iw67oc1kd3n"32 small volumes, 3x3x3, valid"
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
  if (std::find(std::begin(suite_names), std::end(suite_names), name) == std::end(suite_names))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("suite {}; expected one of {}{}", quoted(name),
                            fmt::join(suite_names, ", "), did_you_mean(name, suite_names)));
  std::vector<NamedProblem> problems = name == "few200"
                                           ? few200()
                                           : parse_problems(name == "fields" ? fields
                                                            : name == "wide" ? wide_suite
                                                                             : few_special);
  return batch ? with_batch(std::move(problems), *batch) : problems;
}

}  // namespace plumb
