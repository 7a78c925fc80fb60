// The problems that every algorithm is held against.
#include <fmt/format.h>

#include <algorithm>

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

Strides strides_of(Placement placement, const Extents& extents) {
  switch (placement) {
    case Placement::nchw: return dense_strides(extents);
    case Placement::nhwc: return strides_for(Layout::nhwc, extents);
    case Placement::strided:
    case Placement::views: break;
  }
  // Two elements between rows, five between channels, three between images.
  const std::int64_t row = extents[3] + 2, channel = row * extents[2] + 5;
  return {channel * extents[1] + 3, channel, row, 1};
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
  return cases;
}

}  // namespace plumb
