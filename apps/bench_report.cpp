// The table and the JSON of plumb bench.
#include "bench_report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bench_summary.hpp"

namespace plumb::app {
namespace {

/// What a row has to say beyond its figures.
std::string remark(const BenchRecord& record) {
  const Measurement& seen = record.measurement;
  if (!seen.failure.empty()) return "failed: " + seen.failure;
  std::string text;
  const auto add = [&](const std::string& words) { text += (text.empty() ? "" : ", ") + words; };
  if (!record.compared_with.empty())
    add(fmt::format("{:.2f} x as fast as {}", record.speed_over_peer, record.compared_with));
  if (!record.deterministic_peer.empty() && record.deterministic_peer != record.compared_with)
    add(fmt::format("{:.2f} x as {}", record.speed_over_deterministic_peer,
                    record.deterministic_peer));
  if (seen.packing == PackingTime::before) add("filters packed before");
  if (!seen.unsteady.empty()) add("unsteady: " + seen.unsteady);
  if (seen.given_up) add(fmt::format("given up after {} samples", seen.samples));
  if (!seen.bounded) add("no promise: error over fp32's bound");
  return text;
}

nlohmann::ordered_json to_json(const BenchCase& bench, const BenchRecord& record,
                               const std::string& device) {
  const ConvProblem& problem = bench.test.problem;
  const Measurement& seen = record.measurement;
  nlohmann::ordered_json json = {{"problem", to_string(problem)},
                                 {"name", bench.test.name},
                                 {"device", device},
                                 {"algorithm", seen.algorithm},
                                 {"math", to_string(record.math)},
                                 {"deterministic", record.deterministic},
                                 {"reproducible", record.reproducible},
                                 {"direction", to_string(problem.direction)},
                                 {"dtype", to_string(problem.dtype)},
                                 {"layout", to_string(bench.test.placement)},
                                 {"filter_packing", to_string(seen.packing)},
                                 {"samples", seen.samples}};
  if (!seen.failure.empty()) {
    json["failure"] = seen.failure;
    return json;
  }
  json.update({{"median_seconds", seen.median_seconds},
               {"min_seconds", seen.min_seconds},
               {"gflop_per_second", problem.flop() / seen.median_seconds * 1e-9},
               {"bytes_per_second", problem.bytes() / seen.median_seconds},
               {"roofline_fraction", record.roofline_fraction},
               {"max_error_over_bound", seen.max_error_over_bound},
               {"bounded", seen.bounded},
               {"sm_clock_mhz", bench.clock_hertz * 1e-6},
               {"runs_per_sample", seen.runs_per_sample},
               {"buffer_sets", bench.buffer_sets},
               {"given_up", seen.given_up},
               {"tries", seen.tries},
               {"unsteady", seen.unsteady}});
  if (!record.compared_with.empty()) {
    json["peer"] = record.compared_with;
    json["speed_over_peer"] = record.speed_over_peer;
  }
  if (!record.deterministic_peer.empty()) {
    json["deterministic_peer"] = record.deterministic_peer;
    json["speed_over_deterministic_peer"] = record.speed_over_deterministic_peer;
  }
  return json;
}

nlohmann::ordered_json to_json(const DeviceCeilings& ceilings) {
  return {{"bytes_per_second", ceilings.bytes_per_second},
          {"fp64_flop_per_second", ceilings.fp64_flop_per_second},
          {"fp32_flop_per_second", ceilings.fp32_flop_per_second},
          {"tf32_flop_per_second", ceilings.tf32_flop_per_second},
          {"bf16_flop_per_second", ceilings.bf16_flop_per_second},
          {"fp16_flop_per_second", ceilings.fp16_flop_per_second}};
}

nlohmann::ordered_json to_json(const Spread& spread) {
  return {{"problems", spread.count},
          {"median", spread.median},
          {"least", spread.least},
          {"least_problem", spread.least_problem}};
}

nlohmann::ordered_json to_json(const BenchSummary& summary) {
  nlohmann::ordered_json json = {{"roofline_fraction", to_json(summary.share)}};
  if (summary.ratio.count > 0) json["speed_over_peer"] = to_json(summary.ratio);
  if (summary.deterministic_ratio.count > 0)
    json["speed_over_deterministic_peer"] = to_json(summary.deterministic_ratio);
  if (summary.left_out > 0) json["left_out"] = summary.left_out;
  if (summary.unsteady > 0) json["unsteady"] = summary.unsteady;
  return json;
}

}  // namespace

std::string timestamp() {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

void print(const BenchCase& bench) {
  const ConvProblem& problem = bench.test.problem;
  fmt::print("{}{}{}  {} {}, {:.4g} GFLOP, {:.4g} MB", bench.test.name,
             bench.test.name.empty() ? "" : "  ", to_string(problem), to_string(problem.dtype),
             to_string(bench.test.placement), problem.flop() * 1e-9, problem.bytes() * 1e-6);
  if (bench.clock_hertz > 0) fmt::print(", {:.0f} MHz", bench.clock_hertz * 1e-6);
  if (bench.buffer_sets > 1) fmt::print(", {} sets of buffers", bench.buffer_sets);
  fmt::print("\n");
  if (problem.n < bench.asked_batch)
    fmt::print("  N cut from {} to {}: the device's memory holds no more\n", bench.asked_batch,
               problem.n);

  std::size_t width = 9;
  for (const BenchRecord& record : bench.records)
    width = std::max(width, record.measurement.algorithm.size());
  fmt::print(
      "  {:<{}}  math  samples  median ms     min ms    GFLOP/s       GB/s  roofline  "
      "err/bound\n",
      "algorithm", width);
  for (const BenchRecord& record : bench.records) {
    const Measurement& seen = record.measurement;
    if (!seen.failure.empty()) {
      fmt::print("  {:<{}}  {:<4}  {}\n", seen.algorithm, width, to_string(record.math),
                 remark(record));
      continue;
    }
    fmt::print(
        "  {:<{}}  {:<4}  {:>7}  {:>9.4f}  {:>9.4f}  {:>9.1f}  {:>9.1f}  {:>7.1f}%  {:>9.3f}"
        "  {}\n",
        seen.algorithm, width, to_string(record.math), seen.samples, seen.median_seconds * 1e3,
        seen.min_seconds * 1e3, problem.flop() / seen.median_seconds * 1e-9,
        problem.bytes() / seen.median_seconds * 1e-9, record.roofline_fraction * 100,
        seen.max_error_over_bound, remark(record));
  }
  for (const BenchRefusal& refusal : bench.refusals)
    fmt::print("  {:<{}}  not run: {} ({})\n", refusal.algorithm, width, refusal.support.sentence,
               to_string(refusal.support.reason));
  fmt::print("\n");
}

nlohmann::ordered_json to_json(const Device& device, const DeviceCeilings& ceilings,
                               const MeasureOptions& options, const std::vector<BenchCase>& benches,
                               const BenchSummary& summary) {
  const std::string name = to_string(device.id());
  nlohmann::ordered_json records = nlohmann::ordered_json::array();
  nlohmann::ordered_json refused = nlohmann::ordered_json::array();
  for (const BenchCase& bench : benches) {
    for (const BenchRecord& record : bench.records) records.push_back(to_json(bench, record, name));
    for (const BenchRefusal& refusal : bench.refusals)
      refused.push_back({{"problem", to_string(bench.test.problem)},
                         {"name", bench.test.name},
                         {"algorithm", refusal.algorithm},
                         {"reason", to_string(refusal.support.reason)},
                         {"sentence", refusal.support.sentence}});
  }
  return {{"version", version},
          {"date", timestamp()},
          {"device", name},
          {"device_name", device.info().name},
          {"instruction_set", device.info().instruction_set},
          {"units", device.info().units},
          {"driver_version", device.info().driver_version},
          {"seed", options.seed},
          {"clock", options.host_time ? "host" : "device"},
          {"complete", summary.left_out == 0},
          {"ceilings", to_json(ceilings)},
          {"records", std::move(records)},
          {"refused", std::move(refused)},
          {"summary", to_json(summary)}};
}

}  // namespace plumb::app
