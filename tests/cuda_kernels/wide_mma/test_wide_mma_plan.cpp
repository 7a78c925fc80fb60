// How problems are cut for the kernel of wide_mma/, and which it takes.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "cuda_kernels/wide/emulation/placing.hpp"
#include "cuda_kernels/wide/wide.hpp"
#include "cuda_kernels/wide_mma/wide_mma.hpp"
#include "plumb/problem_text.hpp"
#include "support/absent_device.hpp"

using namespace plumb;
using namespace plumb::cuda;
using namespace plumb_test;
using namespace plumb_test::emulation;

namespace {

constexpr WideClass classes[] = {wide_class_fp16, wide_class_bf16, wide_class_tf32,
                                 wide_class_fp64};

ConvProblem problem_of(const std::string& text, const WideClass& of = wide_class_fp16,
                       Placing placing = Placing::channels_last) {
  ConvProblem problem = parse_problem(text).problem;
  problem.dtype = of.stored;
  problem.x_strides = strides_of(problem.x_extents(), placing);
  problem.y_strides = strides_of(problem.y_extents(), placing);
  return check(problem);
}

/// A GPU of sm_86, whose blocks have 99 KB of shared memory.
DeviceInfo small_ampere() {
  DeviceInfo device = absent_gpu(8, 82, 99 << 10, 936e9, 35.6e12);
  device.compute_minor = 6;
  return device;
}

Reason refusal_of(const std::string& text, const WideClass& of = wide_class_fp16) {
  return supports_wide_mma(problem_of(text, of), of, ampere()).reason;
}

}  // namespace

TEST_CASE("wide_mma: tiles cover the product and fit the device") {
  for (const DeviceInfo& device : {hopper(), ampere(), small_ampere()})
    for (const WideClass& of : classes)
      for (const char* text : {"mb64ic64ih56oc64kh3ph1", "mb64ic512ih7oc512kh3ph1",
                               "mb1ic2048ih7oc512kh1", "g32mb8ic1024ih14oc1024kh3ph1",
                               "mb1ic1ih1oc1kh1", "mb4ic96id12ih30iw30oc96kd3kh3kw3"}) {
        CAPTURE(text, to_string(of.stored), device.compute_major, device.compute_minor);
        const ConvProblem p = problem_of(text, of);
        REQUIRE(supports_wide_mma(p, of, device));
        const WideMmaPlan plan(p, of, device);
        const WideMmaShape& shape = wide_mma_shapes[plan.tiles.shape];
        CHECK(has_wide_mma_shape(of, plan.tiles.shape));
        CHECK(plan.tiles.pixels == p.n * p.z() * p.p() * p.q());
        CHECK(std::int64_t{plan.tiles.m_tiles} * shape.m >= plan.tiles.pixels);
        CHECK(std::int64_t{plan.tiles.n_tiles} * shape.n >= p.k / plan.tiles.groups);
        CHECK(static_cast<std::size_t>(shape.shared_bytes()) <= device.shared_memory_bytes);
        CHECK(plan.seconds > 0);
        CHECK(plan.filters.steps() * of.step_channels() >=
              p.t * p.r * p.s * p.c / plan.tiles.groups);
      }
}

TEST_CASE("wide_mma: few filters have narrow tiles") {
  const auto filters = [](const char* text) {
    return wide_mma_shapes[WideMmaPlan(problem_of(text), wide_class_fp16, ampere()).tiles.shape].n;
  };
  CHECK(filters("mb64ic64ih56oc64kh3ph1") == 64);
  CHECK(filters("mb64ic128ih28oc512kh3ph1") == 128);
}

TEST_CASE("wide_mma: the reduction is split where tiles do not fill the device") {
  for (const WideClass& of : classes) {
    const auto splits = [&](const char* text) {
      return WideMmaPlan(problem_of(text, of), of, ampere()).tiles.splits;
    };
    CHECK(splits("mb1ic512ih7oc512kh3ph1") > 1);
    CHECK(splits("mb64ic256ih28oc256kh3ph1") == 1);
    CHECK(splits("mb1ic16ih7oc512kh1") == 1);
  }
}

TEST_CASE("wide_mma: a warp's filters fill rows of 128 bytes of outputs") {
  for (const WideMmaShape& shape : wide_mma_shapes) {
    const int bytes = shape.of_doubles ? 8 : 2;
    CHECK(shape.warp_columns() * bytes % swizzle_row_bytes == 0);
    CHECK(shape.warp_rows() % 16 == 0);
  }
}

TEST_CASE("wide_mma: packed filters do not depend on N") {
  for (const WideClass& of : classes) {
    const WideMmaPlan one(problem_of("mb1ic96ih7oc200kh3", of), of, ampere()),
        many(problem_of("mb512ic96ih7oc200kh3", of), of, ampere()),
        none(problem_of("mb0ic96ih7oc200kh3", of), of, ampere());
    CHECK(many.filters.bytes() == one.filters.bytes());
    CHECK(none.filters.bytes() == one.filters.bytes());
    CHECK(none.workspace_bytes == 0);
  }
}

TEST_CASE("wide_mma: x is repacked where its channels do not lie in aligned vectors") {
  for (const WideClass& of : classes) {
    const auto repacks = [&](const char* text, Placing placing) {
      return WideMmaPlan(problem_of(text, of, placing), of, ampere()).input.repacks;
    };
    CHECK_FALSE(repacks("mb2ic64ih7oc64kh3", Placing::channels_last));
    CHECK(repacks("mb2ic64ih7oc64kh3", Placing::planes));
    CHECK(repacks("mb2ic64ih7oc64kh3", Placing::mirrored));
    CHECK(repacks("mb2ic65ih7oc64kh3", Placing::channels_last));
  }
}

TEST_CASE("wide_mma: doubles take longer than halves, and more so where no tensor core has them") {
  const auto seconds = [](const WideClass& of, const DeviceInfo& device) {
    return WideMmaPlan(problem_of("mb64ic256ih28oc256kh3ph1", of), of, device).seconds;
  };
  for (const DeviceInfo& device : {hopper(), ampere(), small_ampere()}) {
    CHECK(seconds(wide_class_fp16, device) < seconds(wide_class_tf32, device));
    CHECK(seconds(wide_class_tf32, device) < seconds(wide_class_fp64, device));
  }
  CHECK(seconds(wide_class_fp64, hopper()) < seconds(wide_class_fp64, ampere()));
  CHECK(10 * seconds(wide_class_fp64, ampere()) < seconds(wide_class_fp64, small_ampere()));
}

TEST_CASE("wide_mma: where there is wgmma, wide is predicted to be faster") {
  for (const WideClass& of : {wide_class_fp16, wide_class_bf16, wide_class_tf32})
    for (const Placing placing : {Placing::channels_last, Placing::planes})
      for (const char* text :
           {"mb64ic64ih56oc64kh3ph1", "mb64ic256ih56oc256kh3ph1", "mb64ic128ih28oc512kh1",
            "mb64ic256ih56oc64kh1", "mb64ic512ih7oc512kh3ph1", "mb1ic256ih14oc256kh3ph1",
            "mb1ic512ih7oc512kh3ph1", "mb1ic64ih56oc64kh3ph1", "mb2ic64id32ih64oc64kd3kh3pd1ph1",
            "g32mb64ic256ih28oc256kh3ph1", "mb1ic24ih7oc24kh1", "mb8ic32ih112oc16kh3sh2ph1"}) {
        CAPTURE(to_string(of.stored), static_cast<int>(placing), text);
        const ConvProblem p = problem_of(text, of, placing);
        const WidePlan wide(p, of, hopper());
        const double of_wide = wide.across ? wide.across->seconds : wide.tiles.seconds;
        CHECK(of_wide < WideMmaPlan(p, of, hopper()).seconds);
      }
}

TEST_CASE("wide_mma: what it does not take") {
  CHECK(refusal_of("mb1ic64ih19oc64kh3ph1sh9dh5") == Reason::none);
  CHECK(refusal_of("g64mb1ic64ih9oc64kh3") == Reason::none);
  const ConvProblem p = problem_of("mb1ic64ih9oc64kh3");
  CHECK(supports_wide_mma(p, wide_class_tf32, ampere()).reason == Reason::dtype);
  DeviceInfo device = ampere();
  device.compute_major = 7;
  CHECK(supports_wide_mma(p, wide_class_fp16, device).reason == Reason::device_limit);
  device = ampere(), device.shared_memory_bytes = 48 << 10;
  CHECK(supports_wide_mma(p, wide_class_fp16, device).reason == Reason::device_limit);
  ConvProblem far = p;
  far.padding.left = std::int64_t{1} << 31, far.y_strides = {};
  CHECK(supports_wide_mma(check(far), wide_class_fp16, ampere()).reason == Reason::too_large);
}
