// Which taps of a filter become channels of the wide kernel's product, and how they are numbered.
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>
#include <vector>

#include "cuda_kernels/wide/wide.hpp"
#include "plumb/problem_text.hpp"
#include "support/absent_device.hpp"

using namespace plumb;
using namespace plumb::cuda;
using plumb_test::hopper;

namespace {

constexpr WideClass classes[] = {wide_class_fp16, wide_class_bf16, wide_class_tf32,
                                 wide_class_fp16x3, wide_class_tf32x3};

ConvProblem problem_of(const std::string& text, const WideClass& of = wide_class_fp16) {
  ConvProblem problem = parse_problem(text).problem;
  problem.dtype = of.stored;
  return check(problem);
}

}  // namespace

TEST_CASE(
    "wide: few channels' taps are folded to channels, whatever N, and many channels' are not") {
  const struct {
    const char* text;
    std::int64_t channels, pixels;
    int taps;
  } folded[] = {
      {"mb64ic3ih224oc768kh16sh16ph0", 768, 196, 1},
      {"mb1ic3ih224oc768kh16sh16ph0", 768, 196, 1},
      {"mb8ic3ih224oc1280kh14sh14ph0", 588, 256, 1},
      {"mb64ic3ih224oc96kh4sh4ph0", 48, 3136, 1},
      // Under one plane's taps 768 channels fill their steps, and nothing is gained by both's.
      {"mb8ic3id16ih224iw224oc768kd2kh16kw16sd2sh16sw16pd0ph0pw0", 768, 16 * 196, 2},
      {"mb2ic64ih64oc8kh3ph1sh9", 576, 64, 1},
      {"mb4ic64ih8iw400oc8kh3kw290ph1pw145", 64 * 290, 8 * 401, 3},  // beyond the copy engine
  };
  for (const auto& [text, channels, pixels, taps] : folded)
    for (const WideClass& of : classes)
      for (const std::int64_t images : {1, 3, 200}) {
        CAPTURE(text, images);
        ConvProblem p = problem_of(text, of);
        p.n = images;
        const WidePlan plan(check(p), of, hopper());
        CHECK(plan.input.repacks);
        CHECK(plan.filters.groups.channels == channels);
        CHECK(plan.filters.all_taps() == taps);
        CHECK(plan.filters.terms() == p.terms());
        CHECK(plan.input.pixels == pixels);
        CHECK(supports_wide(p, of, hopper()).sentence == "");
      }
  // Without fewer steps nothing is gained.
  for (const char* text :
       {"mb64ic64ih56oc64kh3ph1", "mb8ic256ih14oc256kh3ph1sh2", "mb8ic3ih9oc8kh1ph0"})
    for (const WideClass& of : classes)
      CHECK(choose_folded_axes(problem_of(text, of), of, hopper()) == 0);
}

TEST_CASE("wide: a channel of the product is one of x under a tap of the folded axes") {
  const ConvProblem p = problem_of("g2mb1ic6id5ih9iw8oc4kd2kh3kw4pd0ph1pw1");
  for (int axes = 0; axes < 8; ++axes) {
    const WideFold fold(p, axes);
    const ConvProblem product = wide_product(p, fold);
    CHECK(product.z() == p.z());
    CHECK(product.p() == p.p());
    CHECK(product.q() == p.q());
    CHECK(product.terms() == p.terms());
    std::set<std::vector<int>> met;
    for (int c = 0; c < product.c / p.groups; ++c) {
      const WideTerm term = fold.term(c);
      CHECK(term.channel < 3);
      for (int i = 0; i < 3; ++i) CHECK(term.tap[i] < fold.taps[i]);
      met.insert({term.channel, term.tap[0], term.tap[1], term.tap[2]});
    }
    CHECK(static_cast<std::int64_t>(met.size()) == product.c / p.groups);
  }
}
