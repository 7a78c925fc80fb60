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

ConvProblem problem_of(const std::string& text) {
  ConvProblem problem = parse_problem(text).problem;
  problem.dtype = DType::f16;
  problem.x_strides = channels_last(problem.x_extents());
  return check(problem);
}

Support asked(const std::string& text) {
  return supports_wide(problem_of(text), DType::f16, hopper());
}

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
    const Im2colMap map = wide_im2col(p);
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
  const Im2colMap map = wide_im2col(problem_of("mb3ic72ih9iw11oc64kh3ph1"));
  CHECK(map.axis[0].stride_bytes == 144);
  CHECK(map.axis[1].stride_bytes == 144 * 11);
  CHECK(map.image_stride_bytes == 144 * 11 * 9);
  CHECK(map.images == 3);
  ConvProblem one = problem_of("mb1ic72ih1iw11oc64kh1kw3ph0");
  one.x_strides = {7, 1, 5, 72};  // what leads to no second element may be any number
  REQUIRE(supports_wide(check(one), DType::f16, hopper()).sentence == "");
  const Im2colMap dense = wide_im2col(check(one));
  CHECK(dense.axes == 1);
  CHECK(dense.image_stride_bytes == 144 * 11);
}

TEST_CASE("wide: each filter's channels have a place of their own, sixteen bytes together") {
  const WideFilters filters(problem_of("mb1ic72ih8oc20kh3kw2ph1"));
  CHECK(filters.rows == 24);
  CHECK(filters.channel_blocks == 2);
  REQUIRE(filters.steps() == 12);
  REQUIRE(filters.bytes() == 12 * 24 * 128);
  std::set<std::int64_t> met;
  for (int step = 0; step < filters.steps(); ++step)
    for (int k = 0; k < filters.rows; ++k)
      for (int c = 0; c < wide_channels; ++c) {
        const std::int64_t at = filters.at(step, k, c);
        CHECK(at % 2 == 0);
        met.insert(at);
        if (c % 8 != 0) CHECK(at == filters.at(step, k, c - 1) + 2);
        // The rows of eight filters are an atom, whatever the swizzle.
        CHECK(at / swizzle_atom_bytes == (std::int64_t{step} * 24 + k) / 8);
      }
  CHECK(met.size() == filters.bytes() / 2);
  CHECK(*met.rbegin() == static_cast<std::int64_t>(filters.bytes()) - 2);
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
}

TEST_CASE(
    "wide: a problem's tiles cover it, and splits are for those that do not fill the device") {
  for (const char* text :
       {"mb64ic256ih56oc256kh3ph1", "mb1ic512ih7oc512kh3ph1", "mb64ic64ih56oc64kh1ph0",
        "mb1ic8ih3iw3oc8kh3ph0", "mb8ic2048ih7oc1000kh1ph0"}) {
    CAPTURE(text);
    const ConvProblem p = problem_of(text);
    const WideFilters filters(p);
    const WideTiles tiles = tile_wide(p, hopper());
    const WideShape& shape = wide_shapes[tiles.shape];
    CHECK(tiles.pixels == p.n * p.p() * p.q());
    CHECK(std::int64_t{tiles.m_groups} * shape.m * shape.cluster >= tiles.pixels);
    CHECK(std::int64_t{tiles.m_groups - 1} * shape.m * shape.cluster < tiles.pixels);
    CHECK(tiles.n_tiles * shape.n >= filters.rows);
    CHECK(tiles.splits <= filters.steps());
    CHECK(tiles.seconds > 0);
    CHECK((tiles.sums_bytes(filters) > 0) == (tiles.splits > 1));
  }
  CHECK(tile_wide(problem_of("mb64ic256ih56oc256kh3ph1"), hopper()).splits == 1);
  CHECK(tile_wide(problem_of("mb1ic512ih7oc512kh3ph1"), hopper()).splits > 1);
  const WideTiles chosen =
      tile_wide(problem_of("mb1ic512ih7oc512kh3ph1"), hopper(), {.shape = 3, .splits = 2});
  CHECK(chosen.shape == 3);
  CHECK(chosen.splits == 2);
}

TEST_CASE("wide: what is refused is named") {
  const struct {
    const char *text, *named;
  } refused[] = {
      {"g2mb1ic128ih8oc64kh3", "2 groups"},
      {"mb1ic64ih30oc8kh3ph1_poolmax2x2", "pools"},
      {"mb1ic64ih30oc8kh3ph1_padperiodic", "boundary"},
      {"mb1ic64ih64oc8kh3ph1sh9", "stride of 9"},
      {"mb1ic64ih8iw400oc8kh3kw290ph1pw145", "columns: first taps"},
      {"mb1ic64ih8iw600oc8kh3kw257ph1pw128", "256 behind the first"},
      {"mb1ic64id9ih40iw40oc8kd3kh33kw3pd1ph16pw1", "32 behind the first"},
  };
  for (const auto& [text, named] : refused) {
    CAPTURE(text);
    const Support met = asked(text);
    CHECK(met.reason == Reason::geometry);
    CHECK(met.sentence.find(named) != std::string::npos);
    CAPTURE(met.sentence);
  }
  ConvProblem planes = parse_problem("mb2ic64ih8oc64kh3ph1").problem;
  planes.dtype = DType::f16;
  CHECK(supports_wide(check(planes), DType::f16, hopper()).reason == Reason::layout);
  ConvProblem odd = problem_of("mb2ic64ih8oc64kh3ph1");
  odd.x_strides[3] = 65, odd.x_strides[2] = 65 * 8, odd.x_strides[0] = 65 * 64;
  CHECK(supports_wide(check(odd), DType::f16, hopper()).reason == Reason::layout);
  CHECK(supports_wide(problem_of("mb2ic64ih8oc64kh3ph1"), DType::bf16, hopper()).reason ==
        Reason::dtype);
  DeviceInfo ampere = hopper();
  ampere.compute_major = 8;
  CHECK(supports_wide(problem_of("mb2ic64ih8oc64kh3ph1"), DType::f16, ampere).reason ==
        Reason::device_limit);
}

TEST_CASE("wide: vectors of outputs want K, strides and an address of sixteen bytes") {
  alignas(16) static const std::uint16_t y[16] = {};
  ConvProblem problem = parse_problem("mb2ic64ih8oc64kh3ph1").problem;
  problem.dtype = DType::f16;
  CHECK_FALSE(takes_vectors(check(problem), y));
  problem.y_strides = channels_last(problem.y_extents());
  CHECK(takes_vectors(check(problem), y));
  CHECK_FALSE(takes_vectors(check(problem), y + 1));
  problem.k = 60;
  problem.y_strides = channels_last(problem.y_extents());
  CHECK_FALSE(takes_vectors(check(problem), y));
}
