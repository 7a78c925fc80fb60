// Training: the gradient of every layer and of the whole loss against central differences of the
// oracle in double, and the parts that make a training run repeatable.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "compare.hpp"
#include "plumb/plumb.hpp"
#include "predict.hpp"
#include "support/refusal.hpp"
#include "training/backward.hpp"
#include "training/gradients.hpp"
#include "training/random.hpp"
#include "training/trainer.hpp"

using namespace plumb;
using namespace plumb::app;
using Catch::Matchers::WithinAbs;

namespace {

using Values = std::vector<double>;

Values random_values(const Extents& extents, Random& random) {
  Values values(static_cast<std::size_t>(element_count(extents)));
  for (double& value : values) value = random.normal();
  return values;
}

double dot(const Values& a, const Values& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// d f / d values by central differences. `f` sees the values through the reference.
Values differences(Values& values, const std::function<double()>& f) {
  constexpr double step = 1e-5;
  Values result;
  for (double& value : values) {
    const double kept = value;
    value = kept + step;
    const double above = f();
    value = kept - step;
    const double below = f();
    value = kept;
    result.push_back((above - below) / (2 * step));
  }
  return result;
}

/// The largest difference of the two, as a share of the largest expected value.
double relative_error(const Values& computed, const Values& expected) {
  REQUIRE(computed.size() == expected.size());
  double error = 0, scale = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    REQUIRE(std::isfinite(computed[i]));
    error = std::max(error, std::abs(computed[i] - expected[i]));
    scale = std::max(scale, std::abs(expected[i]));
  }
  REQUIRE(scale > 0);
  return error / scale;
}

constexpr double tolerance = 1e-7;

/// sum of x w by the oracle, from values that lie as `problem` says.
Values oracle(ConvProblem problem, const Values& x, const Values& w, const Values& bias = {}) {
  problem.dtype = DType::f64;
  problem = check(problem);
  const ConstTensorView bias_view =
      bias.empty() ? ConstTensorView() : ConstTensorView(bias.data(), {problem.k});
  Values y;
  for (const OracleTerm& term : conv_oracle(problem, {x.data(), problem.x_extents()},
                                            {w.data(), problem.w_extents()}, bias_view))
    y.push_back(term.y);
  return y;
}

/// The network's forward pass as the oracle and plain loops do it, from the resized images on.
class OracleNetwork {
 public:
  OracleNetwork(const NetworkShape& shape, std::int64_t n, Values resized)
      : extents_(activation_extents(shape, n, Purpose::training)),
        shape_(shape),
        resized_(std::move(resized)) {}

  double loss(const PerParameter<Values>& w, const Bytes& labels) const {
    const std::int64_t n = extents_.resized[0];
    const auto conv = [&](const Extents& x, const Values& values, Parameter weight) {
      const std::int64_t k = static_cast<std::int64_t>(w[weight + 1].size());
      const std::int64_t filter = x[2] == 1 ? 1 : shape_.filter;
      return oracle({.n = n, .c = x[1], .h = x[2], .w = x[3], .k = k, .r = filter, .s = filter},
                    values, w[weight], w[weight + 1]);
    };
    const auto flat = [n](const Values& values) {
      return Extents{n, static_cast<std::int64_t>(values.size()) / n, 1, 1};
    };
    Values a = relu(conv(extents_.resized, resized_, conv1_weight));
    a = max_pool(extents_.conv1, a, shape_.pool1);
    a = relu(conv(extents_.pool1, a, conv2_weight));
    a = max_pool(extents_.conv2, a, shape_.pool2);
    a = relu(conv(flat(a), a, linear1_weight));
    a = conv(flat(a), a, linear2_weight);
    return cross_entropy_of(a, labels);
  }

  static Values relu(Values values) {
    for (double& value : values) value = std::max(value, 0.0);
    return values;
  }

  static Values max_pool(const Extents& x, const Values& values, std::int64_t window) {
    Values result;
    for (std::int64_t plane = 0; plane < x[0] * x[1]; ++plane)
      for (std::int64_t h = 0; h + window <= x[2]; h += window)
        for (std::int64_t w = 0; w + window <= x[3]; w += window) {
          double best = -INFINITY;
          for (std::int64_t i = 0; i < window * window; ++i)
            best = std::max(best, values[static_cast<std::size_t>(
                                      (plane * x[2] + h + i / window) * x[3] + w + i % window)]);
          result.push_back(best);
        }
    return result;
  }

  static double cross_entropy_of(const Values& logits, const Bytes& labels) {
    const std::size_t classes = logits.size() / labels.size();
    double loss = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < classes; ++k) sum += std::exp(logits[i * classes + k]);
      loss += std::log(sum) - logits[i * classes + labels[i]];
    }
    return loss / static_cast<double>(labels.size());
  }

 private:
  Activations<Extents> extents_;
  NetworkShape shape_;
  Values resized_;
};

/// Small, and with no two sizes alike where they could be confused.
constexpr NetworkShape small_shape{.image_height = 7,
                                   .image_width = 6,
                                   .resized = 13,
                                   .conv1_channels = 2,
                                   .conv2_channels = 3,
                                   .filter = 3,
                                   .pool1 = 2,
                                   .pool2 = 2,
                                   .hidden = 5,
                                   .classes = 4};

template <class T>
Values read(const ConstTensorView& view) {
  const T* begin = static_cast<const T*>(view.data());
  return {begin, begin + element_count(view.extents())};
}
template <class T>
void write(const Values& values, const TensorView& view) {
  std::transform(values.begin(), values.end(), static_cast<T*>(view.data()),
                 [](double value) { return static_cast<T>(value); });
}

/// Loss and gradients of the small network, computed in T.
template <class T>
struct SmallRun {
  SmallRun(const PerParameter<Values>& weights, const Values& pixels, const Bytes& labels) {
    const Device device = Device::open("cpu");
    Queue queue(device);
    const auto n = static_cast<std::int64_t>(labels.size());
    // Room for more than the batch: its results must not depend on that.
    const Network network(device, small_shape, n + 2, Purpose::training, dtype_of<T>);
    for (int i = 0; i < parameter_count; ++i) write<T>(weights[i], network.parameters()[i]);
    const Tensor images(device, dtype_of<T>,
                        {n, 1, small_shape.image_height, small_shape.image_width});
    write<T>(pixels, images);
    Backward backward(device, network, n + 2);
    result = backward.run(queue, images, labels);
    for (int i = 0; i < parameter_count; ++i)
      gradients[i] = read<T>(backward.gradients()[i].view());
    resized = read<T>(network.activations(n).resized);
  }
  BatchResult result;
  PerParameter<Values> gradients;
  Values resized;
};

/// Bars at a height that the class decides, over noise.
Dataset bars(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  Dataset dataset{{count, 28, 28, Bytes(static_cast<std::size_t>(count) * 784)}, {}};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::uint8_t>(random.below(10));
    dataset.labels.push_back(label);
    for (std::int64_t pixel = 0; pixel < 784; ++pixel) {
      const bool bar = pixel / 28 / 2 == label + 2;
      dataset.images.pixels[static_cast<std::size_t>(i * 784 + pixel)] =
          static_cast<std::uint8_t>((bar ? 180 : 0) + random.below(60));
    }
  }
  return dataset;
}

}  // namespace

TEST_CASE("conv gradients against differences of the oracle", "[training]") {
  const ConvProblem problem{.n = 2, .c = 3, .h = 7, .w = 6, .k = 4, .r = 3, .s = 2};
  Random random(11);
  Values x = random_values(problem.x_extents(), random);
  Values w = random_values(problem.w_extents(), random);
  Values bias = random_values({problem.k}, random);
  const Values dy = random_values(problem.y_extents(), random);
  const auto loss = [&] { return dot(oracle(problem, x, w, bias), dy); };

  const Device device = Device::open("cpu");
  Queue queue(device);
  const ConstTensorView x_view(x.data(), problem.x_extents());
  const ConstTensorView w_view(w.data(), problem.w_extents());
  const ConstTensorView dy_view(dy.data(), problem.y_extents());
  Values dx(x.size(), NAN), dw(w.size(), NAN), db(bias.size(), NAN);
  conv_backward_data(queue, dy_view, w_view, TensorView(dx.data(), problem.x_extents()));
  conv_backward_weights(queue, x_view, dy_view, TensorView(dw.data(), problem.w_extents()));
  bias_backward(dy_view, TensorView(db.data(), {problem.k}));
  CHECK(relative_error(dx, differences(x, loss)) < tolerance);
  CHECK(relative_error(dw, differences(w, loss)) < tolerance);
  CHECK(relative_error(db, differences(bias, loss)) < tolerance);
}

TEST_CASE("linear gradients against differences of the oracle", "[training]") {
  const ConvProblem problem{.n = 5, .c = 7, .h = 1, .w = 1, .k = 3, .r = 1, .s = 1};
  Random random(12);
  Values x = random_values({5, 7}, random), w = random_values({3, 7}, random);
  const Values dy = random_values({5, 3}, random);
  const auto loss = [&] { return dot(oracle(problem, x, w), dy); };

  Queue queue(Device::open("cpu"));
  Values dx(x.size(), NAN), dw(w.size(), NAN);
  const ConstTensorView dy_view(dy.data(), {5, 3});
  linear_backward_data(queue, dy_view, ConstTensorView(w.data(), {3, 7}),
                       TensorView(dx.data(), {5, 7}));
  linear_backward_weights(queue, ConstTensorView(x.data(), {5, 7}), dy_view,
                          TensorView(dw.data(), {3, 7}));
  CHECK(relative_error(dx, differences(x, loss)) < tolerance);
  CHECK(relative_error(dw, differences(w, loss)) < tolerance);
}

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
    const Model model = initial_model(shape, 3);
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

TEST_CASE("gradients are refused to a network for inference", "[training]") {
  const Device device = Device::open("cpu");
  const Network network(device, small_shape, 2, Purpose::inference);
  const Error error = plumb_test::refusal([&] { Backward(device, network, 2); });
  REQUIRE(error.code() == ErrorCode::invalid_argument);
  REQUIRE(std::string(error.what()).find("for inference") != std::string::npos);
}

TEST_CASE("relu and max-pool gradients against differences", "[training]") {
  // 7 x 5 leaves a row and a column that no window of 2 covers.
  const Extents extents = {2, 2, 7, 5}, pooled = {2, 2, 3, 2};
  Random random(13);
  Values x = random_values(extents, random);
  const Values dy = random_values(pooled, random);
  Values dx(x.size(), NAN);
  max_pool_backward(ConstTensorView(x.data(), extents), ConstTensorView(dy.data(), pooled), 2,
                    TensorView(dx.data(), extents));
  const Values pool_differences =
      differences(x, [&] { return dot(OracleNetwork::max_pool(extents, x, 2), dy); });
  CHECK(relative_error(dx, pool_differences) < tolerance);

  const Values dr = random_values(extents, random);
  dx = dr;
  const Values y = OracleNetwork::relu(x);
  relu_backward(ConstTensorView(y.data(), extents), TensorView(dx.data(), extents));
  CHECK(relative_error(dx, differences(x, [&] { return dot(OracleNetwork::relu(x), dr); })) <
        tolerance);
}

TEST_CASE("among equal maxima the first gets the gradient", "[training]") {
  const Values x = {1, 2, 2, 0, 0, 0, 0, 0}, dy = {5, 7};
  Values dx(8, NAN);
  max_pool_backward(ConstTensorView(x.data(), {1, 1, 2, 4}),
                    ConstTensorView(dy.data(), {1, 1, 1, 2}), 2,
                    TensorView(dx.data(), {1, 1, 2, 4}));
  CHECK(dx == Values{0, 5, 7, 0, 0, 0, 0, 0});
}

TEST_CASE("cross-entropy and its gradient", "[training]") {
  Random random(14);
  Values logits = random_values({3, 4}, random);
  const Bytes labels = {2, 0, 3};
  const ConstTensorView view(logits.data(), {3, 4});
  CHECK_THAT(cross_entropy(view, labels),
             WithinAbs(OracleNetwork::cross_entropy_of(logits, labels), 1e-14));
  Values probabilities(12), gradient(12, NAN);
  Queue queue(Device::open("cpu"));
  softmax(queue, view, TensorView(probabilities.data(), {3, 4}));
  cross_entropy_backward(ConstTensorView(probabilities.data(), {3, 4}), labels,
                         TensorView(gradient.data(), {3, 4}));
  const Values expected =
      differences(logits, [&] { return OracleNetwork::cross_entropy_of(logits, labels); });
  CHECK(relative_error(gradient, expected) < tolerance);

  // Where exp() alone would overflow, and where a probability is zero.
  const Values far = {1000, 0, -1000, 0};
  CHECK(cross_entropy(ConstTensorView(far.data(), {1, 4}), Bytes{0}) == 0);
  CHECK(cross_entropy(ConstTensorView(far.data(), {1, 4}), Bytes{2}) == 2000);
}

TEST_CASE("the whole network's gradients against differences of the oracle", "[training]") {
  Random random(15);
  const PerParameter<Extents> extents = parameter_extents(small_shape);
  PerParameter<Values> weights;
  for (int i = 0; i < parameter_count; ++i) {
    weights[i] = random_values(extents[i], random);
    for (double& weight : weights[i]) weight *= 0.5;
  }
  const Bytes labels = {1, 3, 0};
  const Values pixels =
      random_values({3, 1, small_shape.image_height, small_shape.image_width}, random);

  const SmallRun<double> in_double(weights, pixels, labels);
  const OracleNetwork network(small_shape, 3, in_double.resized);
  const auto loss = [&] { return network.loss(weights, labels); };
  CHECK_THAT(in_double.result.loss, WithinAbs(loss(), 1e-12));
  const SmallRun<float> in_float(weights, pixels, labels);
  CHECK_THAT(in_float.result.loss, WithinAbs(loss(), 1e-5));
  CHECK(in_float.result.correct == in_double.result.correct);
  for (int i = 0; i < parameter_count; ++i) {
    INFO(parameter_names[i]);
    CHECK(relative_error(in_double.gradients[i], differences(weights[i], loss)) < tolerance);
    CHECK(relative_error(in_float.gradients[i], in_double.gradients[i]) < 1e-4);
  }
}

TEST_CASE("training's random numbers", "[training]") {
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

TEST_CASE("predictions do not depend on the batch", "[training]") {
  const Dataset dataset = bars(23, 31);
  const NetworkShape shape;
  const Model model = initial_model(shape, 9);
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
