// The planner of grouped/: what is taken, how it is cut and filters are packed.
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>
#include <utility>

#include "cuda_kernels/grouped/grouped.hpp"
#include "cuda_kernels/wide/emulation/placing.hpp"
#include "plumb/problem_text.hpp"
#include "support/absent_device.hpp"

using namespace plumb;
using namespace plumb::cuda;
using namespace plumb_test;
using namespace plumb_test::emulation;

namespace {

ConvProblem problem_of(const std::string& text, Placing placing = Placing::channels_last) {
  ConvProblem problem = parse_problem(text).problem;
  problem.dtype = DType::f16;
  problem.x_strides = strides_of(problem.x_extents(), placing);
  problem.y_strides = strides_of(problem.y_extents(), placing);
  return check(problem);
}

Reason refusal_of(const std::string& text) {
  return supports_grouped(problem_of(text), DType::f16, hopper()).reason;
}

}  // namespace

TEST_CASE("grouped: fragments of filters see the units of their own groups") {
  const auto filters = [](const char* text) { return GroupedFilters(problem_of(text)); };
  // A unit is two groups of four, or one of eight: a fragment of eight filters sees it alone.
  CHECK(filters("mb1g32ic128ih7oc128kh3ph1").shape == grouped_shapes[0]);
  CHECK(filters("mb1g32ic128ih7oc128kh3ph1").units == 1);
  CHECK(filters("mb1g32ic256ih7oc256kh3ph1").shape == grouped_shapes[0]);
  // Pairs of columns, of which the last one's second is zeros; where none are paired, pairs of
  // taps.
  CHECK(filters("mb1g32ic256ih7oc256kh3ph1").steps() == 6);
  CHECK(filters("mb1g32ic256ih7oc256kh3ph1sh2").steps() == 5);
  // Two or four fragments of a group see two or four units.
  CHECK(filters("mb1g32ic512ih7oc512kh3ph1").shape == grouped_shapes[1]);
  CHECK(filters("mb1g32ic512ih7oc512kh3ph1").steps() == 9);
  CHECK(filters("mb1g32ic1024ih7oc1024kh3ph1").shape == grouped_shapes[2]);
  CHECK(filters("mb1g32ic1024ih7oc1024kh3ph1").steps() == 18);
  // The last bundle sees no unit beyond the last.
  const GroupedFilters odd = filters("mb1g5ic65ih7oc35kh3ph1");
  for (int bundle = 0; bundle < odd.bundles(); ++bundle)
    CHECK(odd.first_unit(bundle) + odd.units <= odd.all_units);
}

TEST_CASE("grouped: packed filters have a place for each filter, channel and tap") {
  for (const char* text :
       {"mb1g32ic128ih7oc128kh3ph1", "mb1g5ic65ih7oc35kh3ph1", "mb1g4ic64ih7oc64kh3ph1",
        "mb1g2ic64ih7oc64kh1kw2", "mb1g8ic64ih7oc64kh3ph1sh2", "mb1g6ic144ih7oc48kh3kw4ph1"}) {
    const GroupedFilters filters(problem_of(text));
    std::set<std::int64_t> places;
    int count = 0;
    for (int filter = 0; filter < filters.k; ++filter)
      for (int c = 0; c < filters.group_c; ++c)
        for (int row = 0; row < filters.rows; ++row)
          for (int column = 0; column < filters.columns; ++column, ++count)
            places.insert(
                filters.place(filter, filter / filters.group_k * filters.group_c + c, row, column));
    CAPTURE(text);
    CHECK(static_cast<int>(places.size()) == count);
    CHECK(*places.begin() >= 0);
    CHECK(2 * *places.rbegin() < filters.bytes());
  }
}

TEST_CASE("grouped: cuts fit shared memory and cover the outputs") {
  for (const DeviceInfo& device : {hopper(), ampere()})
    for (const Placing placing : {Placing::channels_last, Placing::planes})
      for (const char* text : {"mb64g32ic128ih56oc128kh3ph1", "mb64g32ic256ih56oc256kh3ph1sh2",
                               "mb64g32ic1024ih7oc1024kh3ph1", "mb1g32ic512ih14oc512kh3ph1",
                               "mb2g2ic128ih300oc128kh5ph2", "mb1g4ic16iw100000oc16kw9pw4",
                               "mb40g2ic4ih3oc4kh3ph1sh2"}) {
        CAPTURE(device.compute_major, static_cast<int>(placing), text);
        const ConvProblem problem = problem_of(text, placing);
        const auto plan = plan_grouped(problem, device);
        REQUIRE(plan);
        const GroupedCut& cut = plan->cut;
        CHECK(plan->shared_bytes() <= device.shared_memory_bytes);
        CHECK(cut.parts * cut.strips >= plan->filters.strips);
        CHECK(cut.tiles_n * cut.images >= problem.n);
        CHECK(cut.tiles_p * cut.rows >= problem.p());
        CHECK(cut.tiles_q * cut.columns >= problem.q());
        CHECK(cut.blocks <= cut.tiles());
        // Eight neighbouring outputs of a row read units of all banks.
        CHECK(cut.pixel_units % 2 == 1);
        CHECK((cut.row_units - cut.columns * cut.pixel_units) % 8 == 0);
        CHECK(cut.seconds > 0);
      }
}

TEST_CASE("grouped: layers whose bytes take long are cut to keep all multiprocessors busy") {
  for (const char* text : {"mb64g32ic512ih14oc512kh3ph1", "mb64g32ic1024ih7oc1024kh3ph1",
                           "mb8g32ic256ih28oc256kh3ph1"}) {
    const auto plan = plan_grouped(problem_of(text), hopper());
    REQUIRE(plan);
    CAPTURE(text);
    CHECK(plan->cut.parts * plan->cut.blocks >= 100);
  }
}

TEST_CASE("grouped: of planes tiles have whole rows, of channels whole lines or nearly") {
  // Of 28 columns runs are of 4: with bands they do not go on across rows.
  for (const auto& [text, run] :
       {std::pair{"mb64g32ic128ih56oc128kh3ph1", 8}, std::pair{"mb64g32ic256ih28oc256kh3ph1", 4}}) {
    CAPTURE(text);
    const auto of_planes = plan_grouped(problem_of(text, Placing::planes), hopper());
    REQUIRE(of_planes);
    CHECK(of_planes->cut.tiles_q == 1);
    CHECK(of_planes->cut.y_run == run);
    const auto of_channels = plan_grouped(problem_of(text), hopper());
    REQUIRE(of_channels);
    CHECK(of_channels->cut.units >= 4);
  }
}

TEST_CASE("grouped: what is refused, and why") {
  CHECK(refusal_of("mb1g4ic64ih7oc64kh3ph1") == Reason::none);
  CHECK(refusal_of("mb1ic64ih7oc64kh3ph1") == Reason::geometry);
  CHECK(refusal_of("mb1g2ic130ih7oc64kh3ph1") == Reason::geometry);
  CHECK(refusal_of("mb1g2ic64ih7oc130kh3ph1") == Reason::geometry);
  CHECK(refusal_of("mb1g2ic4ih2000oc4kh2000kw1") == Reason::device_limit);
  CHECK(supports_grouped(problem_of("mb1g4ic64ih7oc64kh3ph1"), DType::bf16, hopper()).reason ==
        Reason::dtype);
  CHECK_FALSE(plan_grouped(problem_of("mb1g2ic128ih60oc128kh41ph20"), hopper()));
}
