// Which planes of x the wide kernel reads as they lie, and where it makes halves in registers.
#include <catch2/catch_test_macros.hpp>
#include <set>

#include "cuda_kernels/cost/wide.hpp"
#include "cuda_kernels/wide/wide.hpp"
#include "plumb/problem_text.hpp"
#include "support/absent_device.hpp"

using namespace plumb;
using namespace plumb::cuda;
using plumb_test::hopper;

TEST_CASE("wide: planes of x under one tap are operands as they lie, where the copy engine can") {
  const auto across = [](const char* text, const WideClass& of = wide_class_fp16,
                         std::int64_t plane = 0, int asked = 1) {
    ConvProblem problem = parse_problem(text).problem;
    problem.dtype = of.stored;
    if (plane > 0) {
      problem.x_strides = dense_strides(problem.x_extents());
      problem.x_strides[1] = plane, problem.x_strides[0] = plane * problem.c;
    }
    return WidePlan(check(problem), of, hopper(), {.across = asked});
  };
  const WidePlan plan = across("mb3ic256ih28oc128kh1ph0");
  REQUIRE(plan.across);
  const WideShape& shape = wide_shapes[plan.across->shape];
  // Tiles are one image's, and none is split.
  CHECK(plan.across->m_tiles == 3 * ((784 + shape.m - 1) / shape.m));
  CHECK(plan.across->pixels == std::int64_t{plan.across->m_tiles} * shape.m);
  CHECK(plan.across->splits == 1);
  CHECK(across("mb3ic256ih28oc128kh1ph0", wide_class_bf16).across);
  CHECK(across("mb2ic40iw136oc8kw1").across);
  CHECK(across("mb2ic40id2ih3iw4oc8kd1kh1kw1").across);
  // An x that is not aligned has room for some images, not for all.
  CHECK(across("mb64ic256ih56oc64kh1ph0").workspace.bytes < (std::size_t{17} << 20));
  // Planes of 196 elements do not begin at 16 bytes, but with a gap behind each.
  CHECK_FALSE(across("mb3ic64ih14oc64kh1ph0").across);
  CHECK(across("mb3ic64ih14oc64kh1ph0", wide_class_fp16, 200).across);
  // With a stride along two rows y has one, and x another.
  for (const char* text : {"mb3ic64ih16oc64kh3ph1", "mb3ic64ih16oc64kh1ph0sh2",
                           "mb1ic15ih2iw80oc16oh1ow80kh1kw1sh2sw1ph0pw0",
                           "g2mb3ic128ih16oc64kh1ph0", "mb3ic64ih16oc64kh1ph1"}) {
    CAPTURE(text);
    CHECK_FALSE(across(text).across);
  }
  CHECK_FALSE(across("mb3ic64ih16oc64kh1ph0", wide_class_fp16x3).across);
  // Where each pixel of a row is the same, the next row's first one is no neighbour of the last.
  ConvProblem same = parse_problem("mb3ic64ih16oc64kh1ph0").problem;
  same.dtype = DType::f16, same.x_strides = {64 * 16, 16, 1, 0};
  CHECK_FALSE(WidePlan(check(same), wide_class_fp16, hopper(), {.across = 1}).across);
  // Of f32 four are 16 bytes.
  for (const WideClass& of : {wide_class_tf32, wide_class_tf32x3}) {
    CHECK(across("mb3ic64ih14oc64kh1ph0", of).across);
    CHECK_FALSE(across("mb3ic64ih7oc64kh1ph0", of).across);
    CHECK(across("mb3ic64ih7oc64kh1ph0", of, 52).across);
  }
  CHECK_FALSE(across("mb3ic64ih16oc64kh1ph0", wide_class_fp16, 0, 0).across);
  // The model takes them where a pass over x would cost more.
  for (const char* text : {"mb64ic256ih56oc128kh1ph0", "mb64ic64ih56oc256kh1ph0",
                           "mb64ic96ih56oc384kh1ph0", "mb64ic256ih56oc64kh1ph0"}) {
    CAPTURE(text);
    for (const WideClass& of : {wide_class_fp16, wide_class_tf32, wide_class_tf32x3}) {
      const WidePlan by_model = across(text, of, 0, -1);
      REQUIRE(by_model.across);
      // They were compared without what they take besides.
      const double besides =
          of.operand_bytes() == 2
              ? wide_across_seconds(hopper(), static_cast<double>(by_model.across->works()))
              : 0;
      CHECK(by_model.across->seconds - besides < by_model.tiles.seconds);
      CHECK(has_wide_shape(of, true, by_model.across->shape));
    }
  }
}

TEST_CASE("wide: halves are made in registers where memory bounds a layer, in memory where not") {
  const auto seconds = [](const char* text, const WideClass& of, bool planes) {
    ConvProblem problem = parse_problem(text).problem;
    problem.dtype = DType::f32;
    const std::int64_t row = problem.w * problem.c;
    if (!planes) problem.x_strides = {problem.h * row, 1, row, problem.c};
    const WidePlan plan(check(problem), of, hopper());
    CHECK(has_wide_shape(of, false, plan.tiles.shape));
    return plan.across ? plan.across->seconds : plan.tiles.seconds;
  };
  for (const bool planes : {true, false}) {
    for (const char* text : {"mb64ic256ih56oc64kh1ph0", "mb64ic64ih56oc64kh1ph0",
                             "mb64ic256ih56oc128kh1ph0", "mb64ic64ih56oc256kh1ph0"}) {
      CAPTURE(text, planes);
      CHECK(seconds(text, wide_class_tf32x3, planes) < seconds(text, wide_class_fp16x3, planes));
    }
    for (const char* text : {"mb64ic256ih56oc256kh3ph1", "mb64ic512ih7oc512kh3ph1"}) {
      CAPTURE(text, planes);
      CHECK(seconds(text, wide_class_tf32x3, planes) > seconds(text, wide_class_fp16x3, planes));
    }
  }
}

TEST_CASE("wide: channels that registers split have an order in which no bank is met twice") {
  std::set<int> channels;
  for (int place = 0; place < 32; ++place) channels.insert(wide_split_channel(place));
  CHECK(channels.size() == 32);
  CHECK(*channels.rbegin() == 31);
  // Rows are pixels: half a warp reads two slices' neighbouring channels of four rows.
  for (int place = 0; place < 32; place += place % 8 == 4 ? 12 : 4)
    for (int half = 0; half < 2; ++half) {
      std::set<int> met;
      for (int lane = 16 * half; lane < 16 * half + 16; ++lane) {
        const int channel = wide_split_channel(place + lane % 4);
        const int next = wide_split_channel(place + 8 + lane % 4);
        CHECK(next == channel + 1);
        CHECK(channel % 2 == 0);
        met.insert(swizzle_128(lane / 4 * swizzle_row_bytes + 4 * channel) % swizzle_row_bytes / 8);
      }
      CHECK(met.size() == 16);
    }
  // Rows are channels under 32 pixels: a warp reads eight pixels of four rows.
  for (int place = 0; place < 32; place += 4)
    for (int pixel = 0; pixel < 32; pixel += 8) {
      std::set<int> met;
      for (int lane = 0; lane < 32; ++lane) {
        const int row = wide_split_channel(place + lane % 4);
        met.insert(swizzle_128(row * swizzle_row_bytes + 4 * (pixel + lane / 4)) %
                   swizzle_row_bytes / 4);
      }
      CHECK(met.size() == 32);
    }
}
