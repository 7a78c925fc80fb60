// What a bench comes to: the ratios to the peers and the share of the roofline, of each algorithm
// and over many problems.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench_report.hpp"
#include "plot/sorted_bars.hpp"

namespace plumb::app {

/// A few figures of many values.
struct Spread {
  std::size_t count = 0;
  double median = 0, least = 0;
  std::string least_problem;  ///< its name
};

struct BenchSummary {
  std::vector<NamedValue> ratios;  ///< the peer's time over ours, where a peer ran
  std::vector<NamedValue> shares;  ///< of the roofline, 0 to 1
  Spread ratio, share;
  Spread deterministic_ratio;  ///< to the peers that are deterministic
  /// Some peer that is not deterministic was faster than those that are.
  bool peers_vary = false;
  int failed = 0;    ///< problems that none of ours ran
  int left_out = 0;  ///< problems for which there was no time
  int unsteady = 0;  ///< times that are not to be relied on, of all algorithms
};

/// Writes into each of ours how it compares with the fastest peer that is no less accurate than it,
/// and with the fastest of those that are deterministic.
void compare_with_peers(std::vector<BenchRecord>& records);
/// Of each problem its fastest algorithm that is not another library's.
BenchSummary summary_of(const std::vector<BenchCase>& benches);
/// A line or two.
std::string to_string(const BenchSummary& summary);
/// Of many problems: the fastest algorithm of each, in order.
SortedBars chart_of(const BenchSummary& summary, const std::string& title);
/// Of few: a panel for each problem, and in it a bar for each of its algorithms, with its time (ms)
/// and its share of the roofline, or why it has none.
BarChart algorithms_chart(const std::vector<BenchCase>& benches, const std::string& title);
/// The picture that fits the number of problems, as SVG.
std::string picture_of(const std::vector<BenchCase>& benches, const BenchSummary& summary,
                       const std::string& title);

}  // namespace plumb::app
