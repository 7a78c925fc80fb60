// Figures over many problems.
#include "bench_summary.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace plumb::app {
namespace {

const BenchRecord* fastest_of_ours(const BenchCase& bench) {
  const BenchRecord* best = nullptr;
  for (const BenchRecord& record : bench.records) {
    if (record.peer || !record.measurement.failure.empty()) continue;
    if (!best || record.measurement.median_seconds < best->measurement.median_seconds)
      best = &record;
  }
  return best;
}

Spread spread_of(std::vector<NamedValue> values) {
  if (values.empty()) return {};
  std::stable_sort(values.begin(), values.end(),
                   [](const auto& a, const auto& b) { return a.value < b.value; });
  const std::size_t middle = values.size() / 2;
  return {.count = values.size(),
          .median = values.size() % 2 == 1 ? values[middle].value
                                           : (values[middle - 1].value + values[middle].value) / 2,
          .least = values.front().value,
          .min_name = values.front().name};
}

}  // namespace

BenchSummary summary_of(const std::vector<BenchCase>& benches) {
  BenchSummary summary;
  for (const BenchCase& bench : benches) {
    for (const BenchRecord& record : bench.records)
      summary.unsteady += !record.measurement.unsteady.empty();
    const BenchRecord* ours = fastest_of_ours(bench);
    if (!ours) {
      ++summary.failed;
      continue;
    }
    const std::string name =
        bench.test.name.empty() ? to_string(bench.test.problem) : bench.test.name;
    summary.shares.push_back({name, ours->roofline_fraction});
    if (!ours->compared_with.empty()) summary.ratios.push_back({name, ours->speed_over_peer});
  }
  summary.ratio = spread_of(summary.ratios);
  summary.share = spread_of(summary.shares);
  return summary;
}

std::string to_string(const BenchSummary& summary) {
  const Spread &ratio = summary.ratio, &share = summary.share;
  std::string text = fmt::format(
      "{} problems: {:.1f} % of the roofline in the "
      "median, {:.1f} % at the least ({})\n",
      share.count, share.median * 100, share.least * 100, share.min_name);
  if (ratio.count > 0)
    text += fmt::format(
        "{} beside a peer: {:.2f} x as fast in the median, {:.2f} "
        "x at the least ({})\n",
        ratio.count, ratio.median, ratio.least, ratio.min_name);
  if (summary.failed > 0)
    text += fmt::format("{} problems without a figure of ours\n", summary.failed);
  if (summary.unsteady > 0)
    text += fmt::format(
        "{} times are unsteady: something else keeps the device or the cores busy, and they say "
        "little\n",
        summary.unsteady);
  return text;
}

SortedBars chart_of(const BenchSummary& summary, const std::string& title) {
  SortedBars chart{.title = title};
  if (!summary.ratios.empty())
    chart.panels.push_back(
        {.title = fmt::format("time of the fastest peer over ours: median {:.2f}, least {:.2f}",
                              summary.ratio.median, summary.ratio.least),
         .scale = Scale::logarithmic,
         .values = summary.ratios,
         .reference = Reference{1, "as fast as the peer:"}});
  SortedPanel shares{.title = fmt::format("share of the roofline: median {:.1f} %, least {:.1f} %",
                                          summary.share.median * 100, summary.share.least * 100),
                     .reference = Reference{100, "all of the roofline, %:"}};
  for (const NamedValue& one : summary.shares) shares.values.push_back({one.name, one.value * 100});
  chart.panels.push_back(std::move(shares));
  return chart;
}

}  // namespace plumb::app
