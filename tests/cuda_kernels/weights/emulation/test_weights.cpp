// The kernels of backward weights on the host, where no GPU is: their sources as they are, every
// tile, in one to three dimensions, are the oracle's bit for bit; and what planted faults would do.
#include <set>

#include "support/sanitized.hpp"
#include "weights_case.hpp"
#include "weights_draw.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::emulation;

namespace {

/// Under a sanitizer every fifth problem.
constexpr std::uint32_t every = plumb_test::is_sanitized ? 5 : 1;

/// Draws problems from a seed.
class Draw : public WeightsDrawing {
 public:
  using WeightsDrawing::WeightsDrawing;

  ConvProblem problem(int rank) {
    const DType dtype = one_in(3) ? DType::f64 : one_in(4) ? DType::f16 : DType::f32;
    return WeightsDrawing::problem(rank, dtype,
                                   {.images = 6,
                                    .depth = 7,
                                    .rows = 24,
                                    .columns = 30,
                                    .line = 400,
                                    .many_taps_in = 4,
                                    .many_taps = 12,
                                    .taps = 7,
                                    .stride = 5,
                                    .dilation = 4});
  }

  WeightsOptions options() {
    return {.accumulate = one_in(3), .values = one_in(4) ? Values::special : Values::integers};
  }
};

/// Runs the problem as it is planned, or with a tile, if it can; says whether it could.
bool run(const ConvProblem& problem, const WeightsTile* tile, const WeightsOptions& options,
         std::uint32_t seed) {
  const auto planned = plan(problem, tile);
  if (!planned) return false;
  const plumb::cuda::WeightsCut& cut = planned->cut;
  CAPTURE(seed, to_string(problem), to_string(problem.dtype), options.accumulate,
          static_cast<int>(options.values), cut.tile.filters, cut.tile.lines, cut.tile.taps,
          cut.block_k, cut.block_c, cut.channel_lines, cut.blocks_k, cut.blocks_c, cut.blocks_l,
          cut.splits, cut.sum_rows, cut.threads, cut.box_n, cut.box_p, cut.box_q, cut.units,
          cut.parts);
  const std::string wrong = WeightsCase(problem, options, seed).run(*planned);
  CHECK(wrong == "");
  return true;
}

}  // namespace

TEST_CASE("weights emulated: every tile, in one to three dimensions") {
  std::uint32_t seed = 1000;
  unsigned all = 0;
  int turn = 0;
  for (const WeightsTile& tile : plumb::cuda::weights_tiles)
    for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
      if (!plumb::cuda::is_compiled(tile, sum_bytes(dtype)) || plumb_test::is_left_out(all++))
        continue;
      const int rank = 1 + turn++ % 3;
      bool ran = false;
      for (int tries = 0; tries < 20 && !ran; ++tries) {
        Draw draw(++seed);
        ConvProblem problem = draw.problem(rank);
        problem.dtype = dtype;
        ran = run(problem, &tile, draw.options(), seed);
      }
      CAPTURE(tile.filters, tile.lines, tile.taps, rank, to_string(dtype));
      CHECK(ran);
    }
}

TEST_CASE("weights emulated: random problems, as they are planned") {
  std::set<int> filters, taps;
  int ran = 0;
  constexpr std::uint32_t problems = 120;
  for (std::uint32_t seed = 0; seed < problems; seed += every) {
    Draw draw(seed);
    const ConvProblem problem = draw.problem(draw.number(1, 3));
    const auto planned = plan(problem);
    ran += run(problem, nullptr, draw.options(), seed);
    if (planned) filters.insert(planned->cut.tile.filters), taps.insert(planned->cut.tile.taps);
  }
  CHECK(ran == static_cast<int>((problems + every - 1) / every));
  CHECK(filters.size() >= (plumb_test::is_sanitized ? 2 : 3));
  CHECK(taps.size() >= 3);
}

TEST_CASE("weights emulated: cuts of dw, of rows and of images, and many parts") {
  unsigned turn = 0;
  for (const DType dtype : {DType::f32, DType::f64})
    for (const char* text : {"mb3ic1ih86oc4kh7", "mb2ic2ih64iw300oc3kh3ph1", "mb70ic3ih9oc4kh3",
                             "mb1ic9ih20oc70kh5", "mb2ic40ih9oc16kh3ph1", "mb1ic1ih40oc1kh31ph15",
                             "mb2ic2id12ih12iw12oc2kd9kh9kw9pd4ph4pw4", "mb1ic1iw5000oc1kw129",
                             "g8mb3ic8ih20oc8kh5ph2", "mb2ic3ih56oc16kh14sh14", "mb9ic5ih7oc5kh7",
                             "mb1ic3iw2000oc2kw3dw99"}) {
      if (plumb_test::is_left_out(turn++)) continue;
      const ConvProblem problem = weights_problem(text, dtype);
      CAPTURE(text);
      CHECK(run(problem, nullptr, {}, 7));
    }
}

TEST_CASE("weights emulated: the bound of the chain that the plan states") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const char* text : {"mb40ic1ih40oc4kh7", "mb3ic4ih20oc8kh3ph1", "mb1ic1iw30000oc1kw5"}) {
      const ConvProblem problem = weights_problem(text, dtype);
      const auto planned = plan(problem);
      REQUIRE(planned);
      CAPTURE(text, to_string(dtype));
      CHECK(weights_chain(planned->sizes, planned->cut) <
            0.7 * static_cast<double>(problem.terms()));
      CHECK(run(problem, nullptr, {.values = Values::normal}, 11));
    }
}

TEST_CASE("weights emulated: the same bits whatever the strides of the tensors are") {
  ConvProblem problem = weights_problem("mb9ic3ih21oc8kh3ph1");
  const auto bits = [&] {
    return WeightsCase(problem, {.values = Values::normal}, 5).launch(*plan(problem));
  };
  const std::vector<double> dense = bits();
  problem.x_strides = strides_in_order(problem.x_extents(), {0, 2, 3, 1}, 0);
  problem.y_strides = strides_in_order(problem.y_extents(), {0, 2, 3, 1}, 0);
  CHECK(bits() == dense);
}

TEST_CASE("weights emulated: planted faults are found") {
  const ConvProblem problem = weights_problem("mb8ic2ih20oc4kh5ph2");
  const auto planned = plan(problem);
  REQUIRE(planned);
  const auto wrong = [&](const WeightsPlan& damaged) {
    return WeightsCase(problem, {}, 3).run(damaged) != "";
  };
  REQUIRE_FALSE(wrong(*planned));
  REQUIRE(planned->cut.parts > 1);
  REQUIRE(planned->cut.splits > 1);

  WeightsPlan damaged = *planned;  // the last unit is lost
  --damaged.cut.units;
  CHECK(wrong(damaged));
  damaged = *planned;  // a thread's share of the steps is lost
  --damaged.cut.steps;
  CHECK(wrong(damaged));
  damaged = *planned;  // the input is off by a column at the border
  --damaged.sizes.w.before;
  CHECK(wrong(damaged));
  damaged = *planned;  // a column of the padding is read
  ++damaged.sizes.w.extent;
  CHECK(wrong(damaged));
  damaged = *planned;  // the border's rows are summed twice: bands overlap
  ++damaged.cut.units;
  damaged.cut.bands += 1;
  CHECK(wrong(damaged));

  // A stage is read before its copies have been waited for.
  WeightsPlan few = *planned;
  few.cut.parts = 1;
  REQUIRE_FALSE(wrong(few));
  wait_too_little(true);
  CHECK(wrong(few));
  wait_too_little(false);
}

TEST_CASE("weights: large problems fill the machine, by short chains") {
  for (const char* text : {"mb10000ic1ih86oc4kh7", "mb10000ic4ih40oc16kh7", "mb10000ic1ih72oc12kh7",
                           "mb10000ic12ih33oc24kh7"}) {
    const auto planned = plan(weights_problem(text));
    REQUIRE(planned);
    CAPTURE(text, planned->cut.parts, planned->cut.units);
    CHECK(planned->cut.parts * planned->cut.blocks_of_part(1) >= 132);
    CHECK(weights_chain(planned->sizes, planned->cut) < 16000);
  }
}
