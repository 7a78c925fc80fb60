// What the kernel of backward weights takes, and how it is cut: host code.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "cuda_kernels/wide/emulation/placing.hpp"
#include "cuda_kernels/wide_weights/wide_weights.hpp"
#include "plumb/plumb.hpp"
#include "plumb/problem_text.hpp"
#include "support/absent_device.hpp"

using namespace plumb;
using namespace plumb::cuda;
using plumb_test::ampere;
using plumb_test::hopper;
using plumb_test::emulation::Placing;

namespace {

ConvProblem gradient(const std::string& text, DType dtype = DType::f16,
                     Placing placing = Placing::channels_last) {
  ConvProblem problem = parse_problem(text).problem;
  problem.direction = Direction::backward_weights;
  problem.dtype = dtype;
  problem.x_strides = plumb_test::emulation::strides_of(problem.x_extents(), placing);
  problem.y_strides = plumb_test::emulation::strides_of(problem.y_extents(), placing);
  return check(problem);
}

Reason reason(const ConvProblem& problem, const DeviceInfo& device = hopper()) {
  return supports_wide_weights(problem, wide_class_fp16, device).reason;
}

}  // namespace

TEST_CASE("wide weights: what is refused, and why") {
  const ConvProblem taken = gradient("mb2ic64ih9oc64kh3ph1");
  CHECK(reason(taken) == Reason::none);
  CHECK(reason(taken, ampere()) == Reason::device_limit);
  ConvProblem other = taken;
  other.direction = Direction::forward;
  CHECK(reason(other) == Reason::direction);
  other.direction = Direction::backward_data;
  CHECK(reason(other) == Reason::direction);
  CHECK(reason(gradient("mb2ic64ih9oc64kh3ph1", DType::f32)) == Reason::dtype);
  other = taken;
  other.boundary.w = Boundary::periodic;
  CHECK(reason(check(other)) == Reason::geometry);
  CHECK(reason(gradient("mb1ic32768ih4oc65536kh1ph0")) == Reason::too_large);
  // Strides beyond the copy engine's are folded.
  CHECK(reason(gradient("mb2ic3ih64oc64kh16sh16ph0")) == Reason::none);
}

TEST_CASE("wide weights: tensors are repacked only where the copy engine cannot read them") {
  const WideWeightsPlan lies(gradient("mb2ic64ih9oc64kh3ph1"), wide_class_fp16);
  CHECK_FALSE(lies.x.input.repacks);
  CHECK_FALSE(lies.dy.input.repacks);
  const WideWeightsPlan odd(gradient("mb2ic64ih9oc63kh3ph1"), wide_class_fp16);
  CHECK_FALSE(odd.x.input.repacks);
  CHECK(odd.dy.input.repacks);
  const WideWeightsPlan planes(gradient("mb2ic64ih9oc64kh3ph1", DType::f16, Placing::planes),
                               wide_class_fp16);
  CHECK(planes.x.input.repacks);
  CHECK(planes.dy.input.repacks);
  const WideWeightsPlan scaled(gradient("mb2ic64ih9oc64kh3ph1", DType::f32),
                               wide_class_fp16_scaled);
  CHECK(scaled.x.input.repacks);
  CHECK(scaled.dy.input.repacks);
}

TEST_CASE("wide weights: dy is an image of its own, without a depth where z is 1") {
  const ConvProblem p = gradient("mb2ic16id3ih5iw4oc8kd3kh2kw1pd0ph0pw0");
  REQUIRE(p.y_strides.rank() == 5);
  const ConvProblem image = check(image_of_gradients(p));
  CHECK(image.x_extents() == Extents{2, 8, 4, 4});
  CHECK(image.x_strides == Strides{p.y_strides[0], p.y_strides[1], p.y_strides[3], p.y_strides[4]});
}

TEST_CASE("wide weights: a cut covers all weights and pixels, and keeps the device busy") {
  for (const char* text :
       {"mb64ic256ih56oc256kh3ph1", "mb64ic64ih56oc64kh3ph1", "mb64ic512ih7oc512kh3ph1",
        "mb64ic2048ih7oc512kh1ph0", "g32mb64ic128ih56oc128kh3ph1", "mb64ic3ih224oc768kh16sh16ph0"})
    for (const WideClass& of :
         {wide_class_fp16, wide_class_fp16x3, wide_class_tf32, wide_class_tf32x3}) {
      const WideWeightsPlan plan(gradient(text, of.stored), of);
      const WideShape& shape = wide_shapes[plan.cut.shape];
      CAPTURE(text, of.products, shape.m, shape.n, plan.cut.splits);
      CHECK(wide_weights_has(shape, moves_sums(of)));
      CHECK(plan.cut.m_tiles * shape.m >= plan.rows());
      CHECK(plan.cut.n_tiles * shape.n >= plan.columns());
      CHECK(plan.rows() >= plan.groups().filters);
      CHECK(plan.columns() >= plan.taps() * plan.groups().channels);
      int longest = 0, next = 0;
      for (int split = 0; split < plan.cut.splits; ++split) {
        const int begin = first_pixel_step(split, plan.cut.splits, plan.cut.steps),
                  end = first_pixel_step(split + 1, plan.cut.splits, plan.cut.steps);
        CHECK(begin == next);
        CHECK(end > begin);
        longest = std::max(longest, end - begin), next = end;
      }
      CHECK(next == plan.cut.steps);
      // No shorter than what a tensor core sums before its sums move, and no longer than all.
      const int block = wide_weights_block(of) / weights_parts(of),
                run = moves_sums(of) ? std::min(longest * block, wide_weights_run(of))
                                     : longest * block;
      CHECK(wide_weights_chain(plan) >= run);
      // A single split is added to nothing.
      CHECK(wide_weights_chain(plan) <= plan.cut.steps * block + 1);
      CHECK(plan.cut.m_tiles * plan.cut.n_tiles * plan.groups().count * plan.cut.splits >= 66);
      CHECK(plan.seconds(hopper()) > 0);
    }
}

TEST_CASE("wide weights: the chain of a problem is that of its plan, whatever was asked before") {
  const ConvProblem first = gradient("mb64ic256ih56oc256kh3ph1"),
                    second = gradient("mb2ic64ih9oc64kh3ph1");
  const double of_first = wide_weights_chain(WideWeightsPlan(first, wide_class_fp16)),
               of_second = wide_weights_chain(WideWeightsPlan(second, wide_class_fp16));
  for (int i = 0; i < 2; ++i) {
    CHECK(wide_weights_chain(first, wide_class_fp16) == of_first);
    CHECK(wide_weights_chain(second, wide_class_fp16) == of_second);
  }
  ConvProblem refused = first;
  refused.direction = Direction::forward;
  CHECK(wide_weights_chain(refused, wide_class_fp16) == static_cast<double>(refused.terms()));
}
