#include "recorded_cuts.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>

#include "cuda_kernels/cost/records.hpp"
#include "plumb/problem_text.hpp"

using nlohmann::json;
using namespace plumb;
using namespace plumb::cuda;

namespace plumb_test {
namespace {

constexpr const char* kernel_names[] = {"march", "planes", "channels"};

Strides channels_last(const Extents& extents) {
  Strides strides = extents;
  std::int64_t step = extents[1];
  strides[1] = 1;
  for (int i = extents.rank() - 1; i > 1; --i) strides[i] = step, step *= extents[i];
  strides[0] = step;
  return strides;
}

ConvProblem problem_of(const json& line) {
  ConvProblem problem = parse_problem(line.at("problem").get<std::string>()).problem;
  const std::string dtype = line.at("dtype");
  problem.dtype = dtype == "f16"    ? DType::f16
                  : dtype == "bf16" ? DType::bf16
                  : dtype == "f64"  ? DType::f64
                                    : DType::f32;
  if (line.at("layout") == "nhwc") {
    problem.x_strides = channels_last(problem.x_extents());
    problem.y_strides = channels_last(problem.y_extents());
  }
  return check(problem);
}

/// As cut_of() says it.
std::vector<int> cut_of(const json& line) {
  std::vector<int> cut = line.at("form");
  if (line.contains("length")) {
    cut.push_back(line.at("length"));
  } else {
    for (const int lanes : line.at("lanes")) cut.push_back(lanes);
    cut.push_back(line.at("planes"));
  }
  cut.push_back(line.at("threads"));
  return cut;
}

DepthwiseChoice choice_of(const RecordedCase& of, const json& line) {
  const std::vector<int> cut = cut_of(line);
  for (const DepthwiseChoice& choice : swept_choices(of.kernel)) {
    // A length between the swept ones is one that was planned.
    DepthwiseChoice exact = choice;
    if (of.kernel == DepthwiseKernel::march) exact.length = line.at("length");
    const auto plan = plan_depthwise(of.problem, of.kernel, recorded_device(), exact);
    if (plan && plumb_test::cut_of(*plan) == cut) return exact;
  }
  throw std::runtime_error("no choice makes the cut " + line.dump());
}

}  // namespace

double RecordedCase::least_seconds() const {
  return std::ranges::min(cuts, {}, &RecordedCut::seconds).seconds;
}

bool RecordedCase::swept() const {
  return kernel == DepthwiseKernel::march &&
         (problem.dtype == DType::f32 || problem.dtype == DType::f16);
}

std::vector<DepthwiseChoice> swept_choices(DepthwiseKernel kernel) {
  const bool march = kernel == DepthwiseKernel::march;
  const std::vector<int> lengths =
      march ? std::vector{64, 56, 28, 19, 14, 8, 7, 4, 2, 1} : std::vector{0};
  const std::vector<int> lanes = march ? std::vector{0} : std::vector{32, 16, 8, 4};
  std::vector<DepthwiseChoice> all;
  for (const bool vectors : {true, false})
    for (const int threads : {128, 64, 32})
      for (const int length : lengths)
        for (const int most : lanes)
          all.push_back({.threads = threads,
                         .lanes = most,
                         .vectors = vectors,
                         .length = length,
                         .whole = false,
                         .staged = false});
  return all;
}

std::vector<int> cut_of(const DepthwisePlan& plan) {
  if (plan.kernel == DepthwiseKernel::march) {
    const MarchCut& cut = plan.wide_march ? *plan.wide_march : *plan.march;
    const MarchForm& form = cut.form;
    return {form.width,  form.columns, form.taps_m, form.taps_r,
            form.taps_s, form.stride,  cut.length,  cut.threads};
  }
  const DepthwiseCut& cut = plan.wide ? *plan.wide : plan.cut;
  return {cut.form.width, cut.form.chunk, cut.form.stride, cut.lanes_c,
          cut.lanes_u,    cut.lanes_w,    cut.planes,      cut.threads()};
}

std::optional<double> seconds_of(const RecordedCase& recorded, const DepthwisePlan& plan) {
  std::vector<int> wanted = cut_of(plan);
  std::optional<double> same, other_blocks;
  for (const RecordedCut& one : recorded.cuts) {
    std::vector<int> cut =
        cut_of(*plan_depthwise(recorded.problem, recorded.kernel, recorded_device(), one.choice));
    if (cut == wanted) same = std::min(same.value_or(one.seconds), one.seconds);
    cut.back() = wanted.back();
    if (recorded.kernel == DepthwiseKernel::march && cut == wanted)
      other_blocks = std::min(other_blocks.value_or(one.seconds), one.seconds);
  }
  return same ? same : other_blocks;
}

std::vector<RecordedCase> recorded_cases(const std::filesystem::path& results) {
  const std::filesystem::path path = results / "2026-11-26-h200-depthwise.json";
  std::ifstream stream(path);
  if (!stream) throw std::runtime_error("no record " + path.string());
  std::vector<RecordedCase> all;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, std::size_t> places;
  const json record = json::parse(stream);
  for (const json& line : record.at("cuts")) {
    const auto [place, is_new] = places.try_emplace(
        {line.at("problem"), line.at("layout"), line.at("dtype"), line.at("kernel")}, all.size());
    if (is_new) {
      const auto* const kernel = std::ranges::find(kernel_names, line.at("kernel"));
      if (kernel == std::end(kernel_names))
        throw std::runtime_error("no kernel " + line.at("kernel").dump());
      all.push_back({.name = line.at("name"),
                     .layout = line.at("layout"),
                     .problem = problem_of(line),
                     .kernel = static_cast<DepthwiseKernel>(kernel - kernel_names),
                     .cuts = {}});
    }
    RecordedCase& of = all[place->second];
    of.cuts.push_back(
        {choice_of(of, line), line.at("ms").get<double>() * 1e-3, line.at("kind") == "planned"});
  }
  return all;
}

}  // namespace plumb_test
