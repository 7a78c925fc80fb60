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
          .least_problem = values.front().name};
}

/// Keeps the smaller ratio, and whose it is.
void keep_least(double ratio, std::string_view peer, double& least, std::string& whose) {
  if (!whose.empty() && ratio >= least) return;
  least = ratio;
  whose = peer;
}

}  // namespace

void compare_with_peers(std::vector<BenchRecord>& records) {
  for (BenchRecord& ours : records) {
    if (ours.peer || !ours.measurement.failure.empty()) continue;
    for (const BenchRecord& peer : records) {
      if (!peer.peer || !peer.measurement.failure.empty() || !allows(ours.math, peer.math))
        continue;
      const double ratio = peer.measurement.median_seconds / ours.measurement.median_seconds;
      keep_least(ratio, peer.measurement.algorithm, ours.speed_over_peer, ours.compared_with);
      if (peer.deterministic)
        keep_least(ratio, peer.measurement.algorithm, ours.speed_over_deterministic_peer,
                   ours.deterministic_peer);
    }
  }
}

BenchSummary summary_of(const std::vector<BenchCase>& benches) {
  BenchSummary summary;
  std::vector<NamedValue> deterministic_ratios;
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
    if (!ours->deterministic_peer.empty())
      deterministic_ratios.push_back({name, ours->speed_over_deterministic_peer});
    summary.peers_vary =
        summary.peers_vary || ours->speed_over_peer != ours->speed_over_deterministic_peer;
  }
  summary.ratio = spread_of(summary.ratios);
  summary.deterministic_ratio = spread_of(std::move(deterministic_ratios));
  summary.share = spread_of(summary.shares);
  return summary;
}

std::string to_string(const BenchSummary& summary) {
  const Spread& share = summary.share;
  std::string text = fmt::format(
      "{} problems: {:.1f} % of the roofline in the "
      "median, {:.1f} % at the least ({})\n",
      share.count, share.median * 100, share.least * 100, share.least_problem);
  const auto beside = [&](std::string_view peer, const Spread& ratio) {
    if (ratio.count == 0) return;
    text += fmt::format(
        "{} beside {}: {:.2f} x as fast in the median, {:.2f} "
        "x at the least ({})\n",
        ratio.count, peer, ratio.median, ratio.least, ratio.least_problem);
  };
  beside("a peer", summary.ratio);
  if (summary.peers_vary) beside("a deterministic peer", summary.deterministic_ratio);
  if (summary.failed > 0)
    text += fmt::format("{} problems without a figure of ours\n", summary.failed);
  if (summary.unsteady > 0)
    text += fmt::format(
        "{} times are unsteady: something else keeps the device or the cores busy, and they say "
        "little\n",
        summary.unsteady);
  return text;
}

namespace {

/// Where a value stands in a list that grows by those that are new.
template <class Value>
std::size_t index_in(std::vector<std::string>& list, const Value& value) {
  const auto found = std::find(list.begin(), list.end(), value);
  const auto index = static_cast<std::size_t>(found - list.begin());
  if (found == list.end()) list.emplace_back(value);
  return index;
}

Bar bar_of(const BenchRecord& record, std::vector<std::string>& series) {
  Bar bar{.series = index_in(series, to_string(record.math))};
  if (!record.measurement.failure.empty()) {
    bar.note = "failed";
    return bar;
  }
  bar.value = record.measurement.median_seconds * 1e3;
  bar.note = fmt::format("ms, {:.0f} %{}", record.roofline_fraction * 100,
                         record.measurement.unsteady.empty() ? "" : ", unsteady");
  return bar;
}

std::string shares_text(const Spread& share) {
  return fmt::format("share of the roofline: median {:.1f} %, least {:.1f} %", share.median * 100,
                     share.least * 100);
}

}  // namespace

BarChart algorithms_chart(const std::vector<BenchCase>& benches, const std::string& title) {
  BarChart chart{.title = title};
  for (const BenchCase& bench : benches) {
    for (const BenchRecord& record : bench.records)
      index_in(chart.categories, record.measurement.algorithm);
    for (const BenchRefusal& one : bench.refusals) index_in(chart.categories, one.algorithm);
  }
  for (const BenchCase& bench : benches) {
    BarPanel panel{.title =
                       bench.test.name.empty() ? to_string(bench.test.problem) : bench.test.name};
    panel.bars.resize(chart.categories.size());
    for (const BenchRecord& record : bench.records)
      panel.bars[index_in(chart.categories, record.measurement.algorithm)] = {
          bar_of(record, chart.series)};
    for (const BenchRefusal& one : bench.refusals)
      panel.bars[index_in(chart.categories, one.algorithm)] = {
          Bar{.note = std::string(to_string(one.support.reason))}};
    chart.panels.push_back(std::move(panel));
  }
  chart.axis = "median of the device's time, ms, and % of the roofline";
  if (benches.size() > 1) chart.axis += "; " + shares_text(summary_of(benches).share);
  return chart;
}

std::string picture_of(const std::vector<BenchCase>& benches, const BenchSummary& summary,
                       const std::string& title) {
  constexpr std::size_t few = 8;
  return benches.size() <= few ? to_svg(algorithms_chart(benches, title))
                               : to_svg(chart_of(summary, title));
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
  SortedPanel shares{.title = shares_text(summary.share),
                     .reference = Reference{100, "all of the roofline, %:"}};
  for (const NamedValue& one : summary.shares) shares.values.push_back({one.name, one.value * 100});
  chart.panels.push_back(std::move(shares));
  return chart;
}

}  // namespace plumb::app
