// Many channels on Hopper: every branch of the wide kernel through all tiers, and plans without a
// GPU.
#ifdef PLUMB_TEST_CUDA
#include <catch2/catch_test_macros.hpp>
#include <iterator>
#include <string>
#include <vector>

#include "plumb/backend.hpp"
#include "support/absent_device.hpp"
#include "support/devices.hpp"

using namespace plumb;

namespace {

struct Case {
  const char* text;
  bool bias = false, accumulate = false;
  Activation activation = Activation::none;
  std::int64_t offset = 0;
};

/// Strides, dilation, tiles over rows and images, C and K that fill no block, one to three axes,
/// splits, addresses that are not aligned.
constexpr Case cases[] = {
    {"mb2ic64ih9iw11oc64kh3ph1"},
    {"mb2ic128ih14oc256kh3ph1", true, false, Activation::relu},
    {"mb5ic8ih10iw9oc40kh3ph1", true},
    {"mb2ic24ih12oc8kh3ph1sh2"},
    {"mb2ic72ih17iw15oc72kh3ph2dh1", false, true},
    {"mb1ic72ih23iw19oc264kh5ph2sh3", true, true, Activation::relu},
    {"mb2ic64ih8iw10oc1kh3ph1", true},
    {"mb2ic40ih8iw10oc21kh3ph1", true, true},
    {"mb2ic64ih8iw10oc96kh3ph1", true, false, Activation::none, 1},
    {"mb3ic64iw200oc96kw5pw2"},
    {"mb2ic16iw301oc200kw7pw3sw2dw2", false, false, Activation::relu},
    {"mb2ic32id6ih7iw8oc48kd3kh3kw3pd1ph1pw1"},
    {"mb2ic64id7ih9iw8oc136kd3kh2kw3pd1ph0pw2sd2sh2sw1", true},
    {"mb1ic512ih7oc512kh3ph1"},
    {"mb1ic64ih40iw33oc64kh7ph3sh8"},
    {"mb2ic13ih8iw10oc24kh3ph1", true},
    {"mb2ic1ih9iw10oc72kh3ph1"},
    {"g2mb2ic128ih7iw9oc144kh3ph1", true, true},
    {"g32mb2ic128ih7iw9oc128kh3ph1", true, false, Activation::relu},
    {"g6mb1ic18ih9iw8oc12kh3ph1sh2"},
    {"g3mb2ic201ih5iw6oc15kh1ph0", false, true},
    {"g48mb2ic48ih9iw8oc48kh5ph2", true},
    {"mb7ic40ih20iw19oc24kh3ph1", false, true, Activation::none, 1},
    {"mb3ic72ih14oc136kh1ph0", true, true},
    {"mb2ic200iw300oc72kw1", false, false, Activation::relu},
};

struct Entry {
  const char* name;
  DType dtype;
};
constexpr Entry entries[] = {{"cuda.conv.wide.fp16", DType::f16},
                             {"cuda.conv.wide.bf16", DType::bf16},
                             {"cuda.conv.wide.tf32", DType::f32},
                             {"cuda.conv.wide.fp16x3", DType::f32},
                             {"cuda.conv.wide.tf32x3", DType::f32}};

ValidationCase case_of(const Case& of, DType dtype, Placement placement) {
  ConvProblem problem = parse_problem(of.text).problem;
  problem.dtype = dtype;
  ValidationCase test = validation_case(of.text, problem, placement);
  test.bias = of.bias, test.accumulate = of.accumulate, test.activation = of.activation;
  test.offset = of.offset;
  return test;
}

const ConvAlgorithm* named(std::span<const ConvAlgorithm* const> list, const char* name) {
  for (const ConvAlgorithm* algorithm : list)
    if (algorithm->name == name) return algorithm;
  return nullptr;
}

}  // namespace

TEST_CASE("cuda: wide filters have a layout that serves any batch") {
  const LoadedBackend& loaded = load_backend("cuda");
  REQUIRE(loaded.backend);  // there without a GPU
  const DeviceInfo hopper = plumb_test::hopper();
  for (const auto& [name, dtype] : entries) {
    const ConvAlgorithm* const algorithm = named(loaded.backend->conv_algorithms(), name);
    REQUIRE(algorithm);
    for (const Case& of : cases)
      for (const Placement placement : {Placement::nhwc, Placement::nchw}) {
        CAPTURE(name, of.text, static_cast<int>(placement));
        ConvProblem problem = case_of(of, dtype, placement).problem;
        const PlanResult plan = algorithm->plan(problem, hopper);
        if (plan.support.reason == Reason::device_limit) SKIP("a build without code for sm_90a");
        CHECK(plan.support.sentence == "");
        CHECK(plan.estimate_seconds > 0);
        for (const std::int64_t images : {0, 50}) {
          problem.n = images;
          CHECK(algorithm->plan(check(problem), hopper).filter_bytes == plan.filter_bytes);
        }
      }
  }
}

TEST_CASE("cuda: wide takes every layout and groups") {
  const LoadedBackend& loaded = load_backend("cuda");
  REQUIRE(loaded.backend);
  const DeviceInfo hopper = plumb_test::hopper();
  for (const auto& [name, dtype] : entries) {
    const ConvAlgorithm* const algorithm = named(loaded.backend->conv_algorithms(), name);
    REQUIRE(algorithm);
    CHECK_FALSE(algorithm->forced_only);
    for (const Placement placement : {Placement::nhwc, Placement::nchw, Placement::strided})
      for (const char* text : {"mb2ic64ih9iw11oc64kh3ph1", "mb2ic13ih9iw11oc64kh3ph1",
                               "g2mb2ic128ih9iw11oc64kh3ph1"}) {
        CAPTURE(name, text);
        const Support support =
            algorithm->plan(case_of({text}, dtype, placement).problem, hopper).support;
        if (support.reason == Reason::device_limit) SKIP("a build without code for sm_90a");
        CHECK(support);
      }
  }
}

TEST_CASE("cuda: wide convolutions pass all tiers", "[validation]") {
  const Device device = plumb_test::device_or_skip("cuda");
  int runs = 0;
  std::vector<Entry> all(std::begin(entries), std::end(entries));
  all.push_back({"cuda.conv.wide.fp16", DType::f16});
  all.push_back({"cuda.conv.wide.bf16", DType::bf16});
  for (const auto& [name, dtype] : all) {
    const ConvAlgorithm* const algorithm = named(conv_algorithms(device), name);
    REQUIRE(algorithm);
    for (const Case& of : cases)
      for (const Placement placement : {Placement::nhwc, Placement::nchw, Placement::strided})
        for (const ValidationRecord& record :
             validate(device, {&algorithm, 1}, case_of(of, dtype, placement), {.seed = 3})) {
          CAPTURE(name, of.text, static_cast<int>(placement), to_string(record.tier),
                  record.sentence);
          if (record.verdict == Verdict::unsupported) continue;
          ++runs;
          CHECK(record.verdict == Verdict::pass);
        }
  }
  if (device.info().compute_major == 9) CHECK(runs > 0);
}
#endif
