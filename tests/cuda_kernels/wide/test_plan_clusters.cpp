// Which tiles the wide kernel's plan gives to the blocks of clusters.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>

#include "cuda_kernels/wide/emulation/placing.hpp"
#include "cuda_kernels/wide/wide.hpp"
#include "plumb/problem_text.hpp"
#include "support/absent_device.hpp"

using namespace plumb;
using namespace plumb::cuda;
using plumb_test::hopper;

namespace {

WidePlan plan_of(const std::string& text, WideChoice choice = {}) {
  using plumb_test::emulation::Placing;
  using plumb_test::emulation::strides_of;
  ConvProblem problem = parse_problem(text).problem;
  problem.dtype = DType::f16;
  problem.x_strides = strides_of(problem.x_extents(), Placing::channels_last);
  problem.y_strides = strides_of(problem.y_extents(), Placing::channels_last);
  return WidePlan(check(problem), wide_class_fp16, hopper(), choice);
}

}  // namespace

TEST_CASE(
    "wide: clusters of two fill an H200, those of four and eight are as many as are certain") {
  CHECK(wide_clusters(132, 2) == 66);
  CHECK(wide_clusters(132, 4) == 29);  // of one H200 30
  CHECK(wide_clusters(132, 8) == 10);  // likewise 15
  CHECK(wide_clusters(114, 2) == 57);  // an H100 for PCIe
  CHECK(wide_clusters(1, 2) == 0);
  CHECK(wide_clusters(0, 2) == 0);
}

TEST_CASE("wide: tiles of clusters are those of the last wave, one for each cluster") {
  WideTiles tiles{.m_tiles = 196, .n_tiles = 1};
  CHECK(tiles.whole() == 196);
  tiles.cluster = 2, tiles.cluster_blocks = 132;
  CHECK(tiles.whole() == 132);
  CHECK(tiles.works() == 132 + 2 * 64);
  tiles.m_tiles = 199;  // one more than there are clusters for
  CHECK(tiles.whole() == 199);
  CHECK(tiles.works() == 199);
  tiles.cluster = 8, tiles.cluster_blocks = 80, tiles.m_tiles = 10;
  CHECK(tiles.whole() == 0);
  CHECK(tiles.works() == 80);
  tiles.m_tiles = 11;
  CHECK(tiles.works() == 11);
  // A cluster's blocks have works that follow each other, and each its split.
  for (const int of_cluster : {2, 4, 8})
    for (int number = 1; number < 400; ++number) {
      tiles.cluster = of_cluster;
      tiles.cluster_blocks = of_cluster * wide_clusters(132, of_cluster);
      tiles.m_tiles = number;
      CHECK(tiles.whole() % of_cluster * (tiles.works() - tiles.whole()) == 0);
      CHECK(tiles.works() - tiles.whole() <= tiles.cluster_blocks);
    }
}

TEST_CASE("wide: layers that do not fill their waves are shared out in clusters") {
  for (const char* text :
       {"mb64ic1536ih14oc384kh1ph0", "mb64ic256ih14oc256kh3ph1", "mb1ic128ih28oc128kh3ph1",
        "mb1ic1024ih14oc256kh1ph0", "mb1ic512ih7oc512kh3ph1"}) {
    CAPTURE(text);
    const WidePlan plan = plan_of(text), without = plan_of(text, {.cluster = 1});
    CHECK(plan.tiles.cluster > 1);
    CHECK(plan.tiles.splits == 1);
    CHECK(plan.tiles.sums_bytes(plan.filters) == 0);
    CHECK(plan.workspace.bytes <= without.workspace.bytes);
    CHECK(plan.tiles.whole() < plan.tiles.tiles());
    CHECK(without.tiles.cluster == 1);
    CHECK(plan.tiles.seconds < without.tiles.seconds);
  }
  // Those that fill them, and those of few steps, are not.
  for (const char* text : {"mb64ic256ih56oc256kh3ph1", "mb64ic2048ih7oc512kh1ph0",
                           "mb1ic64ih56oc64kh1ph0", "mb1ic64ih56oc256kh1ph0"}) {
    CAPTURE(text);
    CHECK(plan_of(text).tiles.cluster == 1);
  }
}

TEST_CASE("wide: clusters that are asked for are taken where their tiles fit") {
  for (const int blocks : {2, 4, 8}) {
    const WidePlan plan = plan_of("mb1ic64ih8oc64kh3ph1", {.cluster = blocks});
    CHECK(plan.tiles.cluster == blocks);
    CHECK(plan.tiles.splits == 1);
    CHECK(plan_of("mb1ic64ih8oc64kh1ph0", {.cluster = blocks}).tiles.cluster == 1);  // one step
  }
  CHECK(plan_of("mb1ic512ih7oc512kh3ph1", {.splits = 3}).tiles.cluster == 1);
  // Of many splits some go to workspace still.
  CHECK(plan_of("mb1ic512ih7oc512kh3ph1", {.cluster = 1}).tiles.splits > 8);
}
