// The kernels of depthwise backward weights on the host, where no GPU is: their sources as they
// are, every form of both kernels, are the oracle's bit for bit; and what planted faults would do.
#include <set>

#include "cuda_kernels/depthwise_weights/depthwise_weights.hpp"
#include "cuda_kernels/weights/emulation/gradient_case.hpp"
#include "cuda_kernels/weights/emulation/weights_draw.hpp"
#include "support/sanitized.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::emulation;
using plumb::cuda::DepthwiseWeightsForm;
using plumb::cuda::DepthwiseWeightsKernel;
using plumb::cuda::DepthwiseWeightsPlan;
using plumb::cuda::plan_depthwise_weights;

namespace plumb_test::emulation {
/// Plants a fault in the copies of kernels that run after this.
void wait_too_little(bool does);
}  // namespace plumb_test::emulation

namespace {

/// Under a sanitizer every fifth problem.
constexpr std::uint32_t every = plumb_test::is_sanitized ? 5 : 1;

ConvProblem channels_last(ConvProblem p) {
  const auto last = [](const Extents& extents) {
    Dims order = extents;
    order[0] = 0, order[extents.rank() - 1] = 1;
    for (int i = 1; i < extents.rank() - 1; ++i) order[i] = i + 1;
    return strides_in_order(extents, order, 0);
  };
  p.x_strides = last(p.x_extents());
  p.y_strides = last(p.y_extents());
  p.w_strides = last(p.w_extents());
  return check(p);
}

/// Draws problems from a seed.
class Draw : public WeightsDrawing {
 public:
  using WeightsDrawing::WeightsDrawing;

  /// Of some stride along both axes; 0 draws it.
  ConvProblem problem(int rank, int stride, bool side_by_side) {
    ConvProblem p;
    p.direction = Direction::backward_weights;
    p.dtype = one_in(3) ? DType::f64 : one_in(3) ? DType::f16 : DType::f32;
    p.n = number(1, 6);
    p.groups = p.c = one_in(6) ? number(30, 70) : number(2, 9);
    p.k = p.c * (!side_by_side && one_in(5) ? 2 : 1);
    if (stride == 0) stride = one_in(3) ? 2 : 1;
    if (rank > 2) axis(6, 1, p.d, p.t, p.stride.d, p.dilation.d, p.padding.front, p.padding.back);
    if (rank > 1)
      axis(20, stride, p.h, p.r, p.stride.h, p.dilation.h, p.padding.top, p.padding.bottom);
    axis(rank == 1 ? 200 : 20, stride, p.w, p.s, p.stride.w, p.dilation.w, p.padding.left,
         p.padding.right);
    draw_strides(p);
    return side_by_side ? channels_last(check(p)) : check(p);
  }

  WeightsOptions options() {
    return {.accumulate = one_in(3), .values = one_in(4) ? Values::special : Values::integers};
  }

 private:
  void axis(int most, int of_stride, std::int64_t& extent, std::int64_t& taps, std::int64_t& stride,
            std::int64_t& dilation, std::int64_t& before, std::int64_t& after) {
    extent = one_in(6) ? number(1, 6) : number(5, most);
    taps = one_in(4) ? number(1, 12) : number(1, 7);
    stride = of_stride;
    dilation = stride == 1 && one_in(3) ? number(2, 4) : 1;
    draw_padding((taps - 1) * dilation, extent, before, after);
  }
};

ConvProblem depthwise_problem(const char* text, DType dtype, bool last) {
  const ConvProblem problem = weights_problem(text, dtype);
  return last ? channels_last(problem) : problem;
}

WeightsKernel kernel_of(const DepthwiseWeightsPlan& plan, DType dtype) {
  const auto launch = [&plan, dtype](const plumb::cuda::WeightsCall& call) {
    dtype == DType::f64   ? plumb::cuda::launch_depthwise_weights_f64(plan, call, nullptr)
    : dtype == DType::f32 ? plumb::cuda::launch_depthwise_weights_f32(plan, call, nullptr)
                          : plumb::cuda::launch_depthwise_weights_f16(plan, call, nullptr);
  };
  return {launch, plan.cut.parts * plan.weights.sizes.weights(),
          plumb::cuda::depthwise_weights_chain(plan)};
}

/// Runs the problem as it is planned, or in a form, if it can; returns the plan where it could.
std::optional<DepthwiseWeightsPlan> run(const ConvProblem& problem,
                                        const DepthwiseWeightsForm* form,
                                        const WeightsOptions& options, std::uint32_t seed) {
  const auto planned = plan_depthwise_weights(problem, {form});
  if (!planned) return planned;
  const plumb::cuda::DepthwiseWeightsCut& cut = planned->cut;
  CAPTURE(seed, to_string(problem), to_string(problem.dtype), options.accumulate,
          static_cast<int>(options.values), static_cast<int>(cut.kernel), cut.form.rows,
          cut.form.stride, cut.block_k, cut.members, cut.tiles_r, cut.tiles_s, cut.box_n, cut.bands,
          cut.strips, cut.band_steps, cut.strip_steps, cut.units, cut.parts);
  const std::string wrong =
      GradientCase(problem, options, seed).run(kernel_of(*planned, problem.dtype));
  CHECK(wrong == "");
  return planned;
}

}  // namespace

TEST_CASE("depthwise weights emulated: every form of both kernels") {
  std::uint32_t seed = 1000;
  int turn = 0;
  for (const DepthwiseWeightsForm& form : plumb::cuda::depthwise_weights_forms)
    for (const DType dtype : {DType::f32, DType::f64, DType::f16})
      for (const bool last : {false, true}) {
        if (!plumb::cuda::is_compiled(form, sum_bytes(dtype))) continue;
        const int rank = (form.rows == 1 ? 1 : 2) + turn++ % 2;
        constexpr int wanted = plumb_test::is_sanitized ? 1 : 3;
        int ran = 0;
        for (int tries = 0; tries < 20 && ran < wanted; ++tries) {
          Draw draw(++seed);
          ConvProblem problem = draw.problem(rank, form.stride, last);
          problem.dtype = dtype;
          const auto planned = run(problem, &form, draw.options(), seed);
          ran += planned && (planned->cut.kernel == DepthwiseWeightsKernel::channels) == last &&
                 planned->cut.form == form;
        }
        CAPTURE(form.rows, form.stride, rank, to_string(dtype), last);
        CHECK(ran == wanted);
      }
}

TEST_CASE("depthwise weights emulated: random problems, as they are planned") {
  std::set<int> rows;
  int ran = 0, of_channels = 0;
  constexpr std::uint32_t problems = 120;
  for (std::uint32_t seed = 0; seed < problems; seed += every) {
    Draw draw(seed);
    const ConvProblem problem = draw.problem(draw.number(1, 3), 0, draw.one_in(2));
    const auto planned = run(problem, nullptr, draw.options(), seed);
    CAPTURE(seed, to_string(problem));
    CHECK(planned);
    if (!planned) continue;
    ++ran, rows.insert(planned->cut.form.rows);
    of_channels += planned->cut.kernel == DepthwiseWeightsKernel::channels;
  }
  CHECK(rows.size() >= 3);
  CHECK(of_channels >= ran / 4);
  CHECK(of_channels <= ran * 3 / 4);
}

TEST_CASE("depthwise weights emulated: large filters, bands, strips, and many parts") {
  unsigned turn = 0;
  for (const bool last : {false, true})
    for (const DType dtype : {DType::f32, DType::f64})
      for (const char* text :
           {"g2mb2ic2ih32oc2kh31ph15", "g40mb3ic40ih14oc40kh7ph3", "g33mb9ic33ih7oc33kh7ph3",
            "g2mb1ic2ih20oc2kh39ph19", "g3mb1ic3ih120iw90oc3kh3ph1", "g2mb1ic2ih9iw900oc2kh3ph1",
            "g5mb4ic5ih28oc5kh5sh2ph2", "g6mb2ic6ih33oc6kh3ph2dh1", "g4mb2ic4iw2000oc4kw9dw40",
            "g20mb9ic20iw300oc20kw4pw3", "g3mb2ic3id5ih12iw12oc3kd3kh3kw3pd1ph1pw1",
            "g35mb20ic35ih5oc35kh3ph1"}) {
        if (plumb_test::is_left_out(turn++)) continue;
        const ConvProblem problem = depthwise_problem(text, dtype, last);
        CAPTURE(text);
        CHECK(run(problem, nullptr, {}, 7));
      }
}

TEST_CASE("depthwise weights emulated: the bound of the chain that the plan states") {
  for (const bool last : {false, true})
    for (const DType dtype : {DType::f32, DType::f64})
      for (const char* text :
           {"g4mb20ic4ih20oc4kh7ph3", "g40mb3ic40ih28oc40kh3ph1", "g4mb8ic4ih40oc4kh5sh2ph2"}) {
        const ConvProblem problem = depthwise_problem(text, dtype, last);
        const auto planned = plan_depthwise_weights(problem);
        REQUIRE(planned);
        CAPTURE(text, to_string(dtype), last);
        CHECK(plumb::cuda::depthwise_weights_chain(*planned) <
              0.3 * static_cast<double>(problem.terms()));
        CHECK(run(problem, nullptr, {.values = Values::normal}, 11));
      }
}

TEST_CASE("depthwise weights emulated: planted faults are found") {
  for (const bool last : {false, true}) {
    const ConvProblem problem = depthwise_problem("g6mb8ic6ih20oc6kh5ph2", DType::f32, last);
    const auto planned = plan_depthwise_weights(problem);
    REQUIRE(planned);
    CAPTURE(last, planned->cut.parts, planned->cut.units);
    const auto wrong = [&](const DepthwiseWeightsPlan& damaged) {
      return GradientCase(problem, {}, 3).run(kernel_of(damaged, problem.dtype)) != "";
    };
    REQUIRE_FALSE(wrong(*planned));
    REQUIRE(planned->cut.parts > 1);

    DepthwiseWeightsPlan damaged = *planned;  // the last unit is lost
    --damaged.cut.units;
    CHECK(wrong(damaged));
    damaged = *planned;  // a part is lost
    --damaged.weights.cut.parts;
    CHECK(wrong(damaged));
    damaged = *planned;  // a tap is off by one column at the border
    --damaged.w.before;
    CHECK(wrong(damaged));
    damaged = *planned;  // and by one row
    ++damaged.h.before;
    CHECK(wrong(damaged));
    damaged = *planned;  // a column of the padding is read
    ++damaged.w.extent;
    CHECK(wrong(damaged));
    damaged = *planned;  // the first image is summed twice, in the place of the last
    damaged.weights.strides.y_n = 0;
    CHECK(wrong(damaged));
    damaged = *planned;  // the last step of each band is lost
    --damaged.cut.band_steps;
    CHECK(wrong(damaged));
  }

  // Rows are summed twice: the lines have a phase too many.
  const ConvProblem tall = weights_problem("g2mb1ic2ih200iw60oc2kh3ph1");
  const auto planned = plan_depthwise_weights(tall);
  REQUIRE(planned);
  REQUIRE(planned->cut.bands > 1);
  DepthwiseWeightsPlan damaged = *planned;
  const auto wrong = [&](const DepthwiseWeightsPlan& plan) {
    return GradientCase(tall, {}, 3).run(kernel_of(plan, tall.dtype)) != "";
  };
  REQUIRE_FALSE(wrong(damaged));
  damaged.h.phases = 2, damaged.cut.units *= 2;
  CHECK(wrong(damaged));

  // A stage is read before its copies have been waited for.
  damaged = *planned;
  wait_too_little(true);
  CHECK(wrong(damaged));
  wait_too_little(false);
}

TEST_CASE("depthwise weights: large layers fill the machine, by short chains") {
  for (const bool last : {false, true})
    for (const char* text : {"g96mb64ic96ih56oc96kh7ph3", "g384mb64ic384ih14oc384kh7ph3",
                             "g768mb64ic768ih7oc768kh7ph3", "g384mb64ic384ih32oc384kh31ph15"}) {
      const auto planned = plan_depthwise_weights(depthwise_problem(text, DType::f32, last));
      REQUIRE(planned);
      const plumb::cuda::DepthwiseWeightsCut& cut = planned->cut;
      CAPTURE(text, last, cut.parts, cut.units, cut.block_k, cut.box_n, cut.bands, cut.clocks);
      CHECK(cut.parts * cut.blocks_k * cut.tiles_r * cut.tiles_s >= 200);
      CHECK(plumb::cuda::depthwise_weights_chain(*planned) < 10000);
    }
}
