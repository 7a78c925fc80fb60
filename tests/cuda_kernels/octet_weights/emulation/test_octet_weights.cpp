// The kernels of octet_weights/ on the host, where no GPU is: their sources as they are, every
// form, in one to three dimensions, are the oracle's bit for bit or within the bound; and planted
// faults are found.
#include <set>

#include "cuda_kernels/few_weights/emulation/few_weights_case.hpp"
#include "cuda_kernels/weights/emulation/weights_draw.hpp"
#include "octet_weights_run.hpp"
#include "support/sanitized.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::emulation;
using plumb::cuda::cover_taps;
using plumb::cuda::octet_forms;
using plumb::cuda::octet_weights_chain;
using plumb::cuda::OctetForm;
using plumb::cuda::OctetTaps;
using plumb::cuda::OctetWeightsChoice;
using plumb::cuda::OctetWeightsPlan;
using plumb::cuda::plan_octet_weights;

namespace {

constexpr std::uint32_t every = plumb_test::is_sanitized ? 7 : 1;

/// Draws problems from a seed.
class Draw : public WeightsDrawing {
 public:
  using WeightsDrawing::WeightsDrawing;

  ConvProblem problem(int rank) {
    return WeightsDrawing::problem(rank, DType::f32,
                                   {.images = 3,
                                    .depth = 5,
                                    .rows = 12,
                                    .columns = 20,
                                    .line = 200,
                                    .many_taps_in = 4,
                                    .many_taps = 12,
                                    .taps = 5,
                                    .stride = 4,
                                    .dilation = 3});
  }
  FewWeightsOptions options() {
    return {.values = one_in(4)   ? Values::special
                      : one_in(3) ? Values::normal
                                  : Values::integers,
            .accumulate = one_in(3)};
  }
};

RunWeights kernels_of(const OctetWeightsPlan& plan) {
  return [&plan](const cuda::WeightsCall& call, FewWeightsFault fault) {
    run_octet_weights(plan, call, fault);
  };
}

/// Runs a plan of the problem; returns what is wrong.
std::string run(const ConvProblem& problem, const OctetWeightsPlan& planned,
                const FewWeightsOptions& options, std::uint32_t seed) {
  const plumb::cuda::OctetWeightsCut& cut = planned.cut;
  CAPTURE(seed, to_string(problem), options.accumulate, static_cast<int>(options.values),
          cut.form.filters, cut.form.tiles, cut.channel_octets, cut.tap_tiles, cut.row_pairs,
          cut.row_steps, cut.rows, cut.few.block_k, cut.few.block_c, cut.few.block_columns,
          cut.few.blocks_l, cut.few.box_n, cut.few.box_p, cut.few.box_q, cut.few.pitch,
          cut.few.units, cut.few.parts);
  std::string wrong;
  try {
    wrong = FewWeightsCase(problem, options, seed).run(planned.few(), kernels_of(planned));
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  if (options.fault == FewWeightsFault::none) CHECK(wrong == "");
  return wrong;
}
std::string run(const char* text, const FewWeightsOptions& options, std::uint32_t seed,
                OctetWeightsChoice choice = {}) {
  const ConvProblem problem = weights_problem(text, DType::f32);
  const auto planned = plan_octet_weights(problem, choice);
  CAPTURE(text);
  REQUIRE(planned);
  return run(problem, *planned, options, seed);
}

}  // namespace

TEST_CASE("octet weights, emulated: every form, both kinds of steps") {
  unsigned turn = 0;
  std::uint32_t seed = 500;
  for (const OctetForm& form : octet_forms) {
    std::set<bool> pairs;
    for (int tries = 0; tries < 400 && pairs.size() < 2; ++tries) {
      Draw draw(++seed);
      ConvProblem problem = draw.problem(draw.number(2, 3));
      problem.k = problem.groups * draw.number(8 * form.filters - 7, 8 * form.filters);
      problem.w_strides = {}, problem.y_strides = {};
      problem = check(problem);
      const auto planned =
          plan_octet_weights(problem, {.form = &form, .max_box = draw.number(1, 12)});
      if (planned && pairs.insert(planned->cut.row_pairs).second &&
          !plumb_test::is_left_out(turn++, 3))
        run(problem, *planned, draw.options(), seed);
    }
    CAPTURE(form.filters, form.tiles);
    CHECK(pairs.size() == 2);
  }
}

TEST_CASE("octet weights, emulated: random problems, as they are planned") {
  std::uint32_t seed = 0;
  for (int i = 0; i < 60; i += every) {
    Draw draw(++seed);
    const ConvProblem problem = draw.problem(draw.number(1, 3));
    const auto planned = plan_octet_weights(problem);
    CAPTURE(seed, to_string(problem));
    REQUIRE(planned);
    run(problem, *planned, draw.options(), seed);
  }
}

TEST_CASE("octet weights, emulated: cuts of dw, of rows and of images, and many parts") {
  unsigned turn = 0;
  for (const char* text :
       {"mb1ic1ih40oc4kh7", "mb1ic4ih30oc16kh7", "mb1ic16ih18iw26oc48kh9ph6pw0",
        "mb2ic7ih18iw20oc35kh10ph2pw5", "mb1ic15ih30iw16oc49kh11ph7pw0", "mb1ic1ih23oc4kh17",
        "mb20ic3ih9oc4kh3", "mb1ic9ih9oc70kh5", "mb1ic40ih9oc16kh3ph1", "mb1ic1ih30oc1kh31ph15",
        "mb1ic2id5ih6iw7oc2kd5kh5kw5pd2ph2pw2", "mb1ic1iw1500oc1kw129", "g4mb2ic8ih12oc8kh5ph2",
        "mb1ic3ih39oc16kh13sh13", "mb5ic5ih7oc5kh7", "mb1ic3ih23oc9kh7sh2ph3",
        "mb1ic3iw900oc2kw3dw99", "mb0ic3ih9oc4kh3", "mb2ic11ih9oc26kh6ph3pw0"})
    if (!plumb_test::is_left_out(turn++)) run(text, {}, 7);
}

TEST_CASE("octet weights: taps are covered once each") {
  std::uint32_t seed = 0;
  for (int i = 0; i < 300; ++i) {
    Draw draw(++seed);
    const ConvProblem problem = draw.problem(draw.number(1, 3));
    const auto planned = plan_octet_weights(problem);
    REQUIRE(planned);
    const auto& sizes = planned->sizes;
    std::set<std::tuple<int, int, int>> taps;
    int count = 0;
    for (int tile = 0; tile < planned->cut.tap_tiles; ++tile)
      for (int number = 0; number < cuda::octet_tile; ++number) {
        const OctetTaps& of = planned->taps[tile];
        const int r = of.r + (of.down ? number * sizes.h.stride : 0),
                  s = of.s + (of.down ? 0 : number * sizes.w.stride);
        if (r >= sizes.h.taps || s >= sizes.w.taps) continue;
        taps.insert({of.t, r, s}), ++count;
      }
    CAPTURE(to_string(problem));
    CHECK(count == static_cast<int>(taps.size()));
    CHECK(count == sizes.taps());
  }
}

TEST_CASE("octet weights: tiles that filters of many taps take") {
  const auto tiles = [](const char* text) {
    return plan_octet_weights(weights_problem(text, DType::f32))->cut.tap_tiles;
  };
  CHECK(tiles("mb9ic16ih86iw118oc48kh9") == 11);
  CHECK(tiles("mb9ic7ih118oc35kh10") == 14);
  CHECK(tiles("mb9ic15ih90oc49kh11") == 17);
  CHECK(tiles("mb9ic4ih90oc49kh7") == 7);
}

TEST_CASE("octet weights, emulated: sums lie within the bound of the chain that the plan states") {
  for (const char* text : {"mb12ic1ih30oc4kh7", "mb9ic4ih20oc8kh3ph1", "mb1ic1iw9000oc1kw5"}) {
    const ConvProblem problem = weights_problem(text, DType::f32);
    const auto planned = plan_octet_weights(problem);
    REQUIRE(planned);
    CAPTURE(text);
    CHECK(octet_weights_chain(*planned) < 0.3 * static_cast<double>(problem.terms()));
    run(problem, *planned, {.values = Values::normal}, 11);
  }
}

TEST_CASE("octet weights, emulated: magnitudes far apart, huge and tiny ones") {
  for (const Values values : {Values::ranges, Values::far_apart, Values::huge, Values::tiny,
                              Values::subnormal, Values::lost}) {
    run("mb2ic2ih12oc4kh3ph1", {.values = values}, 3);
    run("mb1ic1ih9oc17kh2", {.values = values}, 4);
  }
}

TEST_CASE("octet weights, emulated: two ranges are summed without the definition") {
  const ConvProblem problem = weights_problem("mb2ic2ih12oc4kh3ph1", DType::f32);
  const auto planned = plan_octet_weights(problem);
  REQUIRE(planned);
  FewWeightsCase two(problem, {.values = Values::ranges}, 3);
  two.launch(planned->few(), kernels_of(*planned));
  CHECK_FALSE(two.nan_in_parts());
}

TEST_CASE("octet weights, emulated: the same bits whatever the strides of the tensors are") {
  ConvProblem problem = weights_problem("mb9ic3ih21oc8kh3ph1", DType::f32);
  const auto bits = [&] {
    const auto planned = plan_octet_weights(problem);
    return FewWeightsCase(problem, {.values = Values::normal}, 5)
        .launch(planned->few(), kernels_of(*planned));
  };
  const std::vector<double> dense = bits();
  problem.x_strides = strides_in_order(problem.x_extents(), {0, 2, 3, 1}, 0);
  problem.y_strides = strides_in_order(problem.y_extents(), {0, 2, 3, 1}, 0);
  CHECK(bits() == dense);
}

TEST_CASE("octet weights, emulated: planted faults are found") {
  const auto is_caught = [&](FewWeightsFault fault, Values values = Values::integers) {
    return run("mb8ic2ih20oc4kh5ph2", {.values = values, .fault = fault}, 3,
               {.form = &mistaken_form, .max_box = 8}) != "";
  };
  CHECK_FALSE(is_caught(FewWeightsFault::none));
  CHECK(is_caught(FewWeightsFault::lost_warp));
  CHECK(is_caught(FewWeightsFault::wrong_tap));
  CHECK(is_caught(FewWeightsFault::stale_stage));
}

TEST_CASE("octet weights, emulated: a lost half is found in sums of few terms") {
  const auto is_caught = [&](FewWeightsFault fault) {
    return run("mb1ic2ih5oc4kh4", {.values = Values::normal, .fault = fault}, 3,
               {.form = &mistaken_form}) != "";
  };
  CHECK_FALSE(is_caught(FewWeightsFault::none));
  CHECK(is_caught(FewWeightsFault::no_low));
}

TEST_CASE("octet weights, emulated: a lost range changes sums") {
  // By less than the bound, which is of the largest magnitudes too.
  const ConvProblem problem = weights_problem("mb1ic2ih5oc4kh4", DType::f32);
  const auto planned = plan_octet_weights(problem, {.form = &mistaken_form});
  REQUIRE(planned);
  const auto sums = [&](FewWeightsFault fault) {
    return FewWeightsCase(problem, {.values = Values::apart, .fault = fault}, 3)
        .launch(planned->few(), kernels_of(*planned));
  };
  CHECK(sums(FewWeightsFault::lost_range) != sums(FewWeightsFault::none));
}

TEST_CASE("octet weights, emulated: damaged plans are found") {
  const ConvProblem problem = weights_problem("mb8ic2ih20oc4kh5ph0pw2", DType::f32);
  const auto planned = plan_octet_weights(problem, {.max_box = 8});
  REQUIRE(planned);
  const auto wrong = [&](const OctetWeightsPlan& damaged) {
    return run(problem, damaged, {.fault = FewWeightsFault::none}, 3) != "";
  };
  REQUIRE_FALSE(wrong(*planned));
  const auto is_wrong = [&](const OctetWeightsPlan& damaged) {
    return FewWeightsCase(problem, {}, 3).run(damaged.few(), kernels_of(damaged)) != "";
  };
  OctetWeightsPlan damaged = *planned;  // the last unit is lost
  --damaged.cut.few.units;
  CHECK(is_wrong(damaged));
  damaged = *planned;  // a step is lost
  --damaged.cut.few.image_steps;
  CHECK(is_wrong(damaged));
  damaged = *planned;  // the second eight terms of a step are the first
  damaged.cut.row_pairs = !damaged.cut.row_pairs;
  CHECK(is_wrong(damaged));
  damaged = *planned;  // the input is off by a column at the border
  --damaged.sizes.w.before;
  CHECK(is_wrong(damaged));
  damaged = *planned;  // a column of the padding is read
  ++damaged.sizes.w.extent;
  CHECK(is_wrong(damaged));
}

TEST_CASE("octet weights: large problems fill the machine, by short chains") {
  for (const char* text : {"mb526ic16ih86iw118oc48kh9ph6pw0", "mb540ic7ih118oc35kh10ph2pw5",
                           "mb3419ic10ih103iw36oc19kh10ph5pw5", "mb40ic15ih1090iw125oc49kh11ph7pw0",
                           "mb10000ic12ih33oc24kh7"}) {
    const auto planned = plan_octet_weights(weights_problem(text, DType::f32));
    REQUIRE(planned);
    CAPTURE(text, planned->cut.few.parts, planned->cut.few.units);
    CHECK(planned->cut.few.parts * planned->cut.few.blocks_of_part(1) >= 132);
    CHECK(octet_weights_chain(*planned) < 4000);
  }
}
