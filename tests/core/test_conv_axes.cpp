// Problems with one to three axes, and what lies beyond their images: sizes, what makes no sense,
// what has no effect, and the notation.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

#include "plumb/plumb.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

ConvProblem deep() {
  ConvProblem problem;
  problem.n = 2, problem.c = 4, problem.d = 7, problem.h = 8, problem.w = 9;
  problem.k = 6, problem.t = 2, problem.r = 3, problem.s = 2;
  return problem;
}

template <class Change>
ConvProblem with(const Change& change) {
  ConvProblem problem = deep();
  change(problem);
  return problem;
}

void refused(const ConvProblem& problem, const std::string& value, const std::string& expected) {
  REQUIRE_THROWS_MATCHES(check(problem), Error,
                         MessageMatches(ContainsSubstring(value) && ContainsSubstring(expected)));
}

/// What a row a b c d shows from so many before it to as many behind it.
std::string shown(Boundary boundary, std::int64_t beyond, const std::string& row = "abcd") {
  std::string text;
  const auto extent = static_cast<std::int64_t>(row.size());
  for (std::int64_t i = -beyond; i < extent + beyond; ++i) {
    const std::int64_t at = boundary_index(boundary, i, extent);
    text += at < 0 ? '0' : row[static_cast<std::size_t>(at)];
  }
  return text;
}

}  // namespace

TEST_CASE("boundaries: what a row shows beyond its ends, by hand") {
  CHECK(shown(Boundary::zeros, 2) == "00abcd00");
  CHECK(shown(Boundary::periodic, 2) == "cdabcdab");
  CHECK(shown(Boundary::reflect, 2) == "cbabcdcb");
  CHECK(shown(Boundary::symmetric, 2) == "baabcddc");
  CHECK(shown(Boundary::clamp, 2) == "aaabcddd");
  // Wider than the image the pattern goes on as it began.
  CHECK(shown(Boundary::periodic, 5, "abc") == "bcabcabcabcab");
  CHECK(shown(Boundary::reflect, 5, "abc") == "babcbabcbabcb");
  CHECK(shown(Boundary::symmetric, 5, "abc") == "bccbaabccbaab");
  CHECK(shown(Boundary::clamp, 3, "ab") == "aaaabbbb");
  CHECK(shown(Boundary::reflect, 3, "ab") == "babababa");
  CHECK(shown(Boundary::periodic, 2, "a") == "aaaaa");
  CHECK(shown(Boundary::symmetric, 2, "a") == "aaaaa");
}

TEST_CASE("boundaries: names are read back, and nothing else is") {
  for (const Boundary boundary : {Boundary::zeros, Boundary::periodic, Boundary::reflect,
                                  Boundary::symmetric, Boundary::clamp})
    CHECK(parse_boundary(to_string(boundary)) == boundary);
  CHECK(to_string(Boundary::symmetric) == "symmetric");
  CHECK_FALSE(parse_boundary("mirror"));
  CHECK_FALSE(parse_boundary(""));
}

TEST_CASE("axes: what one, two, three, four and six numbers mean") {
  CHECK(Triple(2) == Triple(2, 2, 2));
  CHECK(Triple(2, 3) == Triple(1, 2, 3));
  CHECK(Padding(1) == Padding(1, 1, 1, 1, 1, 1));
  CHECK(Padding(1, 2) == Padding(0, 1, 2, 0, 1, 2));
  CHECK(Padding(3, 1, 2) == Padding(3, 1, 2, 3, 1, 2));
  CHECK(Padding(1, 2, 3, 4) == Padding(0, 1, 2, 0, 3, 4));
  const Padding six(1, 2, 3, 4, 5, 6);
  CHECK((six.front == 1 && six.top == 2 && six.left == 3));
  CHECK((six.back == 4 && six.bottom == 5 && six.right == 6));
  CHECK(Boundaries(Boundary::clamp) ==
        Boundaries(Boundary::clamp, Boundary::clamp, Boundary::clamp));
  CHECK(Boundaries(Boundary::clamp, Boundary::reflect) ==
        Boundaries(Boundary::zeros, Boundary::clamp, Boundary::reflect));
}

TEST_CASE("axes: sizes of a problem with a depth are those worked out by hand") {
  ConvProblem problem = deep();
  CHECK(problem.z() == 6);  // (7 - 2) / 1 + 1
  problem.stride = {3, 2, 1};
  problem.dilation = {4, 1, 2};  // the filter reaches 5 planes
  problem.padding = {1, 0, 0, 3, 0, 0};
  CHECK(problem.z() == 3);  // floor((7 + 1 + 3 - 5) / 3) + 1
  CHECK(problem.p() == 3);
  CHECK(problem.q() == 7);
  CHECK(problem.x_extents() == Extents{2, 4, 7, 8, 9});
  CHECK(problem.w_extents() == Extents{6, 4, 2, 3, 2});
  CHECK(problem.y_extents() == Extents{2, 6, 3, 3, 7});
  CHECK(problem.terms() == 4 * 2 * 3 * 2);
  CHECK(problem.flop() == 2.0 * 2 * 6 * 3 * 3 * 7 * 48);
  CHECK(problem.bytes() == 4.0 * (2 * 4 * 7 * 8 * 9 + 6 * 48 + 2 * 6 * 3 * 3 * 7));
  const ConvProblem checked = check(problem);
  CHECK(checked.x_strides == Strides{2016, 504, 72, 9, 1});
  CHECK(checked.y_strides == Strides{378, 63, 21, 7, 1});
  // One plane of the image or of the filter is a depth still; of both, none.
  CHECK(check(with([](auto& p) { p.t = 1; })).x_extents().rank() == 5);
  CHECK(check(with([](auto& p) { p.d = 1, p.padding.front = 1; })).y_extents() ==
        Extents{2, 6, 1, 6, 8});
  CHECK(check(with([](auto& p) { p.d = p.t = 1; })).x_extents() == Extents{2, 4, 8, 9});
}

TEST_CASE("axes: each wrong value along the depth is refused with what was expected") {
  refused(with([](auto& p) { p.d = 0; }), "D is 0", "at least 1");
  refused(with([](auto& p) { p.t = -3; }), "T is -3", "at least 1");
  refused(with([](auto& p) { p.stride.d = 0; }), "stride.d is 0", "at least 1");
  refused(with([](auto& p) { p.dilation.d = 0; }), "dilation.d is 0", "at least 1");
  refused(with([](auto& p) { p.padding.front = -1; }), "padding.front is -1", "at least 0");
  refused(with([](auto& p) { p.padding.back = -2; }), "padding.back is -2", "at least 0");
  refused(with([](auto& p) { p.t = 9; }), "9 planes", "7 padded planes");
  refused(with([](auto& p) { p.pool = Pool::max_2x2; }), "D is 7, T is 2", "expected none");
  refused(with([](auto& p) { p.x_strides = {1, 1, 1, 1}; }), "4 strides", "expected 5");
  refused(with([](auto& p) {
            p.y_strides = {288, 48, 0, 8, 1};
          }),
          "[288, 48, 0, 8, 1]", "overlaps");
}

TEST_CASE("boundaries: reflecting takes two, wherever a window sees it") {
  const auto along = [](Boundaries boundary, auto change) {
    ConvProblem problem = deep();
    problem.boundary = boundary;
    problem.padding = 1;
    change(problem);
    return problem;
  };
  using enum Boundary;
  refused(along({reflect, zeros, zeros}, [](auto& p) { p.d = 1; }), "D is 1, padded by 1 and 1",
          "at least 2");
  refused(along({zeros, reflect, zeros}, [](auto& p) { p.h = 1; }), "H is 1", "at least 2");
  refused(along({zeros, zeros, reflect}, [](auto& p) { p.w = 1; }), "W is 1", "at least 2");
  // Two are enough for any padding, and the others take one.
  CHECK(check(along(reflect, [](auto& p) { p.w = 2, p.padding.left = 9; })).q() == 11);
  for (const Boundary other : {zeros, periodic, symmetric, clamp})
    CHECK(check(along(other, [](auto& p) { p.d = p.h = p.w = 1; })).z() == 2);
}

TEST_CASE("axes: what has no effect is set to its default, and equal problems are equal") {
  ConvProblem flat = deep();
  flat.d = flat.t = 1;
  ConvProblem same = flat;
  same.stride.d = 3, same.dilation.d = 2, same.padding.front = 2, same.padding.back = 1;
  same.boundary.d = Boundary::periodic;
  CHECK(check(same) == check(flat));
  // No window reaches beyond an end: any boundary is one of zeros.
  const ConvProblem plain = deep();
  for (const Boundary boundary : {Boundary::periodic, Boundary::reflect, Boundary::clamp}) {
    same = plain;
    same.boundary = boundary;
    CHECK(check(same) == check(plain));
    // A row below that no window reaches is as good as none there; one that is reached is seen.
    same.stride.h = 2, same.padding.bottom = 1, same.h = 9;  // rows 6 to 8 at the last
    CHECK(check(same).boundary == Boundaries{});
    same.h = 8;
    CHECK(check(same).boundary == Boundaries(Boundary::zeros, boundary, Boundary::zeros));
  }
  // Strides of another rank are brought to the problem's.
  same = flat;
  same.x_strides = {288, 72, 999, 9, 1};
  CHECK(check(same).x_strides == Strides{288, 72, 9, 1});
  flat.h = flat.r = 1;
  flat.x_strides = {36, 9, 1};
  CHECK(check(flat).x_strides == Strides{36, 9, 9, 1});
}

TEST_CASE("problem text: a depth and its defaults") {
  const ConvProblem p = parse_problem("mb1ic2id5ih6iw7oc3kd3kh2kw1sd2sh1sw1pd1ph0pw0").problem;
  CHECK(p.x_extents() == Extents{1, 2, 5, 6, 7});
  CHECK(p.w_extents() == Extents{3, 2, 3, 2, 1});
  CHECK(p.y_extents() == Extents{1, 3, 3, 5, 7});
  CHECK(p.stride == Triple(2, 1, 1));
  CHECK(p.padding == Padding(1, 0, 0));
  // An inner axis that is left out is as the outer one.
  const ConvProblem cube = parse_problem("mb1ic1id8oc1kd3pd1").problem;
  CHECK(cube.x_extents() == Extents{1, 1, 8, 8, 8});
  CHECK(cube.padding == Padding(1));
  // Padding behind follows from od.
  CHECK(parse_problem("mb1ic1id5ih5iw5oc1od6oh5ow5kd2kh1kw1pd2ph0pw0").problem.padding ==
        Padding(2, 0, 0, 0, 0, 0));
  REQUIRE_THROWS_MATCHES(parse_problem("mb1ic1id1ih4iw4oc1kd1kh3kw3pd1ph0pw0"), Error,
                         MessageMatches(ContainsSubstring("padded by 1 and 1")));
}

TEST_CASE("problem text: boundaries, and that what is written is read back") {
  using enum Boundary;
  CHECK(parse_problem("ic1ih8oc1kh3ph1_padreflect").problem.boundary ==
        Boundaries(zeros, reflect, reflect));
  CHECK(parse_problem("ic1ih8oc1kh3ph1_padperiodic/clamp").problem.boundary ==
        Boundaries(periodic, clamp));
  CHECK(parse_problem("ic1id8oc1kd3pd1_padperiodic/clamp/zeros").problem.boundary ==
        Boundaries(periodic, clamp, zeros));
  for (const char* text :
       {"g1mb1ic2id5ih6iw7oc3od3oh5ow7kd3kh2kw1sd2sh1sw1pd1ph0pw0",
        "g2mb0ic2id1ih6iw7oc4od1oh6ow9kd3kh1kw1pd1ph0pw1dd0dh1dw0",
        "g1mb2ic1ih8iw8oc1oh8ow8kh3kw3ph1pw1_padsymmetric",
        "g1mb2ic1ih8iw8oc1oh8ow8kh3kw3ph1pw1_poolmax2x2_padclamp",
        "g1mb2ic1ih8iw8oc1oh8ow8kh3kw3ph1pw1_padzeros/reflect",
        "g1mb1ic1id4ih8iw8oc1od4oh8ow8kd3kh3kw3pd1ph1pw1_padperiodic/zeros/clamp"}) {
    CAPTURE(text);
    const ConvProblem problem = parse_problem(text).problem;
    const std::string written = to_string(problem);
    CHECK(parse_problem(written).problem == problem);
    CHECK(to_string(parse_problem(written).problem) == written);
  }
  CHECK(to_string(parse_problem("mb2ic1ih8oc1kh3ph1_padsymmetric").problem) ==
        "g1mb2ic1ih8iw8oc1oh8ow8kh3kw3ph1pw1_padsymmetric");
  const auto wrong = [](const char* text, const char* words) {
    CAPTURE(text);
    REQUIRE_THROWS_MATCHES(parse_problem(text), Error, MessageMatches(ContainsSubstring(words)));
  };
  wrong("ic1ih8oc1kh3ph1_padreflect_padclamp", "pad is given twice");
  wrong("ic1ih8oc1kh3ph1_padmirror", "mirror");
  wrong("ic1ih1iw8oc1kh3kw3ph1pw1_padreflect", "H is 1");
}
