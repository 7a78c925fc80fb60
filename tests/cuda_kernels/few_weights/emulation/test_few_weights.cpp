// The kernels of few_weights/ on the host, where no GPU is: their sources as they are, every tile
// and arithmetic, in one to three dimensions, are the oracle's bit for bit or within the bound; and
// planted faults are found.
#include <set>

#include "cuda_kernels/few_weights/emulation/few_weights_case.hpp"
#include "cuda_kernels/weights/emulation/weights_draw.hpp"
#include "few_weights_run.hpp"
#include "support/sanitized.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::emulation;
using plumb::cuda::few_weights_tiles;
using plumb::cuda::FewWeightsChoice;
using plumb::cuda::FewWeightsClass;
using plumb::cuda::FewWeightsTile;
using plumb::cuda::plan_few_weights;

namespace {

constexpr std::uint32_t every = plumb_test::is_sanitized ? 7 : 1;

constexpr FewWeightsClass classes[] = {cuda::few_weights_fp16_class, cuda::few_weights_bf16_class,
                                       cuda::few_weights_fp16_scaled_class,
                                       cuda::few_weights_fp16x3_class};

RunWeights kernels_of(const FewWeightsPlan& plan) {
  return [&plan](const cuda::WeightsCall& call, FewWeightsFault fault) {
    run_few_weights(plan, call, fault);
  };
}

/// Draws problems from a seed.
class Draw : public WeightsDrawing {
 public:
  using WeightsDrawing::WeightsDrawing;

  ConvProblem problem(int rank, DType dtype) {
    return WeightsDrawing::problem(rank, dtype,
                                   {.images = 3,
                                    .depth = 5,
                                    .rows = 12,
                                    .columns = 20,
                                    .line = 200,
                                    .many_taps_in = 8,
                                    .many_taps = 9,
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

/// Runs the problem as it is planned under a choice, if it can be; returns what is wrong.
std::string run(const ConvProblem& problem, const FewWeightsClass& of,
                const FewWeightsOptions& options, std::uint32_t seed, FewWeightsChoice choice = {},
                bool* ran = nullptr) {
  const auto planned = plan_few_weights(problem, of, choice);
  if (ran) *ran = planned.has_value();
  if (!planned) return ran ? "" : "no plan";
  const plumb::cuda::FewWeightsCut& cut = planned->cut;
  CAPTURE(seed, to_string(problem), of.products, to_string(of.operand), options.accumulate,
          static_cast<int>(options.values), cut.tile.m, cut.tile.n, cut.outer, cut.inner, cut.shift,
          cut.block_k, cut.block_c, cut.block_columns, cut.blocks_l, cut.warps_m, cut.warps_n,
          cut.warps_k, cut.box_n, cut.box_p, cut.box_q, cut.pitch, cut.units, cut.parts);
  std::string wrong;
  try {
    wrong = FewWeightsCase(problem, options, seed).run(*planned, kernels_of(*planned));
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  if (options.fault == FewWeightsFault::none) CHECK(wrong == "");
  return wrong;
}

}  // namespace

TEST_CASE("few weights, emulated: every tile of every arithmetic, rows of taps split in any way") {
  std::uint32_t seed = 500;
  int turn = 0;
  for (const FewWeightsClass& of : classes)
    for (const FewWeightsTile& tile : few_weights_tiles)
      for (const int outer : {1, 2 + turn++ % 4}) {
        if (plumb_test::is_left_out(turn, 3)) continue;
        bool ran = false;
        for (int tries = 0; tries < 100 && !ran; ++tries) {
          Draw draw(++seed);
          const ConvProblem problem = draw.problem(draw.number(2, 3), of.stored);
          if (problem.r < outer) continue;
          run(problem, of, draw.options(), seed,
              {.tile = &tile, .outer = outer, .max_box = draw.number(1, 12)}, &ran);
        }
        CAPTURE(of.products, to_string(of.stored), tile.m, tile.n, outer);
        CHECK(ran);
      }
}

TEST_CASE("few weights, emulated: random problems, as they are planned") {
  std::uint32_t seed = 0;
  int ran = 0, all = 0;
  for (const FewWeightsClass& of : classes)
    for (int i = 0; i < 24; i += every) {
      Draw draw(++seed);
      bool could = false;
      const ConvProblem problem = draw.problem(draw.number(1, 3), of.stored);
      run(problem, of, draw.options(), seed, {}, &could);
      ran += could, ++all;
    }
  CHECK(ran == all);
}

TEST_CASE("few weights, emulated: cuts of dw, of rows and of images, and many parts") {
  unsigned turn = 0;
  for (const FewWeightsClass& of : {cuda::few_weights_fp16_class, cuda::few_weights_fp16x3_class})
    for (const char* text :
         {"mb1ic1ih86oc4kh7", "mb1ic4ih40oc16kh7", "mb1ic2ih20iw150oc3kh3ph1", "mb20ic3ih9oc4kh3",
          "mb1ic9ih9oc70kh5", "mb1ic40ih9oc16kh3ph1", "mb1ic1ih30oc1kh31ph15",
          "mb1ic2id5ih6iw7oc2kd5kh5kw5pd2ph2pw2", "mb1ic1iw1500oc1kw129", "g4mb2ic8ih12oc8kh5ph2",
          "mb1ic3ih42oc16kh14sh14", "mb5ic5ih7oc5kh7", "mb1ic3ih23oc9kh7sh2ph3",
          "mb1ic3iw900oc2kw3dw99", "mb0ic3ih9oc4kh3"})
      if (!plumb_test::is_left_out(turn++, 3)) run(weights_problem(text, of.stored), of, {}, 7);
}

TEST_CASE("few weights, emulated: sums lie within the bound of the chain that the plan states") {
  for (const FewWeightsClass& of : classes)
    for (const char* text : {"mb12ic1ih30oc4kh7", "mb9ic4ih20oc8kh3ph1", "mb1ic1iw9000oc1kw5"}) {
      const ConvProblem problem = weights_problem(text, of.stored);
      const auto planned = plan_few_weights(problem, of);
      REQUIRE(planned);
      CAPTURE(text);
      CHECK(few_weights_chain(planned->sizes, planned->cut, of) <
            0.3 * static_cast<double>(problem.terms()));
      run(problem, of, {.values = Values::normal}, 11);
    }
}

TEST_CASE("few weights, emulated: magnitudes far apart, huge and tiny ones") {
  for (const FewWeightsClass& of :
       {cuda::few_weights_fp16_scaled_class, cuda::few_weights_fp16x3_class})
    for (const Values values : {Values::ranges, Values::far_apart, Values::huge, Values::tiny,
                                Values::subnormal, Values::lost}) {
      run(weights_problem("mb2ic2ih12oc4kh3ph1", DType::f32), of, {.values = values}, 3);
      run(weights_problem("mb1ic1ih9oc17kh2", DType::f32), of, {.values = values}, 4);
    }
}

TEST_CASE("few weights, emulated: two ranges are summed without the definition") {
  const ConvProblem problem = weights_problem("mb2ic2ih12oc4kh3ph1", DType::f32);
  const auto planned = plan_few_weights(problem, cuda::few_weights_fp16x3_class);
  REQUIRE(planned);
  FewWeightsCase two(problem, {.values = Values::ranges}, 3);
  two.launch(*planned, kernels_of(*planned));
  CHECK_FALSE(two.nan_in_parts());
}

TEST_CASE("few weights, emulated: the same bits whatever the strides of the tensors are") {
  for (const FewWeightsClass& of : classes) {
    ConvProblem problem = weights_problem("mb9ic3ih21oc8kh3ph1", of.stored);
    const auto bits = [&] {
      const auto planned = plan_few_weights(problem, of);
      return FewWeightsCase(problem, {.values = Values::normal}, 5)
          .launch(*planned, kernels_of(*planned));
    };
    const std::vector<double> dense = bits();
    problem.x_strides = strides_in_order(problem.x_extents(), {0, 2, 3, 1}, 0);
    problem.y_strides = strides_in_order(problem.y_extents(), {0, 2, 3, 1}, 0);
    CHECK(bits() == dense);
  }
}

TEST_CASE("few weights, emulated: planted faults are found") {
  const ConvProblem problem = weights_problem("mb8ic2ih20oc4kh5ph2", DType::f32);
  const FewWeightsClass of = cuda::few_weights_fp16x3_class;
  const auto is_caught = [&](FewWeightsFault fault, Values values = Values::integers) {
    return run(problem, of, {.values = values, .fault = fault}, 3,
               {.tile = &mistaken_tile, .max_box = 8}) != "";
  };
  CHECK_FALSE(is_caught(FewWeightsFault::none));
  CHECK(is_caught(FewWeightsFault::lost_warp));
  CHECK(is_caught(FewWeightsFault::wrong_tap));
  CHECK(is_caught(FewWeightsFault::stale_stage));
}

TEST_CASE("few weights, emulated: lost halves and ranges are found in sums of few terms") {
  const ConvProblem problem = weights_problem("mb1ic2ih5oc4kh4", DType::f32);
  const auto is_caught = [&](const FewWeightsClass& of, FewWeightsFault fault, Values values) {
    return run(problem, of, {.values = values, .fault = fault}, 3, {.tile = &mistaken_tile}) != "";
  };
  const FewWeightsClass halves = cuda::few_weights_fp16x3_class,
                        scaled = cuda::few_weights_fp16_scaled_class;
  CHECK_FALSE(is_caught(halves, FewWeightsFault::none, Values::normal));
  CHECK(is_caught(halves, FewWeightsFault::no_low, Values::normal));
  CHECK_FALSE(is_caught(scaled, FewWeightsFault::none, Values::apart));
  CHECK(is_caught(scaled, FewWeightsFault::lost_range, Values::apart));
}

TEST_CASE("few weights, emulated: damaged plans are found") {
  const ConvProblem problem = weights_problem("mb8ic2ih20oc4kh5ph0pw2", DType::f32);
  const auto planned = plan_few_weights(problem, cuda::few_weights_fp16x3_class, {.max_box = 8});
  REQUIRE(planned);
  const auto wrong = [&](const FewWeightsPlan& damaged) {
    return FewWeightsCase(problem, {}, 3).run(damaged, kernels_of(damaged)) != "";
  };
  REQUIRE_FALSE(wrong(*planned));
  FewWeightsPlan damaged = *planned;  // the last unit is lost
  --damaged.cut.units;
  CHECK(wrong(damaged));
  damaged = *planned;  // a step is lost
  --damaged.cut.image_steps;
  CHECK(wrong(damaged));
  damaged = *planned;  // the input is off by a column at the border
  --damaged.sizes.w.before;
  CHECK(wrong(damaged));
  damaged = *planned;  // a column of the padding is read
  ++damaged.sizes.w.extent;
  CHECK(wrong(damaged));
}

TEST_CASE("few weights: large problems fill the machine, by short chains") {
  for (const char* text : {"mb10000ic1ih86oc4kh7", "mb10000ic4ih40oc16kh7", "mb10000ic1ih72oc12kh7",
                           "mb10000ic12ih33oc24kh7"})
    for (const FewWeightsClass& of : classes) {
      const auto planned = plan_few_weights(weights_problem(text, of.stored), of);
      REQUIRE(planned);
      CAPTURE(text, planned->cut.parts, planned->cut.units);
      CHECK(planned->cut.parts * planned->cut.blocks_of_part(1) >= 132);
      CHECK(few_weights_chain(planned->sizes, planned->cut, of) < 4000);
    }
}
