// How the Toeplitz kernel cuts a convolution: parts of the filter, tiles and shared memory.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "cuda_kernels/toeplitz/toeplitz.hpp"
#include "plumb/problem_text.hpp"
#include "support/absent_device.hpp"

using namespace plumb;
using namespace plumb::cuda;
using plumb_test::ampere;
using plumb_test::hopper;

namespace {

ToeplitzPlan planned(const std::string& text, int products = 3) {
  const ConvProblem problem = parse_problem(text).problem;
  REQUIRE(supports_toeplitz(problem, hopper()).sentence == "");
  const auto plan = plan_toeplitz(field_problem(problem), hopper(), products);
  REQUIRE(plan);
  return *plan;
}

std::string refusal(const std::string& text, const DeviceInfo& device = hopper()) {
  return supports_toeplitz(parse_problem(text).problem, device).sentence;
}

}  // namespace

TEST_CASE("toeplitz: parts cover the filter, and tiles fit shared memory") {
  for (const char* text :
       {"mb1ic1ih64oc1kh9ph4", "mb3ic2ih70iw90oc4kh31ph15", "mb1ic1ih300oc1kh64ph32",
        "mb1ic1ih300oc1kh200ph100", "mb1ic1iw5000oc1kw129pw64", "mb1ic1iw9000oc1kw3000pw1500",
        "mb1ic3id20oc2kd15pd7", "mb1ic1id9ih8iw7oc1kd1kh3kw5pd0ph1pw2",
        "mb1ic1id40ih9iw70oc1kd9kh1kw5pd4ph0pw2"}) {
    CAPTURE(text);
    for (const int products : {1, 3}) {
      const ToeplitzPlan plan = planned(text, products);
      const ToeplitzFilters& filters = plan.filters;
      const bool planes = filters.mode == ToeplitzMode::planes;
      CHECK(filters.rows * filters.row_parts >= plan.view.v.taps);
      CHECK(filters.columns * filters.column_parts >= plan.view.w.taps);
      CHECK(filters.planes == plan.view.c * (planes ? filters.pairs : plan.view.u.taps));
      CHECK(plan.shared_bytes() <= 227 << 10);
      CHECK(plan.tiles.lines <= toeplitz_max_lines);
      CHECK(plan.tiles.line <= toeplitz_max_line);
      CHECK(plan.tiles.stages >= 2);
      // Whatever the lines' alignment, the tile's last column meets its last tap inside a line.
      const bool line = filters.mode == ToeplitzMode::line;
      CHECK(plan.tiles.line >= (line ? 512 : 64) + filters.columns - 1);
      const int lines = line     ? toeplitz_groups
                        : planes ? 2 * (toeplitz_plane_rows + filters.rows - 1)
                                 : 8 * toeplitz_groups + filters.rows - 1;
      CHECK(plan.tiles.lines >= lines);
      if (planes) CHECK(2 * filters.pairs >= plan.view.u.taps + 7);
    }
  }
}

TEST_CASE("toeplitz: filters with taps along all axes go plane by plane, and small ones stay") {
  const ToeplitzPlan nine = planned("mb1ic1id256oc1kd9pd4");
  CHECK(nine.filters.mode == ToeplitzMode::planes);
  CHECK(nine.tiles.keeps_filters);
  CHECK(nine.tiles.stages >= 3);
  // Those that planted faults are looked for with (test_toeplitz_faults.cpp).
  for (const char* text : {"mb1ic1id40ih70iw200oc1kd7kh7kw7pd3ph3pw3padreflect",
                           "mb2ic4id8ih5iw7oc2kd3kh5kw3pd1ph2pw1padclamp"})
    CHECK(planned(text).filters.mode == ToeplitzMode::planes);
  // What does not fit is loaded pass by pass, nine rows of core matrices each.
  const ToeplitzPlan fifteen = planned("mb1ic1id192oc1kd15pd7");
  CHECK(fifteen.filters.mode == ToeplitzMode::planes);
  CHECK_FALSE(fifteen.tiles.keeps_filters);
  CHECK(fifteen.filter_stage_bytes() == 9 * fifteen.filters.row_bytes(3));
  CHECK(fifteen.matrix_bytes() > fifteen.filter_stage_bytes());
}

TEST_CASE("toeplitz: what lies beside the rows of volumes takes a little longer than zeros") {
  const double zeros = planned("mb1ic1id384oc1kd7pd3").tiles.seconds;
  for (const char* boundary : {"periodic", "reflect", "symmetric", "clamp"}) {
    CAPTURE(boundary);
    const double other = planned("mb1ic1id384oc1kd7pd3pad" + std::string(boundary)).tiles.seconds;
    CHECK(zeros < other);
    CHECK(other < 1.25 * zeros);
  }
}

TEST_CASE("toeplitz: the layout of filters does not depend on the batch") {
  const ToeplitzPlan one = planned("mb1ic2ih70oc3kh13ph6"),
                     many = planned("mb500ic2ih70oc3kh13ph6");
  CHECK(one.packed_bytes() == many.packed_bytes());
  CHECK(one.filters.row_parts == many.filters.row_parts);
  CHECK(one.filters.column_parts == many.filters.column_parts);
  CHECK(many.tile_count() == 500 * one.tile_count());
}

TEST_CASE("toeplitz: a row of taps is a line, rows and planes of taps are rows") {
  CHECK(planned("mb1ic1iw999oc1kw65pw32").filters.mode == ToeplitzMode::line);
  CHECK(planned("mb1ic1ih99iw999oc1kh1kw65ph0pw32").filters.mode == ToeplitzMode::line);
  CHECK(planned("mb1ic1ih99oc1kh9ph4").filters.mode == ToeplitzMode::rows);
  // Taps along the depth and the width are those of rows.
  const ToeplitzPlan deep = planned("mb1ic1id40ih9iw70oc1kd9kh1kw5pd4ph0pw2");
  CHECK(deep.filters.mode == ToeplitzMode::rows);
  CHECK(deep.view.v.taps == 9);
}

TEST_CASE("toeplitz: what it does not take is said") {
  CHECK(refusal("mb1ic1ih64oc1kh9ph4", ampere()).find("sm_90a") != std::string::npos);
  CHECK(refusal("mb1ic1ih64oc1kh9ph4sh2").find("strides") != std::string::npos);
  CHECK(refusal("g2mb1ic2ih64oc2kh9ph4").find("2 groups") != std::string::npos);
  CHECK(refusal("mb1ic17ih64oc1kh9ph4").find("17 channels") != std::string::npos);
  ConvProblem half = parse_problem("mb1ic1ih64oc1kh9ph4").problem;
  half.dtype = DType::f16;
  CHECK(supports_toeplitz(half, hopper()).reason == Reason::dtype);
}
