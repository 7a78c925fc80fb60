// The parts that make a training run repeatable, and how a run ends.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

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

TEST_CASE("a training run learns, and repeats bit for bit", "[training]") {
  const Dataset training = bars(60, 21), test = bars(20, 22);
  const TrainingOptions options{.epochs = 6, .batch = 16, .learning_rate = 0.003, .seed = 5};
  std::vector<EpochFigures> figures;
  std::int64_t batches = 0;
  const auto run = [&](const TrainingOptions& with) {
    figures.clear();
    batches = 0;
    Model last;
    REQUIRE(train(
        training, test, with,
        [&](const EpochFigures& epoch, Model model) {
          figures.push_back(epoch);
          last = std::move(model);
        },
        [&](std::int64_t, std::int64_t) { return ++batches > 0; }));
    return last;
  };
  const Model model = run(options);
  REQUIRE(figures.size() == 6);
  CHECK(batches == 6 * 4);
  CHECK(figures.back().epoch == 6);
  CHECK(figures.back().loss < 0.5 * figures.front().loss);
  CHECK(figures.back().test_accuracy > 0.5);  // chance is 0.1
  CHECK(run(options).values == model.values);
  TrainingOptions seeded = options;
  seeded.epochs = 1;
  seeded.seed = 6;
  CHECK(run(seeded).values != model.values);
}

TEST_CASE("training that diverges fails, and has no weights to give", "[training]") {
  const Dataset dataset = bars(20, 31);
  const auto message = [&](double learning_rate, std::int64_t batch) {
    std::string text = "trained";
    try {
      train(
          dataset, dataset, {.epochs = 1, .batch = batch, .learning_rate = learning_rate},
          [](const EpochFigures&, const Model&) {},
          [](std::int64_t, std::int64_t) { return true; });
    } catch (const TrainingFailure& failure) {
      text = failure.what();
    }
    return text;
  };
  const auto says = [](const std::string& text, const char* part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  CHECK(message(0.002, 20) == "trained");
  // The first loss is that of the first weights; after the only step nothing looks at them again.
  for (const double rate : {std::nan(""), std::numeric_limits<double>::infinity(), 1e300})
    says(message(rate, 20), "after 20 images of epoch 1: a smaller learning rate");
  says(message(1e30, 5), "the loss is");
}

TEST_CASE("training ends at the batch that it is told to, with whole epochs alone", "[training]") {
  const Dataset training = bars(60, 21), test = bars(20, 22);
  const TrainingOptions options{.epochs = 6, .batch = 16, .seed = 5};
  std::int64_t epochs = 0, batches = 0;
  const bool all = train(
      training, test, options, [&](const EpochFigures&, const Model&) { ++epochs; },
      [&](std::int64_t, std::int64_t) { return ++batches < 2 * 4 + 3; });
  CHECK_FALSE(all);
  CHECK(epochs == 2);
  CHECK(batches == 2 * 4 + 3);
}
