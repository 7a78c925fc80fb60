// The gradient of every layer and of the whole loss against central differences of the oracle in
// double.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "training/backward.hpp"
#include "training/gradients.hpp"
#include "training_case.hpp"

using namespace plumb;
using namespace plumb::app;
using namespace plumb_test::training;
using Catch::Matchers::WithinAbs;

namespace {

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
