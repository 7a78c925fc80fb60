// Which algorithm runs a problem: what each says, what the options rule out, and the fastest of the
// rest.
#include "conv_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "environment.hpp"
#include "parallel/floating_point.hpp"
#include "plumb/backend.hpp"
#include "plumb/did_you_mean.hpp"
#include "plumb/error.hpp"
#include "plumb/problem_text.hpp"
#include "plumb/quote.hpp"
#include "plumb/tune.hpp"
#include "providers.hpp"

namespace plumb {
namespace {

Support refuse(Reason reason, std::string sentence) { return {reason, std::move(sentence)}; }

/// What rules the algorithm out before it is asked about the problem: it may have to search before
/// it can say anything.
Support refused_unasked(const ConvAlgorithm& algorithm, const ConvOptions& options) {
  // What is there for its bits alone runs where they are asked for.
  const bool for_its_bits = options.reproducible && algorithm.numerics.reproducible;
  if (algorithm.forced_only && options.algorithm.empty() && !for_its_bits)
    return refuse(Reason::forced_only, "runs only when it is asked for by name");
  if ((algorithm.forced_only || algorithm.provider) && !options.algorithm.empty() &&
      options.algorithm != algorithm.name)
    return refuse(Reason::not_forced, fmt::format("{} is forced", quoted(options.algorithm)));
  return {};
}

RunOptions run_options(const ConvOptions& options) {
  return {.accumulate = options.accumulate,
          .relu_mask = options.relu_mask,
          .reproducible = options.reproducible,
          .workspace_limit_bytes = options.workspace_limit_bytes};
}

/// The one type that reproducible sums are formed in; another gives other bits.
Support refused_type_of_sums(const Numerics& numerics, DType dtype, Math math) {
  const Accumulator wanted =
      dtype == DType::f64 || math == Math::fp64 ? Accumulator::fp64_fma : Accumulator::fp32_fma;
  if (numerics.accumulator == wanted) return {};
  const bool fp64 = wanted == Accumulator::fp64_fma;
  return refuse(
      Reason::not_reproducible,
      fmt::format("sums in {}; reproducible convolutions of {} sum in {} where {} is asked "
                  "for",
                  fp64 ? "fp32" : "fp64", to_string(dtype), fp64 ? "fp64" : "fp32",
                  to_string(math)));
}

/// What the options rule out of what an algorithm can do.
Support refused_by_options(const ConvAlgorithm& algorithm, DType dtype,
                           const ConvCandidate& candidate, const ConvOptions& options) {
  if (!options.algorithm.empty() && options.algorithm != candidate.algorithm)
    return refuse(Reason::not_forced, fmt::format("{} is forced", quoted(options.algorithm)));
  if (!allows(options.math, candidate.error_class))
    return refuse(Reason::math,
                  fmt::format("computes in {}; {} is asked for", to_string(candidate.error_class),
                              to_string(options.math)));
  if (options.deterministic && !candidate.deterministic)
    return refuse(Reason::not_deterministic, "its results vary from run to run");
  if (options.reproducible)
    if (Support type = refused_type_of_sums(algorithm.numerics, dtype, options.math); !type)
      return type;
  if (candidate.workspace_bytes > options.workspace_limit_bytes)
    return refuse(Reason::workspace_limit,
                  fmt::format("needs {} bytes of workspace; at most {} are allowed",
                              candidate.workspace_bytes, options.workspace_limit_bytes));
  return {};
}

ConvCandidate unasked(const ConvAlgorithm& algorithm, DType dtype) {
  return {.algorithm = algorithm.name,
          .error_class = math_class(algorithm.numerics, dtype),
          .deterministic = algorithm.numerics.deterministic,
          .reproducible = algorithm.numerics.reproducible,
          .invariant = algorithm.numerics.invariant,
          .provider = algorithm.provider ? algorithm.provider->name : std::string_view()};
}

ConvCandidate candidate_of(const ConvRun& run, DType dtype) {
  ConvCandidate candidate = unasked(run.algorithm(), dtype);
  candidate.support = run.support();
  candidate.reproducible = candidate.support && static_cast<bool>(run.reproduces());
  candidate.invariant = run.invariant();
  candidate.estimate_seconds = run.estimate_seconds();
  candidate.workspace_bytes = run.workspace_bytes();
  candidate.pool_fused = run.fuses_pool();
  candidate.copies_input = candidate.support && run.copies_input();
  candidate.accumulate_fused = run.fuses_accumulate();
  candidate.forward_convolutions = run.forward_convolutions();
  return candidate;
}

/// What an algorithm says under these options; its run is kept in `run` where it can.
ConvCandidate asked_with(const ConvOptions& options, const ConvAlgorithm& algorithm,
                         const ConvProblem& problem, const DeviceInfo& device,
                         const TunedTimes& tuned, std::optional<ConvRun>& run) {
  ConvCandidate candidate = unasked(algorithm, problem.dtype);
  candidate.support = refused_unasked(algorithm, options);
  if (!candidate.support) return candidate;
  const std::optional<double> seconds = time_of(tuned, algorithm);
  if (algorithm.provider && options.algorithm.empty())
    candidate.support = refused_unmeasured(algorithm, tuned, seconds);
  if (!candidate.support) return candidate;
  run.emplace(algorithm, problem, device, run_options(options));
  candidate = candidate_of(*run, problem.dtype);
  if (candidate.estimate_seconds > 0) candidate.measured_seconds = seconds;
  if (candidate.support)
    candidate.support = refused_by_options(algorithm, problem.dtype, candidate, options);
  return candidate;
}

/// The seconds to choose by. Times count only where every algorithm that these options leave has
/// one: an estimate and a time are not to be compared, and what was not timed might have won.
/// Another library's estimate is never chosen by.
void mark_chosen(std::vector<ConvCandidate>& all) {
  constexpr double none = std::numeric_limits<double>::infinity();
  const auto measured = [&](const ConvCandidate& c) { return c.measured_seconds.value_or(none); };
  bool every_one = true, any_ran = false;
  for (const ConvCandidate& candidate : all) {
    if (!candidate.support) continue;
    every_one = every_one && candidate.measured_seconds;
    any_ran = any_ran || measured(candidate) < none;
  }
  const bool tuned = every_one && any_ran;
  const auto seconds = [&](const ConvCandidate& candidate) {
    if (tuned) return measured(candidate);
    return candidate.provider.empty() ? candidate.estimate_seconds : none;
  };
  // min_element takes the first of equals: the backend's order decides between them.
  const auto best = std::min_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return static_cast<bool>(a.support) && (!b.support || seconds(a) < seconds(b));
  });
  if (best != all.end() && best->support) best->chosen = true;
}

/// Each refusal once, behind the algorithms that it is of; what was asked for comes first.
std::string refusals_text(std::vector<ConvCandidate> all, std::string_view asked_for) {
  struct Refusal {
    const Support& support;
    std::vector<std::string_view> algorithms;
  };
  std::vector<Refusal> refusals;
  std::stable_partition(all.begin(), all.end(),
                        [&](const ConvCandidate& one) { return one.algorithm == asked_for; });
  for (const ConvCandidate& one : all) {
    if (one.support.reason == Reason::not_forced) continue;
    const auto same = std::find_if(refusals.begin(), refusals.end(), [&](const Refusal& other) {
      return other.support.reason == one.support.reason &&
             other.support.sentence == one.support.sentence;
    });
    if (same == refusals.end())
      refusals.push_back({one.support, {one.algorithm}});
    else
      same->algorithms.push_back(one.algorithm);
  }
  std::string text;
  for (const Refusal& one : refusals)
    text += fmt::format("; {}: {} ({})", fmt::join(one.algorithms, ", "), one.support.sentence,
                        to_string(one.support.reason));
  return text;
}

[[noreturn]] void refuse_problem(const Device& device, const ConvProblem& problem,
                                 const ConvOptions& options,
                                 const std::vector<ConvCandidate>& all) {
  std::vector<std::string_view> names;
  for (const ConvCandidate& one : all) names.push_back(one.algorithm);
  const bool known = options.algorithm.empty() ||
                     std::find(names.begin(), names.end(), options.algorithm) != names.end();
  throw Error(
      ErrorCode::unsupported,
      fmt::format("no algorithm of {} runs {} in {}{}", to_string(device.id()), to_string(problem),
                  to_string(problem.dtype),
                  known ? refusals_text(all, options.algorithm)
                        : fmt::format("; there is no {} among them{}", quoted(options.algorithm),
                                      did_you_mean(options.algorithm, names))));
}

/// The time from tuning, or why there is none.
std::string time_text(const ConvCandidate& candidate, const TunedTimes& tuned) {
  if (candidate.measured_seconds) return fmt::format("{:.3g} s tuned", *candidate.measured_seconds);
  return tuned.sentence.empty() ? "not among those tuned" : tuned.sentence;
}

}  // namespace

void check_options(const ConvProblem& problem, const ConvOptions& options) {
  const auto refuse = [&](const char* what) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("convolution: {} is to be {}", to_string(problem), what));
  };
  if (options.accumulate && problem.pool != Pool::none)
    refuse("accumulated and pooled; expected one of them");
  if (options.relu_mask && problem.direction == Direction::forward)
    refuse("masked; expected a gradient");
  if (options.activation != Activation::none && problem.direction == Direction::backward_weights)
    refuse("activated; expected no activation of dw");
}

ConvOptions with_environment(ConvOptions options) {
  if (options.algorithm.empty()) options.algorithm = environment("PLUMB_CONV_ALGORITHM");
  return options;
}

ConvCandidate ask(const ConvAlgorithm& algorithm, const ConvProblem& problem,
                  const DeviceInfo& device, bool accumulate, bool relu_mask, bool reproducible) {
  return candidate_of(ConvRun(algorithm, problem, device, {accumulate, relu_mask, reproducible}),
                      problem.dtype);
}

std::span<const ConvAlgorithm* const> conv_algorithms(const Device& device) {
  return device.algorithms();
}

/// The same, and the run of each algorithm that was asked, at its candidate's place.
static std::vector<ConvCandidate> candidates(const Device& device, const ConvProblem& problem,
                                             const ConvOptions& options,
                                             std::vector<std::optional<ConvRun>>& runs) {
  const DefaultFloatingPoint mode;  // which algorithm runs is the same under all of the caller's
  check_options(problem, options);
  const TunedTimes tuned = tuned_times(device, problem);
  std::vector<ConvCandidate> all;
  for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
    all.push_back(
        asked_with(options, *algorithm, problem, device.info(), tuned, runs.emplace_back()));
  }
  for (const PassedOver& passed : device.passed_over())
    all.push_back({.algorithm = passed.backend, .support = {passed.reason, passed.sentence}});
  mark_chosen(all);
  return all;
}

std::vector<ConvCandidate> candidates(const Device& device, const ConvProblem& problem,
                                      const ConvOptions& options) {
  std::vector<std::optional<ConvRun>> runs;
  return candidates(device, problem, options, runs);
}

std::shared_ptr<const PlannedConv> choose(const Device& device, const ConvProblem& problem,
                                          const ConvOptions& options) {
  std::vector<std::optional<ConvRun>> runs;
  const auto all = candidates(device, problem, options, runs);
  const auto chosen = std::find_if(all.begin(), all.end(), [](const auto& c) { return c.chosen; });
  if (chosen == all.end()) refuse_problem(device, problem, options, all);
  ConvRun& run = *runs[static_cast<std::size_t>(chosen - all.begin())];
  if (device.logs())
    device.log(fmt::format(
        "{} on {}: {}, {:.3g} s estimated, {}, {} bytes of workspace", to_string(problem),
        to_string(device.id()), run.algorithm().name, chosen->estimate_seconds,
        time_text(*chosen, tuned_times(device, problem)), chosen->workspace_bytes));
  return std::make_shared<PlannedConv>(
      PlannedConv{problem, options, std::move(run), ranges_of(problem)});
}

std::vector<ConvCandidate> explain(const Device& device, const ConvProblem& problem,
                                   const ConvOptions& options) {
  return candidates(device, check(problem), with_environment(options));
}

}  // namespace plumb
