// The parts that make a training run repeatable, its checkpoints, and how a run ends.
#include <omp.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/safetensors.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"
#include "training/checkpoint.hpp"
#include "training/drift.hpp"
#include "training/random.hpp"
#include "training/trainer.hpp"
#include "training_case.hpp"

using namespace plumb;
using namespace plumb::app;
using namespace plumb_test::training;

TEST_CASE("training's random numbers repeat by seed and are spread as they should be",
          "[training]") {
  Random random(3), same(3), other(4);
  const std::vector<std::uint32_t> order = random.permutation(1000);
  CHECK(order == same.permutation(1000));
  CHECK(order != other.permutation(1000));
  std::vector<std::uint32_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  CHECK(order != sorted);
  for (std::uint32_t i = 0; i < 1000; ++i) REQUIRE(sorted[i] == i);

  std::vector<int> counts(6);
  for (int i = 0; i < 6000; ++i) ++counts[random.below(6)];
  for (const int count : counts) CHECK(std::abs(count - 1000) < 150);  // 5 standard deviations

  double sum = 0, squares = 0;
  constexpr int draws = 20000;
  for (int i = 0; i < draws; ++i) {
    const double value = random.normal();
    sum += value;
    squares += value * value;
  }
  CHECK(std::abs(sum / draws) < 5 / std::sqrt(draws));
  CHECK(std::abs(squares / draws - 1) < 5 * std::sqrt(2.0 / draws));
}

namespace {

/// Trains on images that are learnt quickly. Returns the checkpoint of each epoch.
std::vector<Checkpoint> trained(const TrainingOptions& options, Checkpoint from) {
  const Dataset training = bars(60, 21), test = bars(20, 22);
  std::vector<Checkpoint> checkpoints;
  REQUIRE(train(
      Device::open("cpu"), training, test, options, std::move(from),
      [&](const Checkpoint& checkpoint) { checkpoints.push_back(checkpoint); },
      [](std::int64_t, std::int64_t) { return true; }));
  return checkpoints;
}
Checkpoint first_checkpoint(std::uint64_t seed) { return {initial_state({}, seed), {}}; }

std::vector<double> losses(const Checkpoint& checkpoint) {
  std::vector<double> values;
  for (const EpochFigures& figures : checkpoint.epochs) {
    values.push_back(figures.loss);
    values.push_back(figures.test_loss);
  }
  return values;
}

constexpr TrainingOptions quick{.epochs = 6, .batch = 16, .learning_rate = 0.03, .seed = 5};

}  // namespace

TEST_CASE("a training run learns, and repeats bit for bit on any number of threads", "[training]") {
  const auto run = [](const TrainingOptions& options) {
    return trained(options, first_checkpoint(options.seed));
  };
  const std::vector<Checkpoint> checkpoints = run(quick);
  REQUIRE(checkpoints.size() == 6);
  const Checkpoint& last = checkpoints.back();
  REQUIRE(last.epochs.size() == 6);
  CHECK(last.epochs.back().epoch == 6);
  CHECK(last.epochs.back().loss < 0.5 * last.epochs.front().loss);
  CHECK(last.epochs.back().test_accuracy > 0.5);  // chance is 0.1
  const int before = omp_get_max_threads();
  for (const int threads : {1, 2, 3}) {
    CAPTURE(threads);
    omp_set_num_threads(threads);
    const Checkpoint again = run(quick).back();
    CHECK(again.state.weights == last.state.weights);
    CHECK(again.state.velocity == last.state.velocity);
    CHECK(losses(again) == losses(last));
  }
  omp_set_num_threads(before);
  TrainingOptions other = quick;
  other.epochs = 1;
  other.seed = 6;
  CHECK(run(other).back().state.weights != checkpoints.front().state.weights);
}

TEST_CASE("a training that goes on from a file gives the bits of one that never ended",
          "[training]") {
  TrainingOptions options = quick;
  options.warmup = 1.5, options.mirror = true;
  const std::vector<Checkpoint> whole = trained(options, first_checkpoint(quick.seed));
  const plumb_test::Folder folder;
  const std::string path = folder / "checkpoint";
  for (const std::size_t epochs : {1u, 5u}) {
    CAPTURE(epochs);
    write_checkpoint(path, {options, "0123456789abcdef", whole[epochs - 1]}, {});
    const StoredCheckpoint stored = read_checkpoint(path, {});
    CHECK(stored.options == options);
    CHECK(stored.data == "0123456789abcdef");
    CHECK(losses(stored.checkpoint) == losses(whole[epochs - 1]));
    const Checkpoint resumed = trained(stored.options, stored.checkpoint).back();
    CHECK(resumed.state.weights == whole.back().state.weights);
    CHECK(resumed.state.velocity == whole.back().state.velocity);
    CHECK(losses(resumed) == losses(whole.back()));
  }
}

TEST_CASE("the learning rate rises in a line for the warm-up, and falls along half a cosine",
          "[training]") {
  TrainingOptions options{.epochs = 8, .learning_rate = 0.5, .final_rate = 0};
  const auto rate = [&](double done) { return sgd_options(options, done).learning_rate; };
  CHECK(rate(0) == 0.5);
  CHECK(rate(0.5) == 0.25);
  CHECK(rate(1) < 1e-12);
  options.final_rate = 0.25;
  CHECK(rate(0) == 0.5);
  CHECK(rate(0.5) == 0.3125);
  CHECK(std::abs(rate(1) - 0.125) < 1e-12);
  options.final_rate = 0;
  options.warmup = 2;
  CHECK(rate(0) == 0);
  CHECK(std::abs(rate(0.125) - 0.5 * 0.5 * (1 + std::cos(std::acos(-1.0) / 8)) / 2) < 1e-12);
  CHECK(rate(0.5) == 0.25);
  options.warmup = 16;  // longer than the training
  CHECK(rate(0.5) == 0.0625);
}

TEST_CASE("up to 30 steps of an epoch are averaged, evenly apart, and its last one", "[training]") {
  const auto steps = GENERATE(1, 4, 30, 31, 59, 600, 601);
  CAPTURE(steps);
  std::vector<std::int64_t> taken;
  for (std::int64_t step = 0; step < steps; ++step)
    if (is_averaged(step, steps)) taken.push_back(step);
  CHECK(std::ssize(taken) == std::min(steps, 30));
  CHECK(taken.back() == steps - 1);
  for (std::size_t i = 1; i < taken.size(); ++i)
    CHECK(std::abs(static_cast<double>(taken[i] - taken[i - 1]) - std::max(steps / 30.0, 1.0)) < 1);
}

TEST_CASE("the last epoch leaves the means of its weights", "[training]") {
  TrainingOptions options = quick;
  options.epochs = 2;
  const std::vector<Checkpoint> averaged = trained(options, first_checkpoint(options.seed));
  options.average = false;
  const std::vector<Checkpoint> plain = trained(options, first_checkpoint(options.seed));
  CHECK(averaged[0].state.weights == plain[0].state.weights);
  CHECK(averaged[1].state.velocity == plain[1].state.velocity);
  CHECK(averaged[1].epochs.back().loss == plain[1].epochs.back().loss);
  CHECK(averaged[1].epochs.back().test_loss != plain[1].epochs.back().test_loss);

  // The four steps of the second epoch, one by one.
  const Dataset training = bars(60, 21);
  const std::array<std::int64_t, 2> batches{16, 12};
  Steps steps(Device::open("cpu"), {}, batches);
  steps.upload(plain[0].state);
  Order order(options, 60);
  order.next();
  const std::vector<std::uint32_t> images = order.next();
  PerParameter<std::vector<double>> sums;
  for (std::size_t first = 0; first < 60; first += 16) {
    steps.submit(training, std::span(images).subspan(first, std::min<std::size_t>(16, 60 - first)),
                 sgd_options(options, (60.0 + static_cast<double>(first)) / 120), [](auto&) {});
    const PerParameter<std::vector<double>> weights = steps.weights();
    for (int i = 0; i < parameter_count; ++i) {
      sums[i].resize(weights[i].size());
      for (std::size_t j = 0; j < weights[i].size(); ++j) sums[i][j] += weights[i][j];
    }
  }
  for (int i = 0; i < parameter_count; ++i)
    for (std::size_t j = 0; j < sums[i].size(); ++j)
      REQUIRE(averaged[1].state.weights[i][j] == static_cast<float>(sums[i][j] / 4));
}

TEST_CASE("images are seen mirrored in half of the epochs, as the seed draws", "[training]") {
  Order order({.mirror = true, .seed = 3}, 1000), same({.mirror = true, .seed = 3}, 1000),
      without({.seed = 3}, 1000);
  const std::vector<std::uint32_t> first = order.next();
  CHECK(first == same.next());
  CHECK(first != order.next());
  const auto mirrored = std::count_if(first.begin(), first.end(), [](std::uint32_t image) {
    return (image & mirrored_image) != 0;
  });
  CHECK(std::abs(mirrored - 500) < 80);  // 5 standard deviations
  std::vector<std::uint32_t> numbers = first;
  for (std::uint32_t& image : numbers) image &= ~mirrored_image;
  CHECK(numbers == without.next());

  // A mirrored image is one whose columns are in reverse.
  Dataset data = bars(6, 21), turned = data;
  const auto width = static_cast<std::ptrdiff_t>(data.images.width);
  for (auto row = turned.images.pixels.begin(); row != turned.images.pixels.end(); row += width)
    std::reverse(row, row + width);
  const auto loss = [](const Dataset& of, std::vector<std::uint32_t> images) {
    const std::vector<std::int64_t> sizes{6};
    Steps steps(Device::open("cpu"), shape_for(of), sizes);
    steps.upload(initial_state(shape_for(of), 5));
    double result = 0;
    const auto keep = [&](const BatchResult& batch) { result = batch.loss; };
    steps.submit(of, images, {}, keep);
    steps.finish(keep);
    return result;
  };
  std::vector<std::uint32_t> plain{0, 1, 2, 3, 4, 5}, all = plain;
  for (std::uint32_t& image : all) image |= mirrored_image;
  CHECK(loss(data, all) == loss(turned, plain));
  CHECK(loss(data, all) != loss(data, plain));
}

TEST_CASE("files that are no checkpoint are refused", "[training]") {
  const plumb_test::Folder folder;
  const std::string path = folder / "checkpoint";
  const auto refused = [&](const std::string& words, const NetworkShape& shape = {}) {
    std::string text = "read";
    try {
      read_checkpoint(path, shape);
    } catch (const FileError& e) {
      text = e.what();
    }
    INFO(text);
    CHECK(text.find(words) != std::string::npos);
  };
  EpochFigures figures{.epoch = 1, .loss = 2, .test_loss = 3};
  const StoredCheckpoint stored{quick, "data", {initial_state({}, 1), {figures}}};
  write_checkpoint(path, stored, {});
  const Safetensors good = read_safetensors(path);
  const Bytes content = safetensors_content(good);
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{200}, content.size() - 1}) {
    write_file(path, {std::span(content).first(bytes)});
    refused(bytes == 4 ? "too short" : bytes == 200 ? "inside its safetensors header" : "cut off");
  }
  const auto changed = [&](const std::string& words, const auto& change) {
    Safetensors file = good;
    change(file);
    write_safetensors(path, file);
    refused(words);
  };
  const std::string key = "plumb_training_checkpoint";
  const auto replaced = [&](const std::string& from, const std::string& to) {
    return [&, from, to](Safetensors& file) {
      std::string& header = file.metadata.at(key);
      REQUIRE(header.find(from) != std::string::npos);
      header.replace(header.find(from), from.size(), to);
    };
  };
  changed("no checkpoint of plumb train", [&](Safetensors& file) { file.metadata.erase(key); });
  changed("(the weights alone?)", [](Safetensors& file) {
    file.metadata = {{"made_by", "plumb"}};
  });
  changed("not what plumb train writes", [&](Safetensors& file) { file.metadata[key] = "{}"; });
  changed("not what plumb train writes", [&](Safetensors& file) { file.metadata[key] = "[1"; });
  changed("a checkpoint of version 2, expected 1", replaced("\"version\":1", "\"version\":2"));
  changed("values that no training has", replaced("\"batch\":16", "\"batch\":0"));
  changed("values that no training has", replaced("\"epochs\":[[1,", "\"epochs\":[[2,"));
  changed("not what plumb train writes", replaced("\"seed\":5", "\"seed\":\"5\""));
  changed("the file was changed",
          [](Safetensors& file) { file.tensors.at("conv1.weight").data[3] ^= 1; });
  changed("no tensor", [](Safetensors& file) {
    const StoredTensor moved = file.tensors.at("velocity.conv1.bias");
    file.tensors.erase("velocity.conv1.bias");
    file.tensors.emplace("velocity.conv1.bia", moved);  // in the same place: the hash is the same
  });
  write_checkpoint(path, stored, {});
  NetworkShape wider;
  wider.hidden = 31;
  refused("a checkpoint of another shape", wider);
}

TEST_CASE("training that diverges fails, and has no weights to give", "[training]") {
  const Dataset dataset = bars(20, 31);
  const auto message = [&](double learning_rate, std::int64_t batch) {
    std::string text = "trained";
    try {
      train(
          Device::open("cpu"), dataset, dataset,
          {.epochs = 1, .batch = batch, .learning_rate = learning_rate}, first_checkpoint(1),
          [](const Checkpoint&) {}, [](std::int64_t, std::int64_t) { return true; });
    } catch (const TrainingFailure& failure) {
      text = failure.what();
    }
    return text;
  };
  const auto says = [](const std::string& text, const char* part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  CHECK(message(0.02, 20) == "trained");
  // The first loss is that of the first weights; after the only step no loss looks at them again.
  says(message(3e38, 20), "after 20 images of epoch 1: a smaller learning rate");
  says(message(1e30, 5), "the loss is");
  for (const double rate : {std::nan(""), -1.0, 1e300})
    CHECK(plumb_test::refusal([&] { message(rate, 20); }).code() == ErrorCode::invalid_argument);
}

TEST_CASE("training ends at the batch that it is told to, with whole epochs alone", "[training]") {
  const Dataset training = bars(60, 21), test = bars(20, 22);
  std::int64_t epochs = 0, batches = 0;
  const bool all = train(
      Device::open("cpu"), training, test, quick, first_checkpoint(5),
      [&](const Checkpoint&) { ++epochs; },
      [&](std::int64_t, std::int64_t) { return ++batches < 2 * 4 + 3; });
  CHECK_FALSE(all);
  CHECK(epochs == 2);
  CHECK(batches == 2 * 4 + 3);
}

TEST_CASE("two sides of a training drift apart as far as they round differently", "[training]") {
  CHECK(relative_difference(3, 3) == 0);
  CHECK(relative_difference(3, 4) == 0.25);
  const auto weights_difference = [](const std::vector<double>& a, const std::vector<double>& b) {
    PerParameter<std::vector<double>> all_a, all_b;
    all_a[conv1_weight] = {8, -8};
    all_b[conv1_weight] = {8, -8};
    all_a[linear2_bias] = a;
    all_b[linear2_bias] = b;
    return largest_relative_difference(all_a, all_b);
  };
  CHECK(weights_difference({1, -4, 2}, {1, -4, 2}) == 0);
  CHECK(weights_difference({1, -4, 2}, {1, -4, 4}) == 0.25);
  CHECK(weights_difference({16, 0}, {16, -4}) == 0.25);
  CHECK(std::isnan(weights_difference({1, NAN, 2}, {1, 2, 5})));

  const Dataset training = bars(40, 21);
  const Device cpu = Device::open("cpu");
  const auto compared = [&](const DriftSide& a, const DriftSide& b, std::int64_t steps) {
    return drift(a, b, training, quick, steps, [](std::int64_t) { return true; });
  };
  for (const DriftStep& step : compared({cpu}, {cpu}, 3)) {
    CHECK(step.loss_a == step.loss_b);
    CHECK(step.loss_difference == 0);
    CHECK(step.weights_difference == 0);
  }
  // Two whole batches an epoch: the sixth step is in the third.
  const std::vector<DriftStep> steps = compared({cpu}, {cpu, DType::f64}, 6);
  REQUIRE(steps.size() == 6);
  CHECK(steps.back().step == 6);
  CHECK(steps.back().loss_a < steps.front().loss_a);
  for (const DriftStep& step : steps) {
    CHECK(step.loss_difference < 1e-4);
    CHECK(step.weights_difference > 0);
    CHECK(step.weights_difference < 1e-3);
  }
  std::int64_t asked = 0;
  CHECK(drift({cpu}, {cpu}, training, quick, 9, [&](std::int64_t) { return ++asked < 2; }).size() ==
        2);
}
