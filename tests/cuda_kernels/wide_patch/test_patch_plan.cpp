// How problems are cut for the patch kernel, and which it takes.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "cuda_kernels/wide/emulation/placing.hpp"
#include "cuda_kernels/wide/wide.hpp"
#include "cuda_kernels/wide_patch/wide_patch.hpp"
#include "cuda_kernels/wide_patch/wide_patch_phases.hpp"
#include "plumb/problem_text.hpp"
#include "support/absent_device.hpp"

using namespace plumb;
using namespace plumb::cuda;
using namespace plumb_test;
using namespace plumb_test::emulation;

namespace {

ConvProblem problem_of(const char* text, const WideClass& of = wide_class_fp16,
                       Placing placing = Placing::channels_last) {
  ConvProblem problem = parse_problem(text).problem;
  problem.dtype = of.stored;
  problem.x_strides = strides_of(problem.x_extents(), placing);
  problem.y_strides = strides_of(problem.y_extents(), placing);
  return check(problem);
}

PatchTiles tiles_of(const char* text, const WideClass& of = wide_class_fp16) {
  return PatchPlan(problem_of(text, of), of, hopper()).tiles;
}

Reason refusal_of(const char* text) {
  return supports_wide_patch(problem_of(text), wide_class_fp16, hopper()).reason;
}

}  // namespace

TEST_CASE("patch: tiles of well-known layers") {
  const PatchTiles of_56 = tiles_of("mb64ic64ih56oc64kh3ph1");
  CHECK(of_56.tile == PatchTile{.rows = 4, .columns = 56, .pitch = 57, .lines = 6, .behind = 1});
  CHECK(of_56.keeps_filters);
  const PatchTiles of_14 = tiles_of("mb64ic256ih14oc256kh3ph1");
  CHECK(of_14.tile == PatchTile{.rows = 14, .columns = 14, .pitch = 15, .lines = 16, .behind = 1});
  CHECK_FALSE(of_14.keeps_filters);
  CHECK(of_14.works() == 64 * 4);
  // Lines of zeros lie between an image and the next.
  const PatchTiles of_7 = tiles_of("mb64ic512ih7oc512kh3ph1");
  CHECK(of_7.tile ==
        PatchTile{.images = 4, .rows = 7, .columns = 7, .pitch = 8, .lines = 8, .behind = 9});
}

TEST_CASE("patch: tiles cover y, and fit the copy engine and shared memory") {
  for (const WideClass& of : {wide_class_fp16, wide_class_bf16, wide_class_tf32})
    for (const char* text :
         {"mb64ic64ih56oc64kh3ph1", "mb1ic64ih224oc64kh3ph1", "mb3ic3ih5iw1000oc8kh3ph1",
          "mb2ic64ih33oc64kh3ph6dh5", "mb1ic8ih300iw400oc8kh1kw200ph0pw0",
          "mb1ic8ih300iw40oc8kh100kw1ph0pw0", "mb9ic64ih3oc64kh3ph1", "mb1ic8iw2000oc8kw3pw1",
          "mb2ic64id9ih9iw9oc64kd3kh3kw3pd1ph1pw1", "mb2ic16ih6iw10oc16kh2kw4ph2pw4",
          "g2mb2ic64ih30oc64kh5ph2", "mb4ic64ih19oc64kh3ph0", "mb64ic128ih56oc128kh3ph1sh2",
          "mb2ic64ih57oc64kh5ph2sh3", "mb1ic64iw15999oc64kw3pw0sw2", "mb9ic64ih13oc64kh3ph1sh2"}) {
      CAPTURE(text);
      const ConvProblem p = problem_of(text, of);
      REQUIRE(supports_wide_patch(p, of, hopper()));
      const PatchTiles tiles = tiles_of(text, of);
      const PatchTile& tile = tiles.tile;
      REQUIRE(tiles.kernel >= 0);
      CHECK(tile.positions() <= 8 * patch_n8_tiles[tiles.kernel]);
      CHECK(tiles.images * tile.images >= p.n);
      CHECK(tiles.rows * tile.rows >= p.p());
      CHECK(tiles.columns * tile.columns >= p.q());
      CHECK(tile.pitch >= tile.columns);
      CHECK(tile.lines >= tile.rows);
      CHECK(std::max({tile.pitch, tile.lines, tile.images}) <= max_tiled_box);
      CHECK(tiles.shared_bytes() <= 227 << 10);
      CHECK(tiles.patches >= 2);
      CHECK(tiles.stages >= 3);
      // What is read behind the last patch is filters.
      const int last =
          8 * patch_n8_tiles[tiles.kernel] +
          static_cast<int>((p.r - 1) * p.dilation.h * tile.pitch + (p.s - 1) * p.dilation.w);
      CHECK((last - tile.patch_bytes() / swizzle_row_bytes) * swizzle_row_bytes <=
            tiles.stages * patch_stage_bytes + patch_staging_bytes);
    }
}

TEST_CASE("patch: outputs of planes that are stored at once") {
  const auto run = [](const char* text, const WideClass& of, const PatchTile& tile,
                      std::uintptr_t address = 0, Placing placing = Placing::planes) {
    return run_of_outputs(problem_of(text, of, placing), tile,
                          reinterpret_cast<const void*>(address));
  };
  const char* const of_56 = "mb2ic64ih56oc64kh3ph1";
  const PatchTile lines{.rows = 4, .columns = 56, .pitch = 58};
  CHECK(run(of_56, wide_class_fp16, lines) == 8);
  CHECK(run(of_56, wide_class_tf32, lines) == 4);
  CHECK(run(of_56, wide_class_fp16, lines, 2) == 1);
  CHECK(run(of_56, wide_class_fp16, lines, 12) == 2);
  CHECK(run(of_56, wide_class_fp16, lines, 0, Placing::channels_last) == 1);
  CHECK(run(of_56, wide_class_fp16, lines, 0, Placing::mirrored) == 1);
  // Lines of 14 follow each other, so that two of them are whole vectors.
  const char *const of_14 = "mb2ic64ih14oc64kh3ph1", *const of_16 = "mb2ic64ih16iw14oc64kh3ph1";
  CHECK(run(of_14, wide_class_fp16, {.rows = 14, .columns = 14, .pitch = 16}) == 4);
  CHECK(run(of_16, wide_class_fp16, {.rows = 4, .columns = 14, .pitch = 16}) == 8);
  CHECK(run(of_16, wide_class_fp16, {.rows = 3, .columns = 14, .pitch = 16}) == 2);
  // Parts of lines have to begin where vectors do, and neighbours are staged in pairs.
  CHECK(run(of_56, wide_class_fp16, {.rows = 4, .columns = 28, .pitch = 30}) == 4);
  CHECK(run(of_56, wide_class_fp16, {.rows = 4, .columns = 19, .pitch = 22}) == 1);
  CHECK(run(of_56, wide_class_fp16, {.rows = 4, .columns = 56, .pitch = 57}) == 1);
  CHECK(run("mb2ic64iw30oc64kw3pw1", wide_class_fp16, {.columns = 30, .pitch = 32}) == 2);
  const ConvProblem planes = problem_of(of_56, wide_class_fp16, Placing::planes);
  CHECK(PatchPlan(planes, wide_class_fp16, hopper()).tiles.tile.pitch % 2 == 0);
}

TEST_CASE("patch: phases of a stride have every tap, and its pixels, once") {
  for (const std::int64_t stride : {1, 2, 3, 4})
    for (const std::int64_t dilation : {1, 2, 3, 4, 6})
      for (const std::int64_t taps : {1, 2, 3, 5})
        for (const std::int64_t before : {0, 1, 2, 5})
          for (const std::int64_t extent : {1, 2, 9}) {
            CAPTURE(stride, dilation, taps, before, extent);
            const WideMapAxis axis{"columns", extent, taps, 4, stride, dilation, before, 16};
            const PatchPhases phases(axis);
            CHECK(phases.count() <= std::min(stride, taps));
            std::int64_t all = 0;
            for (std::int64_t phase = 0; phase < phases.count(); ++phase) {
              const WideMapAxis of = phases.axis(phase);
              const std::int64_t first = phases.first_pixel(phase);
              CHECK((first >= 0 && first < stride));
              CHECK((first + (of.extent - 1) * stride < extent && of.extent >= 0));
              CHECK(first + of.extent * stride >= extent);
              CHECK(of.reach() <= phases.reach());
              all += of.taps;
              for (std::int64_t tap = 0; tap < of.taps; ++tap) {
                const std::int64_t number = phase + tap * phases.tap_step();
                CHECK(number < taps);
                CHECK(first + stride * (of.lower() + tap * of.dilation) ==
                      number * (taps > 1 ? dilation : 1) - before);
              }
            }
            CHECK(all == taps);
          }
}

TEST_CASE("patch: tiles of layers of stride 2") {
  // Padding lies in front of the lines of one phase alone, of which all have the pitch.
  CHECK(tiles_of("mb64ic128ih56oc128kh3ph1sh2").tile ==
        PatchTile{.rows = 7, .columns = 28, .pitch = 29, .lines = 8});
  CHECK(tiles_of("mb64ic512ih14oc512kh3ph1sh2").tile ==
        PatchTile{.images = 4, .rows = 7, .columns = 7, .pitch = 8, .lines = 8});
  CHECK(tiles_of("mb64ic256ih56oc512kh1ph0sh2").tile ==
        PatchTile{.rows = 7, .columns = 28, .pitch = 28, .lines = 7});
  CHECK(tiles_of("mb1ic32id128ih128iw128oc64kd3kh3kw3pd1ph1pw1sd2sh2sw2").tile ==
        PatchTile{.rows = 11, .columns = 22, .pitch = 23, .lines = 12});
}

TEST_CASE("patch: of planes it is estimated beside wide as both were timed on one H200") {
  struct Timed {
    const char* text;
    WideClass of;
    double patch, wide;  // ms
  };
  for (const auto& [text, of, patch_ms, wide_ms] :
       {Timed{"mb64ic1536ih14oc384kh1ph0", wide_class_fp16, 0.0872, 0.0754},
        Timed{"mb64ic1024ih14oc256kh1ph0", wide_class_fp16, 0.0518, 0.0504},
        Timed{"mb64ic256ih56oc512kh1ph0sh2", wide_class_fp16, 0.1398, 0.1233},
        Timed{"mb64ic256ih56oc512kh1ph0sh2", wide_class_tf32, 0.2164, 0.1753},
        Timed{"mb64ic64ih56oc64kh3ph1", wide_class_fp16, 0.0619, 0.0808},
        Timed{"mb64ic256ih56oc256kh3ph1", wide_class_fp16, 0.4262, 0.4655},
        Timed{"mb64ic256ih56oc256kh3ph1", wide_class_tf32, 0.7057, 0.7872}}) {
    CAPTURE(text, to_string(of.stored));
    const ConvProblem problem = problem_of(text, of, Placing::planes);
    const PatchPlan patch(problem, of, hopper());
    const WidePlan wide(problem, of, hopper());
    const double of_patch = patch.across ? patch.across->seconds : patch.tiles.seconds,
                 of_wide = wide.across ? wide.across->seconds : wide.tiles.seconds;
    CHECK((of_patch < of_wide) == (patch_ms < wide_ms));
  }
}

TEST_CASE("patch: what it does not take") {
  CHECK(refusal_of("mb1ic64ih19oc64kh4ph1sh4") == Reason::geometry);  // 16 phases
  CHECK(refusal_of("mb1ic64ih19oc64kh5ph1sh3") == Reason::none);
  CHECK(refusal_of("mb1ic64ih99oc64kh4ph1dh7sh8") == Reason::none);  // one phase
  CHECK(refusal_of("mb1ic8iw900oc8kw300pw0") == Reason::geometry);
  CHECK(refusal_of("mb1ic8ih100iw100oc8kh70ph0") == Reason::geometry);  // no two patches
  CHECK(refusal_of("mb1ic64ih9oc64kh3ph1") == Reason::none);
  ConvProblem periodic = problem_of("mb1ic64ih9oc64kh3ph1");
  CHECK_FALSE(supports_wide_patch(periodic, wide_class_tf32, hopper()));
  DeviceInfo ampere = hopper();
  ampere.compute_major = 8;
  CHECK(supports_wide_patch(periodic, wide_class_fp16, ampere).reason == Reason::device_limit);
}
