// The tables, the JSON and the picture of plumb ladder.
#include "ladder_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench_report.hpp"
#include "json_file.hpp"

namespace plumb::app {
namespace {

void print_variant(const Rung& rung, const LadderVariant& variant, const std::string& gain,
                   bool best) {
  const Measurement& seen = variant.measurement;
  fmt::print("  {:>4}  {:<32}  {:<46}  {:<4}  {:>10.4f}  {:>6}  {:>7.1f}%  {:>9.3f}{}\n",
             best ? std::to_string(rung.number) : "", best ? rung.title : "", seen.algorithm,
             to_string(variant.math), seen.median_seconds * 1e3, gain,
             variant.roofline_fraction * 100, seen.max_error_over_bound,
             seen.given_up ? "  few samples" : "");
}

void print_pipeline(const Rung& rung, const LayerTime& time) {
  fmt::print("  {:>4}  {:<32}  {:<46}  {:<4}  {:>10.4f}  {:>6}  {:>8}  {:>9.3f}", rung.number,
             rung.title, time.algorithm, "", time.pipeline_seconds * 1e3, "", "",
             time.max_error_over_bound);
  if (time.stages.copy_out > 0)
    fmt::print("  {:.2f} x its slowest stage; {:.4f} ms with one stream",
               time.pipeline_seconds / time.stages.slowest(), time.one_stream_seconds * 1e3);
  fmt::print("\n");
}

nlohmann::ordered_json to_json(const LayerTime& time) {
  return {{"algorithm", time.algorithm},
          {"op_seconds", time.op_seconds},
          {"one_stream_seconds", time.one_stream_seconds},
          {"pipeline_seconds", time.pipeline_seconds},
          {"copy_in_alone_seconds", time.stages.copy_in},
          {"kernel_alone_seconds", time.stages.kernel},
          {"copy_out_alone_seconds", time.stages.copy_out},
          {"max_error_over_bound", time.max_error_over_bound}};
}

nlohmann::ordered_json to_json(const LadderVariant& variant) {
  const Measurement& seen = variant.measurement;
  return {{"algorithm", seen.algorithm},
          {"math", to_string(variant.math)},
          {"samples", seen.samples},
          {"median_seconds", seen.median_seconds},
          {"min_seconds", seen.min_seconds},
          {"roofline_fraction", variant.roofline_fraction},
          {"max_error_over_bound", seen.max_error_over_bound},
          {"given_up", seen.given_up}};
}

nlohmann::ordered_json to_json(const LadderRung& one, const LayerTime& with_copies) {
  nlohmann::ordered_json json = {{"rung", one.rung->number}, {"title", one.rung->title}};
  if (!one.missing.empty()) {
    json["missing"] = one.missing;
  } else if (one.rung->kind == RungKind::pipeline) {
    json["layer_time"] = to_json(with_copies);
  } else {
    json["variants"] = nlohmann::ordered_json::array();
    for (const LadderVariant& variant : one.variants) json["variants"].push_back(to_json(variant));
  }
  return json;
}

/// fp64 serves where fp32 is asked for, and is drawn with it.
std::size_t series_of(Math math) {
  switch (math) {
    case Math::fp64:
    case Math::fp32: return 0;
    case Math::tf32: return 1;
    case Math::bf16:
    case Math::fp16: return 2;
  }
  return 0;
}
constexpr std::size_t with_copies_series = 3;

/// What a bar says beside its time. On a rung of CUDA's the variant is enough; elsewhere, and where
/// the rung is a choice, it is the algorithm, without the device and the operation that all have.
std::string bar_name(const Rung& rung, std::string_view algorithm) {
  if (rung.kind == RungKind::technique && algorithm.starts_with("cuda."))
    return std::string(variant_name(algorithm));
  constexpr std::string_view operation = ".conv.";
  const std::size_t at = algorithm.find(operation);
  return std::string(at == algorithm.npos ? algorithm : algorithm.substr(at + operation.size()));
}

Bar bar_of(const LadderRung& one, const LayerTime& with_copies) {
  Bar bar;
  if (one.rung->kind == RungKind::pipeline && one.missing.empty()) {
    bar.value = with_copies.pipeline_seconds * 1e3;
    bar.series = with_copies_series;
  } else if (const LadderVariant* best = one.best()) {
    bar.value = best->measurement.median_seconds * 1e3;
    bar.series = series_of(best->math);
    bar.note = bar_name(*one.rung, best->measurement.algorithm);
  } else {
    bar.note = one.missing;
  }
  return bar;
}

}  // namespace

void print(const LadderLayer& layer, bool all) {
  const ConvProblem& problem = layer.problem;
  fmt::print("{}  {}, {:.4g} GFLOP, {:.4g} MB; the roofline of fp32 is {:.4f} ms", layer.name,
             to_string(problem), problem.flop() * 1e-9, problem.bytes() * 1e-6,
             layer.roofline_seconds * 1e3);
  if (layer.clock_hertz > 0) fmt::print("; {:.0f} MHz", layer.clock_hertz * 1e-6);
  fmt::print("\n");
  if (problem.n < layer.asked_batch)
    fmt::print("  N cut from {} to {}: the device's memory holds no more\n", layer.asked_batch,
               problem.n);
  fmt::print("  {:>4}  {:<32}  {:<46}  {:<4}  {:>10}  {:>6}  {:>8}  {:>9}\n", "rung", "technique",
             "algorithm", "math", "ms", "gain", "roofline", "err/bound");
  double before = 0, chosen = 0;
  for (const LadderRung& one : layer.rungs) {
    if (!one.missing.empty()) {
      fmt::print("  {:>4}  {:<32}  missing: {}\n", one.rung->number, one.rung->title, one.missing);
      continue;
    }
    if (one.rung->kind == RungKind::pipeline) {
      print_pipeline(*one.rung, layer.with_copies);
      continue;
    }
    const double seconds = one.best()->measurement.median_seconds;
    // Tuning gains on the choice without it, whatever rung came before.
    const double reference = one.rung->kind == RungKind::tuned ? chosen : before;
    print_variant(*one.rung, *one.best(),
                  reference > 0 ? fmt::format("{:.2f}", reference / seconds) : "", true);
    before = seconds;
    if (one.rung->kind == RungKind::chosen) chosen = seconds;
    for (std::size_t i = 1; all && i < one.variants.size(); ++i)
      print_variant(*one.rung, one.variants[i], "", false);
  }
  fmt::print("\n");
}

void print_batches(const std::vector<LadderLayer>& layers) {
  fmt::print("{:<12}  {:>6}  {:>10}  {:>18}  {:>19}  {:>9}  {}\n", "layer", "N", "op ms",
             "layer ms, 1 stream", "layer ms, pipeline", "err/bound", "algorithm");
  for (const LadderLayer& layer : layers)
    for (const BatchTime& batch : layer.batches)
      fmt::print("{:<12}  {:>6}  {:>10.4f}  {:>18.4f}  {:>19.4f}  {:>9.3f}  {}\n", layer.name,
                 batch.n, batch.time.op_seconds * 1e3, batch.time.one_stream_seconds * 1e3,
                 batch.time.pipeline_seconds * 1e3, batch.time.max_error_over_bound,
                 batch.time.algorithm);
  fmt::print("\n");
}

void write_ladder(const std::string& path, const Device& device, const DeviceCeilings& ceilings,
                  const std::vector<LadderLayer>& layers) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const LadderLayer& layer : layers) {
    nlohmann::ordered_json rungs = nlohmann::ordered_json::array();
    for (const LadderRung& one : layer.rungs) rungs.push_back(to_json(one, layer.with_copies));
    nlohmann::ordered_json batches = nlohmann::ordered_json::array();
    for (const BatchTime& batch : layer.batches) {
      nlohmann::ordered_json json = {{"n", batch.n}};
      json.update(to_json(batch.time));
      batches.push_back(std::move(json));
    }
    all.push_back({{"name", layer.name},
                   {"problem", to_string(layer.problem)},
                   {"asked_batch", layer.asked_batch},
                   {"roofline_seconds", layer.roofline_seconds},
                   {"sm_clock_mhz", layer.clock_hertz * 1e-6},
                   {"rungs", std::move(rungs)},
                   {"batches", std::move(batches)}});
  }
  write_json(path, {{"version", version},
                    {"date", timestamp()},
                    {"device", to_string(device.id())},
                    {"device_name", device.info().name},
                    {"driver_version", device.info().driver_version},
                    {"bytes_per_second", ceilings.bytes_per_second},
                    {"fp32_flop_per_second", ceilings.fp32_flop_per_second},
                    {"tf32_flop_per_second", ceilings.tf32_flop_per_second},
                    {"fp16_flop_per_second", ceilings.fp16_flop_per_second},
                    {"layers", std::move(all)}});
}

BarChart ladder_chart(const std::vector<LadderLayer>& layers, const Device& device) {
  BarChart chart{.title = fmt::format("The ladder on {}", device.info().name),
                 .axis = "median of the device's time, ms",
                 .scale = Scale::logarithmic,
                 .series = {"fp32", "tf32", "fp16", "with the copies"}};
  const auto algorithms = conv_algorithms(device);
  for (const Rung& rung : ladder_rungs())
    if (!is_elsewhere(rung, algorithms))
      chart.categories.push_back(fmt::format("{}  {}", rung.number, rung.title));
  for (const LadderLayer& layer : layers) {
    BarPanel panel{.title = fmt::format("{}, N = {}", layer.name, layer.problem.n),
                   .reference = Reference{layer.roofline_seconds * 1e3, "fp32 roofline"}};
    for (const LadderRung& one : layer.rungs)
      if (!is_elsewhere(*one.rung, algorithms))
        panel.bars.push_back({bar_of(one, layer.with_copies)});
    chart.panels.push_back(std::move(panel));
  }
  return chart;
}

}  // namespace plumb::app
