// What plumb train has done.
#include "train_report.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "json_file.hpp"
#include "plot/line_chart.hpp"

namespace plumb::app {
namespace {

nlohmann::ordered_json to_json(const TrainingOptions& options) {
  nlohmann::ordered_json object;
  for_each_option([&](const char* name, auto member) { object[name] = options.*member; });
  return object;
}

/// One value of each item, in order.
template <class Item, class Value>
std::vector<double> column(const std::vector<Item>& items, Value Item::*member) {
  std::vector<double> values;
  for (const Item& item : items) values.push_back(static_cast<double>(item.*member));
  return values;
}

}  // namespace

void print_heading(const Device& device) {
  const DeviceInfo& info = device.info();
  fmt::print("device    {}  {} ({})\n", to_string(info.id), info.name, info.instruction_set);
  if (!device.why().empty()) fmt::print("          passed over: {}\n", device.why());
  fmt::print("\n{:>5}{:>12}{:>12}{:>12}{:>12}{:>10}\n", "epoch", "loss", "train", "test loss",
             "test", "seconds");
}

void print(const EpochFigures& figures) {
  fmt::print("{:>5}{:>12.4f}{:>12.4f}{:>12.4f}{:>12.4f}{:>10.2f}\n", figures.epoch, figures.loss,
             figures.train_accuracy, figures.test_loss, figures.test_accuracy, figures.seconds);
  std::fflush(stdout);
}

void write_training(const std::string& path, const Device& device, const TrainingOptions& options,
                    const std::vector<EpochFigures>& epochs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const EpochFigures& figures : epochs)
    list.push_back({{"epoch", figures.epoch},
                    {"loss", figures.loss},
                    {"train_accuracy", figures.train_accuracy},
                    {"test_loss", figures.test_loss},
                    {"test_accuracy", figures.test_accuracy},
                    {"seconds", figures.seconds}});
  write_json(path, {{"device", to_string(device.id())},
                    {"device_name", device.info().name},
                    {"auto_why", device.why()},
                    {"options", to_json(options)},
                    {"complete", static_cast<std::int64_t>(epochs.size()) == options.epochs},
                    {"epochs", std::move(list)}});
}

std::string learning_curve(const Device& device, const TrainingOptions& options,
                           const std::vector<EpochFigures>& epochs) {
  LineChart chart;
  chart.title = fmt::format("plumb train: {:.2f} % of the test images after {} of {} epochs",
                            100 * epochs.back().test_accuracy, epochs.size(), options.epochs);
  chart.subtitle =
      fmt::format("{}, batch {}, seed {}", device.info().name, options.batch, options.seed);
  chart.x_name = "epoch";
  chart.x = column(epochs, &EpochFigures::epoch);
  chart.panels = {
      {.title = "cross-entropy",
       .lines = {{"training, while it learns", column(epochs, &EpochFigures::loss)},
                 {"test, after the epoch", column(epochs, &EpochFigures::test_loss)}}},
      {.title = "accuracy",
       .from_zero = false,
       .lines = {{"training, while it learns", column(epochs, &EpochFigures::train_accuracy)},
                 {"test, after the epoch", column(epochs, &EpochFigures::test_accuracy)}}}};
  return to_svg(chart);
}

void print(const DriftNames& names, const std::vector<DriftStep>& steps) {
  fmt::print("loss a: {}, loss b: {}; differences are relative\n\n", names.a, names.b);
  fmt::print("{:>5}{:>16}{:>16}{:>14}{:>14}\n", "step", "loss a", "loss b", "of the loss",
             "of weights");
  DriftStep largest;
  for (const DriftStep& step : steps) {
    fmt::print("{:>5}{:>16.9f}{:>16.9f}{:>14.3e}{:>14.3e}\n", step.step, step.loss_a, step.loss_b,
               step.loss_difference, step.weights_difference);
    largest.loss_difference = std::max(largest.loss_difference, step.loss_difference);
    largest.weights_difference = std::max(largest.weights_difference, step.weights_difference);
  }
  fmt::print("{:>5}{:>16}{:>16}{:>14.3e}{:>14.3e}\n", "most", "", "", largest.loss_difference,
             largest.weights_difference);
}

void write_drift(const std::string& path, const DriftNames& names, const TrainingOptions& options,
                 const std::vector<DriftStep>& steps) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const DriftStep& step : steps)
    list.push_back({{"step", step.step},
                    {"loss_a", step.loss_a},
                    {"loss_b", step.loss_b},
                    {"loss_difference", step.loss_difference},
                    {"weights_difference", step.weights_difference}});
  write_json(
      path,
      {{"a", names.a}, {"b", names.b}, {"options", to_json(options)}, {"steps", std::move(list)}});
}

std::string drift_chart(const DriftNames& names, const std::vector<DriftStep>& steps) {
  LineChart chart;
  chart.title = fmt::format("Drift in {} steps: {} and {}", steps.size(), names.a, names.b);
  chart.x_name = "step";
  chart.x = column(steps, &DriftStep::step);
  chart.panels = {{.title = "largest relative difference",
                   .scale = Scale::logarithmic,
                   .lines = {{"of the loss", column(steps, &DriftStep::loss_difference)},
                             {"of weights", column(steps, &DriftStep::weights_difference)}}}};
  return to_svg(chart);
}

}  // namespace plumb::app
