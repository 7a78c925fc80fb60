// How problems are cut for the pointwise kernel, how filters are packed, and which problems it
// takes.
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuda_kernels/pointwise/classes.hpp"
#include "support/absent_device.hpp"

using namespace plumb;
using namespace plumb::cuda;
using namespace plumb_test;
using namespace plumb_test::emulation;

namespace {

constexpr const auto& classes = pointwise_classes;

ConvProblem problem_of(const std::string& text, const PointwiseClass& of = pointwise_class_fp16,
                       Placing placing = Placing::channels_last) {
  return pointwise_problem(text, of, placing);
}

Reason refusal_of(const std::string& text, const PointwiseClass& of = pointwise_class_fp16) {
  return supports_pointwise(problem_of(text, of), of, hopper()).reason;
}

}  // namespace

TEST_CASE("pointwise: packed filters have a place for each filter and channel") {
  for (const PointwiseClass& of : classes)
    for (const int n8_tiles : pointwise_n8_tiles) {
      std::set<std::pair<int, int>> places;
      constexpr int chunks = 2, units = 2;
      for (int chunk = 0; chunk < chunks; ++chunk)
        for (int unit = 0; unit < units; ++unit)
          for (int tile = 0; tile < n8_tiles; ++tile)
            for (int lane = 0; lane < 32; ++lane) {
              const PointwisePlace place(of.vector(), n8_tiles, chunk, unit, tile, lane);
              CHECK(place.filter / (8 * n8_tiles) == chunk);
              CHECK(place.channel / of.unit() == unit);
              places.insert({place.filter, place.channel});
            }
      const int filters = chunks * 8 * n8_tiles, vectors = units * 4;
      CHECK(static_cast<int>(places.size()) == filters * vectors);
    }
}

TEST_CASE("pointwise: filters that a lane stores together lie side by side") {
  for (const PointwiseClass& of : classes)
    for (const int n8_tiles : pointwise_n8_tiles) {
      const int beside = PointwisePlace::together(of.vector(), n8_tiles);
      CHECK(2 * beside * of.bytes() <= pointwise_vector_bytes);
      for (int t = 0; t < 4; ++t)
        for (int tile = 0; tile < n8_tiles; ++tile) {
          const int filter = PointwisePlace::first_filter(of.vector(), n8_tiles, 3, tile, t);
          const int first =
              PointwisePlace::first_filter(of.vector(), n8_tiles, 3, tile / beside * beside, t);
          CHECK(filter == first + 2 * (tile % beside));
          CHECK(first % (2 * beside) == 0);
        }
    }
}

TEST_CASE("pointwise: pixels that follow each other are one axis") {
  const auto axes = [](const char* text, Placing x, Placing y) {
    ConvProblem problem = parse_problem(text).problem;
    problem.x_strides = strides_of(problem.x_extents(), x);
    problem.y_strides = strides_of(problem.y_extents(), y);
    return PointwisePixels(check(problem)).axes;
  };
  constexpr Placing last = Placing::channels_last, planes = Placing::planes;
  CHECK(axes("mb4ic8ih6oc16kh1", last, last) == 1);
  CHECK(axes("mb4ic8ih6oc16kh1", planes, planes) == 2);
  CHECK(axes("mb4ic8ih6oc16kh1", last, planes) == 2);
  CHECK(axes("mb4ic8ih1oc16kh1", planes, planes) == 1);
  CHECK(axes("mb4ic8id3ih6oc16kd1kh1", planes, planes) == 2);
  CHECK(axes("mb4ic8ih7oc16kh1sh2", last, last) == 3);
}

TEST_CASE("pointwise: how x is read and y is written") {
  using enum PointwiseInput;
  const auto input = [](const char* text, const PointwiseClass& of, Placing placing,
                        std::uintptr_t address = 0) {
    return pointwise_input(problem_of(text, of, placing), of,
                           reinterpret_cast<const void*>(address));
  };
  const PointwiseClass half = pointwise_class_fp16, full = pointwise_class_tf32;
  constexpr Placing last = Placing::channels_last, planes_ = Placing::planes;
  CHECK(input("mb2ic64ih7oc64kh1", half, last) == rows);
  CHECK(input("mb2ic64ih7oc64kh1", half, last, 8) == elements);
  CHECK(input("mb2ic20ih7oc64kh1", half, last) == elements);
  CHECK(input("mb2ic20ih7oc64kh1", full, last) == rows);
  CHECK(input("mb2ic64ih8oc64kh1", half, planes_) == planes);
  CHECK(input("mb2ic64ih14oc64kh1", half, planes_) == half_planes);
  CHECK(input("mb2ic64ih8oc64kh1", half, planes_, 8) == half_planes);
  CHECK(input("mb2ic64ih14oc64kh1", full, planes_) == planes);
  CHECK(input("mb2ic64ih7oc64kh1", full, planes_) == elements);
  CHECK(input("mb2ic64ih8oc64kh1", half, Placing::mirrored) == elements);
  const auto output = [](const char* text, const PointwiseClass& of, Placing placing) {
    const ConvProblem problem = problem_of(text, of, placing);
    return pointwise_output(problem, PointwiseFilters(problem, of, hopper()), nullptr);
  };
  CHECK(output("mb2ic64ih7oc64kh1", half, last) == PointwiseOutput::filters);
  CHECK(output("mb2ic64ih7oc2kh1", half, last) == PointwiseOutput::filters);
  CHECK(output("mb2ic64ih7oc36kh1", half, last) == PointwiseOutput::elements);
  CHECK(output("mb2ic64ih7oc36kh1", full, last) == PointwiseOutput::filters);
  CHECK(output("mb2ic64ih8oc64kh1", half, planes_) == PointwiseOutput::pixels);
  CHECK(output("mb2ic64ih14oc64kh1", half, planes_) == PointwiseOutput::half_pixels);
  CHECK(output("mb2ic64ih7oc64kh1", half, planes_) == PointwiseOutput::elements);
}

TEST_CASE("pointwise: cuts cover all filters and fit the device") {
  for (const DeviceInfo& device : {hopper(), ampere()})
    for (const PointwiseClass& of : classes)
      for (const char* text : {"mb8ic64ih512oc2kh1", "mb64ic32ih112oc16kh1", "mb64ic96ih56oc384kh1",
                               "mb64ic256ih56oc128kh1", "mb64ic320ih7oc1280kh1", "mb1ic1ih1oc1kh1",
                               "mb64ic1024ih7oc256kh1"}) {
        CAPTURE(text, to_string(of.stored), of.products);
        const ConvProblem p = problem_of(text, of);
        REQUIRE(supports_pointwise(p, of, device));
        const PointwisePlan plan(p, of, device);
        CHECK(plan.filters.chunks * plan.filters.filters_of_chunk() >= p.k);
        CHECK(plan.filters.units * of.unit() >= p.c);
        CHECK(plan.filters.units % of.batch_units() == 0);
        CHECK(plan.cut.groups * plan.cut.group_chunks >= plan.filters.chunks);
        CHECK((plan.cut.groups - 1) * plan.cut.group_chunks < plan.filters.chunks);
        CHECK(plan.warps() % plan.cut.warps_n == 0);
        CHECK(plan.cut.blocks >= 1);
        CHECK(plan.shared_bytes() <= device.shared_memory_bytes);
        CHECK(plan.seconds > 0);
        CHECK(plan.images >= p.n);
      }
  // A warp has all filters of few, and pixels of its own where that keeps most loads under way.
  const auto cut = [](const char* text) {
    return PointwisePlan(problem_of(text), pointwise_class_fp16, hopper()).cut;
  };
  CHECK(cut("mb8ic64ih512oc2kh1").warps_n == 1);
  CHECK(cut("mb64ic64ih56oc64kh1").groups == 1);
  CHECK(cut("mb64ic256ih56oc128kh1").warps_n == 4);
  // It holds few channels through many filters, where vectors of x are there.
  CHECK(cut("mb64ic64ih56oc256kh1").holds);
  CHECK_FALSE(cut("mb64ic96ih56oc256kh1").holds);
  CHECK_FALSE(cut("mb64ic64ih56oc32kh1").holds);
  CHECK_FALSE(cut("mb64ic63ih56oc256kh1").holds);
}

TEST_CASE("pointwise: neither support nor the layout of packed filters depends on N") {
  for (const PointwiseClass& of : classes)
    for (const Placing placing : {Placing::channels_last, Placing::planes})
      for (const char* text :
           {"ic96ih7oc200kh1", "ic1ih1oc1kh1", "ic2ih1oc9kh1", "ic33ih56oc8kh1", "ic7ih9oc33kh1sh2",
            "ic64ih112oc2kh1", "ic1900ih3oc40kh1", "ic20000ih3oc40kh1",
            "ic8id5ih4iw4oc16kd1kh1kw1sd2sh2sw2", "ic8id5ih4iw4oc16kd1kh1kw1sd2sh1sw1",
            "ic6id4ih4iw8oc1kd1kh1kw1sd2sh1sw2"}) {
        const auto with = [&](int n) {
          return problem_of("mb" + std::to_string(n) + text, of, placing);
        };
        const ConvProblem one = with(1);
        const bool is_taken{supports_pointwise(one, of, hopper())};
        for (const int n : {0, 2, 4, 64, 3000}) {
          CAPTURE(to_string(of.stored), of.products, static_cast<int>(placing), text, n);
          const ConvProblem many = with(n);
          CHECK(bool{supports_pointwise(many, of, hopper())} == is_taken);
          if (!is_taken) continue;
          const PointwiseFilters here = PointwisePlan(one, of, hopper()).filters,
                                 there = PointwisePlan(many, of, hopper()).filters;
          CHECK(there.bytes() == here.bytes());
          CHECK(there.n8_tiles == here.n8_tiles);
          CHECK(there.units == here.units);
        }
      }
}

TEST_CASE("pointwise: batches that 32 bits do not index are cut in slices") {
  ConvProblem p = problem_of("mb9ic64ih1024oc64kh1", pointwise_class_fp16, Placing::planes);
  p.n = 100;
  CHECK(PointwisePlan(p, pointwise_class_fp16, hopper()).images == 31);
  p.x_strides[0] *= 40;
  CHECK(PointwisePlan(p, pointwise_class_fp16, hopper()).images == 1);
  p.x_strides[1] *= 40;
  CHECK(supports_pointwise(p, pointwise_class_fp16, hopper()).reason == Reason::too_large);
}

TEST_CASE("pointwise: what it does not take") {
  CHECK(refusal_of("mb1ic64ih9oc64kh1") == Reason::none);
  CHECK(refusal_of("mb1ic64ih9oc64kh1sh2") == Reason::none);
  CHECK(refusal_of("mb1ic64ih9oc64kh3ph1") == Reason::geometry);
  CHECK(refusal_of("mb1ic64ih9oc64kh1ph1") == Reason::geometry);
  CHECK(refusal_of("g2mb1ic64ih9oc64kh1") == Reason::geometry);
  CHECK(refusal_of("mb1ic20000ih9oc64kh1") == Reason::device_limit);
  // Four axes, of which one image would have three.
  for (const char* images : {"mb1", "mb2"})
    CHECK(refusal_of(images + std::string("ic8id5ih4iw4oc16kd1kh1kw1sd2sh2sw2")) ==
          Reason::geometry);
  const ConvProblem p = problem_of("mb1ic64ih9oc64kh1");
  CHECK(supports_pointwise(p, pointwise_class_tf32, hopper()).reason == Reason::dtype);
  DeviceInfo turing = hopper();
  turing.compute_major = 7;
  CHECK(supports_pointwise(p, pointwise_class_fp16, turing).reason == Reason::device_limit);
  CHECK(supports_pointwise(p, pointwise_class_fp16, ampere()));
}
