// Fits the tables of cuda_kernels/cost/ to the records of records.cpp, and writes them.
//
// Each family's constants are first moved so that its estimates come nearer to the recorded times
// (Levenberg-Marquardt on the logarithms of constants and times, held to where they were by a weak
// spring, so that a constant that no record determines stays); then one at a time, where that
// lowers what is lost by all choices. Nothing is random: the same records and tables give the same
// tables.
#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/conv_algorithms.hpp"
#include "cuda_kernels/cost/tables.hpp"
#include "plumb/problem_text.hpp"
#include "records.hpp"
#include "regret.hpp"
#include "table_file.hpp"

namespace plumb::cuda {
namespace {
CostTables fitted;
}
/// In the place of the one that this program's kernels bring.
const CostTables& cost_tables() { return fitted; }
}  // namespace plumb::cuda

using namespace plumb_test;

namespace {

/// Tables, and the algorithms whose estimates they make.
struct Family {
  std::vector<std::string> tables;
  std::vector<std::string_view> algorithms;  ///< names begin so, behind "cuda.conv."
};
const Family families[] = {
    {{"interleaved"}, {"interleaved"}},
    {{"streamed_filters"}, {"streamed_filters"}},
    {{"few_channels"}, {"few_channels"}},
    {{"fma", "kernel"},
     {"direct", "implicit_gemm", "im2col_gemm", "register_tile", "few_terms", "few_filters"}},
    {{"ladder"}, {"shared_tile", "narrow_fragments", "index_reuse", "tensor_core"}},
};

template <class Table>
std::span<double> doubles(Table& table) {
  static_assert(sizeof(Table) % sizeof(double) == 0);
  return {reinterpret_cast<double*>(&table), sizeof(Table) / sizeof(double)};
}

/// The recorded problems that a fit reads; a half is every second one that is not held out.
enum class Problems { all, not_held_out, first_half, second_half };

class Fit {
 public:
  Fit(const std::filesystem::path& root, Problems which) : device_(recorded_device()) {
    int count = 0;  // of those that are not held out
    for (RecordedProblem& one : recorded_problems(root / "docs/results")) {
      const bool even = !one.held_out && count++ % 2 == 0;
      if (which == Problems::all || (!one.held_out && (which == Problems::not_held_out ||
                                                       even == (which == Problems::first_half))))
        recorded_.push_back(std::move(one));
    }
    plumb::cuda::CostTables& tables = plumb::cuda::fitted;
    add(root, "kernel", doubles(tables.kernel));
    add(root, "fma", doubles(tables.fma));
    add(root, "ladder", doubles(tables.ladder));
    add(root, "few_channels", doubles(tables.few_channels));
    add(root, "streamed_filters", doubles(tables.streamed_filters));
    add(root, "interleaved", doubles(tables.interleaved));
    for (const RecordedProblem& one : recorded_)
      candidates_.push_back(candidates_of(one, plumb::cuda::conv_algorithms(), device_));
  }

  std::vector<Regret> judged() const { return regrets(recorded_, candidates_); }

  /// Of each algorithm that was timed: its microseconds, the fastest's of all, and its estimate.
  void print_estimates() const {
    for (std::size_t i = 0; i < recorded_.size(); ++i) {
      double best = 0;
      for (const Candidate& one : candidates_[i])
        if (one.seconds > 0 && (best == 0 || one.seconds < best)) best = one.seconds;
      for (const Candidate& one : candidates_[i])
        if (one.seconds > 0)
          fmt::print("{} {} {} {} {} {:.5g} {:.5g} {:.5g}\n", recorded_[i].name,
                     plumb::to_string(recorded_[i].problem),
                     plumb::to_string(recorded_[i].problem.dtype), one.algorithm->name,
                     plumb::to_string(one.math), one.seconds * 1e6, best * 1e6, one.estimate * 1e6);
    }
  }

  void run() {
    for (const Family& family : families) near_times(family);
    for (int round = 0; round < 4; ++round)
      for (const Family& family : families) lower_regret(family);
  }
  void save() const {
    for (const TableFile& file : files_) file.save();
  }

 private:
  void add(const std::filesystem::path& root, const std::string& name, std::span<double> values) {
    files_.emplace_back(root / "cuda_kernels/cost" / (name + "_table.hpp"), values);
  }

  /// The constants of a family that may move.
  std::vector<double*> constants(const Family& family) {
    std::vector<double*> found;
    for (const TableFile& file : files_)
      for (const std::string& table : family.tables)
        if (file.path().filename() == table + "_table.hpp")
          for (std::size_t i = 0; i < file.constants().size(); ++i)
            if (!file.constants()[i].fixed) found.push_back(&file.values()[i]);
    return found;
  }

  static bool is_of(const Family& family, const plumb::ConvAlgorithm& algorithm) {
    const std::string_view name = algorithm.name.substr(std::strlen("cuda.conv."));
    return std::any_of(family.algorithms.begin(), family.algorithms.end(),
                       [&](std::string_view begin) { return name.starts_with(begin); });
  }

  /// Estimates of a family's algorithms anew; those of ladder/ follow from the table `kernel` too.
  void ask_again(const Family& family) {
    const Family& ladder = std::end(families)[-1];
    const bool shared = family.tables.back() == "kernel";
    for (std::size_t i = 0; i < recorded_.size(); ++i)
      for (Candidate& one : candidates_[i])
        if (is_of(family, *one.algorithm) || (shared && is_of(ladder, *one.algorithm)))
          one.estimate = plumb::ask(*one.algorithm, recorded_[i].problem, device_).estimate_seconds;
  }

  /// How far estimates are from times, where those are worth knowing: logarithms, the less the
  /// slower the algorithm is, and no more than about 0.7.
  std::vector<double> misses(const Family& family) const {
    std::vector<double> all;
    for (const std::vector<Candidate>& candidates : candidates_) {
      double best = 0;
      for (const Candidate& one : candidates)
        if (one.seconds > 0 && (best == 0 || one.seconds < best)) best = one.seconds;
      for (const Candidate& one : candidates) {
        if (one.seconds <= 0 || one.seconds > 8 * best || !is_of(family, *one.algorithm)) continue;
        constexpr double enough = 0.7;
        const double miss = std::log(one.estimate / one.seconds);
        all.push_back(std::sqrt(best / one.seconds) * miss / std::hypot(1, miss / enough));
      }
    }
    return all;
  }

  void near_times(const Family& family) {
    const std::vector<double*> values = constants(family);
    const auto count = static_cast<Eigen::Index>(values.size());
    const std::vector<double> begin = copied(values);
    const auto vector = [&] {
      const std::vector<double> all = misses(family);
      return Eigen::VectorXd(
          Eigen::Map<const Eigen::VectorXd>(all.data(), static_cast<Eigen::Index>(all.size())));
    };
    constexpr double spring = 0.5, step = 0.02;
    Eigen::VectorXd moved = Eigen::VectorXd::Zero(count), seen = vector();
    const auto cost = [&](const Eigen::VectorXd& of, const Eigen::VectorXd& at) {
      return of.squaredNorm() + spring * at.squaredNorm();
    };
    const auto set = [&](const Eigen::VectorXd& at) {
      for (Eigen::Index i = 0; i < count; ++i)
        *values[static_cast<std::size_t>(i)] =
            rounded(begin[static_cast<std::size_t>(i)] * std::exp(at[i]));
      ask_again(family);
    };
    const double before = seen.squaredNorm();
    double damping = 0.1;
    for (int iteration = 0; iteration < 8; ++iteration) {
      Eigen::MatrixXd slopes(seen.size(), count);
      for (Eigen::Index i = 0; i < count; ++i) {
        Eigen::VectorXd other = moved;
        other[i] += step;
        set(other);
        slopes.col(i) = (vector() - seen) / step;
      }
      bool better = false;
      for (int tries = 0; tries < 4 && !better; ++tries, damping *= 4) {
        Eigen::MatrixXd normal = slopes.transpose() * slopes;
        normal.diagonal() *= 1 + damping;
        normal.diagonal().array() += spring;
        const Eigen::VectorXd wanted =
            normal.ldlt().solve(-(slopes.transpose() * seen + spring * moved));
        const Eigen::VectorXd next = moved + wanted.cwiseMax(-0.3).cwiseMin(0.3);
        set(next);
        const Eigen::VectorXd there = vector();
        if (cost(there, next) < cost(seen, moved) * 0.999) {
          moved = next, seen = there, better = true;
          damping /= 16;
        }
      }
      if (!better) break;
    }
    set(moved);
    const auto size = static_cast<double>(seen.size());
    fmt::print("{:<18} misses {:.3f} -> {:.3f} (root mean square of {})\n", family.tables.front(),
               std::sqrt(before / size), std::sqrt(seen.squaredNorm() / size), seen.size());
    std::fflush(stdout);
  }

  /// What is lost by all choices: the mean logarithm of the regret, the worst of each class, and a
  /// little of how far estimates are from times.
  double loss() const {
    double sum = 0;
    for (const Regret& one : judged()) {
      sum += std::log(one.geometric_mean());
      for (const Choice& choice : one.choices)
        sum += std::max(std::log(choice.regret) - std::log(1.2), 0.0) * 0.3;
    }
    for (const Family& family : families) {
      const std::vector<double> all = misses(family);
      for (const double miss : all) sum += 0.05 * miss * miss / static_cast<double>(all.size());
    }
    return sum;
  }

  void lower_regret(const Family& family) {
    double least = loss();
    const double before = least;
    for (const double factor : {1.25, 1.1, 1.04})
      for (double* const value : constants(family))
        for (const double by : {factor, 1 / factor}) {
          const double was = *value;
          *value = rounded(was * by);
          ask_again(family);
          if (const double other = loss(); other < least - 1e-4) {
            least = other;
            break;
          }
          *value = was;
        }
    ask_again(family);
    fmt::print("{:<18} loss {:.4f} -> {:.4f}\n", family.tables.front(), before, least);
    std::fflush(stdout);
  }

  /// As it will be written.
  static double rounded(double value) { return std::stod(fmt::format("{:.3g}", value)); }
  static std::vector<double> copied(const std::vector<double*>& values) {
    std::vector<double> all;
    for (const double* value : values) all.push_back(*value);
    return all;
  }

  plumb::DeviceInfo device_;
  std::vector<RecordedProblem> recorded_;
  std::vector<std::vector<Candidate>> candidates_;
  std::vector<TableFile> files_;
};

}  // namespace

/// usage: plumb_fit_costs ROOT [--check | --estimates | --halves]
int main(int count, char** arguments) try {
  const std::filesystem::path root = count > 1 ? arguments[1] : ".";
  const std::string_view what = count > 2 ? arguments[2] : "";
  if (what == "--halves") {
    // Fitted to one half of the problems, and judged by the other.
    Fit one(root, Problems::first_half);
    one.run();
    fmt::print("fitted to:\n{}", to_string(one.judged(), 0));
    fmt::print("not fitted to:\n{}", to_string(Fit(root, Problems::second_half).judged(), 10));
    return 0;
  }
  if (what == "--estimates") {
    Fit(root, Problems::all).print_estimates();
    return 0;
  }
  fmt::print("{}", to_string(Fit(root, Problems::all).judged(), what == "--check" ? 12 : 0));
  if (what == "--check") return 0;
  Fit fit(root, Problems::not_held_out);
  fit.run();
  fit.save();
  fmt::print("{}", to_string(Fit(root, Problems::all).judged(), 12));
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "fit_costs: {}\n", error.what());
  return 1;
}
