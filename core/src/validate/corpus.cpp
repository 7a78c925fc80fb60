// The problems that every algorithm is held against.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "../names.hpp"
#include "plumb/error.hpp"
#include "plumb/problem_text.hpp"
#include "plumb/suites.hpp"
#include "plumb/validate.hpp"

namespace plumb {
namespace {

constexpr Name<Placement> placements[] = {{Placement::nchw, "nchw"},
                                          {Placement::nhwc, "nhwc"},
                                          {Placement::strided, "strided"},
                                          {Placement::views, "views"}};

/// Shapes at which kernels go wrong, by hand.
constexpr std::string_view edges = R"(
mb1ic1ih1oc1kh1n"one pixel"
mb3ic5ih1oc7kh1n"1x1 image"
mb2ic3ih7oc4kh7n"filter as large as the image"
mb2ic3ih5oc4kh7ph1n"filter larger than the image"
mb2ic1ih9iw11oc1kh3n"one channel, one filter"
mb2ic1ih13iw10oc5kh4kw3n"C=1, even filter"
mb2ic6ih9iw8oc1kh3ph1n"K=1"
mb1ic2ih17iw31oc3kh5ph2n"odd rows"
mb3ic7ih13iw11oc5kh3ph1n"primes"
mb1ic17ih23iw29oc19kh5kw3sh2sw3ph1pw2n"larger primes"
mb2ic3ih20oc4kh2sh5n"stride larger than the filter"
mb2ic3ih12iw15oc4kh3kw5sh2sw1ph2pw1n"each direction its own"
mb2ic3ih11iw12oc4oh12ow10kh3kw4ph0pw1n"padding below, none above"
mb1ic3ih8iw9oc4oh9ow12kh3kw2ph3pw0n"asymmetric padding"
mb2ic3ih6oc2oh12kh3ph4n"padding wider than the filter"
mb2ic3ih16iw14oc4kh3dh1ph2n"dilation with padding"
mb1ic2ih19iw23oc3kh3kw2sh2dh2dw3ph3pw1n"dilation, stride and padding"
g2mb2ic4ih9iw7oc6kh3ph1n"two groups"
g3mb1ic9ih8oc3kh2n"one filter a group"
g8mb2ic8ih10oc8kh3ph1n"depthwise"
g6mb1ic6ih9oc12kh3sh2ph1n"depthwise, two filters a channel"
mb2ic16ih6oc24kh1n"1x1 filter"
mb3ic10ih7iw9oc26kh1n"1x1 filters, odd planes"
mb2ic5ih8iw12oc13kh1n"1x1 filters, whole vectors"
mb2ic20ih6iw10oc7kh1n"1x1 filters, more channels than filters"
mb2ic12ih9iw14oc40kh1sh2n"1x1 filters with a stride"
mb1ic3ih11iw6oc5kh1ph1n"1x1 filters with padding"
mb1ic2ih70iw33oc70kh1n"1x1 filters, few channels and many filters"
mb2ic9ih16iw63oc6kh1sh2sw2n"1x1 filters with strides, planes of whole lines of memory"
mb2ic15ih13iw22oc5kh1n"1x1 filters, planes of whole pairs"
mb2ic5ih9iw12oc6kh2kw1n"Rx1 filters, whole vectors"
mb3ic7ih22iw9oc3kh3kw1sh2sw2n"Rx1 filters with strides"
mb2ic11ih31iw33oc12kh2kw1sh2sw2n"Rx1 filters with strides, odd planes"
mb2ic8ih31iw17oc5kh2kw1n"Rx1 filters, odd planes"
mb1ic4ih20iw8oc9kh3kw1dh2n"Rx1 filters with dilation"
mb2ic3ih9iw10oc5kh1kw3sh2sw1n"1xS filters that stride over rows alone"
mb1ic6ih17iw11oc4kh5kw1ph0pw1n"Rx1 filters with padding beside"
mb4ic64oc10ih1kh1n"linear"
mb1ic1ih1iw33oc2oh1ow35kh1kw5ph0pw3n"1-D"
mb0ic3ih8oc4kh3n"empty batch"
mb65ic1ih4oc2kh3n"more images than pixels"
mb1ic1ih3iw300oc2kh3kw7ph1pw3n"one long row"
mb1ic2ih130iw3oc2kh5kw1ph2pw0n"one tall column"
mb3ic2ih21iw41oc9kh5n"rows of whole vectors and some columns"
mb1ic40ih5oc70kh3ph1n"more filters than pixels"
mb2ic1ih16oc8kh11ph5n"a large filter"
mb1ic16ih6iw7oc64kh9ph4n"filters beyond shared memory"
mb1ic1200ih2oc3kh2n"a long reduction"
mb3ic1ih17iw24oc4kh7_poolmax2x2n"few channels, pooled, an odd row is dropped"
mb2ic4ih12iw15oc9kh3ph1_poolmax2x2n"pooled with padding, an odd column is dropped"
g2mb2ic6ih18iw13oc8kh3kw2sh2sw1ph1pw0_poolmax2x2n"pooled groups with strides, an odd row is dropped"
mb1ic2ih7oc3kh6_poolmax2x2n"a single window"
)";

/// Shapes of one and three axes, and what lies beyond the image, by hand. Two
/// cases of five are accumulated.
constexpr std::string_view axes = R"(
mb2ic3id6ih7iw8oc4kd3kh3kw3pd1ph1pw1n"3-D"
mb1ic2id5ih6iw7oc3kd5kh1kw1pd0ph0pw0n"a filter as deep as the image"
mb2ic3id4ih5iw6oc2kd4kh5kw6n"a filter as large as the image, 3-D"
mb2ic3id5ih6iw9oc4kd1kh3kw3pd0ph1pw1n"one plane of the filter, many of the image"
mb2ic3id1ih6iw7oc4kd3kh3kw3pd1ph1pw1n"one plane of the image, three of the filter"
mb1ic2id1ih5iw6oc3kd5kh1kw2pd2ph0pw1n"one plane of the image, the depth from padding"
mb2ic3id2ih5iw4oc4kd5kh2kw2pd3ph1pw0n"a filter deeper than the image"
mb1ic1id9ih10iw33oc1kd3kh3kw3pd1ph1pw1n"one channel, one filter, 3-D"
mb1ic1id7ih8iw8oc1kd1kh1kw1n"one tap, 3-D"
mb3ic1id1ih1iw1oc1od1oh1ow1kd5kh1kw1sd8sh1sw1pd2ph0pw0dd3dh0dw0n"no tap inside, 3-D"
mb2ic1ih1iw20oc2oh1ow20kh1kw5sh2ph1pw2n"one row, in the padding"
mb2ic16id3ih4iw4oc24kd1kh1kw1n"1x1x1 filters"
mb1ic2id9ih8iw10oc3kd3kh2kw3sd2sh1sw3pd1ph0pw1n"strides, 3-D"
mb1ic2id8ih5iw6oc3kd2kh3kw1sd3sh1sw1pd0ph1pw0n"a stride along the depth larger than the filter"
mb1ic2id9ih9iw10oc3kd3kh2kw3pd2ph0pw1dd1dh2dw0n"dilations, 3-D"
mb1ic2id11ih7iw8oc3kd3kh3kw2sd2sh2sw1pd2ph1pw0dd1dh0dw1n"dilations, strides and padding, 3-D"
mb2ic2id5ih6iw7oc3od6oh6ow8kd2kh3kw3pd2ph1pw1n"padding in front alone"
mb2ic2id5ih6iw7oc3od6oh8ow6kd3kh3kw3pd0ph2pw0n"one-sided padding of each axis, 3-D"
g8mb2ic8id4ih6iw7oc8kd3kh3kw3pd1ph1pw1n"depthwise, 3-D"
g2mb2ic4id5ih4iw6oc6kd2kh3kw2pd0ph1pw0n"two groups, 3-D"
g3mb1ic6id4ih5iw5oc3kd3kh1kw3sd2sh1sw2pd1ph0pw1n"one filter a group, 3-D"
mb0ic2id4ih5iw6oc3kd3kh3kw3n"empty batch, 3-D"
mb2ic3id8ih1iw17oc4kd3kh1kw3pd1ph0pw1n"one row, many planes"
mb2ic3id9ih12iw1oc4kd3kh3kw1pd1ph1pw0n"one column, many planes"
mb1ic3id17ih1iw1oc4kd5kh1kw1pd2ph0pw0n"a line along the depth"
mb1ic3id4ih30iw28oc16kd3kh7kw7sd1sh2sw2pd1ph3pw3n"a video's first layer"
mb1ic4id6ih9iw16oc8kd3kh3kw3pd1ph1pw1n"few channels, 3-D"
mb1ic40id3ih4iw5oc33kd3kh3kw3pd1ph1pw1n"more filters than voxels"
mb3ic1iw33oc1kw5pw2n"1-D, one channel"
mb2ic5iw40oc7kw3sw2dw2pw4n"1-D, strides and dilation"
mb2ic3iw9oc4ow12kw5pw7n"1-D, padding before alone"
g4mb2ic4iw31oc8kw7pw3n"1-D, groups"
mb1ic1iw300oc1kw129pw64n"1-D, a long filter"
mb2ic2ih7iw9oc3kh3ph1_padperiodicn"periodic"
mb2ic2ih7iw9oc3kh3ph1_padreflectn"reflect"
mb2ic2ih7iw9oc3kh3ph1_padsymmetricn"symmetric"
mb2ic2ih7iw9oc3kh3ph1_padclampn"clamp"
mb1ic1ih16iw33oc1kh9ph4_padperiodicn"periodic, one channel, a large filter"
mb1ic1ih16iw33oc1kh9ph4_padreflectn"reflect, one channel, a large filter"
mb1ic1iw65oc1kw17pw8_padsymmetricn"1-D, symmetric"
mb2ic3iw9oc4kw5pw2_padclampn"1-D, clamp"
mb1ic1iw1oc1kw5pw2_padperiodicn"1-D, one pixel repeated"
mb1ic1iw2oc2kw7pw9_padreflectn"1-D, two pixels reflected more than once"
mb1ic2ih3iw4oc3kh4kw5ph7pw9_padperiodicn"padding wider than the image, periodic"
mb1ic2ih3iw2oc3kh4kw5ph8pw9_padreflectn"padding wider than the image, reflect"
mb1ic2ih3iw1oc3kh4kw5ph8pw7_padsymmetricn"padding wider than the image, symmetric"
mb1ic2ih1iw2oc3kh4kw5ph6pw5_padclampn"padding wider than the image, clamp"
mb2ic2ih7iw8oc3kh5ph7pw8_padsymmetricn"padding as wide as the image"
mb2ic2ih6iw5oc3kh3ph5pw4_padreflectn"padding one less than the image"
mb2ic2ih6iw5oc3kh3ph2pw1_padperiodic/zerosn"periodic rows, zeros beside"
mb2ic2ih6iw5oc3kh3ph2pw1_padzeros/reflectn"zeros above, reflecting columns"
mb2ic2ih6iw5oc3kh3kw4ph2pw3_padclamp/symmetricn"clamped rows, symmetric columns"
mb1ic3ih9iw11oc4kh3kw2sh2sw3ph2pw3dh1dw2_padsymmetric/periodicn"boundaries, strides and dilation"
mb2ic2ih7iw9oc3oh8ow7kh2kw3ph2pw0_padperiodicn"periodic above alone"
mb2ic2ih7iw9oc3oh6ow9kh3kw5ph0pw0_padreflectn"reflecting on the right alone"
g6mb1ic6ih9iw8oc6kh3ph1_padclampn"depthwise, clamp"
mb2ic20ih6iw7oc24kh3ph1_padperiodicn"many channels, periodic"
mb2ic2ih8iw10oc3kh3ph1_poolmax2x2_padreflectn"pooled, reflect"
mb1ic1id8ih9iw10oc1kd3kh3kw3pd1ph1pw1_padperiodicn"3-D, periodic"
mb2ic2id5ih6iw7oc3kd3kh3kw3pd1ph1pw1_padreflectn"3-D, reflect"
mb2ic2id5ih6iw7oc3kd3kh3kw3pd1ph1pw1_padsymmetricn"3-D, symmetric"
mb2ic2id5ih6iw7oc3kd3kh3kw3pd1ph1pw1_padclampn"3-D, clamp"
mb1ic2id4ih5iw6oc3kd3kh3kw3pd2ph2pw2_padperiodic/clamp/zerosn"3-D, periodic planes, clamped rows, zeros beside"
mb1ic2id4ih5iw6oc3kd3kh3kw3pd2ph1pw3_padzeros/reflect/symmetricn"3-D, zeros in front"
mb1ic2id4ih5iw6oc3kd3kh3kw3pd1ph0pw1_padclamp/zeros/periodicn"3-D, clamped planes, periodic columns"
mb1ic2id2ih3iw2oc3kd4kh3kw5pd5ph4pw5_padreflectn"3-D, two planes reflected more than once"
mb1ic2id3ih2iw1oc2kd3kh4kw5pd4ph3pw4_padperiodicn"3-D, padding wider than the image"
mb1ic2id1ih6iw7oc3kd3kh3kw3pd1ph1pw1_padperiodicn"one plane repeated"
mb1ic2id1ih6iw7oc3kd3kh3kw3pd2ph1pw1_padclampn"one plane, clamped"
mb1ic2id7ih8iw9oc3kd3kh2kw3sd2sh1sw2pd3ph1pw2dd1dh0dw1_padsymmetricn"3-D, symmetric with strides and dilations"
mb1ic2id5ih6iw7oc3od4oh6ow7kd3kh3kw3pd1ph1pw1_padperiodicn"3-D, periodic in front alone"
g4mb2ic4id4ih6iw5oc4kd3kh3kw3pd1ph1pw1_padperiodicn"depthwise, 3-D, periodic"
)";

Strides strides_of(Placement placement, const Extents& extents) {
  switch (placement) {
    case Placement::nchw: return dense_strides(extents);
    case Placement::nhwc: return strides_for(Layout::nhwc, extents);
    case Placement::strided:
    case Placement::views: break;
  }
  // Two elements between rows, one between planes, five between channels, three between images.
  const int last = extents.rank() - 1;
  const std::int64_t row = extents[last] + 2;
  if (extents.rank() == 4) {
    const std::int64_t channel = row * extents[2] + 5;
    return {channel * extents[1] + 3, channel, row, 1};
  }
  const std::int64_t plane = row * extents[3] + 1, channel = plane * extents[2] + 5;
  return {channel * extents[1] + 3, channel, plane, row, 1};
}

}  // namespace

std::string_view to_string(Placement placement) { return name_of(placements, placement); }
std::optional<Placement> parse_placement(std::string_view text) {
  return value_of(placements, text);
}

ValidationCase validation_case(std::string name, ConvProblem problem, Placement placement) {
  if (placement == Placement::views)
    return {.name = std::move(name), .problem = check(problem), .placement = placement};
  problem.x_strides = strides_of(placement, problem.x_extents());
  problem.w_strides = strides_of(placement, problem.w_extents());
  problem.y_strides = strides_of(placement, problem.y_extents());
  return {.name = std::move(name),
          .problem = check(problem),
          .placement = placement,
          .offset = placement == Placement::strided ? 1 : 0};
}

std::vector<ValidationCase> validation_corpus(const CorpusOptions& options) {
  std::vector<ValidationCase> cases;
  // Bias and activation go round, so that each meets every kind of shape.
  const auto add = [&](const NamedProblem& named, DType dtype, Placement placement) {
    ConvProblem problem = named.problem;
    problem.dtype = dtype;
    ValidationCase test = validation_case(named.name, problem, placement);
    test.bias = cases.size() % 2 == 1;
    test.activation = cases.size() % 3 == 2 ? Activation::relu : Activation::none;
    cases.push_back(std::move(test));
  };
  for (const NamedProblem& named : parse_problems(edges)) {
    add(named, DType::f32, Placement::nchw);
    add(named, DType::f32, Placement::nhwc);
    add(named, DType::f32, Placement::strided);
    for (const DType dtype : {DType::f64, DType::f16, DType::bf16}) {
      add(named, dtype, Placement::nchw);
      if (!options.quick) add(named, dtype, Placement::strided);
    }
  }
  // Accumulation goes round at a step of its own, so that it meets bias and activation.
  const auto add_sum = [&](const NamedProblem& named, DType dtype, Placement placement) {
    add(named, dtype, placement);
    cases.back().accumulate = cases.size() % 5 < 2 && named.problem.pool == Pool::none;
  };
  constexpr Placement turns[] = {Placement::nchw, Placement::strided, Placement::nhwc};
  std::size_t turn = 0;
  for (const NamedProblem& named : parse_problems(axes)) {
    add_sum(named, DType::f32, Placement::nchw);
    add_sum(named, DType::f32, Placement::nhwc);
    add_sum(named, DType::f32, Placement::strided);
    // The placements of the other types go round, each type's by itself.
    for (const DType dtype : {DType::f64, DType::f16, DType::bf16})
      add_sum(named, dtype, turns[turn++ % std::size(turns)]);
    ++turn;
  }
  // Each gradient of each shape, or one of the two by turns, in one of the types and placements,
  // which go round with all options.
  std::size_t shape = 0;
  constexpr DType types[] = {DType::f32, DType::f64, DType::f32,
                             DType::f16, DType::f32, DType::bf16};
  for (const std::string_view shapes : {edges, axes})
    for (NamedProblem named : parse_problems(shapes)) {
      named.problem.pool = Pool::none;
      const Direction by_turns =
          ++shape % 2 == 1 ? Direction::backward_data : Direction::backward_weights;
      for (const Direction direction : {Direction::backward_data, Direction::backward_weights}) {
        if (options.quick && direction != by_turns) continue;
        named.problem.direction = direction;
        const std::size_t at = ++turn;
        // Steps of two, so that both gradients meet every type, and every type all placements.
        add(named, types[at / 2 % std::size(types)],
            turns[(at / 2 + at / 2 / std::size(types)) % std::size(turns)]);
        // Each option goes round at a step of its own that no other divides.
        ValidationCase& test = cases.back();
        test.accumulate = at % 5 == 0;
        test.relu_mask = at % 7 < 3;
        test.bias = at % 11 < 5;
        const bool relu = direction == Direction::backward_data && at % 13 < 5;
        test.activation = relu ? Activation::relu : Activation::none;
      }
    }
  for (const NamedProblem& named : suite("four", 3)) {
    add(named, DType::f32, Placement::nchw);
    if (options.quick) continue;
    add(named, DType::f16, Placement::nchw);
    add(named, DType::bf16, Placement::nchw);
    add(named, DType::f32, Placement::nhwc);
  }
  // First layers as networks have them.
  for (NamedProblem named : suite("four", 2)) {
    named.problem.pool = Pool::max_2x2;
    named.problem.y_strides = {};
    named.name += ", pooled";
    add(named, DType::f32, Placement::nchw);
    cases.back().bias = true;
    cases.back().activation = Activation::relu;
  }
  if (!options.quick)
    for (const NamedProblem& named : suite("resnet50", 1)) {
      add(named, DType::f32, Placement::nchw);
      add(named, DType::f16, Placement::nhwc);
      add(named, DType::bf16, Placement::nhwc);
    }
  const RandomLimits limits{.max_products = options.quick ? 1e6 : 1e7,
                            .max_elements = std::int64_t{1} << 20};
  RandomCases random(options.seed, limits);
  const int count = options.quick ? 20 : 120;
  for (int i = 0; i < count; ++i) {
    cases.push_back(random.next());
    cases.back().name = fmt::format("random {} of seed {}", i, options.seed);
  }
  if (options.direction)
    std::erase_if(cases, [&](const ValidationCase& test) {
      return test.problem.direction != *options.direction;
    });
  return cases;
}

}  // namespace plumb
