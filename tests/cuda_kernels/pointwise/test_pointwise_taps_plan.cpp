// How problems of few terms are cut, how their filters are packed, and which are taken.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>
#include <utility>

#include "cuda_kernels/pointwise/classes.hpp"
#include "cuda_kernels/pointwise/pointwise_taps.hpp"
#include "support/absent_device.hpp"

using namespace plumb;
using namespace plumb::cuda;
using namespace plumb_test;
using namespace plumb_test::emulation;

namespace {

constexpr const auto& classes = pointwise_classes;

ConvProblem problem_of(const std::string& text, const PointwiseClass& of = pointwise_class_fp16,
                       Placing placing = Placing::planes) {
  return pointwise_problem(text, of, placing);
}
Reason refusal_of(const std::string& text) {
  return supports_taps(problem_of(text), pointwise_class_fp16, hopper()).reason;
}

}  // namespace

TEST_CASE("pointwise_taps: packed filters have a place for each filter and term") {
  for (const PointwiseClass& of : classes) {
    std::set<std::pair<int, int>> places;
    constexpr int chunks = 2, units = 2;
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int unit = 0; unit < units; ++unit)
        for (int tile = 0; tile < taps_n8_tiles; ++tile)
          for (int lane = 0; lane < 32; ++lane) {
            const TapsPlace place(of.vector(), chunk, unit, tile, lane);
            CHECK(place.filter / taps_chunk == chunk);
            for (int i = 0; i < of.vector(); ++i) {
              CHECK(place.term(i) / of.unit() == unit);
              // Few terms fill few k steps.
              CHECK(place.term(i) % of.unit() / (of.unit() / 2) == i / (of.vector() / 2));
              places.insert({place.filter, place.term(i)});
            }
          }
    CHECK(static_cast<int>(places.size()) == chunks * taps_chunk * units * of.unit());
  }
}

TEST_CASE("pointwise_taps: what is taken, and what is refused") {
  for (const char* text : {"mb8ic1ih1iw160000oc512oh1ow31999kh1kw10sh1sw5ph0pw0",
                           "mb64ic3ih224oc96kh4sh4ph0", "mb2ic64ih8oc8kh1", "mb2ic7ih9oc1kh3ph1"})
    CHECK(supports_taps(problem_of(text), pointwise_class_fp16, hopper()));
  CHECK(refusal_of("mb2ic65ih8oc8kh1") == Reason::geometry);
  CHECK(refusal_of("mb64ic3ih224oc768kh16sh16ph0") == Reason::geometry);
  CHECK(refusal_of("g2mb2ic4ih8oc8kh3ph1") == Reason::geometry);
  CHECK(refusal_of("mb1ic1ih60000iw60000oc8kh3ph1") == Reason::too_large);
  DeviceInfo old = hopper();
  old.compute_major = 7;
  CHECK(supports_taps(problem_of("mb2ic3ih8oc8kh3ph1"), pointwise_class_fp16, old).reason ==
        Reason::device_limit);
}

TEST_CASE("pointwise_taps: outputs lie in runs") {
  const auto run = [](const char* text, Placing placing) {
    const TapsRun of(problem_of(text, pointwise_class_fp16, placing));
    return std::pair{of.pixels, of.step};
  };
  using Run = std::pair<std::int64_t, std::int64_t>;
  CHECK(run("mb2ic3ih9iw7oc5kh3ph1", Placing::planes) == Run{63, 1});
  CHECK(run("mb2ic3ih9iw7oc1kh3ph1", Placing::planes) == Run{126, 1});
  CHECK(run("mb2ic3ih9iw7oc5kh3ph1", Placing::channels_last) == Run{126, 5});
  CHECK(run("mb1ic3ih3iw3oc5kh3ph0", Placing::planes) == Run{1, 0});
}

TEST_CASE("pointwise_taps: every chunk has a group and every tile a block") {
  for (const PointwiseClass& of : classes)
    for (const char* text :
         {"mb8ic1ih1iw160000oc512oh1ow31999kh1kw10sh1sw5ph0pw0", "mb64ic3ih224oc96kh4sh4ph0",
          "mb1ic3ih9oc4000kh4ph1", "mb1ic1ih1iw30oc1kh1kw3", "mb2ic64ih8oc3000kh1"}) {
      CAPTURE(text, static_cast<int>(of.stored), of.products);
      const TapsPlan plan(problem_of(text, of), of, hopper());
      CHECK(plan.cut.groups * plan.cut.group_chunks >= plan.filters.chunks);
      CHECK((plan.cut.groups - 1) * plan.cut.group_chunks < plan.filters.chunks);
      CHECK(plan.cut.blocks >= 1);
      CHECK(plan.seconds > 0);
      // Two blocks share a multiprocessor's memory, each with a kilobyte of the system's.
      CHECK(2 * (plan.shared_bytes() + 1024) <= (228 << 10));
    }
}
