// A network for inference beside one for training, predictions, and the comparison of devices.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "compare.hpp"
#include "predict.hpp"
#include "support/refusal.hpp"
#include "training/backward.hpp"
#include "training/trainer.hpp"
#include "training_case.hpp"

using namespace plumb;
using namespace plumb::app;
using namespace plumb_test::training;
using Catch::Matchers::WithinAbs;

TEST_CASE("inference pools in the convolution, and puts out what training does", "[training]") {
  // Windows that a convolution takes whole, in part, and not at all.
  for (const auto& [pool1, pool2] : {std::pair{2, 2}, {2, 4}, {4, 1}, {3, 2}, {1, 6}}) {
    NetworkShape shape = small_shape;
    shape.resized = 31;
    shape.pool1 = pool1, shape.pool2 = pool2;
    CAPTURE(pool1, pool2);
    const Device device = Device::open("cpu");
    Queue queue(device);
    Random random(5);
    const Model model{initial_state(shape, 3).weights, {}};
    const Tensor images(device, DType::f64, {4, 1, shape.image_height, shape.image_width});
    write<double>(random_values(images.extents(), random), images);
    const auto logits = [&](Purpose purpose, const std::vector<std::int64_t>& packed_batches) {
      Network network(device, shape, 5, purpose, DType::f64);
      for (int i = 0; i < parameter_count; ++i)
        write<double>(Values(model.values[i].begin(), model.values[i].end()),
                      network.parameters()[i]);
      network.pack_filters(queue, packed_batches);
      // Whoever packs them has no more use for the parameters.
      if (!packed_batches.empty())
        for (const int i : {conv1_weight, conv2_weight, linear1_weight, linear2_weight})
          write<double>(Values(model.values[i].size(), NAN), network.parameters()[i]);
      std::size_t queued = 0;
      network.forward(queue, images, [&] { ++queued; });
      CHECK(queued == layers_of(shape, purpose).size());
      return read<double>(network.activations(4).logits);
    };
    const Values pooled = logits(Purpose::inference, {});
    CHECK(relative_error(pooled, logits(Purpose::training, {})) < 1e-12);
    CHECK(logits(Purpose::inference, {5, 4}) == pooled);
  }
}

TEST_CASE("a network for inference refuses to compute gradients", "[training]") {
  const Device device = Device::open("cpu");
  const Network network(device, small_shape, 2, Purpose::inference);
  const Error error = plumb_test::refusal([&] {
    Backward(device, network, 2, {}, [&](const ConvProblem& problem, const ConvOptions& options) {
      return ConvPlan(device, problem, options);
    });
  });
  REQUIRE(error.code() == ErrorCode::invalid_argument);
  REQUIRE(std::string(error.what()).find("for inference") != std::string::npos);
}

TEST_CASE("predictions do not depend on the batch", "[training]") {
  const Dataset dataset = bars(23, 31);
  const NetworkShape shape;
  const Model model{initial_state(shape, 9).weights, {}};
  const Device device = Device::open("cpu");
  const Predictions whole = predict(device, model, shape, dataset.images, 23);
  REQUIRE(whole.classes.size() == 23);
  for (std::size_t i = 0; i < 23; ++i) {
    const auto row = whole.logits.begin() + static_cast<std::ptrdiff_t>(10 * i);
    CHECK(std::max_element(row, row + 10) - row == whole.classes[i]);
    const auto sum = std::accumulate(
        whole.probabilities.begin() + static_cast<std::ptrdiff_t>(10 * i),
        whole.probabilities.begin() + static_cast<std::ptrdiff_t>(10 * i + 10), 0.0);
    CHECK_THAT(sum, WithinAbs(1, 1e-6));
  }
  for (const std::int64_t batch : {1, 5, 22, 100}) {
    INFO("batch " << batch);
    const Predictions cut = predict(device, model, shape, dataset.images, batch);
    const Comparison comparison = compare(whole, cut);
    CHECK(comparison.largest_difference < 1e-5);
    CHECK(comparison.disagreements.empty());
    for (const LayerSeconds& layer : cut.layers) {
      CHECK(layer.op > 0);
      CHECK(layer.layer >= layer.op);
    }
  }
}

TEST_CASE("two devices' results are compared", "[training]") {
  Predictions a;
  a.logits = {1, 3, 2.5f, 0, 4, 1};
  a.classes = {1, 1};
  Predictions b = a;
  CHECK(compare(a, b).largest_difference == 0);
  CHECK(compare(a, b).disagreements.empty());
  b.logits[2] = 3.25f;
  b.classes[0] = 2;
  const Comparison different = compare(a, b);
  CHECK(different.largest_difference == 0.75);
  CHECK(different.image == 0);
  CHECK(different.class_index == 2);
  REQUIRE(different.disagreements.size() == 1);
  CHECK(different.disagreements[0].image == 0);
  CHECK(different.disagreements[0].class_a == 1);
  CHECK(different.disagreements[0].class_b == 2);
  CHECK(different.disagreements[0].margin == 0.5);
  b.logits[5] = NAN;
  CHECK(std::isnan(compare(a, b).largest_difference));
  CHECK(compare(a, b).image == 1);
}
