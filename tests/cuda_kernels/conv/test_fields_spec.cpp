// The entries of CUDA's fields, without a GPU: those in the specified order serve what the others
// do, and the others claim it where their kernel has it.
#ifdef PLUMB_TEST_CUDA
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "plumb/backend.hpp"
#include "plumb/conv.hpp"
#include "plumb/problem_text.hpp"

using namespace plumb;

namespace {

const ConvAlgorithm& entry(std::string_view name) {
  const auto all = load_backend("cuda").backend->conv_algorithms();
  const auto found = std::ranges::find(all, name, [](const auto* one) { return one->name; });
  REQUIRE(found != all.end());
  return **found;
}

/// An H100, as far as a planner looks.
DeviceInfo h100() {
  DeviceInfo device;
  device.units = 132;
  device.nominal_bytes_per_second = 3.35e12;
  device.nominal_fp32_flop_per_second = 6.7e13;
  return device;
}

}  // namespace

TEST_CASE("cuda: fields_spec serves every field, and fields claims the bits where it has them") {
  REQUIRE(load_backend("cuda").backend);
  struct Case {
    const char* text;
    DType dtype;
    bool supported, in_order;  ///< in_order: of the kernel that is the fastest
  };
  const Case cases[] = {
      {"mb1ic4ih1iw100000oc4kh1kw9", DType::f32, true, true},
      {"mb1ic1ih4096iw4096oc1kh3ph1", DType::f32, true, true},
      {"mb1ic1id256ih256iw256oc1kd3kh3kw3pd1ph1pw1", DType::f64, true, true},
      {"mb1ic1id511ih509iw507oc1kd3kh3kw3pd1ph1pw1_padperiodic", DType::f32, true, false},
      {"mb2ic4ih4096iw4096oc4kh3ph1", DType::f32, true, false},
      {"mb1ic1ih4096iw4096oc1kh31ph15", DType::f32, true, false},
      {"mb1ic1ih4096iw4096oc1kh31ph15", DType::f64, true, false},
      {"mb1ic1ih100iw100oc1kh3sh2ph1", DType::f32, false, false},
      {"mb1ic64ih100iw100oc64kh3ph1", DType::f32, false, false}};
  for (const Case& one : cases) {
    const bool wide = one.dtype == DType::f64;
    const ConvAlgorithm& plain = entry(wide ? "cuda.conv.fields.fp64" : "cuda.conv.fields.fp32");
    const ConvAlgorithm& spec =
        entry(wide ? "cuda.conv.fields_spec.fp64" : "cuda.conv.fields_spec.fp32");
    ConvProblem problem = parse_problem(one.text).problem;
    problem.dtype = one.dtype;
    problem = check(problem);
    CAPTURE(one.text, to_string(one.dtype));
    CHECK(static_cast<bool>(plain.plan(problem, h100()).support) == one.supported);
    CHECK(static_cast<bool>(spec.plan(problem, h100()).support) == one.supported);
    // For its bits alone, and then always.
    CHECK(spec.forced_only);
    CHECK(spec.numerics.reproducible);
    CHECK(spec.numerics.invariant);
    CHECK(spec.reproduces == nullptr);
    if (!one.supported) continue;
    const Support claimed = plain.reproduces(problem, h100());
    CHECK(static_cast<bool>(claimed) == one.in_order);
    if (!one.in_order) CHECK(claimed.reason == Reason::not_reproducible);
  }
}
#endif
