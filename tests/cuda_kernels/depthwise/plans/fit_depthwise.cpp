// Fits the constants of cuda_kernels/cost/depthwise_table.hpp to the times of recorded_cuts.hpp,
// and writes them.
//
// Estimates are brought near to the times of all recorded cuts (Levenberg-Marquardt on logarithms,
// held to where they were by a weak spring); of a cut that was swept and is not recorded it is
// known that it took no less than the second that is. Nothing is random.
//
//   plumb_fit_depthwise ROOT [--check | --leave-out]
#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <string_view>

#include "cuda_kernels/cost/records.hpp"
#include "cuda_kernels/cost/table_file.hpp"
#include "cuda_kernels/cost/tables.hpp"
#include "regrets.hpp"

namespace plumb::cuda {
namespace {
CostTables fitted;
}
/// In the place of the one that the planner has.
const CostTables& cost_tables() { return fitted; }
}  // namespace plumb::cuda

using namespace plumb_test;
using namespace plumb::cuda;

namespace {

/// A cut whose time is known, or that it is no less.
struct Known {
  const RecordedCase* of;
  DepthwiseChoice choice;
  double seconds;
  bool at_least;
};

std::vector<Known> known_times(const std::vector<RecordedCase>& cases) {
  std::vector<Known> all;
  for (const RecordedCase& one : cases) {
    std::set<std::vector<int>> met;
    std::vector<double> swept;
    const auto without_threads = [&](const DepthwiseChoice& choice) {
      std::vector<int> cut =
          cut_of(*plan_depthwise(one.problem, one.kernel, recorded_device(), choice));
      cut.pop_back();
      return cut;
    };
    for (const RecordedCut& cut : one.cuts) {
      all.push_back({&one, cut.choice, cut.seconds, false});
      met.insert(without_threads(cut.choice));
      if (!cut.planned) swept.push_back(cut.seconds);
    }
    if (!one.swept() || swept.size() < 2) continue;
    for (const DepthwiseChoice& choice : swept_choices(one.kernel))
      if (choice.threads == depthwise_threads && met.insert(without_threads(choice)).second)
        all.push_back({&one, choice, std::ranges::max(swept), true});
  }
  return all;
}

class Fit {
 public:
  explicit Fit(const std::filesystem::path& root)
      : file_(root / "cuda_kernels/cost/depthwise_table.hpp",
              {reinterpret_cast<double*>(&fitted.depthwise),
               sizeof(DepthwiseTable) / sizeof(double)}) {
    for (std::size_t i = 0; i < file_.constants().size(); ++i)
      if (!file_.constants()[i].fixed) values_.push_back(&file_.values()[i]);
    values_.push_back(&event_seconds);
    for (const double* value : values_) begin_.push_back(*value);
  }

  /// What two events around a launch add to its time.
  double event_seconds = 3.8e-6;

  void run(const std::vector<RecordedCase>& cases) {
    const std::vector<Known> known = known_times(cases);
    const auto count = static_cast<Eigen::Index>(values_.size());
    constexpr double spring = 0.001, step = 0.01;
    Eigen::VectorXd at = Eigen::VectorXd::Zero(count), seen = misses(known, at);
    double damping = 0.1;
    for (int iteration = 0; iteration < 30; ++iteration) {
      Eigen::MatrixXd slopes(seen.size(), count);
      for (Eigen::Index i = 0; i < count; ++i) {
        Eigen::VectorXd other = at;
        other[i] += step;
        slopes.col(i) = (misses(known, other) - seen) / step;
      }
      bool better = false;
      for (int tries = 0; tries < 6 && !better; ++tries, damping *= 4) {
        Eigen::MatrixXd normal = slopes.transpose() * slopes;
        normal.diagonal() *= 1 + damping;
        normal.diagonal().array() += spring;
        const Eigen::VectorXd move =
            normal.ldlt().solve(-(slopes.transpose() * seen + spring * at));
        const Eigen::VectorXd next = at + move.cwiseMax(-0.3).cwiseMin(0.3);
        const Eigen::VectorXd there = misses(known, next);
        const auto cost = [&](const Eigen::VectorXd& of, const Eigen::VectorXd& where) {
          return of.squaredNorm() + spring * where.squaredNorm();
        };
        if (cost(there, next) >= cost(seen, at) * 0.9999) continue;
        at = next, seen = there, better = true, damping /= 16;
      }
      if (!better) break;
    }
    set(at);
  }

  void print() const {
    for (std::size_t i = 0; i < file_.constants().size(); ++i)
      fmt::print("{} {:.3g}  ", file_.constants()[i].name, file_.values()[i]);
    fmt::print("events {:.3g}\n", event_seconds);
  }
  void save() const { file_.save(); }

 private:
  /// Three digits, as they will be written.
  void set(const Eigen::VectorXd& at) {
    for (std::size_t i = 0; i < values_.size(); ++i)
      *values_[i] =
          std::stod(fmt::format("{:.3g}", begin_[i] * std::exp(at[static_cast<Eigen::Index>(i)])));
    // No share of a rate is more than it.
    fitted.depthwise.moved = std::min(fitted.depthwise.moved, 0.95);
  }

  Eigen::VectorXd misses(const std::vector<Known>& known, const Eigen::VectorXd& at) {
    for (std::size_t i = 0; i < values_.size(); ++i)
      *values_[i] = begin_[i] * std::exp(at[static_cast<Eigen::Index>(i)]);
    fitted.depthwise.moved = std::min(fitted.depthwise.moved, 0.95);
    Eigen::VectorXd all(static_cast<Eigen::Index>(known.size()));
    for (std::size_t i = 0; i < known.size(); ++i) {
      const Known& one = known[i];
      const double estimate =
          plan_depthwise(one.of->problem, one.of->kernel, recorded_device(), one.choice)->seconds;
      const double ratio = std::log((estimate + event_seconds) / one.seconds);
      constexpr double enough = 0.5, weight = 0.5;
      all[static_cast<Eigen::Index>(i)] =
          one.at_least ? weight * std::min(ratio, 0.0) : ratio / std::hypot(1, ratio / enough);
    }
    return all;
  }

  TableFile file_;
  std::vector<double*> values_;
  std::vector<double> begin_;
};

void print(const std::vector<RecordedCase>& cases, double event_seconds) {
  fmt::print("of the day of the record:\n{}", to_string(march_regrets(cases, true)));
  fmt::print("now:\n{}", to_string(march_regrets(cases)));
  fmt::print("{}misses {:.3f} (root mean square)\n",
             to_string(std::map<std::string, PlanRegrets>{{"kernels", kernel_regrets(cases)}}),
             miss(cases, event_seconds));
}

/// Each shape is planned by constants that were fitted to all others.
void leave_out(const std::filesystem::path& root, const std::vector<RecordedCase>& cases) {
  std::set<std::string> names;
  for (const RecordedCase& one : cases) names.insert(one.name);
  std::map<std::string, PlanRegrets> all;
  double squares = 0;
  std::size_t count = 0;
  for (const std::string& name : names) {
    std::vector<RecordedCase> others, left;
    for (const RecordedCase& one : cases) (one.name == name ? left : others).push_back(one);
    fitted = {};
    Fit fit(root);
    fit.run(others);
    for (const auto& [of, regrets] : march_regrets(left)) {
      for (const double one : regrets.regrets) all[of].add(one, name);
      all[of].untimed += regrets.untimed;
    }
    std::size_t cuts = 0;
    for (const RecordedCase& one : left) cuts += one.cuts.size();
    squares += std::pow(miss(left, fit.event_seconds), 2) * static_cast<double>(cuts);
    count += cuts;
  }
  fmt::print("each shape left out in turn:\n{}misses {:.3f} (root mean square)\n", to_string(all),
             std::sqrt(squares / static_cast<double>(count)));
}

}  // namespace

int main(int count, char** arguments) try {
  const std::filesystem::path root = count > 1 ? arguments[1] : ".";
  const std::string_view what = count > 2 ? arguments[2] : "";
  const std::vector<RecordedCase> cases = recorded_cases(root / "docs/results");
  Fit fit(root);
  if (what == "--leave-out") {
    leave_out(root, cases);
    return 0;
  }
  if (what != "--check") fit.run(cases);
  fit.print();
  print(cases, fit.event_seconds);
  if (what != "--check") fit.save();
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "fit_depthwise: {}\n", error.what());
  return 1;
}
