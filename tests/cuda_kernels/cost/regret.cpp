#include "regret.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plumb/conv.hpp"
#include "plumb/problem_text.hpp"

using namespace plumb;

namespace plumb_test {
namespace {

struct Class {
  const char* name;
  DType dtype;
  Math math;
};
constexpr Class classes[] = {{"FP32", DType::f32, Math::fp32},
                             {"TF32", DType::f32, Math::tf32},
                             {"FP16", DType::f32, Math::fp16},
                             {"FP16", DType::f16, Math::fp16},
                             {"BF16", DType::bf16, Math::bf16}};

/// Adds what is chosen in that arithmetic, where that can be judged.
void judge(Regret& regret, Math math, const RecordedProblem& recorded,
           std::span<const Candidate> candidates) {
  const Candidate *chosen = nullptr, *fastest = nullptr;
  int timed = 0;
  bool of_class = false;  // a time of what keeps this promise and no stricter one
  for (const Candidate& one : candidates) {
    if (!allows(math, one.math)) continue;
    if (!chosen || one.estimate < chosen->estimate) chosen = &one;
    if (one.seconds <= 0) continue;
    ++timed;
    of_class = of_class || one.math == math;
    if (!fastest || one.seconds < fastest->seconds) fastest = &one;
  }
  const bool of_halves = recorded.problem.dtype != DType::f32;
  if (timed < 2 || !(of_class || of_halves)) return;
  if (chosen->seconds <= 0) {
    regret.untimed.push_back(fmt::format("{}: {}", recorded.name, chosen->algorithm->name));
    return;
  }
  regret.choices.push_back({&recorded, std::string(chosen->algorithm->name),
                            std::string(fastest->algorithm->name),
                            chosen->seconds / fastest->seconds, chosen->estimate / chosen->seconds,
                            fastest->estimate / fastest->seconds});
}

}  // namespace

double Regret::geometric_mean() const {
  double sum = 0;
  for (const Choice& one : choices) sum += std::log(one.regret);
  return choices.empty() ? 1 : std::exp(sum / static_cast<double>(choices.size()));
}

double Regret::worst() const { return choices.empty() ? 1 : choices.front().regret; }

std::vector<Candidate> candidates_of(const RecordedProblem& recorded,
                                     std::span<const ConvAlgorithm* const> algorithms,
                                     const DeviceInfo& device) {
  std::vector<Candidate> all;
  for (const ConvAlgorithm* algorithm : algorithms) {
    if (algorithm->forced_only || algorithm->provider) continue;
    const ConvCandidate asked = ask(*algorithm, recorded.problem, device);
    if (!asked.support) continue;
    Candidate one{algorithm, asked.error_class, asked.estimate_seconds};
    if (const auto known = recorded.seconds.find(std::string(algorithm->name));
        known != recorded.seconds.end())
      one.seconds = known->second;
    all.push_back(one);
  }
  return all;
}

std::vector<Regret> regrets(std::span<const RecordedProblem> recorded,
                            std::span<const std::vector<Candidate>> candidates) {
  std::vector<Regret> all;
  for (const Class& of : classes) {
    if (all.empty() || all.back().arithmetic != of.name) all.push_back({of.name, {}, {}});
    for (std::size_t i = 0; i < recorded.size(); ++i)
      if (recorded[i].problem.dtype == of.dtype)
        judge(all.back(), of.math, recorded[i], candidates[i]);
  }
  for (Regret& one : all)
    std::stable_sort(one.choices.begin(), one.choices.end(),
                     [](const Choice& a, const Choice& b) { return a.regret > b.regret; });
  return all;
}

std::string to_string(std::span<const Regret> regrets, std::size_t most) {
  std::string text = "arithmetic  problems  geometric mean  worst  over 1.3  not timed\n";
  for (const Regret& one : regrets)
    text += fmt::format("{:<10}  {:>8}  {:>14.3f}  {:>5.2f}  {:>8}  {:>9}\n", one.arithmetic,
                        one.choices.size(), one.geometric_mean(), one.worst(),
                        std::count_if(one.choices.begin(), one.choices.end(),
                                      [](const Choice& of) { return of.regret > 1.3; }),
                        one.untimed.size());
  for (const Regret& one : regrets) {
    for (std::size_t i = 0; i < std::min(most, one.choices.size()); ++i) {
      const Choice& of = one.choices[i];
      text += fmt::format(
          "{}  {:.2f}  {} {}\n  chosen {}, {:.2f} of its time estimated; fastest {}, {:.2f}\n",
          one.arithmetic, of.regret, of.of->name, plumb::to_string(of.of->problem), of.chosen,
          of.chosen_estimate, of.fastest, of.fastest_estimate);
    }
    for (std::size_t i = 0; i < std::min(most, one.untimed.size()); ++i)
      text += fmt::format("{}  not timed: {}\n", one.arithmetic, one.untimed[i]);
  }
  return text;
}

}  // namespace plumb_test
