// plumb train: the network from scratch, on the CPU.
#include <fmt/format.h>

#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "commands.hpp"
#include "errors.hpp"
#include "interrupt.hpp"
#include "options.hpp"
#include "plumb/version.hpp"
#include "progress.hpp"
#include "training/trainer.hpp"

namespace plumb::app {
namespace {

struct TrainArguments {
  TrainingOptions options;
  DatasetPaths training, test;
  std::string out;
};

void print_heading() {
  fmt::print("{:>5}{:>12}{:>12}{:>12}{:>10}\n", "epoch", "loss", "train", "test", "seconds");
}

void print(const EpochFigures& figures) {
  fmt::print("{:>5}{:>12.4f}{:>12.4f}{:>12.4f}{:>10.1f}\n", figures.epoch, figures.loss,
             figures.train_accuracy, figures.test_accuracy, figures.seconds);
  std::fflush(stdout);
}

std::map<std::string, std::string> metadata_of(const TrainingOptions& options,
                                               const EpochFigures& last) {
  return {
      {"made_by", fmt::format("plumb {} train", version)},
      {"epochs", last.epoch == options.epochs
                     ? fmt::format("{}", options.epochs)
                     : fmt::format("{} of {}", last.epoch, options.epochs)},
      {"batch", fmt::format("{}", options.batch)},
      {"learning_rate", fmt::format("{}", options.learning_rate)},
      {"seed", fmt::format("{}", options.seed)},
      {"loss", fmt::format("{:.4f}", last.loss)},
      {"train_accuracy", fmt::format("{:.4f}", last.train_accuracy)},
      {"test_accuracy", fmt::format("{:.4f}", last.test_accuracy)},
  };
}

void run(const TrainArguments& arguments) {
  require_writable(arguments.out);
  NetworkShape shape;
  const Dataset training =
      read_dataset(find_dataset(arguments.training, Split::train), 0, shape.classes);
  const Dataset test = read_dataset(find_dataset(arguments.test, Split::test), 0, shape.classes);
  if (test.images.height != training.images.height || test.images.width != training.images.width)
    throw FileError(fmt::format("{}: images of {}x{}, but the training set has {}x{}",
                                shown_path(find_dataset(arguments.test, Split::test).images),
                                test.images.height, test.images.width, training.images.height,
                                training.images.width));

  const TrainingOptions& options = arguments.options;
  print_heading();
  std::optional<ProgressBar> bar;
  std::int64_t epochs = 0;
  const InterruptScope interrupt;
  const bool all = train(
      training, test, options,
      [&](const EpochFigures& figures, Model model) {
        bar.reset();
        print(figures);
        model.metadata = metadata_of(options, figures);
        write_model(arguments.out, model, shape);
        epochs = figures.epoch;
      },
      [&](std::int64_t epoch, std::int64_t done) {
        if (!bar) bar.emplace(fmt::format("epoch {}", epoch), training.images.count);
        bar->show(done);
        return !interrupt.requested();
      });
  bar.reset();
  if (epochs > 0) fmt::print("wrote {}\n", shown_path(arguments.out));
  if (!all)
    throw Interrupted(fmt::format("interrupted after {} of {} epochs{}", epochs, options.epochs,
                                  epochs == 0 ? "; nothing is written" : ""));
}
}  // namespace

void add_train(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "train", "Train the network of classify on the CPU, and write its weights to a file");
  const auto a = std::make_shared<TrainArguments>();
  add_integer(*command, "--epochs", a->options.epochs, 1,
              "Number of passes over the training images")
      ->required();
  command
      ->add_option("--out", a->out, "Write the weights to this safetensors file, after every epoch")
      ->required();
  add_seed(*command, a->options.seed, "Seed of the initial weights and of the order of the images");
  add_integer(*command, "--batch", a->options.batch, 1, "Images in a training step")
      ->capture_default_str();
  command->add_option("--learning-rate", a->options.learning_rate, "Initial learning rate of Adam")
      ->check(number_above(0, std::numeric_limits<float>::max()))
      ->capture_default_str();
  CLI::Option* images = command->add_option(
      "--images", a->training.images,
      "Read the training images from this IDX file, .gz or plain; the default is Fashion-MNIST in "
      "PLUMB_DATA_DIR, or in /usr/share/datasets/fashion-mnist");
  CLI::Option* labels = command->add_option("--labels", a->training.labels,
                                            "Read the labels of --images from this IDX file");
  CLI::Option* test_images = command->add_option("--test-images", a->test.images,
                                                 "Read the test images from this IDX file");
  CLI::Option* test_labels = command->add_option(
      "--test-labels", a->test.labels, "Read the labels of --test-images from this IDX file");
  images->needs(labels);
  labels->needs(images);
  test_images->needs(test_labels);
  test_labels->needs(test_images);
  command->footer(
      "The same seed on the same machine gives the same file. Accuracies lie between 0 and 1; "
      "train is\nthe mean over the batches while the weights still change. Ctrl-C ends the "
      "training at the next\nbatch, with exit code 130 and the weights of the last whole epoch in "
      "the file; a second Ctrl-C\nends it at once.\nExample:\n  plumb train --epochs 10 --seed 1 "
      "--out lenet.safetensors");
  command->callback([a] { run(*a); });
}

}  // namespace plumb::app
