// Lets contestants take turns on the same buffers, and keeps the time.
#include "plumb/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include "../names.hpp"
#include "buffers.hpp"
#include "memory.hpp"
#include "plumb/error.hpp"
#include "plumb/problem_text.hpp"
#include "sample_check.hpp"

namespace plumb {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double short_run_seconds = 20e-6;  ///< below, a sample is several runs
constexpr double sample_seconds = 100e-6;    ///< that such a sample should last
constexpr int max_runs_per_sample = 64;
constexpr double cold_run_seconds = 200e-6;  ///< below, each run gets other buffers
constexpr int samples_of_the_hopeless = 3;
constexpr double unestimated_seconds = 5e-6;  ///< of a call, which estimates may leave out

struct Contestant {
  Contestant(const ConvPlan& its_plan, bool pack_before) : plan(its_plan) {
    result.algorithm = plan.algorithm().name;
    result.bounded = plan.algorithm().numerics.bounded;
    if (plan.packs_filters())
      result.packing = pack_before ? PackingTime::before : PackingTime::counted;
  }
  bool runs() const { return result.failure.empty(); }
  bool wants_more() const { return runs() && static_cast<int>(seconds.size()) < wanted_samples; }

  const ConvPlan& plan;
  Measurement result;
  std::vector<PackedFilters> filters{};  ///< of each set of buffers, where they are packed before
  double estimate_seconds = 0;           ///< from a few runs before the samples
  int wanted_samples = 0;
  std::vector<double> seconds{};  ///< of one run, a value for each sample
};

/// What a contestant throws is its own failure, and the others go on.
template <class Work>
void guarded(Contestant& contestant, const Work& work) {
  try {
    work();
  } catch (const std::exception& e) {
    contestant.result.failure = e.what();
    if (contestant.result.failure.empty()) contestant.result.failure = "an exception without words";
  }
}

/// Median, minimum and what is wrong with them, of samples there are some of.
void sum_up(Contestant& contestant, const MeasureOptions& options) {
  std::vector<double>& seconds = contestant.seconds;
  std::sort(seconds.begin(), seconds.end());
  const std::size_t middle = seconds.size() / 2;
  Measurement& result = contestant.result;
  result.samples = static_cast<int>(seconds.size());
  result.min_seconds = seconds.front();
  result.median_seconds =
      seconds.size() % 2 == 1 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2;

  const double median = result.median_seconds, minimum = result.min_seconds;
  // Nothing is chosen by the estimate of what runs only when forced, and it may be anything.
  const ConvPlan& plan = contestant.plan;
  const double estimate =
      plan.algorithm().forced_only || plan.algorithm().provider
          ? 0
          : ask(plan.algorithm(), plan.problem(), plan.device().info()).estimate_seconds;
  const double limit = options.estimate_limit / (result.given_up ? 3 : 1);
  result.unsteady.clear();
  if (median > (1 + options.scatter_limit) * minimum)
    result.unsteady = fmt::format("samples scatter: the median of {} is {:.3g} times the minimum",
                                  result.samples, median / minimum);
  else if (estimate > 0 && median > limit * (estimate + unestimated_seconds))
    result.unsteady = fmt::format("the median is {:.3g} times the estimate of {:.3g} ms",
                                  median / estimate, estimate * 1e3);
}

class Contest {
 public:
  Contest(std::span<const ConvPlan> plans, const MeasureOptions& options)
      : options_(options),
        queue_(plans.front().device()),
        buffers_(queue_, plans.front().problem(), plans.front().options(), options.seed) {
    for (const ConvPlan& plan : plans) contestants_.emplace_back(plan, options.packed_filters);
  }

  Measurements run() {
    first_runs();
    for (Contestant& contestant : contestants_) plan_samples(contestant, best_seconds());
    if (best_seconds() < cold_run_seconds) {
      buffers_.spread(queue_, options_.cold_bytes);
      for (Contestant& contestant : contestants_)
        if (contestant.runs()) guarded(contestant, [&] { pack_filters(contestant); });
    }
    for (int tried = 0; tried == 0 || try_again(tried); ++tried) {
      warm_up();
      while (options_.host_time ? host_round() : sample_round()) continue;
      for (Contestant& contestant : contestants_)
        if (contestant.runs() && !contestant.seconds.empty()) sum_up(contestant, options_);
    }

    Measurements all{.buffer_sets = buffers_.sets(),
                     .clock_hertz = queue_.device().measure_clock_hertz()};
    for (Contestant& contestant : contestants_) all.contestants.push_back(contestant.result);
    return all;
  }

 private:
  /// For the sets of buffers that there are now.
  void pack_filters(Contestant& contestant) {
    if (contestant.result.packing != PackingTime::before) return;
    while (static_cast<int>(contestant.filters.size()) < buffers_.sets()) {
      const int set = static_cast<int>(contestant.filters.size());
      contestant.filters.push_back(contestant.plan.pack(queue_, buffers_.tensors(set).w));
    }
  }

  void execute(const Contestant& contestant, int set) {
    ConvTensors tensors = buffers_.tensors(set);
    if (contestant.filters.empty()) return contestant.plan.execute(queue_, tensors);
    tensors.w = {};
    contestant.plan.execute(queue_, contestant.filters[static_cast<std::size_t>(set)], tensors);
  }

  void execute_on_next(const Contestant& contestant) {
    set_ = (set_ + 1) % buffers_.sets();
    execute(contestant, set_);
  }

  /// Each once for its output, which is poisoned before, and then for its time: the first run may
  /// load code and grow the workspace. Later runs of plans that accumulate add to what is there:
  /// the values grow, and no time depends on them.
  void first_runs() {
    std::optional<SampleCheck> check;
    if (options_.check)
      check.emplace(buffers_, contestants_.front().plan.options().activation, options_.seed);
    for (Contestant& contestant : contestants_)
      guarded(contestant, [&] {
        pack_filters(contestant);
        buffers_.prepare_output(queue_);
        execute(contestant, 0);
        queue_.synchronize();
        if (check)
          contestant.result.max_error_over_bound =
              check->max_error_over_bound(queue_, buffers_, contestant.plan.algorithm().numerics);
        contestant.estimate_seconds = estimate(contestant);
      });
  }

  /// The shortest of a few runs: one alone may have been disturbed.
  double estimate(const Contestant& contestant) {
    double shortest = std::numeric_limits<double>::infinity(), total = 0;
    for (int run = 0; run < 3 && total < 0.1; ++run) {
      const double seconds =
          options_.host_time ? host_seconds(contestant, 1) : device_seconds(contestant);
      shortest = std::min(shortest, seconds);
      total += seconds;
    }
    return shortest;
  }

  double device_seconds(const Contestant& contestant) {
    const Event begin = queue_.record();
    execute(contestant, 0);
    return seconds_of(contestant, begin, queue_.record());
  }

  /// The host's, of one of so many runs, each of which it waits for.
  double host_seconds(const Contestant& contestant, int runs) {
    queue_.synchronize();
    const auto begin = Clock::now();
    for (int i = 0; i < runs; ++i) {
      execute_on_next(contestant);
      queue_.synchronize();
    }
    return clocked(contestant, std::chrono::duration<double>(Clock::now() - begin).count() / runs);
  }

  double best_seconds() const {
    double best = std::numeric_limits<double>::infinity();
    for (const Contestant& contestant : contestants_)
      if (contestant.runs()) best = std::min(best, contestant.estimate_seconds);
    return best;
  }

  double seconds_of(const Contestant& contestant, const Event& begin, const Event& end,
                    int runs = 1) const {
    return clocked(contestant, seconds_between(begin, end) / runs);
  }
  double clocked(const Contestant& contestant, double seconds) const {
    return options_.clock ? options_.clock(contestant.result.algorithm, seconds) : seconds;
  }

  /// How many samples of how many runs, given what is known of the time of a run and of the best's.
  void plan_samples(Contestant& contestant, double best) const {
    const double run_seconds = std::max(contestant.estimate_seconds, 1e-7);
    Measurement& result = contestant.result;
    result.given_up = options_.give_up_factor > 0 && run_seconds > options_.give_up_factor * best;
    result.runs_per_sample = 1;
    if (run_seconds < short_run_seconds)
      result.runs_per_sample =
          std::min(max_runs_per_sample, static_cast<int>(std::ceil(sample_seconds / run_seconds)));
    const double affordable = options_.seconds_limit / (run_seconds * result.runs_per_sample);
    contestant.wanted_samples = static_cast<int>(
        std::clamp<double>(affordable, options_.min_samples, options_.max_samples));
    if (result.given_up)
      contestant.wanted_samples = std::min(options_.min_samples, samples_of_the_hopeless);
  }

  /// Given up for an estimate that was disturbed: its samples are as fast as others'.
  bool was_given_up_wrongly(const Contestant& contestant) const {
    return contestant.result.given_up &&
           contestant.estimate_seconds <= options_.give_up_factor * best_seconds();
  }

  /// Throws away the samples that say little, tried so often; false where there are none, or were
  /// tries enough.
  bool try_again(int tried) {
    if (tried >= options_.tries) return false;
    for (Contestant& contestant : contestants_)
      if (contestant.runs() && contestant.result.samples > 0)
        contestant.estimate_seconds =
            std::min(contestant.estimate_seconds, contestant.result.min_seconds);
    bool any = false;
    for (Contestant& contestant : contestants_) {
      if (!contestant.runs() || contestant.result.samples == 0) continue;
      if (contestant.result.unsteady.empty() && !was_given_up_wrongly(contestant)) continue;
      contestant.seconds.clear();
      ++contestant.result.tries;
      plan_samples(contestant, best_seconds());
      any = true;
    }
    return any;
  }

  void warm_up() {
    const auto enough = Clock::now() + std::chrono::duration<double>(options_.warm_up_seconds);
    do {
      for (Contestant& contestant : contestants_)
        if (contestant.wants_more() && !contestant.result.given_up)
          guarded(contestant, [&] { execute_on_next(contestant); });
      queue_.synchronize();
    } while (Clock::now() < enough);
  }

  /// One sample of each contestant that wants more; false when there is none. The host waits at the
  /// end of the round alone, so that a device that works asynchronously has the next run in its
  /// queue when one ends, and no launch is counted as time of a kernel.
  bool sample_round() {
    struct Sample {
      Contestant* contestant;
      Event begin, end;
    };
    std::vector<Sample> samples;
    bool first = queue_.device().id() != host;
    for (Contestant& contestant : contestants_) {
      if (!contestant.wants_more()) continue;
      guarded(contestant, [&] {
        const int runs = contestant.result.runs_per_sample;
        // The device has nothing to do at the start of a round: a sample more keeps it busy until
        // the first that counts is in its queue.
        if (first)
          for (int i = 0; i < runs; ++i) execute_on_next(contestant);
        first = false;
        const Event begin = queue_.record();
        for (int i = 0; i < runs; ++i) execute_on_next(contestant);
        samples.push_back({&contestant, begin, queue_.record()});
      });
    }
    queue_.synchronize();
    for (const Sample& sample : samples)
      sample.contestant->seconds.push_back(seconds_of(*sample.contestant, sample.begin, sample.end,
                                                      sample.contestant->result.runs_per_sample));
    return !samples.empty();
  }

  /// The same, of runs that the host waits for.
  bool host_round() {
    bool any = false;
    for (Contestant& contestant : contestants_) {
      if (!contestant.wants_more()) continue;
      any = true;
      guarded(contestant, [&] {
        contestant.seconds.push_back(host_seconds(contestant, contestant.result.runs_per_sample));
      });
    }
    return any;
  }

  MeasureOptions options_;
  Queue queue_;
  Buffers buffers_;
  std::vector<Contestant> contestants_;
  int set_ = 0;
};

void check_contestants(std::span<const ConvPlan> contestants, const MeasureOptions& options) {
  const auto refuse = [](const std::string& message) {
    throw Error(ErrorCode::invalid_argument, "measuring: " + message);
  };
  if (options.min_samples < 1 || options.max_samples < options.min_samples)
    refuse(fmt::format("{} to {} samples; expected 1 or more, and no fewer at most than at least",
                       options.min_samples, options.max_samples));
  if (options.tries < 1) refuse(fmt::format("{} tries; expected 1 or more", options.tries));
  const ConvPlan& first = contestants.front();
  if (first.problem().n == 0) refuse("a batch of 0; expected an image or more");
  if (first.options().relu_mask) refuse("a masked gradient; expected none");
  for (const ConvPlan& plan : contestants) {
    const bool same = plan.problem() == first.problem() &&
                      plan.options().bias == first.options().bias &&
                      plan.options().activation == first.options().activation &&
                      plan.options().accumulate == first.options().accumulate;
    if (!same)
      refuse(
          fmt::format("plans of {} and {}; expected one problem, one activation, and "
                      "a bias and an accumulation of all or none",
                      to_string(first.problem()), to_string(plan.problem())));
    if (plan.device().id() != first.device().id())
      refuse(fmt::format("plans for {} and {}; expected one device", to_string(first.device().id()),
                         to_string(plan.device().id())));
  }
}

constexpr Name<PackingTime> packing_times[] = {{PackingTime::none, "none"},
                                               {PackingTime::counted, "counted"},
                                               {PackingTime::before, "before"}};

}  // namespace

std::string_view to_string(PackingTime time) { return name_of(packing_times, time); }

Measurements measure(std::span<const ConvPlan> contestants, const MeasureOptions& options) {
  if (contestants.empty()) return {};
  check_contestants(contestants, options);
  require_memory(contestants, options);
  return Contest(contestants, options).run();
}

double roofline_seconds(const DeviceCeilings& ceilings, const ConvProblem& problem, Math math) {
  // Products of operands that are stored in a narrow type keep the promise of fp32 as they are.
  Math fastest = math;
  if (math == Math::fp32 && problem.dtype == DType::f16) fastest = Math::fp16;
  if (math == Math::fp32 && problem.dtype == DType::bf16) fastest = Math::bf16;
  double flop_per_second = 0;
  for (const Math offered : {Math::fp64, Math::fp32, Math::tf32, Math::bf16, Math::fp16})
    if (allows(fastest, offered))
      flop_per_second = std::max(flop_per_second, ceilings.flop_per_second(offered));
  // So do three products of halves of an operand for each (Ootomo and Yokota 2022).
  if (problem.dtype == DType::f32 && allows(fastest, Math::fp32))
    flop_per_second = std::max(flop_per_second, ceilings.flop_per_second(Math::fp16) / 3);
  const auto seconds = [](double work, double speed) { return speed > 0 ? work / speed : 0; };
  return std::max(seconds(problem.bytes(), ceilings.bytes_per_second),
                  seconds(problem.flop(), flop_per_second));
}

}  // namespace plumb
