#include "regrets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/records.hpp"
#include "plumb/problem_text.hpp"

using namespace plumb;
using namespace plumb::cuda;

namespace plumb_test {

double PlanRegrets::geometric_mean() const {
  double sum = 0;
  for (const double one : regrets) sum += std::log(one);
  return regrets.empty() ? 1 : std::exp(sum / static_cast<double>(regrets.size()));
}

double PlanRegrets::greatest() const { return regrets.empty() ? 1 : std::ranges::max(regrets); }

void PlanRegrets::add(double regret, const std::string& name) {
  if (regrets.empty() || regret > greatest()) worst = name;
  regrets.push_back(regret);
}

std::map<std::string, PlanRegrets> march_regrets(const std::vector<RecordedCase>& cases,
                                                 bool of_that_day) {
  std::map<std::string, PlanRegrets> all;
  for (const RecordedCase& one : cases) {
    if (one.kernel != DepthwiseKernel::march) continue;
    PlanRegrets& of = all[fmt::format("{} {}", to_string(one.problem.dtype), one.layout)];
    std::optional<double> seconds;
    if (of_that_day)
      seconds = std::ranges::find(one.cuts, true, &RecordedCut::planned)->seconds;
    else
      seconds = seconds_of(
          one, *plan_depthwise(one.problem, one.kernel, recorded_device(), {.staged = false}));
    if (seconds)
      of.add(*seconds / one.least_seconds(), one.name);
    else
      ++of.untimed;
  }
  return all;
}

PlanRegrets kernel_regrets(const std::vector<RecordedCase>& cases) {
  std::map<std::string, std::vector<const RecordedCase*>> problems;
  for (const RecordedCase& one : cases)
    problems[fmt::format("{} {} {}", one.name, to_string(one.problem.dtype), one.layout)].push_back(
        &one);
  PlanRegrets all;
  for (const auto& [name, kernels] : problems) {
    if (kernels.size() < 2) continue;
    const RecordedCase* chosen = nullptr;
    std::optional<DepthwisePlan> plan;
    double least = INFINITY;
    for (const RecordedCase* one : kernels) {
      least = std::min(least, one->least_seconds());
      const auto other =
          plan_depthwise(one->problem, one->kernel, recorded_device(),
                         {.whole = false, .staged = false});  // no time was recorded of those
      if (other && (!plan || other->seconds < plan->seconds)) plan = other, chosen = one;
    }
    if (const auto seconds = seconds_of(*chosen, *plan))
      all.add(*seconds / least, name);
    else
      ++all.untimed;
  }
  return all;
}

double miss(const std::vector<RecordedCase>& cases, double event_seconds) {
  double sum = 0;
  int count = 0;
  for (const RecordedCase& one : cases)
    for (const RecordedCut& cut : one.cuts) {
      const auto plan = plan_depthwise(one.problem, one.kernel, recorded_device(), cut.choice);
      const double ratio = std::log((plan->seconds + event_seconds) / cut.seconds);
      sum += ratio * ratio, ++count;
    }
  return std::sqrt(sum / std::max(count, 1));
}

std::string to_string(const std::map<std::string, PlanRegrets>& regrets) {
  std::string text;
  for (const auto& [name, one] : regrets)
    text += fmt::format("{:<10} {:3} timed {:3} untimed  geometric mean {:.3f}  worst {:.3f} {}\n",
                        name, one.regrets.size(), one.untimed, one.geometric_mean(), one.greatest(),
                        one.worst);
  return text;
}

}  // namespace plumb_test
