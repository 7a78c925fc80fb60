// benchdnn's notation, read and written.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "plumb/plumb.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("problem text: every field is read") {
  const auto [name, p] = parse_problem("g32mb1ic32ih112oc32oh112kh3sh1ph1dh0n\"depthwise 3x3\"");
  REQUIRE(name == "depthwise 3x3");
  REQUIRE(p.groups == 32);
  REQUIRE(p.x_extents() == Extents{1, 32, 112, 112});
  REQUIRE(p.w_extents() == Extents{32, 1, 3, 3});
  REQUIRE(p.y_extents() == Extents{1, 32, 112, 112});
  REQUIRE(p.padding == Padding{1, 1, 1, 1});
}

TEST_CASE("problem text: fields that are left out have their defaults") {
  const ConvProblem p = parse_problem("ic3ih8oc4kh3").problem;
  REQUIRE(p.n == 2);
  REQUIRE(p.groups == 1);
  REQUIRE(p.y_extents() == Extents{2, 4, 6, 6});
  REQUIRE(p.padding == Padding{});
  // Padding follows from an output: (8 - 1) * 1 + 3 - 8 = 2, one on each side.
  REQUIRE(parse_problem("ic3ih8oc4oh8kh3").problem.padding == Padding{1, 1, 1, 1});
  // A width of its own: W 16 with the height's filter, stride and padding.
  const ConvProblem wide = parse_problem("ic1ih8iw16oc1kh3sh2ph1").problem;
  REQUIRE(wide.y_extents() == Extents{2, 1, 4, 8});
  // No height at all: 1-D.
  REQUIRE(parse_problem("mb1ic1iw10oc1kw3").problem.y_extents() == Extents{1, 1, 1, 8});
}

TEST_CASE("problem text: asymmetric padding follows from oh and ow") {
  const ConvProblem p = parse_problem("mb1ic1ih5iw5oc1oh5ow6kh2kw3ph0pw1").problem;
  REQUIRE(p.padding == Padding{0, 1, 1, 2});
  // Dilation 1 doubles the distance of taps: a filter of 3 reaches 5.
  const ConvProblem dilated = parse_problem("mb1ic1ih9oc1oh9kh3ph1dh1").problem;
  REQUIRE(dilated.dilation == Pair{2, 2});
  REQUIRE(dilated.padding == Padding{1, 1, 3, 3});
  // A width with an output of its own does not copy the height's padding, as in benchdnn.
  REQUIRE(parse_problem("mb1ic1ih5iw1oc1oh5ow1kh3kw1ph1").problem.padding == Padding{1, 0, 1, 0});
}

TEST_CASE("problem text: what is written is read back as the same problem") {
  for (const char* text :
       {"g2mb3ic4ih9iw8oc6oh5ow4kh3kw2sh2sw3ph1pw2dh1dw2", "g1mb0ic1ih1iw1oc1oh1ow1kh1kw1ph0pw0",
        "g1mb2ic3ih7iw5oc2oh7ow9kh3kw1ph0pw2",
        "g1mb1ic1ih1073741824iw1oc1oh3221225472ow1kh1kw1ph1073741824pw0",
        "g1mb2ic3ih8iw7oc4oh6ow5kh3kw3ph0pw0_poolmax2x2",
        "g1mb2ic3ih8iw7oc4oh2ow2kh3kw3sh2sw2ph0pw0dh1dw1_poolmax2x2"}) {
    const ConvProblem problem = parse_problem(text).problem;
    REQUIRE(to_string(problem) == text);
    REQUIRE(parse_problem(to_string(problem)).problem == problem);
  }
}

TEST_CASE("problem text: pooling is a field of Plumb's own") {
  const auto [name, p] = parse_problem("mb1ic1poolmax2x2ih9oc4kh3n\"first\"");
  REQUIRE(name == "first");
  REQUIRE(p.pool == Pool::max_2x2);
  REQUIRE(p.y_extents() == Extents{1, 4, 3, 3});
  // oh is the convolution's, pooled or not.
  REQUIRE(parse_problem("ic1ih9oc4oh9kh3_poolmax2x2").problem.padding == Padding{1, 1, 1, 1});
}

TEST_CASE("problem text: a list may have comments and names, and errors say which line") {
  const auto problems = parse_problems(
      "# the first layer\n"
      "mb1ic1ih86oc4kh7n\"ece408_l1\"   # 7x7\r\n"
      "\n"
      "  ic4ih40oc16kh7nsecond");
  REQUIRE(problems.size() == 2);
  REQUIRE(problems[0].name == "ece408_l1");
  REQUIRE(problems[1].name == "second");
  REQUIRE_THROWS_MATCHES(parse_problems("ic1ih3oc1kh3\n\nic1ih3oc1kh4\n"), Error,
                         MessageMatches(ContainsSubstring("line 3")));
}

TEST_CASE("problem text: each mistake is refused with what is wrong") {
  const auto refused = [](const char* text, const char* words) {
    CAPTURE(text);
    REQUIRE_THROWS_MATCHES(parse_problem(text), Error, MessageMatches(ContainsSubstring(words)));
  };
  refused("", "ic is missing");
  refused("ic3", "oc is missing");
  refused("ic3oc4", "ih is missing");
  refused("ic3oc4ih8", "kh is missing");
  refused("ic3ih8oc4kh3xy7", "'xy' is no field");
  refused("ic3ih8oc4kh3ic3", "ic is given twice");
  refused("icih8", "no number after ic");
  refused("ic-3ih8oc4kh3", "ic is -3");
  refused("ic1oc1ih1kh1oh4294967295iw1kw1ow1", "takes a padding of 2147483647");
  refused("ic99999999999999999999ih8oc4kh3", "beyond 2^63");
  refused("ic3ih8oc4kh3sh0", "sh is 0");
  refused("ic3ih8oc4oh99kh3ph1sh40000000000", "sh is 40000000000");
  refused("ic3ih8oc4oh5kh3", "oh is 5; expected 6");
  refused("ic3id8ih8oc4kh3", "kd is missing");
  refused("ic3ih8oc4kh3n\"open", "quote");
  refused("ic3ih2oc4kh3", "does not fit");
  refused("g2ic3ih8oc4kh3", "C is 3");
  refused("ic3ih8oc4kh3_poolmax2x2_poolmax2x2", "poolmax2x2 is given twice");
  refused("ic3ih8oc4kh3_poolmax3x3", "'poolmax' is no field");
  refused("ic3ih8oc4kh7iw7_poolmax2x2", "Q is 1; pooling 2x2 needs at least 2");
}

TEST_CASE("problem text: a value given for the width alone leaves the height as it is") {
  const struct {
    const char* text;
    std::int64_t w, s, stride, left, dilation;
  } cases[] = {{"mb1ic1ih8iw9oc1kh3", 9, 3, 1, 0, 1}, {"mb1ic1ih8oc1kh3kw2", 8, 2, 1, 0, 1},
               {"mb1ic1ih8oc1kh3sw2", 8, 3, 2, 0, 1}, {"mb1ic1ih8oc1kh3pw1", 8, 3, 1, 1, 1},
               {"mb1ic1ih8oc1kh3dw1", 8, 3, 1, 0, 2}, {"mb1ic1ih8oc1kh3", 8, 3, 1, 0, 1}};
  for (const auto& one : cases) {
    INFO(one.text);
    const ConvProblem problem = parse_problem(one.text).problem;
    CHECK(problem.w == one.w);
    CHECK(problem.s == one.s);
    CHECK(problem.stride.w == one.stride);
    CHECK(problem.padding.left == one.left);
    CHECK(problem.dilation.w == one.dilation);
    CHECK(problem.h == 8);
    CHECK(problem.stride.h == 1);
  }
}

TEST_CASE("problem text: the direction is read, written and refused by its names") {
  CHECK(parse_problem("ic3ih8oc4kh3").problem.direction == Direction::forward);
  CHECK(parse_problem("ic3ih8oc4kh3_dirfwd").problem.direction == Direction::forward);
  for (const auto& [text, direction] :
       {std::pair{"g1mb2ic3ih8iw8oc4oh6ow6kh3kw3ph0pw0_dirbwd_d", Direction::backward_data},
        {"g1mb2ic3ih8iw8oc4oh4ow4kh3kw3sh2sw2ph1pw1_padclamp_dirbwd_w",
         Direction::backward_weights}}) {
    const auto [name, p] = parse_problem(std::string(text) + "n\"named\"");
    CHECK(name == "named");
    CHECK(p.direction == direction);
    CHECK(to_string(p) == text);
  }
  CHECK_THROWS_MATCHES(parse_problem("ic3ih8oc4kh3dirback"), Error,
                       MessageMatches(ContainsSubstring("expected fwd, bwd_d or bwd_w")));
  CHECK_THROWS_MATCHES(parse_problem("ic3ih8oc4kh3dirfwd_dirbwd_d"), Error,
                       MessageMatches(ContainsSubstring("dir is given twice")));
  CHECK_THROWS_MATCHES(parse_problem("ic3ih8oc4kh3_poolmax2x2_dirbwd_d"), Error,
                       MessageMatches(ContainsSubstring("pooling 2x2 in backward_data")));
}
