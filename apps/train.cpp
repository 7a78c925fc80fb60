// plumb train: the network of classify from scratch, on any device.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "commands.hpp"
#include "errors.hpp"
#include "interrupt.hpp"
#include "on_device.hpp"
#include "options.hpp"
#include "plumb/version.hpp"
#include "progress.hpp"
#include "train_report.hpp"
#include "training/checkpoint.hpp"

namespace plumb::app {
namespace {

struct TrainArguments {
  DeviceArguments device;
  TrainingOptions options;
  DatasetPaths training, test;
  std::string out, checkpoint, resume, plot, json;
  std::vector<std::string> compare;
  std::int64_t steps = 100;
  /// Options that a checkpoint has too, by their names.
  std::map<std::string, CLI::Option*> of_checkpoint;
};

std::map<std::string, std::string> metadata_of(const Device& device, const TrainingOptions& options,
                                               const EpochFigures& last) {
  std::map<std::string, std::string> metadata;
  for_each_option(
      [&](const char* name, auto member) { metadata[name] = fmt::format("{}", options.*member); });
  if (last.epoch != options.epochs)
    metadata["epochs"] = fmt::format("{} of {}", last.epoch, options.epochs);
  metadata["made_by"] = fmt::format("plumb {} train", version);
  metadata["device"] = to_string(device.id());
  metadata["loss"] = fmt::format("{:.4f}", last.loss);
  metadata["train_accuracy"] = fmt::format("{:.4f}", last.train_accuracy);
  metadata["test_accuracy"] = fmt::format("{:.4f}", last.test_accuracy);
  return metadata;
}

Dataset read_training_set(const TrainArguments& arguments) {
  return read_dataset(find_dataset(arguments.training, Split::train), 0, NetworkShape{}.classes);
}

Dataset read_test_set(const TrainArguments& arguments, const Dataset& training) {
  const DatasetPaths paths = find_dataset(arguments.test, Split::test);
  Dataset test = read_dataset(paths, 0, NetworkShape{}.classes);
  if (test.images.height != training.images.height || test.images.width != training.images.width)
    throw FileError(fmt::format("{}: images of {}x{}, but the training set has {}x{}",
                                shown_path(paths.images), test.images.height, test.images.width,
                                training.images.height, training.images.width));
  return test;
}

/// What the checkpoint says counts. An option that was given too must say the same.
void require_same(const TrainArguments& arguments, const TrainingOptions& stored) {
  for_each_option([&](std::string name, auto member) {
    std::replace(name.begin(), name.end(), '_', '-');
    const auto given = arguments.options.*member, kept = stored.*member;
    if (arguments.of_checkpoint.at("--" + name)->count() > 0 && given != kept)
      throw UsageError(fmt::format("--{}: {}, but {} has {}; expected the same, or none", name,
                                   given, shown_path(arguments.resume), kept));
  });
}

/// Where training begins: at the first weights, or at what --resume names.
StoredCheckpoint beginning(const TrainArguments& arguments, const Dataset& training) {
  const NetworkShape shape = shape_for(training);
  if (arguments.resume.empty())
    return {arguments.options,
            arguments.checkpoint.empty() ? std::string() : fingerprint(training),
            {initial_state(shape, arguments.options.seed), {}}};
  StoredCheckpoint stored = read_checkpoint(arguments.resume, shape);
  require_same(arguments, stored.options);
  if (const std::string data = fingerprint(training); stored.data != data)
    throw FileError(
        fmt::format("{}: made of a training set with the fingerprint {}, but this one "
                    "has {}",
                    shown_path(arguments.resume), stored.data, data));
  const auto done = static_cast<std::int64_t>(stored.checkpoint.epochs.size());
  if (done == stored.options.epochs)
    throw FileError(fmt::format("{}: its training is complete, {} of {} epochs",
                                shown_path(arguments.resume), done, stored.options.epochs));
  return stored;
}

/// Everything that is written after each epoch, whole each time.
void write_files(const TrainArguments& arguments, const Device& device,
                 const StoredCheckpoint& stored, const NetworkShape& shape) {
  const std::vector<EpochFigures>& epochs = stored.checkpoint.epochs;
  write_model(arguments.out,
              {stored.checkpoint.state.weights, metadata_of(device, stored.options, epochs.back())},
              shape);
  if (!arguments.checkpoint.empty()) write_checkpoint(arguments.checkpoint, stored, shape);
  if (!arguments.json.empty()) write_training(arguments.json, device, stored.options, epochs);
  if (!arguments.plot.empty())
    write_text(arguments.plot, learning_curve(device, stored.options, epochs));
}

/// Trains on one device from `stored` on, and leaves there what came out. Whether it came to the
/// end.
bool train_on(const Device& device, const TrainArguments& arguments, const Dataset& training,
              const Dataset& test, StoredCheckpoint& stored, const InterruptScope& interrupt) {
  print_heading(device);
  for (const EpochFigures& figures : stored.checkpoint.epochs) print(figures);
  std::optional<ProgressBar> bar;
  return train(
      device, training, test, stored.options, stored.checkpoint,
      [&](const Checkpoint& checkpoint) {
        bar.reset();
        print(checkpoint.epochs.back());
        stored.checkpoint = checkpoint;
        write_files(arguments, device, stored, shape_for(training));
      },
      [&](std::int64_t epoch, std::int64_t done) {
        if (!bar) bar.emplace(fmt::format("epoch {}", epoch), training.images.count);
        bar->show(done);
        return !interrupt.requested();
      });
}

void run_training(const TrainArguments& arguments) {
  if (arguments.out.empty()) throw UsageError("--out is required");
  for (const std::string& path :
       {arguments.out, arguments.checkpoint, arguments.json, arguments.plot})
    if (!path.empty()) require_writable(path);
  const Device chosen = open_device(arguments.device);
  const Dataset training = read_training_set(arguments);
  const Dataset test = read_test_set(arguments, training);
  const StoredCheckpoint first = beginning(arguments, training);

  StoredCheckpoint last;
  const InterruptScope interrupt;
  const auto [device, all] = on_device_or_cpu(chosen, [&](const Device& one) {
    last = first;
    return train_on(one, arguments, training, test, last, interrupt);
  });
  const std::size_t epochs = last.checkpoint.epochs.size();
  const bool written = epochs > first.checkpoint.epochs.size();
  if (written) fmt::print("wrote {}\n", shown_path(arguments.out));
  if (!all)
    throw Interrupted(fmt::format("interrupted after {} of {} epochs{}", epochs,
                                  last.options.epochs, written ? "" : "; nothing is written"));
}

/// A side of --compare: a device's name, with ".f64" behind it for one that computes in double.
DriftSide open_side(const TrainArguments& arguments, std::string name) {
  constexpr std::string_view in_double = ".f64";
  const bool is_double = name.ends_with(in_double);
  if (is_double) name.resize(name.size() - in_double.size());
  return {open_device({.name = name, .providers = arguments.device.providers}),
          is_double ? DType::f64 : DType::f32};
}

std::string name_of(const DriftSide& side) {
  return to_string(side.device.id()) + (side.dtype == DType::f64 ? " in f64" : "");
}

void run_comparison(const TrainArguments& arguments) {
  for (const std::string& path : {arguments.json, arguments.plot})
    if (!path.empty()) require_writable(path);
  const DriftSide a = open_side(arguments, arguments.compare[0]);
  const DriftSide b = open_side(arguments, arguments.compare[1]);
  const Dataset training = read_training_set(arguments);
  const DriftNames names{name_of(a), name_of(b)};
  const InterruptScope interrupt;
  std::optional<ProgressBar> bar;
  bar.emplace("compare", arguments.steps);
  const std::vector<DriftStep> steps =
      drift(a, b, training, arguments.options, arguments.steps, [&](std::int64_t step) {
        bar->show(step);
        return !interrupt.requested();
      });
  bar.reset();
  print(names, steps);
  if (!arguments.json.empty()) write_drift(arguments.json, names, arguments.options, steps);
  if (!arguments.plot.empty()) write_text(arguments.plot, drift_chart(names, steps));
  if (static_cast<std::int64_t>(steps.size()) < arguments.steps)
    throw Interrupted(
        fmt::format("interrupted after {} of {} steps", steps.size(), arguments.steps));
}

void add_training_options(CLI::App& command, TrainArguments& a) {
  const auto add = [&](const char* name, CLI::Option* option) {
    a.of_checkpoint[name] = option->capture_default_str();
  };
  TrainingOptions& options = a.options;
  add("--epochs", add_integer(command, "--epochs", options.epochs, 1,
                              "Number of passes over the training images"));
  add("--seed", add_seed(command, options.seed,
                         "Seed of the initial weights and of the order of the images"));
  add("--batch", add_integer(command, "--batch", options.batch, 1, "Images in a training step"));
  add("--learning-rate", command
                             .add_option("--learning-rate", options.learning_rate,
                                         "Learning rate at the start; it falls along half a cosine")
                             ->check(number_above(0, std::numeric_limits<float>::max())));
  add("--final-rate", command
                          .add_option("--final-rate", options.final_rate,
                                      "Share of the learning rate that is left at the end")
                          ->check(number_in(0, 1)));
  add("--momentum", command
                        .add_option("--momentum", options.momentum,
                                    "Share of a step's direction that the next one keeps")
                        ->check(number_in(0, 0.9999)));
  add("--weight-decay", command
                            .add_option("--weight-decay", options.weight_decay,
                                        "Add this much of each weight to its gradient")
                            ->check(number_in(0, std::numeric_limits<float>::max())));
  add("--warmup",
      command
          .add_option("--warmup", options.warmup,
                      "Epochs over which the learning rate rises from zero; it may be a fraction")
          ->check(number_in(0, 1e9)));
  add("--mirror", command.add_flag("--mirror", options.mirror,
                                   "Show each image mirrored in half of the epochs, as the seed "
                                   "draws"));
  add("--average", command.add_flag("--average,!--no-average", options.average,
                                    "Leave the means of the weights over the last epoch, and not "
                                    "the last ones; on unless --no-average is given"));
}

void add_dataset_options(CLI::App& command, TrainArguments& a) {
  CLI::Option* images = command.add_option(
      "--images", a.training.images,
      "Read the training images from this IDX file, .gz or plain; the default is Fashion-MNIST in "
      "PLUMB_DATA_DIR, or in /usr/share/datasets/fashion-mnist");
  CLI::Option* labels = command.add_option("--labels", a.training.labels,
                                           "Read the labels of --images from this IDX file");
  CLI::Option* test_images =
      command.add_option("--test-images", a.test.images, "Read the test images from this IDX file");
  CLI::Option* test_labels = command.add_option(
      "--test-labels", a.test.labels, "Read the labels of --test-images from this IDX file");
  images->needs(labels);
  labels->needs(images);
  test_images->needs(test_labels);
  test_labels->needs(test_images);
}

void add_file_options(CLI::App& command, TrainArguments& a) {
  command.add_option("--out", a.out,
                     "Write the weights to this safetensors file, after every epoch");
  command.add_option("--checkpoint", a.checkpoint,
                     "Also write all that --resume needs to this file, after every epoch");
  command.add_option("--resume", a.resume,
                     "Go on from this checkpoint, with its options: the result is the same, bit "
                     "for bit, as if the training had never ended");
  command.add_option("--plot", a.plot,
                     "Draw loss and accuracy over the epochs to this file (SVG), or with "
                     "--compare the differences over the steps");
  command.add_option("--json", a.json, "Also write the figures to this file as JSON");
}

}  // namespace

void add_train(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "train", "Train the network of classify on a device, and write its weights to a file");
  const auto a = std::make_shared<TrainArguments>();
  add_device_option(*command, a->device);
  add_training_options(*command, *a);
  add_file_options(*command, *a);
  CLI::Option* compare =
      command
          ->add_option("--compare", a->compare,
                       "Take the first steps on two devices, such as cpu,cuda, and show how far "
                       "they drift apart; cpu.f64 and cuda.f64 compute in double")
          ->delimiter(',')
          ->expected(2);
  for (const char* other : {"--device", "--out", "--checkpoint", "--resume"})
    compare->excludes(command->get_option(other));
  add_integer(*command, "--steps", a->steps, 1, "Number of steps that --compare takes")
      ->capture_default_str()
      ->needs(compare);
  add_dataset_options(*command, *a);
  command->footer(
      "The same seed gives the same file on one kind of device, whatever the number of threads. "
      "Accuracies\nlie between 0 and 1; train is the mean over the batches while the weights still "
      "change. Ctrl-C ends\nthe training at the next batch, with exit code 130 and the last whole "
      "epoch in the files; a second\nCtrl-C ends it at once.\nExamples:\n"
      "  plumb train --epochs 8 --seed 1 --out lenet.safetensors --plot curve.svg\n"
      "  plumb train --epochs 8 --out lenet.safetensors --checkpoint lenet.checkpoint\n"
      "  plumb train --resume lenet.checkpoint --out lenet.safetensors\n"
      "  plumb train --compare cpu,cuda\n"
      "  plumb train --compare cpu,cpu.f64 --plot drift.svg");
  command->callback([a] {
    if (a->compare.empty())
      run_training(*a);
    else
      run_comparison(*a);
  });
}

}  // namespace plumb::app
