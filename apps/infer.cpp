// plumb infer: a whole network on random images, with the time and the algorithm of each layer.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "commands.hpp"
#include "errors.hpp"
#include "formats/npy.hpp"
#include "infer/inference.hpp"
#include "interrupt.hpp"
#include "json_file.hpp"
#include "options.hpp"
#include "selection.hpp"
#include "stopwatch.hpp"
#include "training/random.hpp"

namespace plumb::app {
namespace {

struct InferArguments {
  DeviceArguments device;
  std::string model = "resnet50", weights, dtype = "f32", layout, math = "fp32", json;
  std::string images, logits;  ///< NumPy files
  std::vector<std::string> compare;
  std::int64_t batch = 1, side = 224;
  int samples = 5;
  std::uint64_t seed = 1;
};

/// One device's run.
struct Run {
  Device device;
  double setup_seconds = 0;
  std::vector<double> step_seconds;  ///< medians, in the order of the steps
  double batch_seconds = 0;          ///< the median of whole batches, host time included
  std::vector<std::string> algorithms;
  std::vector<float> logits;

  double images_per_second(std::int64_t batch) const {
    return static_cast<double>(batch) / batch_seconds;
  }
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Run run_on(const Device& device, const Graph& graph, const Weights& weights,
           const std::vector<float>& images, const Precision& precision,
           const InferArguments& arguments) {
  Stopwatch stopwatch;
  Run run{.device = device};
  Queue queue(device);
  Inference network(queue, graph, weights, arguments.batch, precision);
  network.upload(queue, images);
  network.forward(queue);  // what is slow the first time
  queue.synchronize();
  run.setup_seconds = stopwatch.lap();

  std::vector<std::vector<double>> steps(graph.steps.size());
  std::vector<double> batches;
  for (int sample = 0; sample < arguments.samples; ++sample) {
    std::vector<Event> events{queue.record()};
    network.forward(queue, [&] { events.push_back(queue.record()); });
    queue.synchronize();
    for (std::size_t i = 0; i < steps.size(); ++i)
      steps[i].push_back(seconds_between(events[i], events[i + 1]));
    // Without events in between, as a program runs it.
    stopwatch.lap();
    network.forward(queue);
    queue.synchronize();
    batches.push_back(stopwatch.lap());
  }
  for (const std::vector<double>& seconds : steps) run.step_seconds.push_back(median(seconds));
  run.batch_seconds = median(batches);
  for (std::size_t i = 0; i < steps.size(); ++i) run.algorithms.emplace_back(network.runs(i));
  run.logits = network.logits(queue);
  return run;
}

double flop(const Step& step, std::int64_t n) {
  return step.kind == StepKind::conv ? problem_of(step, n, DType::f32, Layout::nchw).flop() : 0;
}

void print(const Run& run, const Graph& graph, const InferArguments& arguments) {
  fmt::print("{}  {}: {} of {}x{}, batch {}, {} {}\n\n", to_string(run.device.id()),
             run.device.info().name, arguments.model, arguments.side, arguments.side,
             arguments.batch, arguments.dtype, arguments.layout);
  std::size_t width = 9;
  for (const std::string& name : run.algorithms) width = std::max(width, name.size());
  fmt::print("{:<22}{:<36}{:>9}{:>10}  {}\n", "layer", "", "ms", "GFLOP/s", "algorithm");
  double seconds = 0, operations = 0;
  for (std::size_t i = 0; i < graph.steps.size(); ++i) {
    const Step& step = graph.steps[i];
    const double work = flop(step, arguments.batch);
    fmt::print("{:<22}{:<36}{:>9.3f}{:>10}  {}\n", step.name, describe(step),
               run.step_seconds[i] * 1e3,
               work > 0 ? fmt::format("{:.1f}", work / run.step_seconds[i] * 1e-9) : "",
               run.algorithms[i]);
    seconds += run.step_seconds[i], operations += work;
  }
  fmt::print("{:<58}{:>9.3f}{:>10.1f}\n\n", "all layers", seconds * 1e3,
             operations / seconds * 1e-9);
  fmt::print("set up    {:.3f} s  memory, weights, plans, the first batch\n", run.setup_seconds);
  fmt::print("batch     {:.3f} ms, {:.1f} images per second\n", run.batch_seconds * 1e3,
             run.images_per_second(arguments.batch));
}

nlohmann::ordered_json to_json(const Run& run, const Graph& graph,
                               const InferArguments& arguments) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < graph.steps.size(); ++i)
    layers.push_back({{"name", graph.steps[i].name},
                      {"description", describe(graph.steps[i])},
                      {"algorithm", run.algorithms[i]},
                      {"flop", flop(graph.steps[i], arguments.batch)},
                      {"seconds", run.step_seconds[i]}});
  return {{"device", to_string(run.device.id())},
          {"device_name", run.device.info().name},
          {"setup_seconds", run.setup_seconds},
          {"batch_seconds", run.batch_seconds},
          {"images_per_second", run.images_per_second(arguments.batch)},
          {"layers", std::move(layers)}};
}

/// Two devices' logits, and how far they may lie apart.
struct Difference {
  double largest = 0, bound = 0;
};

/// Each layer rounds its sums, of so many terms, and its outputs once; errors that do not know of
/// each other pass through the layers after at their size, and add up no worse than this.
Difference difference(const Graph& graph, const Precision& precision, const Run& a, const Run& b) {
  Difference result;
  double size = 0;
  for (std::size_t i = 0; i < a.logits.size(); ++i) {
    const double apart = std::abs(static_cast<double>(a.logits[i]) - b.logits[i]);
    if (!(apart <= result.largest)) result.largest = apart;  // NaN stays
    size = std::max(size, std::abs(static_cast<double>(a.logits[i])));
  }
  const auto unit = [](DType dtype) {
    switch (dtype) {
      case DType::f16: return 0x1p-11;
      case DType::bf16: return 0x1p-8;
      case DType::f64: return 0x1p-53;
      case DType::f32: return 0x1p-24;
    }
    return 1.0;
  };
  const auto product = [&] {
    switch (precision.math) {
      case Math::tf32: return 0x1p-11;
      case Math::fp16: return 0x1p-11;
      case Math::bf16: return 0x1p-8;
      case Math::fp32: return 0x1p-24;
      case Math::fp64: return 0x1p-53;
    }
    return 1.0;
  }();
  for (const Step& step : graph.steps) {
    const double terms = static_cast<double>(step.input[0] * step.window * step.window);
    if (step.kind == StepKind::conv)
      result.bound +=
          2 * size *
          (unit(precision.dtype) + 2 * product + std::sqrt(terms) * std::min(product, 0x1p-24));
  }
  return result;
}

/// Those of the file, as floats, or random ones.
std::vector<float> images_of(const InferArguments& arguments, const Extents& image) {
  const Extents expected{arguments.batch, image[0], image[1], image[2]};
  std::vector<float> values(static_cast<std::size_t>(element_count(expected)));
  if (arguments.images.empty()) {
    Random random(arguments.seed + 1);
    for (float& value : values) value = static_cast<float>(random.normal());
    return values;
  }
  const NpyArray file = read_npy(arguments.images);
  if (file.dtype != DType::f32 || !(file.extents == expected))
    throw FileError(fmt::format("{}: {} {}, expected f32 {}", shown_path(arguments.images),
                                to_string(file.dtype), to_string(file.extents),
                                to_string(expected)));
  std::memcpy(values.data(), file.data.data(), file.data.size());
  return values;
}

void require_finite(const Run& run) {
  for (const float value : run.logits)
    if (!std::isfinite(value))
      throw ValidationFailure(fmt::format("{}: a logit is {}", to_string(run.device.id()), value));
}

void infer(InferArguments arguments) {
  if (!arguments.json.empty()) require_writable(arguments.json);
  if (!arguments.logits.empty()) require_writable(arguments.logits);
  const Precision precision{.dtype = *parse_dtype(arguments.dtype),
                            .layout = arguments.layout == "nhwc" ? Layout::nhwc : Layout::nchw,
                            .math = *parse_math(arguments.math)};
  std::vector<Device> devices;
  if (arguments.compare.empty()) devices.push_back(open_device(arguments.device));
  for (const std::string& name : arguments.compare)
    devices.push_back(open_device({.name = name, .providers = arguments.device.providers}));
  const Graph graph = resnet50(arguments.side);
  const Weights weights = arguments.weights.empty() ? random_weights(graph, arguments.seed)
                                                    : read_weights(graph, arguments.weights);
  const std::vector<float> images = images_of(arguments, graph.image());

  std::vector<Run> runs;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Device& device : devices) {
    runs.push_back(run_on(device, graph, weights, images, precision, arguments));
    print(runs.back(), graph, arguments);
    fmt::print("\n");
    json.push_back(to_json(runs.back(), graph, arguments));
    require_finite(runs.back());
  }
  nlohmann::ordered_json all = {{"version", version},       {"model", arguments.model},
                                {"batch", arguments.batch}, {"side", arguments.side},
                                {"dtype", arguments.dtype}, {"layout", arguments.layout},
                                {"math", arguments.math},   {"runs", std::move(json)}};
  Difference apart;
  if (runs.size() == 2) {
    apart = difference(graph, precision, runs[0], runs[1]);
    fmt::print("compare   {} with {}: largest difference of the logits {:.3e}, bound {:.3e}\n",
               to_string(devices[1].id()), to_string(devices[0].id()), apart.largest, apart.bound);
    all["largest_difference"] = apart.largest;
    all["bound"] = apart.bound;
  }
  if (!arguments.json.empty()) write_json(arguments.json, all);
  if (!arguments.logits.empty())
    write_npy(arguments.logits,
              {runs.back().logits.data(), DType::f32, {arguments.batch, graph.classes()}});
  if (!(apart.largest <= apart.bound))
    throw ValidationFailure(fmt::format("the logits differ by {:.3e}; expected {:.3e} at most",
                                        apart.largest, apart.bound));
}

}  // namespace

void add_infer(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "infer", "Run a whole network on random images, and time each of its layers");
  const auto a = std::make_shared<InferArguments>();
  add_device_option(*command, a->device);
  command
      ->add_option("--compare", a->compare,
                   "Run on two devices, such as cpu,cuda, and hold their results against each "
                   "other")
      ->delimiter(',')
      ->expected(2)
      ->excludes("--device");
  command->add_option("--model", a->model, "The network: resnet50")
      ->check(one_of({"resnet50"}))
      ->capture_default_str();
  command->add_option("--weights", a->weights,
                      "Read the weights from this safetensors file, named as torchvision does, "
                      "batch norm folded or not; without it they are random");
  command->add_option("--images", a->images,
                      "Read the images from this .npy file, f32 [batch, 3, side, side]; without it "
                      "they are random");
  command->add_option("--logits", a->logits,
                      "Write the network's outputs, f32 [batch, 1000], to this .npy file; with "
                      "--compare those of the second device");
  add_integer(*command, "--batch", a->batch, 1, "Images in a batch")->capture_default_str();
  add_integer(*command, "--side", a->side, 32, "Height and width of the images")
      ->capture_default_str();
  command->add_option("--dtype", a->dtype, "What values are stored as: f32, f64, f16 or bf16")
      ->check(one_of({"f32", "f64", "f16", "bf16"}))
      ->capture_default_str();
  command
      ->add_option("--layout", a->layout,
                   "Layout of activations and filters: nchw or nhwc; the default is nhwc for f16 "
                   "and bf16, otherwise nchw")
      ->check(one_of({"nchw", "nhwc"}));
  add_math_option(*command, a->math, "The least accurate arithmetic that is allowed");
  add_integer(*command, "--samples", a->samples, 1, "Take the median of so many runs")
      ->capture_default_str();
  add_seed(*command, a->seed, "Draw random weights and images from this seed");
  command->add_option("--json", a->json, "Also write times and algorithms to this file as JSON");
  command->footer(
      "A layer's time is the device's; a batch is timed on the host, without events in between.\n"
      "Examples:\n"
      "  plumb infer --model resnet50 --batch 64 --dtype f16\n"
      "  plumb infer --compare cpu,cuda --json figures.json");
  command->callback([a] {
    if (a->layout.empty()) a->layout = a->dtype == "f16" || a->dtype == "bf16" ? "nhwc" : "nchw";
    infer(*a);
  });
}

}  // namespace plumb::app
