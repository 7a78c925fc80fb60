// The five tiers, for each algorithm on one case.
#include "plumb/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "../names.hpp"
#include "../parallel/parallel.hpp"
#include "attest.hpp"
#include "memory.hpp"
#include "plumb/backend.hpp"
#include "plumb/problem_text.hpp"
#include "trial.hpp"

namespace plumb {
namespace {

constexpr Name<Tier> tiers[] = {{Tier::exact, "exact"},
                                {Tier::bounded, "bounded"},
                                {Tier::repeatable, "repeatable"},
                                {Tier::attested, "attested"},
                                {Tier::reproducible, "reproducible"}};
constexpr Name<Verdict> verdicts[] = {{Verdict::pass, "pass"},
                                      {Verdict::fail, "fail"},
                                      {Verdict::unsupported, "unsupported"},
                                      {Verdict::outside, "outside"}};

constexpr Name<GuardPages> guards[] = {{GuardPages::none, "none"},
                                       {GuardPages::behind, "behind"},
                                       {GuardPages::before, "before"},
                                       {GuardPages::both, "both"}};

/// An algorithm under judgement, and its verdicts so far.
struct Subject {
  const ConvAlgorithm* algorithm;
  std::vector<ValidationRecord> records;
};

/// What is wrong; empty where nothing is.
struct Finding {
  std::string sentence;
  /// Of the numbers, which an algorithm without a promise cannot break; not of memory.
  bool of_numbers = true;
};

/// Runs `judge` and writes what it finds, or what it throws, into the record.
template <class Judge>
void judged(const ConvAlgorithm& algorithm, ValidationRecord& record, const Judge& judge) {
  if (record.verdict == Verdict::fail) return;  // the first failure is the one to read
  Finding finding;
  try {
    finding = judge();
  } catch (const std::exception& e) {
    finding = {fmt::format("threw: {}", e.what()), false};
  }
  if (finding.sentence.empty()) return;
  const bool excused = finding.of_numbers && !algorithm.numerics.bounded;
  if (excused && record.verdict == Verdict::outside) return;  // the first, as with failures
  record.verdict = excused ? Verdict::outside : Verdict::fail;
  record.sentence = finding.sentence;
}

/// What errors are measured with.
Numerics yardstick(const ConvAlgorithm& algorithm) {
  return algorithm.numerics.bounded ? algorithm.numerics : Numerics{};
}

class Court {
 public:
  Court(const std::shared_ptr<GuardedMemory>& memory, Queue& queue, const ValidationCase& test,
        const ValidationOptions& options)
      : options_(options), trial_(memory, test, options), queue_(queue) {
    if (!memory->has_guard_pages())
      guards_ = {GuardPages::none};
    else if (options.guard == GuardPages::both)
      guards_ = {GuardPages::behind, GuardPages::before};
    else
      guards_ = {options.guard};
    blank_.problem = to_string(trial_.problem());
    blank_.name = test.name;
    blank_.direction = trial_.problem().direction;
    blank_.dtype = trial_.problem().dtype;
    blank_.placement = test.placement;
    blank_.accumulate = test.accumulate;
    blank_.relu_mask = test.relu_mask;
    blank_.device = to_string(memory->device().id());
  }

  /// `algorithms` can all run the problem.
  std::vector<ValidationRecord> judge(std::span<const ConvAlgorithm* const> algorithms) {
    std::vector<Subject> subjects;
    for (const ConvAlgorithm* algorithm : algorithms) subjects.push_back({algorithm, {}});
    std::vector<ValidationRecord> records;
    for (const Tier tier : options_.tiers) {
      if (subjects.empty()) break;
      for (Subject& subject : subjects) {
        subject.records.push_back(blank_of(*subject.algorithm));
        subject.records.back().tier = tier;
      }
      judge_tier(tier, subjects);
    }
    for (Subject& subject : subjects)
      records.insert(records.end(), subject.records.begin(), subject.records.end());
    return records;
  }

 private:
  ValidationRecord blank_of(const ConvAlgorithm& algorithm) const {
    ValidationRecord record = blank_;
    record.algorithm = algorithm.name;
    if (algorithm.provider) record.provider = algorithm.provider->library().version;
    return record;
  }

  void judge_tier(Tier tier, std::vector<Subject>& subjects) {
    switch (tier) {
      case Tier::exact: return judge_data(tier, DataKind::integers, subjects);
      case Tier::bounded: {
        for (const DataKind kind : {DataKind::normal, DataKind::positive, DataKind::non_finite})
          judge_data(tier, kind, subjects);
        // fp16 does not hold what wider tensors do: its range is its own.
        const auto narrow =
            std::stable_partition(subjects.begin(), subjects.end(), [](const Subject& s) {
              const Numerics& numerics = s.algorithm->numerics;
              return numerics.operand == Operand::fp16 ||
                     numerics.accumulator == Accumulator::fp16_fma;
            });
        const std::span all(subjects);
        const auto split = static_cast<std::size_t>(narrow - subjects.begin());
        judge_data(tier, DataKind::wide_fp16, all.first(split));
        judge_data(tier, DataKind::wide, all.subspan(split));
        return;
      }
      case Tier::repeatable: return judge_repeats(subjects);
      case Tier::attested:
        for (Subject& subject : subjects) judge_arithmetic(subject);
        return;
      case Tier::reproducible: return judge_bits(subjects);
    }
  }

  void before_run(const ConvAlgorithm& algorithm, Tier tier) const {
    if (options_.before_run) options_.before_run(algorithm, tier);
  }

  /// The inputs, and all outputs and workspaces made from now on, next to such pages.
  void place(GuardPages guard, Scratch scratch) {
    fill_around(guard, scratch);
    trial_.upload_inputs(queue_);
  }
  void fill_around(GuardPages guard, Scratch scratch) {
    trial_.guard(guard);
    trial_.fill_scratch(guard == GuardPages::before ? Scratch::numbers : scratch);
  }

  void judge_data(Tier tier, DataKind kind, std::span<Subject> subjects) {
    if (subjects.empty()) return;
    trial_.load_data(kind);
    for (const GuardPages guard : guards_) {
      place(guard, tier == Tier::exact ? Scratch::numbers : Scratch::nan);
      TrialOutput y = trial_.make_output();
      for (Subject& subject : subjects) {
        const ConvAlgorithm& algorithm = *subject.algorithm;
        if (kind == DataKind::non_finite && !algorithm.numerics.keeps_non_finite) continue;
        ValidationRecord& record = subject.records.back();
        judged(algorithm, record, [&] { return judge_result(tier, algorithm, y, record); });
      }
    }
  }

  Finding judge_result(Tier tier, const ConvAlgorithm& algorithm, TrialOutput& y,
                       ValidationRecord& record) {
    before_run(algorithm, tier);
    if (std::string broken = trial_.run(algorithm, queue_, y); !broken.empty())
      return {broken, false};
    if (tier == Tier::exact)
      if (std::string broken = trial_.changed_inputs(queue_); !broken.empty())
        return {broken, false};
    const Judgement judgement = trial_.judge(tier, yardstick(algorithm), y);
    record.max_error_over_bound =
        std::max(record.max_error_over_bound, judgement.max_error_over_bound);
    record.max_bound_over_tap = std::max(record.max_bound_over_tap, judgement.max_bound_over_tap);
    if (!judgement.failure.empty() || !trial_.packs(algorithm)) return {judgement.failure};
    return packed_before(tier, algorithm, y);
  }

  /// Filters that were packed before must give what those packed in the launch gave, `in_launch`.
  Finding packed_before(Tier tier, const ConvAlgorithm& algorithm, const TrialOutput& in_launch) {
    TrialOutput y = trial_.make_output();
    if (std::string broken = trial_.run(algorithm, queue_, y, Packing::before); !broken.empty())
      return {"with packed filters, " + broken, false};
    if (!algorithm.numerics.deterministic) {
      const std::string failure = trial_.judge(tier, yardstick(algorithm), y).failure;
      return {failure.empty() ? "" : "with packed filters, " + failure};
    }
    if (!(y == in_launch)) return {"packed filters gave other bits"};
    return {};
  }

  void judge_repeats(std::vector<Subject>& subjects) {
    trial_.load_data(DataKind::normal);
    for (Subject& subject : subjects) {
      if (!subject.algorithm->numerics.deterministic) {
        subject.records.back().sentence = "does not claim to repeat";
        continue;
      }
      judged(*subject.algorithm, subject.records.back(),
             [&] { return repeats(*subject.algorithm); });
    }
  }

  Finding repeats(const ConvAlgorithm& algorithm) {
    before_run(algorithm, Tier::repeatable);
    place(guards_.front(), Scratch::nan);
    TrialOutput first = trial_.make_output();
    trial_.run(algorithm, queue_, first);
    place(guards_.back(), Scratch::numbers);
    TrialOutput again = trial_.make_output();
    trial_.run(algorithm, queue_, again);
    if (!(again == first)) return {"the second run gave other bits"};
    // Two threads at once, each with a queue and an output of its own.
    Finding failures[2];
    {
      std::vector<std::jthread> threads;
      for (Finding& failure : failures)
        threads.emplace_back([&] {
          try {
            Queue queue(trial_.device());
            TrialOutput y = trial_.make_output();
            for (int repeat = 0; repeat < 2 && failure.sentence.empty(); ++repeat) {
              trial_.run(algorithm, queue, y);
              if (!(y == first)) failure = {"beside another thread it gave other bits"};
            }
          } catch (const std::exception& e) {
            failure = {fmt::format("beside another thread it threw: {}", e.what()), false};
          }
        });
    }
    return failures[0].sentence.empty() ? failures[1] : failures[0];
  }

  void judge_bits(std::vector<Subject>& subjects) {
    std::vector<Subject*> claiming;
    for (Subject& subject : subjects) {
      std::string& sentence = subject.records.back().sentence;
      if (!subject.algorithm->numerics.reproducible)
        sentence = "does not claim to be reproducible";
      else if (const Support support = trial_.reproduces(*subject.algorithm); !support)
        sentence = "is not reproducible here: " + support.sentence;
      else
        claiming.push_back(&subject);
    }
    if (claiming.empty()) return;
    for (const DataKind kind :
         {DataKind::normal, DataKind::wide, DataKind::tiny, DataKind::non_finite}) {
      trial_.load_data(kind);
      for (const GuardPages guard : guards_) judge_bits_at(guard, claiming);
    }
  }

  void judge_bits_at(GuardPages guard, const std::vector<Subject*>& claiming) {
    place(guard, Scratch::nan);
    TrialOutput y = trial_.make_output();
    for (Subject* const subject : claiming) {
      judged(*subject->algorithm, subject->records.back(), [&]() -> Finding {
        before_run(*subject->algorithm, Tier::reproducible);
        std::string broken = trial_.run_reproducible(*subject->algorithm, queue_, y);
        if (!broken.empty()) return {broken, false};
        return {trial_.judge_bits(*subject->algorithm, y)};
      });
    }
  }

  void judge_arithmetic(Subject& subject) {
    ValidationRecord& record = subject.records.back();
    for (const GuardPages guard : guards_)
      judged(*subject.algorithm, record, [&]() -> Finding {
        before_run(*subject.algorithm, Tier::attested);
        fill_around(guard, Scratch::nan);
        record.arithmetic = attest(trial_, *subject.algorithm, queue_);
        const Arithmetic claimed =
            claimed_arithmetic(subject.algorithm->numerics, trial_.problem().dtype);
        if (record.arithmetic == claimed || record.arithmetic == Arithmetic::unknown) return {};
        return {fmt::format("computed in {}; claims {}", to_string(record.arithmetic),
                            to_string(claimed))};
      });
  }

  const ValidationOptions& options_;
  Trial trial_;
  Queue& queue_;
  std::vector<GuardPages> guards_;
  ValidationRecord blank_;
};

}  // namespace

std::string_view to_string(Tier tier) { return name_of(tiers, tier); }
std::string_view to_string(Verdict verdict) { return name_of(verdicts, verdict); }

std::string_view to_string(GuardPages guard) { return name_of(guards, guard); }
std::optional<GuardPages> parse_guard_pages(std::string_view text) {
  return value_of(guards, text);
}

struct Validator::State {
  std::shared_ptr<GuardedMemory> memory;
  Queue queue;
};

Validator::Validator(const Device& device)
    : state_(new State{GuardedMemory::of(device), Queue(device)}) {}
Validator::~Validator() = default;

std::vector<ValidationRecord> Validator::operator()(
    std::span<const ConvAlgorithm* const> algorithms, const ValidationCase& test,
    const ValidationOptions& options) {
  const RequestedThreads threads(options.threads);
  return judge_within_memory(
      state_->memory->device(), algorithms, test, options, [&](const auto& judged) {
        return Court(state_->memory, state_->queue, test, options).judge(judged);
      });
}

std::vector<ValidationRecord> validate(const Device& device,
                                       std::span<const ConvAlgorithm* const> algorithms,
                                       const ValidationCase& test,
                                       const ValidationOptions& options) {
  return Validator(device)(algorithms, test, options);
}

}  // namespace plumb
