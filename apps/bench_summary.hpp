// What a bench of many problems comes to: the ratio to the peer and the share of the roofline, over
// all of them.
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
  int failed = 0;    ///< problems that none of ours ran
  int left_out = 0;  ///< problems for which there was no time
  int unsteady = 0;  ///< times that are not to be relied on, of all algorithms
};

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
