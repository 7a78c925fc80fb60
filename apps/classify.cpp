// plumb classify: labelled images through the network, with the time of each layer.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "commands.hpp"
#include "compare.hpp"
#include "dataset.hpp"
#include "errors.hpp"
#include "json_file.hpp"
#include "on_device.hpp"
#include "options.hpp"
#include "predict.hpp"
#include "progress.hpp"
#include "stopwatch.hpp"

namespace plumb::app {
namespace {

struct ClassifyArguments {
  DeviceArguments device;
  std::string model, json;
  std::vector<std::string> compare;
  DatasetPaths paths;
  std::int64_t batch = 1000, limit = 0;
};

/// One device's run over all images.
struct Run {
  Device device;
  std::int64_t batch, images, correct;
  double load_seconds, open_seconds, total_seconds;
  Predictions predictions;

  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(images); }
  double images_per_second() const { return static_cast<double>(images) / predictions.run_seconds; }
};

/// What is read once, whatever the number of devices.
struct ClassifyInputs {
  NetworkShape shape;
  Dataset dataset;
  Model model;
  double load_seconds;
};

ClassifyInputs load(const ClassifyArguments& arguments) {
  Stopwatch stopwatch;
  ClassifyInputs inputs;
  const DatasetPaths paths = find_dataset(arguments.paths, Split::test);
  inputs.dataset = read_dataset(paths, arguments.limit, inputs.shape.classes);
  inputs.shape.image_height = inputs.dataset.images.height;
  inputs.shape.image_width = inputs.dataset.images.width;
  inputs.model =
      read_model(arguments.model.empty() ? default_model_path() : arguments.model, inputs.shape);
  inputs.load_seconds = stopwatch.total();
  return inputs;
}

/// A device, and how long it took to open.
struct Opened {
  Device device;
  double seconds;
};

Opened opened(const DeviceArguments& arguments) {
  Stopwatch stopwatch;
  const Device device = open_device(arguments);
  return {device, stopwatch.total()};
}

Run run_on(const Opened& chosen, const ClassifyInputs& inputs, std::int64_t batch) {
  Stopwatch stopwatch;
  const IdxImages& images = inputs.dataset.images;
  auto [device, predictions] = on_device_or_cpu(chosen.device, [&](const Device& one) {
    ProgressBar bar("classify on " + to_string(one.id()), images.count);
    return predict(one, inputs.model, inputs.shape, images, std::min(batch, images.count),
                   [&](std::int64_t done) { bar.show(done); });
  });
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < predictions.classes.size(); ++i)
    correct += predictions.classes[i] == inputs.dataset.labels[i];
  return {device,
          std::min(batch, images.count),
          images.count,
          correct,
          inputs.load_seconds,
          chosen.seconds,
          inputs.load_seconds + chosen.seconds + stopwatch.total(),
          std::move(predictions)};
}

void print(const Run& run, const NetworkShape& shape) {
  const DeviceInfo& info = run.device.info();
  fmt::print("device    {}  {} ({})\n", to_string(info.id), info.name, info.instruction_set);
  if (!run.device.why().empty()) fmt::print("          passed over: {}\n", run.device.why());
  fmt::print("images    {} in batches of {}\n\n", run.images, run.batch);

  fmt::print("{:<10}{:<38}{:>12}{:>12}\n", "layer", "", "op ms", "layer ms");
  const std::vector<Layer> layers = layers_of(shape, Purpose::inference);
  LayerSeconds sum;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerSeconds& seconds = run.predictions.layers[i];
    fmt::print("{:<10}{:<38}{:>12.3f}{:>12.3f}\n", layers[i].name, layers[i].description,
               seconds.op * 1e3, seconds.layer * 1e3);
    sum.op += seconds.op;
    sum.layer += seconds.layer;
  }
  fmt::print("{:<48}{:>12.3f}{:>12.3f}\n\n", "all layers", sum.op * 1e3, sum.layer * 1e3);

  fmt::print("load      {:.3f} s  files and weights\n", run.load_seconds);
  fmt::print("set up    {:.3f} s  device, memory, upload of the weights\n",
             run.open_seconds + run.predictions.setup_seconds);
  fmt::print("run       {:.3f} s  {:.0f} images per second\n", run.predictions.run_seconds,
             run.images_per_second());
  fmt::print("total     {:.3f} s\n", run.total_seconds);
  fmt::print("accuracy  {:.4f}  ({} of {})\n", run.accuracy(), run.correct, run.images);
}

nlohmann::ordered_json to_json(const Run& run, const NetworkShape& shape) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  const std::vector<Layer> all = layers_of(shape, Purpose::inference);
  for (std::size_t i = 0; i < all.size(); ++i)
    layers.push_back({{"name", all[i].name},
                      {"description", all[i].description},
                      {"op_seconds", run.predictions.layers[i].op},
                      {"layer_seconds", run.predictions.layers[i].layer}});
  return {{"device", to_string(run.device.id())},
          {"device_name", run.device.info().name},
          {"auto_why", run.device.why()},
          {"batch", run.batch},
          {"images", run.images},
          {"correct", run.correct},
          {"accuracy", run.accuracy()},
          {"load_seconds", run.load_seconds},
          {"setup_seconds", run.open_seconds + run.predictions.setup_seconds},
          {"run_seconds", run.predictions.run_seconds},
          {"images_per_second", run.images_per_second()},
          {"total_seconds", run.total_seconds},
          {"layers", std::move(layers)}};
}

void print(const Comparison& comparison, const std::string& a, const std::string& b,
           const Bytes& labels) {
  fmt::print("compare   {} with {}\n", b, a);
  fmt::print("          largest difference of the logits: {:.3e} (image {}, class {})\n",
             comparison.largest_difference, comparison.image, comparison.class_index);
  fmt::print("          images on which they disagree: {}\n", comparison.disagreements.size());
  for (const Disagreement& d : comparison.disagreements)
    fmt::print("          image {}: {} says {}, {} says {}, the label is {}; margin {:.3e}\n",
               d.image, a, d.class_a, b, d.class_b, labels[static_cast<std::size_t>(d.image)],
               d.margin);
}

nlohmann::ordered_json to_json(const Comparison& comparison) {
  nlohmann::ordered_json disagreements = nlohmann::ordered_json::array();
  for (const Disagreement& d : comparison.disagreements)
    disagreements.push_back(
        {{"image", d.image}, {"classes", {d.class_a, d.class_b}}, {"margin", d.margin}});
  return {{"largest_logit_difference", comparison.largest_difference},
          {"disagreements", std::move(disagreements)}};
}

void classify(const ClassifyArguments& arguments) {
  if (arguments.paths.images.empty() != arguments.paths.labels.empty())
    throw UsageError("--images and --labels belong together: one of them is missing");
  if (!arguments.json.empty()) require_writable(arguments.json);
  // All devices before any work: a name that is wrong, or a device that is not there, is told at
  // once.
  std::vector<Opened> devices;
  if (arguments.compare.empty()) devices.push_back(opened(arguments.device));
  for (const std::string& name : arguments.compare)
    devices.push_back(opened({.name = name, .providers = arguments.device.providers}));
  const ClassifyInputs inputs = load(arguments);

  if (arguments.compare.empty()) {
    const Run run = run_on(devices[0], inputs, arguments.batch);
    print(run, inputs.shape);
    if (!arguments.json.empty()) write_json(arguments.json, to_json(run, inputs.shape));
    return;
  }
  const Run a = run_on(devices[0], inputs, arguments.batch);
  print(a, inputs.shape);
  fmt::print("\n");
  const Run b = run_on(devices[1], inputs, arguments.batch);
  print(b, inputs.shape);
  fmt::print("\n");
  const Comparison comparison = compare(a.predictions, b.predictions);
  print(comparison, to_string(a.device.id()), to_string(b.device.id()), inputs.dataset.labels);
  if (!arguments.json.empty())
    write_json(arguments.json, {{"runs", {to_json(a, inputs.shape), to_json(b, inputs.shape)}},
                                {"comparison", to_json(comparison)}});
}

}  // namespace

void add_classify(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "classify", "Classify labelled images with a small network, and time each layer");
  const auto a = std::make_shared<ClassifyArguments>();
  add_device_option(*command, a->device);
  command
      ->add_option("--compare", a->compare,
                   "Run on two devices, such as cpu,cuda, and show where their results differ")
      ->delimiter(',')
      ->expected(2)
      ->excludes("--device");
  add_integer(*command, "--batch", a->batch, 1, "Images in a batch")->capture_default_str();
  command->add_option(
      "--model", a->model,
      "Read the weights from this safetensors file; the default comes with the program");
  command->add_option(
      "--images", a->paths.images,
      "Read the images from this IDX file, .gz or plain; the default is Fashion-MNIST's test set "
      "in PLUMB_DATA_DIR, or in /usr/share/datasets/fashion-mnist");
  command->add_option("--labels", a->paths.labels,
                      "Read the labels of --images from this IDX file");
  add_integer(*command, "--limit", a->limit, 1,
              "Classify only this many images, from the first on");
  command->add_option("--json", a->json,
                      "Also write the times and the accuracy to this file as JSON");
  command->footer(
      "op is the time in kernels; layer adds the copies from and to the host. margin is the\n"
      "difference between the two largest logits on the first device.\n"
      "Examples:\n"
      "  plumb classify --device cuda --batch 5000 --json figures.json\n"
      "  plumb classify --compare cpu,cuda");
  command->callback([a] { classify(*a); });
}

}  // namespace plumb::app
