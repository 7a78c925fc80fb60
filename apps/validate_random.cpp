// Holds algorithms against the oracle on problems drawn from the whole space.
#include "validate_random.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "errors.hpp"
#include "interrupt.hpp"
#include "progress.hpp"
#include "record_file.hpp"
#include "reproduce.hpp"
#include "selection.hpp"
#include "stopwatch.hpp"

namespace plumb::app {
namespace {

/// Later failures are counted and printed as they were drawn.
constexpr std::size_t max_shrunk = 10;

struct Failure {
  std::string algorithm, sentence, drawn;
  std::string shrunk, shrunk_sentence;  ///< empty where it was not shrunk
  Tier tier;
};

struct Count {
  std::int64_t run = 0, failed = 0, refused = 0;
};

class RandomRun {
 public:
  RandomRun(const Device& device, std::span<const ConvAlgorithm* const> algorithms,
            const RandomArguments& arguments)
      : device_(device),
        algorithms_(algorithms),
        arguments_(arguments),
        wanted_(arguments.share.count(arguments.count)),
        file_(arguments.json),
        validator_(device),
        counts_(algorithms.size()) {}

  void run() {
    RandomLimits limits;
    limits.direction = arguments_.direction;
    if (arguments_.products > 0) limits.max_products = arguments_.products;
    RandomCases cases(arguments_.seed, limits);
    ProgressBar bar("validate on " + to_string(device_.id()), wanted_);
    file_.update([&] { return record(); });
    while (problems_ < wanted_ && !over() && !interrupt_.requested()) {
      judge(cases.at(index()));
      bar.show(++problems_);
      seconds_ = stopwatch_.total();
      file_.update([&] { return record(); });
    }
    seconds_ = stopwatch_.total();
  }

  void print() const {
    std::size_t width = 9;
    for (const ConvAlgorithm* algorithm : algorithms_)
      width = std::max(width, algorithm->name.size());
    fmt::print("{:<{}}  {:>9}  {:>9}  {:>9}\n", "algorithm", width, "run", "failed", "refused");
    for (std::size_t i = 0; i < algorithms_.size(); ++i)
      fmt::print("{:<{}}  {:>9}  {:>9}  {:>9}\n", algorithms_[i]->name, width, counts_[i].run,
                 counts_[i].failed, counts_[i].refused);
    for (const Failure& failure : failures_) {
      fmt::print("\n{} failed: {}\n  {}\n", to_string(failure.tier), failure.sentence,
                 failure.drawn);
      if (!failure.shrunk.empty())
        fmt::print("  the smallest that fails: {}\n  {}\n", failure.shrunk_sentence,
                   failure.shrunk);
    }
    fmt::print(
        "\n{} on {}: seed {}, {} problems, {} algorithms, {} runs, {} failures, {:.1f} s, {:.0f} "
        "runs/s\n",
        to_string(device_.id()), device_.info().name, arguments_.seed, problems_,
        algorithms_.size(), runs(), failures(), seconds_, runs_per_second());
  }

  bool complete() const { return problems_ >= wanted_ || over(); }

  /// FileError where the file cannot be written; Interrupted where the run was.
  void finish() {
    file_.finish([&] { return record(); });
    if (!complete())
      throw Interrupted(fmt::format("interrupted after {} of {} problems", problems_, wanted_));
  }

  nlohmann::ordered_json record() const {
    nlohmann::ordered_json summary = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < algorithms_.size(); ++i)
      summary.push_back({{"algorithm", algorithms_[i]->name},
                         {"run", counts_[i].run},
                         {"failed", counts_[i].failed},
                         {"refused", counts_[i].refused}});
    nlohmann::ordered_json failed = nlohmann::ordered_json::array();
    for (const Failure& failure : failures_)
      failed.push_back({{"algorithm", failure.algorithm},
                        {"tier", to_string(failure.tier)},
                        {"sentence", failure.sentence},
                        {"reproduce", failure.drawn},
                        {"shrunk", failure.shrunk},
                        {"shrunk_sentence", failure.shrunk_sentence}});
    return {{"version", version},
            {"device", to_string(device_.id())},
            {"device_name", device_.info().name},
            {"instruction_set", device_.info().instruction_set},
            {"seed", arguments_.seed},
            {"asked_for", arguments_.count},
            {"share", to_string(arguments_.share)},
            {"complete", complete()},
            {"problems", problems_},
            {"runs", runs()},
            {"failed", failures()},
            {"seconds", seconds_},
            {"runs_per_second", runs_per_second()},
            {"summary", std::move(summary)},
            {"failures", std::move(failed)}};
  }

  std::int64_t runs() const { return sum(&Count::run); }
  std::int64_t failures() const { return sum(&Count::failed); }

 private:
  std::int64_t sum(std::int64_t Count::*field) const {
    std::int64_t total = 0;
    for (const Count& count : counts_) total += count.*field;
    return total;
  }
  double runs_per_second() const { return static_cast<double>(runs()) / std::max(seconds_, 1e-9); }

  bool over() const {
    return (arguments_.seconds > 0 && stopwatch_.total() >= arguments_.seconds) ||
           (arguments_.failures > 0 && failures() >= arguments_.failures);
  }

  /// Of the problem at hand, among those of the seed.
  std::uint64_t index() const {
    return static_cast<std::uint64_t>(arguments_.share.piece(problems_));
  }

  /// Guard pages on either side in turn. One problem in eight runs on several threads: waking them
  /// takes longer than most of these problems do.
  ValidationOptions options() const {
    ValidationOptions options{.seed = arguments_.seed + index(), .tiers = arguments_.tiers};
    options.guard = problems_ % 2 == 0 ? GuardPages::behind : GuardPages::before;
    if (device_.id() == host)
      options.threads = problems_ % 8 == 7 ? 2 + static_cast<int>(problems_ / 8 % 3) : 1;
    return options;
  }

  void judge(const ValidationCase& test) {
    std::vector<const ConvAlgorithm*> admitted;
    for (const ConvAlgorithm* algorithm : algorithms_)
      if (admits(arguments_.math, *algorithm, test.problem.dtype)) admitted.push_back(algorithm);
    const ValidationOptions drawn = options();
    for (const ValidationRecord& record : judged(admitted, test, drawn)) {
      const auto at = std::find_if(algorithms_.begin(), algorithms_.end(),
                                   [&](const auto* one) { return one->name == record.algorithm; });
      Count& count = counts_[static_cast<std::size_t>(at - algorithms_.begin())];
      if (record.verdict == Verdict::unsupported) {
        ++count.refused;
        continue;
      }
      count.run += record.tier == arguments_.tiers.front();
      if (record.verdict != Verdict::fail) continue;
      ++count.failed;
      keep(**at, record, test, drawn);
    }
  }

  std::vector<ValidationRecord> judged(std::span<const ConvAlgorithm* const> algorithms,
                                       const ValidationCase& test,
                                       const ValidationOptions& options) {
    return validator_(algorithms, test, reported(crash_report_, device_, test, options));
  }

  void keep(const ConvAlgorithm& algorithm, const ValidationRecord& record,
            const ValidationCase& test, ValidationOptions options) {
    options.tiers = {record.tier};
    Failure failure{.algorithm = record.algorithm,
                    .sentence = record.sentence,
                    .drawn = reproduce(device_, algorithm.name, test, options),
                    .tier = record.tier};
    if (failures_.size() < max_shrunk) {
      const ConvAlgorithm* const only = &algorithm;
      const auto fails = [&](const ValidationCase& smaller) {
        for (const ValidationRecord& again : judged({&only, 1}, smaller, options))
          if (again.verdict == Verdict::fail) {
            failure.shrunk_sentence = again.sentence;
            return true;
          }
        return false;
      };
      failure.shrunk = reproduce(device_, algorithm.name, shrink(test, fails), options);
      // Many failures are one.
      for (const Failure& other : failures_)
        if (other.shrunk == failure.shrunk) return;
    }
    if (failures_.size() < max_shrunk) failures_.push_back(std::move(failure));
  }

  const Device& device_;
  std::span<const ConvAlgorithm* const> algorithms_;
  const RandomArguments& arguments_;
  const std::int64_t wanted_;  ///< problems of this share
  RecordFile file_;
  InterruptScope interrupt_;
  Validator validator_;
  CrashReport crash_report_;
  Stopwatch stopwatch_;
  std::vector<Count> counts_;
  std::vector<Failure> failures_;
  std::int64_t problems_ = 0;  ///< done
  double seconds_ = 0;
};

}  // namespace

void validate_random(const Device& device, std::span<const ConvAlgorithm* const> algorithms,
                     const RandomArguments& arguments) {
  RandomRun run(device, algorithms, arguments);
  run.run();
  run.print();
  run.finish();
  if (run.failures() > 0)
    throw ValidationFailure(fmt::format("{} verdicts are failures", run.failures()));
  if (run.runs() == 0) throw ValidationFailure("nothing was validated");
}

}  // namespace plumb::app
