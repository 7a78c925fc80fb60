// How the wide kernel cuts a convolution: what the copy engine is told, where packed filters lie,
// which steps a split has, and which tiles are chosen.
#include <algorithm>
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

Strides channels_last(const Extents& extents) {
  Strides strides = extents;
  std::int64_t step = (extents[1] + 7) / 8 * 8;
  strides[1] = 1;
  for (int i = extents.rank() - 1; i >= 2; --i) strides[i] = step, step *= extents[i];
  strides[0] = step;
  return strides;
}

ConvProblem problem_of(const std::string& text, const WideClass& of = wide_class_fp16) {
  ConvProblem problem = parse_problem(text).problem;
  problem.dtype = of.stored;
  problem.x_strides = channels_last(problem.x_extents());
  return check(problem);
}

Support asked(const std::string& text) {
  return supports_wide(problem_of(text), wide_class_fp16, hopper());
}

WideFilters filters_of(const std::string& text, const WideClass& of = wide_class_fp16) {
  return WideFilters(problem_of(text, of), of);
}

WidePlan plan_of(const std::string& text, WideChoice choice = {},
                 const WideClass& of = wide_class_fp16) {
  return WidePlan(problem_of(text, of), of, hopper(), choice);
}

Im2colMap map_of(const ConvProblem& p) {
  return wide_im2col(p, WideFilters(p, wide_class_fp16), nullptr);
}

constexpr WideClass classes[] = {wide_class_fp16, wide_class_bf16, wide_class_tf32,
                                 wide_class_fp16x3, wide_class_tf32x3};

/// The places that a copy visits along one axis of its box.
std::vector<std::int64_t> places(const Im2colAxis& axis) {
  std::vector<std::int64_t> all;
  for (std::int64_t at = axis.lower; at <= axis.extent - 1 + axis.upper; at += axis.step)
    all.push_back(at);
  return all;
}

}  // namespace

TEST_CASE("wide: a copy's pixels are those of the outputs, one after the other") {
  for (const char* text :
       {"mb2ic64ih9iw11oc64kh3ph1", "mb3ic16ih12iw9oc8kh3ph1sh2", "mb2ic72ih17iw15oc8kh3ph2dh1",
        "mb1ic64ih40iw33oc64kh7ph3sh8", "mb2ic64iw90oc8kw5pw2", "mb2ic8iw300oc8kw7pw3sw2dw2",
        "mb2ic8id6ih7iw8oc8kd3kh3kw3pd1ph1pw1", "mb1ic16id7ih9iw8oc8kd3kh2kw3pd1ph0pw2sd2sh2sw1",
        "mb1ic8ih3iw3oc8kh3ph0", "mb1ic512ih7oc512kh1ph0"}) {
    CAPTURE(text);
    const ConvProblem p = problem_of(text);
    REQUIRE(asked(text).sentence == "");
    const Im2colMap map = map_of(p);
    CHECK(map.axes == (p.has_depth() ? 3 : p.h == 1 && p.r == 1 ? 1 : 2));
    const std::int64_t outputs[] = {p.q(), p.p(), p.z()},
                       strides[] = {p.stride.w, p.stride.h, p.stride.d},
                       before[] = {p.padding.left, p.padding.top, p.padding.front},
                       extents[] = {p.w, p.h, p.d};
    for (int axis = 0; axis < map.axes; ++axis) {
      const std::vector<std::int64_t> visited = places(map.axis[axis]);
      CHECK(map.axis[axis].extent == extents[axis]);
      REQUIRE(visited.size() == static_cast<std::size_t>(outputs[axis]));
      for (std::int64_t i = 0; i < outputs[axis]; ++i)
        CHECK(visited[static_cast<std::size_t>(i)] == i * strides[axis] - before[axis]);
    }
  }
}

TEST_CASE("wide: strides of the tensor map are bytes of x, and of a dense tensor along one pixel") {
  const Im2colMap map = map_of(problem_of("mb3ic72ih9iw11oc64kh3ph1"));
  CHECK(map.axis[0].stride_bytes == 144);
  CHECK(map.axis[1].stride_bytes == 144 * 11);
  CHECK(map.image_stride_bytes == 144 * 11 * 9);
  CHECK(map.images == 3);
  ConvProblem one = problem_of("mb1ic72ih1iw11oc64kh1kw3ph0");
  one.x_strides = {7, 1, 5, 72};  // what leads to no second element may be any number
  REQUIRE(lies_for_copies(check(one), WideFilters(one, wide_class_fp16)));
  const Im2colMap dense = map_of(check(one));
  CHECK(dense.axes == 1);
  CHECK(dense.image_stride_bytes == 144 * 11);
}

TEST_CASE("wide: each filter's channels have a place of their own, sixteen bytes together") {
  for (const WideClass& of : {wide_class_fp16, wide_class_tf32}) {
    const WideFilters filters = filters_of("mb1ic72ih8oc20kh3kw2ph1", of);
    const int element = of.operand_bytes();
    CHECK(filters.rows == 24);
    CHECK(filters.channel_blocks == (element == 2 ? 2 : 3));
    REQUIRE(filters.steps() == 6 * filters.channel_blocks);
    REQUIRE(filters.bytes() == static_cast<std::size_t>(filters.steps()) * 24 * 128);
    std::set<std::int64_t> met;
    for (int step = 0; step < filters.steps(); ++step)
      for (int k = 0; k < filters.rows; ++k)
        for (int c = 0; c < of.step_channels(); ++c) {
          const std::int64_t at = filters.at(step, k, c);
          CHECK(at % element == 0);
          met.insert(at);
          if (c % of.unit() != 0) CHECK(at == filters.at(step, k, c - 1) + element);
          // The rows of eight filters are an atom, whatever the swizzle.
          CHECK(at / swizzle_atom_bytes == (std::int64_t{step} * 24 + k) / 8);
        }
    CHECK(met.size() == filters.bytes() / static_cast<std::size_t>(element));
    CHECK(*met.rbegin() == static_cast<std::int64_t>(filters.bytes()) - element);
  }
}

TEST_CASE("wide: split filters are two planes, the filters as they were, and exponents") {
  const WideFilters one = filters_of("mb1ic72ih8oc20kh3kw2ph1");
  const WideFilters split = filters_of("mb1ic72ih8oc20kh3kw2ph1", wide_class_fp16x3);
  CHECK(split.plane_bytes() == one.plane_bytes());
  CHECK(split.dense_at() == 2 * one.plane_bytes());
  CHECK(split.scales_at() == split.dense_at() + 4 * 20 * 72 * 6);
  CHECK(split.bytes() == static_cast<std::size_t>(split.scales_at()) + 4 * 20);
}

TEST_CASE("wide: groups of few channels are joined, and no step is added for it") {
  const struct {
    const char* text;
    WideClass of;
    int joined;
  } cases[] = {
      {"g1mb1ic64ih8oc64kh3ph1", wide_class_fp16, 1},
      {"g32mb1ic128ih8oc128kh3ph1", wide_class_fp16, 16},   // 64 channels, 64 filters
      {"g32mb1ic256ih8oc256kh3ph1", wide_class_fp16, 8},    // the same
      {"g32mb1ic1024ih8oc1024kh3ph1", wide_class_fp16, 2},  // the same
      {"g2mb1ic256ih8oc256kh3ph1", wide_class_fp16, 1},     // 128 channels each
      {"g32mb1ic1024ih8oc4096kh3ph1", wide_class_tf32, 1},  // 32 channels are a step of TF32
      {"g32mb1ic128ih8oc128kh3ph1", wide_class_fp16x3, 16},
      {"g7mb1ic35ih8oc14kh3ph1", wide_class_fp16, 7},
      {"g96mb1ic96ih8oc96kh3ph1", wide_class_fp16, 48},  // depthwise
  };
  for (const auto& [text, of, joined] : cases) {
    CAPTURE(text);
    const ConvProblem p = problem_of(text, of);
    const WideGroups groups(p, of);
    CHECK(groups.joined() == joined);
    CHECK(groups.count * joined == p.groups);
    CHECK(groups.channels == joined * p.c / p.groups);
    CHECK(groups.filters == joined * p.k / p.groups);
  }
}

TEST_CASE("wide: x is read as it lies where its channels do, and otherwise repacked") {
  const auto repacks = [](const char* text, const WideClass& of, const Strides& strides = {}) {
    ConvProblem p = problem_of(text, of);
    if (!strides.empty()) p.x_strides = strides;
    return WidePlan(check(p), of, hopper()).input.repacks;
  };
  const char* const plain = "mb2ic64ih8iw6oc64kh3ph1";
  for (const WideClass& of : {wide_class_fp16, wide_class_bf16, wide_class_tf32, wide_class_tf32x3})
    CHECK_FALSE(repacks(plain, of));
  CHECK(repacks(plain, wide_class_fp16x3));
  for (const WideClass& of : classes) {
    CHECK(repacks(plain, of, {64 * 48, 48, 6, 1}));        // planes
    CHECK(repacks(plain, of, {64 * 48, 1, 64 * 6, -64}));  // mirrored
    CHECK(repacks(plain, of, {64 * 48, 1, 0, 64}));        // broadcast
    CHECK(repacks(plain, of, {65 * 48, 1, 65 * 6, 65}));   // rows of odd length
  }
  CHECK(repacks("g2mb2ic264ih8iw6oc64kh3ph1", wide_class_fp16, {264 * 48, 1, 264 * 6, 264}));
  CHECK_FALSE(repacks("g2mb2ic264ih8iw6oc64kh3ph1", wide_class_tf32, {264 * 48, 1, 264 * 6, 264}));
}

TEST_CASE("wide: planes are repacked in the longest vectors that channels and images begin at") {
  const auto vector = [](const char* text, const WideClass& of, const Strides& strides = {}) {
    ConvProblem p = problem_of(text, of);
    p.x_strides = strides.empty() ? dense_strides(p.x_extents()) : strides;
    return WidePlan(check(p), of, hopper()).input.plane_vector;
  };
  CHECK(vector("mb2ic64ih8iw8oc64kh3ph1", wide_class_fp16) == 16);
  CHECK(vector("mb2ic64ih14oc64kh3ph1", wide_class_bf16) == 8);
  CHECK(vector("mb2ic64ih6iw5oc64kh3ph1", wide_class_fp16) == 4);
  CHECK(vector("mb2ic64ih7oc64kh3ph1", wide_class_fp16) == 0);  // of one pixel of two bytes
  CHECK(vector("mb2ic64ih14oc64kh3ph1", wide_class_tf32) == 16);
  CHECK(vector("mb2ic64ih7oc64kh3ph1", wide_class_tf32x3) == 4);
  CHECK(vector("mb2ic64ih8oc64kh3ph1", wide_class_fp16x3) == 0);    // scaled
  CHECK(vector("g2mb2ic64ih8oc64kh3ph1", wide_class_fp16) == 0);    // groups may be joined
  CHECK(vector("mb2ic64ih20oc64kh1ph0sh9", wide_class_fp16) == 0);  // taps become channels
  const char* const plain = "mb2ic64ih8iw6oc64kh3ph1";
  CHECK(vector(plain, wide_class_fp16, {64 * 50, 50, 6, 1}) == 4);    // gaps between planes
  CHECK(vector(plain, wide_class_fp16, {64 * 64, 64, 8, 1}) == 0);    // and between rows
  CHECK(vector(plain, wide_class_fp16, {64 * 48, -48, 6, 1}) == 16);  // mirrored channels
  CHECK(vector(plain, wide_class_fp16, {64 * 48, 1, 64 * 6, -64}) == 0);
  CHECK(vector(plain, wide_class_fp16, {64 * 8, 8, 1, 0}) == 0);  // each pixel of a row is the same
}

TEST_CASE("wide: repacked channels are filled up to 16 bytes, groups apart, halves in two planes") {
  const WidePlan odd = plan_of("g2mb3ic270ih8iw6oc64kh3ph1");
  CHECK(odd.input.group_channels == 136);
  CHECK(odd.input.plane_channels() == 272);
  CHECK(odd.input.pixel_bytes() == 544);
  const WidePlan split = plan_of("g2mb3ic270ih8iw6oc64kh3ph1", {}, wide_class_fp16x3);
  CHECK(split.input.pixel_bytes() == 1088);
  CHECK(split.input.images == 3);
  CHECK(split.input.image_bytes() == 1088 * 48);
  const Im2colMap map = wide_im2col(problem_of("g2mb3ic270ih8iw6oc64kh3ph1", wide_class_fp16x3),
                                    split.filters, &split.input);
  CHECK(map.channels_of_tensor == 544);
  CHECK(map.axis[0].stride_bytes == 1088);
  CHECK(map.axis[1].stride_bytes == 1088 * 6);
  CHECK(map.image_stride_bytes == 1088 * 48);
  const WidePlan tf32 = plan_of("mb3ic13ih8iw6oc64kh3ph1", {.folded_axes = 0}, wide_class_tf32);
  CHECK(tf32.input.group_channels == 16);
  CHECK(tf32.input.element_bytes == 4);
}

TEST_CASE("wide: parts of workspace lie one behind the other, aligned, room for few images") {
  for (const WideClass& of : classes) {
    const WidePlan plan = plan_of("mb1ic512ih7oc512kh3ph1", {.shape = 3, .splits = 4}, of);
    const auto input = static_cast<std::size_t>(plan.input.images * plan.input.image_bytes());
    const WideWorkspace& at = plan.workspace;
    CHECK(at.magnitudes >= input);
    CHECK(at.scales >= at.magnitudes + (of.scales() ? 4u * plan.input.parts : 0));
    CHECK(at.sums >= at.scales + (of.scales() ? 4 : 0));
    CHECK(at.bytes >= at.sums + std::size_t{4} * 4 * 49 * 512);
    for (const std::size_t part : {at.magnitudes, at.scales, at.sums}) CHECK(part % 256 == 0);
  }
  // An x that lies well has room for some images, in case that its address is not aligned.
  const WidePlan large = plan_of("mb64ic256ih56oc256kh3ph1");
  CHECK_FALSE(large.input.repacks);
  CHECK(large.input.images >= 1);
  CHECK(large.workspace.bytes <= 17 << 20);
}

TEST_CASE("wide: three products have three times the steps, TF32 twice, and both cost as much") {
  const char* const text = "mb64ic256ih56oc256kh3ph1";
  const double one = plan_of(text).tiles.seconds;
  const double tf32 = plan_of(text, {}, wide_class_tf32).tiles.seconds;
  const double three = plan_of(text, {}, wide_class_fp16x3).tiles.seconds;
  CHECK(tf32 > 1.8 * one);
  CHECK(tf32 < 2.2 * one);
  CHECK(three > 2.8 * one);
  CHECK(three < 4.5 * one);  // x is repacked besides
  // Of 32 groups of 4 channels a sixteenth of the products is not with zeros.
  const double grouped = plan_of("g32mb64ic128ih56oc128kh3ph1").tiles.seconds;
  CHECK(grouped > 0.3 * plan_of("mb64ic128ih56oc128kh3ph1").tiles.seconds);
}

TEST_CASE("wide: eight rows' sixteen bytes of the same channels lie in different banks") {
  for (int unit = 0; unit < 8; ++unit) {
    std::set<int> banks;
    for (int row = 0; row < 8; ++row)
      banks.insert(swizzle_128(row * swizzle_row_bytes + 16 * unit) % swizzle_row_bytes);
    CHECK(banks.size() == 8);
  }
}

TEST_CASE("wide: splits share the steps out, none of them empty") {
  for (const int steps : {1, 5, 16, 72, 1000})
    for (int splits = 1; splits <= std::min(steps, 16); ++splits) {
      CHECK(first_step(0, splits, steps) == 0);
      CHECK(first_step(splits, splits, steps) == steps);
      for (int split = 0; split < splits; ++split) {
        const int of = first_step(split + 1, splits, steps) - first_step(split, splits, steps);
        CHECK(of >= steps / splits);
        CHECK(of <= steps / splits + 1);
      }
    }
}

TEST_CASE("wide: tiles fit a block's shared memory, with stages enough") {
  for (const WideShape& shape : wide_shapes) {
    CAPTURE(shape.m, shape.n);
    CHECK(shape.stages() >= 4);
    CHECK(shape.shared_bytes() <= 227 << 10);
    CHECK(shape.m % shape.pixels_of_copy() == 0);
    CHECK(shape.warpgroup_rows() % 64 == 0);
    CHECK(shape.warpgroup_columns() % 64 == 0);
    // A thread's sums, in registers.
    CHECK(shape.warpgroup_rows() * shape.warpgroup_columns() / 128 <= 128);
  }
  int with_halves = 0;
  for (int i = 0; i < wide_shape_count; ++i) {
    if (!has_wide_shape(wide_class_tf32x3, false, i)) continue;
    ++with_halves;
    const WideShape shape = wide_shape(wide_class_tf32x3, i);
    CHECK(shape.stage_bytes() == (shape.m + 2 * shape.n) * 128);
    CHECK(shape.stages() >= 4);
    CHECK(shape.shared_bytes() <= 227 << 10);
  }
  CHECK(with_halves == 3);
}

TEST_CASE(
    "wide: a problem's tiles cover it, and splits are for those that do not fill the device") {
  for (const char* text :
       {"mb64ic256ih56oc256kh3ph1", "mb1ic512ih7oc512kh3ph1", "mb64ic64ih56oc64kh1ph0",
        "mb1ic8ih3iw3oc8kh3ph0", "mb8ic2048ih7oc1000kh1ph0"}) {
    CAPTURE(text);
    const ConvProblem p = problem_of(text);
    const WidePlan plan = plan_of(text);
    const WideFilters& filters = plan.filters;
    const WideTiles& tiles = plan.tiles;
    const WideShape& shape = wide_shapes[tiles.shape];
    CHECK(tiles.pixels == p.n * p.p() * p.q());
    CHECK(std::int64_t{tiles.m_tiles} * shape.m >= tiles.pixels);
    CHECK(std::int64_t{tiles.m_tiles - 1} * shape.m < tiles.pixels);
    CHECK(tiles.n_tiles * shape.n >= filters.rows);
    CHECK(tiles.splits <= filters.steps());
    CHECK(tiles.seconds > 0);
    CHECK((tiles.sums_bytes(filters) > 0) == (tiles.splits > 1));
  }
  CHECK(plan_of("mb64ic256ih56oc256kh3ph1").tiles.splits == 1);
  CHECK(plan_of("mb1ic512ih7oc512kh3ph1").tiles.splits > 1);
  const WideTiles chosen = plan_of("mb1ic512ih7oc512kh3ph1", {.shape = 3, .splits = 2}).tiles;
  CHECK(chosen.shape == 3);
  CHECK(chosen.splits == 2);
}

TEST_CASE("wide: what is refused is named") {
  // Taps that the copy engine does not reach are folded, but for images that grow too large.
  const struct {
    const char *text, *named;
  } refused[] = {
      {"mb1ic64ih30oc8kh3ph1_poolmax2x2", "pools"},
      {"mb1ic64ih30oc8kh3ph1_padperiodic", "boundary"},
      {"mb1ic640ih4000iw4000oc8kh9kw1ph1sh9sw9", "stride of 9"},
      {"mb1ic64ih4000iw400oc8kh3kw290ph1pw145", "columns: first taps"},
      {"mb1ic64ih4000iw600oc8kh3kw257ph1pw128", "256 behind the first"},
      {"mb1ic640id9ih140iw340oc8kd3kh33kw3pd1ph16pw1", "32 behind the first"},
  };
  for (const auto& [text, named] : refused) {
    CAPTURE(text);
    const Support met = asked(text);
    CHECK(met.reason == Reason::geometry);
    CHECK(met.sentence.find(named) != std::string::npos);
    CAPTURE(met.sentence);
  }
  for (const char* text : {"mb70000ic1ih200oc1kh1ph0", "mb1ic64ih65536iw65536oc8kh1ph0"})
    CHECK(asked(text).reason == Reason::too_large);
  CHECK(supports_wide(problem_of("mb2ic64ih8oc64kh3ph1"), wide_class_bf16, hopper()).reason ==
        Reason::dtype);
  CHECK(supports_wide(problem_of("mb2ic64ih8oc64kh3ph1"), wide_class_tf32, hopper()).reason ==
        Reason::dtype);
  DeviceInfo ampere = hopper();
  ampere.compute_major = 8;
  CHECK(supports_wide(problem_of("mb2ic64ih8oc64kh3ph1"), wide_class_fp16, ampere).reason ==
        Reason::device_limit);
}
