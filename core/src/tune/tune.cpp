// Times what can run, keeps the times, and finds them again.
#include "plumb/tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "../plan_cache.hpp"
#include "../providers.hpp"
#include "cache_file.hpp"
#include "plumb/error.hpp"
#include "plumb/problem_text.hpp"

namespace plumb {
namespace {

TunedAlgorithm asked(const Device& device, const ConvAlgorithm& algorithm,
                     const ConvProblem& problem, const TuneOptions& options) {
  TunedAlgorithm answer{.algorithm = algorithm.name,
                        .error_class = math_class(algorithm.numerics, problem.dtype)};
  if (algorithm.forced_only)
    answer.support = {Reason::forced_only, "runs only when it is asked for by name"};
  else if (options.math && !allows(*options.math, answer.error_class))
    answer.support = {Reason::math,
                      fmt::format("computes in {}; {} is asked for", to_string(answer.error_class),
                                  to_string(*options.math))};
  if (!answer.support) return answer;
  const ConvCandidate candidate = ask(algorithm, problem, device.info());
  answer.support = candidate.support ? fits_in_memory(device, problem, candidate.workspace_bytes)
                                     : candidate.support;
  answer.estimate_seconds = candidate.estimate_seconds;
  answer.workspace_bytes = candidate.workspace_bytes;
  return answer;
}

[[noreturn]] void refuse(const Device& device, const TuneResult& result) {
  std::string message =
      fmt::format("tuning: no algorithm of {} can be timed on {} in {}", to_string(device.id()),
                  to_string(result.problem), to_string(result.problem.dtype));
  for (const TunedAlgorithm& one : result.algorithms)
    message += fmt::format("; {}: {} ({})", one.algorithm, one.support.sentence,
                           to_string(one.support.reason));
  const bool too_large =
      std::any_of(result.algorithms.begin(), result.algorithms.end(),
                  [](const auto& one) { return one.support.reason == Reason::too_large; });
  throw Error(ErrorCode::unsupported, message, too_large ? Reason::too_large : Reason::none);
}

/// A wrong result is a failure: a plan is to choose no such algorithm, whosever it is.
void fail_where_wrong(Measurement& seen) {
  if (seen.failure.empty() && seen.bounded && !(seen.max_error_over_bound <= 1))
    seen.failure =
        fmt::format("an output is off by {:.3g} times its bound", seen.max_error_over_bound);
}

/// What is steady, and what failed. A time that is left out has plans go by estimates, where they
/// may take its algorithm: all of them then, so that the times of the others have no say.
TuneEntry entry_of(const Device& device, const TuneResult& result) {
  TuneEntry entry{.key = tune_key(device.info(), result.problem), .times = {}};
  for (const Measurement& one : result.measurements.contestants) {
    const auto is = [&](const ConvAlgorithm* algorithm) {
      return algorithm->name == one.algorithm;
    };
    const auto algorithms = conv_algorithms(device);
    const auto algorithm = std::find_if(algorithms.begin(), algorithms.end(), is);
    if (!one.failure.empty())
      entry.times.push_back({tuned_name(**algorithm), std::numeric_limits<double>::infinity()});
    else if (one.unsteady.empty())
      entry.times.push_back({tuned_name(**algorithm), one.median_seconds});
  }
  return entry;
}

void write(const Device& device, TuneResult& result) {
  const TuneCachePlace place = tune_cache_place();
  result.cache_sentence = place.sentence;
  if (place.path.empty()) return;
  const TuneEntry entry = entry_of(device, result);
  if (entry.times.empty()) {
    result.cache_sentence = fmt::format("no time of {} is steady", to_string(result.problem));
    return;
  }
  try {
    result.cache_sentence = add_to_tune_cache_file(place.path, entry);
    result.cache_path = place.path;
  } catch (const Error& e) {
    result.cache_sentence = e.what();
  }
}

/// The driver or Plumb itself has changed since.
bool is_stale(const TuneKey& entry, const TuneKey& wanted) {
  return entry.device == wanted.device && entry.software != wanted.software;
}

}  // namespace

TuneResult tune(const Device& device, const ConvProblem& problem, const TuneOptions& options) {
  TuneResult result{.problem = check(problem)};
  std::vector<ConvPlan> plans;
  for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
    TunedAlgorithm one = asked(device, *algorithm, result.problem, options);
    if (one.support)
      plans.emplace_back(
          device, result.problem,
          ConvOptions{.math = one.error_class, .algorithm = std::string(one.algorithm)});
    result.algorithms.push_back(std::move(one));
  }
  if (plans.empty()) refuse(device, result);
  result.measurements = measure(plans, options.measure);
  for (Measurement& one : result.measurements.contestants) fail_where_wrong(one);
  auto measured = result.measurements.contestants.begin();
  for (TunedAlgorithm& one : result.algorithms)
    if (one.support) one.measurement = *measured++;
  if (options.write) write(device, result);
  device.plans().clear();
  return result;
}

TunedTimes tuned_times(const Device& device, const ConvProblem& problem) {
  const TuneCachePlace place = tune_cache_place();
  if (place.path.empty()) return {{}, place.sentence};
  const auto file = read_tune_cache_file(place.path);
  if (!file->sentence.empty()) return {{}, file->sentence};
  const TuneKey key = tune_key(device.info(), check(problem));
  if (const auto found = file->entries.find(key); found != file->entries.end())
    return {found->second, {}};
  for (const auto& [other, times] : file->entries)
    if (other.problem == key.problem && is_stale(other, key))
      return {
          {},
          fmt::format("{}: tuned with {}; this is {}", place.path, other.software, key.software)};
  return {{}, fmt::format("{}: not tuned on {}", place.path, key.device)};
}

TuneCacheReport tune_cache_report(const Device& device) {
  TuneCachePlace place = tune_cache_place();
  TuneCacheReport report{.path = place.path, .sentence = place.sentence};
  if (report.path.empty()) return report;
  const auto file = read_tune_cache_file(report.path);
  report.sentence = file->sentence;
  const TuneKey here = tune_key(device.info(), ConvProblem{});
  for (const auto& [key, times] : file->entries) {
    report.problems += key.device == here.device && key.software == here.software;
    report.stale += is_stale(key, here);
  }
  return report;
}

}  // namespace plumb
