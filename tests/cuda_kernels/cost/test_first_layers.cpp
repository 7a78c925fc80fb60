// First layers of networks with channels innermost: what is chosen writes whole sectors of y.
#ifdef PLUMB_TEST_CUDA
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <span>
#include <string>
#include <string_view>

#include "plumb/backend.hpp"
#include "plumb/conv.hpp"
#include "plumb/problem_text.hpp"
#include "records.hpp"
#include "regret.hpp"

using namespace plumb;
using namespace plumb_test;

namespace {

struct FirstLayer {
  const char *name, *text;
};
constexpr FirstLayer first_layers[] = {
    {"ResNet-50 conv1", "mb64ic3ih224iw224oc64kh7kw7sh2sw2ph3pw3"},
    {"MobileNetV2 stem", "mb64ic3ih224iw224oc32kh3kw3sh2sw2ph1pw1"},
    {"ConvNeXt-T stem", "mb64ic3ih224iw224oc96kh4kw4sh4sw4"},
    {"VGG-16 conv1_1", "mb64ic3ih224iw224oc64kh3kw3ph1pw1"},
    {"EfficientNet-B4 stem", "mb64ic3ih380iw380oc48kh3kw3sh2sw2ph1pw1"},
    {"U-Net's first", "mb8ic3ih572iw572oc64kh3kw3"},
};

struct Choosing {
  DType dtype;
  Math math;
};
constexpr Choosing choosing[] = {{DType::f16, Math::fp16},
                                 {DType::bf16, Math::bf16},
                                 {DType::f32, Math::tf32},
                                 {DType::f32, Math::fp32}};

/// An H100, which is the H200 of the records with another memory.
DeviceInfo h100() {
  DeviceInfo device = recorded_device();
  device.nominal_bytes_per_second = 3.35e12;
  return device;
}

std::string chosen(const ConvProblem& problem, Math math) {
  const std::span<const ConvAlgorithm* const> all = load_backend("cuda").backend->conv_algorithms();
  RecordedProblem asked;
  asked.problem = problem;
  const Candidate* best = nullptr;
  const std::vector<Candidate> candidates = candidates_of(asked, all, h100());
  for (const Candidate& one : candidates)
    if (allows(math, one.math) && (!best || one.estimate < best->estimate)) best = &one;
  REQUIRE(best);
  return std::string(best->algorithm->name);
}

ConvProblem channels_last(const char* text, DType dtype) {
  ConvProblem problem = parse_problem(text).problem;
  problem.dtype = dtype;
  problem.x_strides = strides_for(Layout::nhwc, problem.x_extents());
  problem.y_strides = strides_for(Layout::nhwc, problem.y_extents());
  return check(problem);
}

double estimate(const std::string& name, const ConvProblem& problem) {
  for (const ConvAlgorithm* algorithm : load_backend("cuda").backend->conv_algorithms())
    if (algorithm->name == name) {
      const PlanResult plan = algorithm->plan(problem, h100());
      REQUIRE(plan.support);
      return plan.estimate_seconds;
    }
  FAIL("no " + name);
  return 0;
}

/// Whether the build has the kernels of an H100.
bool has_wgmma() {
  const ConvProblem problem = channels_last(first_layers[0].text, DType::f16);
  return std::ranges::any_of(load_backend("cuda").backend->conv_algorithms(),
                             [&](const ConvAlgorithm* algorithm) {
                               return algorithm->name == "cuda.conv.interleaved_half.fp16" &&
                                      algorithm->plan(problem, h100()).support;
                             });
}

}  // namespace

TEST_CASE("cuda: of first layers with channels innermost, what writes whole sectors is chosen",
          "[costs]") {
  REQUIRE(load_backend("cuda").backend);
  if (!has_wgmma()) SKIP("a build without code for sm_90a");
  for (const FirstLayer& layer : first_layers)
    for (const Choosing& of : choosing) {
      const ConvProblem problem = channels_last(layer.text, of.dtype);
      const std::string name = chosen(problem, of.math);
      CAPTURE(layer.name, std::string(to_string(of.dtype)), static_cast<int>(of.math), name);
      CHECK((name.starts_with("cuda.conv.interleaved") || name.starts_with("cuda.conv.wide") ||
             name.starts_with("cuda.conv.pointwise_taps")));
    }
}

TEST_CASE("cuda: estimates count the parts of sectors that outputs of one filter leave",
          "[costs]") {
  REQUIRE(load_backend("cuda").backend);
  if (!has_wgmma()) SKIP("a build without code for sm_90a");
  // Measured on one H100: 0.599 and 0.094 ms.
  const char* const text = first_layers[1].text;
  const double few_terms = estimate("cuda.conv.few_terms.fp32", channels_last(text, DType::f32));
  CHECK(few_terms > 0.4e-3);
  CHECK(few_terms < 0.8e-3);
  const double reuse =
      estimate("cuda.conv.index_reuse.fp16.32_filters", channels_last(text, DType::f16));
  CHECK(reuse > 0.065e-3);
  CHECK(reuse < 0.13e-3);
}
#endif
