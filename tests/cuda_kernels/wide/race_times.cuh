// How long tiles take: as they are planned, and of every shape, split and cluster.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "race_report.cuh"
#include "wide_timing.cuh"

namespace plumb_test {

inline const std::vector<std::string> timed_problems{
    "mb64ic256ih56oc256kh3ph1",     "mb64ic64ih56oc64kh3ph1",
    "mb64ic128ih28oc128kh3ph1",     "mb64ic256ih14oc256kh3ph1",
    "mb64ic512ih7oc512kh3ph1",      "mb64ic256ih56oc64kh1ph0",
    "mb64ic64ih56oc256kh1ph0",      "mb64ic1024ih14oc256kh1ph0",
    "mb64ic512ih28oc1024kh1ph0sh2", "mb64ic2048ih7oc512kh1ph0",
    "mb1ic64ih56oc64kh3ph1",        "mb1ic256ih14oc256kh3ph1",
    "mb1ic512ih7oc512kh3ph1",       "mb8ic512ih32oc512kh3ph6dh5",
    "g32mb64ic128ih56oc128kh3ph1",  "g32mb64ic256ih28oc256kh3ph1",
    "g32mb64ic1024ih7oc1024kh3ph1", "mb2ic64id32ih64oc64kd3kh3kw3pd1ph1pw1",
    "mb64ic3ih224oc768kh16sh16ph0", "mb64ic3ih224oc96kh4sh4ph0"};

/// Runs rotate over so many bytes, more than L2 holds.
constexpr double rotated_bytes = 200e6;

template <class Arithmetic>
int time_problem(const std::string& text, bool sweep, const WideOptions& options) {
  const ConvProblem problem = wide_problem(text, Arithmetic::host.stored, options);
  const int buffers =
      1 + static_cast<int>(std::min(20.0, rotated_bytes / std::max(problem.bytes(), 1.0)));
  WideCase<Arithmetic> convolution(text, options, false, buffers);
  convolution.pack();
  const WidePlan planned = convolution.plan();
  const auto line = [&](const char* kind, const WidePlan& plan) {
    const double ms = milliseconds(convolution, plan, buffers);
    convolution.clear();
    convolution.launch(plan);
    const Wrong wrong = convolution.wrong(20000);
    double worst = 0;
    std::memcpy(&worst, &wrong.worst, sizeof(worst));
    std::printf(
        R"({"problem":"%s","class":"%s","layout":"%s","kind":"%s",%s,"ms":%.4f,"predicted_ms":%.4f,)"
        R"("tflops":%.1f,"gbs":%.0f,"wrong":%llu,"error_over_bound":%.3f})"
        "\n",
        text.c_str(), class_name<Arithmetic>(), options.x_planes ? "nchw" : "nhwc", kind,
        tiles_of(plan).c_str(), ms, 1e3 * plan.tiles.seconds, problem.flop() / ms * 1e-9,
        problem.bytes() / ms * 1e-6, wrong.count, worst);
    std::fflush(stdout);
  };
  line("planned", planned);
  if (!sweep) return 0;
  for (int shape = 0; shape < wide_shape_count; ++shape)
    for (const int splits : {1, 2, 4, 8}) {
      if (!has_wide_shape(Arithmetic::host, false, shape)) continue;
      const WidePlan plan = convolution.plan({.shape = shape, .splits = splits});
      // Splits are for those that do not fill the device by themselves.
      if (plan.tiles.splits != splits || (splits > 1 && plan.tiles.works() > 2 * 132)) continue;
      line("swept", plan);
    }
  for (int shape = 0; shape < wide_shape_count; ++shape)
    for (int blocks = 2; blocks <= wide_max_cluster; blocks *= 2) {
      if (!has_wide_shape(Arithmetic::host, false, shape)) continue;
      const WidePlan plan = convolution.plan({.shape = shape, .cluster = blocks});
      if (plan.tiles.whole() < plan.tiles.tiles()) line("swept", plan);
    }
  return 0;
}

}  // namespace plumb_test
