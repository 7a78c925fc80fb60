// The gradient of the network's whole loss against central differences of the oracle in double.
// tests/core/nn holds each operator's.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "training/backward.hpp"
#include "training_case.hpp"

using namespace plumb;
using namespace plumb::app;
using namespace plumb_test::training;
using Catch::Matchers::WithinAbs;

namespace {

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

/// Loss and gradients of a network, computed in T.
template <class T>
struct NetworkRun {
  NetworkRun(const NetworkShape& shape, const PerParameter<Values>& weights, const Values& pixels,
             const Bytes& labels) {
    const Device device = Device::open("cpu");
    Queue queue(device);
    const auto n = static_cast<std::int64_t>(labels.size());
    // Room for more than the batch: its results must not depend on that.
    const Network network(device, shape, n + 2, Purpose::training, dtype_of<T>);
    for (int i = 0; i < parameter_count; ++i) write<T>(weights[i], network.parameters()[i]);
    const Tensor images(device, dtype_of<T>, {n, 1, shape.image_height, shape.image_width});
    write<T>(pixels, images);
    const Backward backward(device, network, n + 2, std::vector{n, n + 1}, planner(device));
    network.forward(queue, images);
    const std::vector<std::int64_t> classes(labels.begin(), labels.end());
    backward.run(queue, n, {classes.data(), n}, TensorView(&loss, {1}));
    for (int i = 0; i < parameter_count; ++i)
      gradients[i] = read<T>(backward.gradients()[i].view());
    resized = read<T>(network.activations(n).resized);
  }
  static Planner planner(const Device& device) {
    return [device](const ConvProblem& problem, ConvOptions options) {
      options.deterministic = true;
      return ConvPlan(device, problem, options);
    };
  }
  double loss = NAN;
  PerParameter<Values> gradients;
  Values resized;
};

}  // namespace

TEST_CASE("the whole network's gradients against differences of the oracle", "[training]") {
  NetworkShape unpooled = small_shape;
  unpooled.pool1 = 3, unpooled.pool2 = 1;  // whose output is the convolution's
  for (const NetworkShape& shape : {small_shape, unpooled}) {
    CAPTURE(shape.pool1, shape.pool2);
    Random random(15);
    const PerParameter<Extents> extents = parameter_extents(shape);
    PerParameter<Values> weights;
    for (int i = 0; i < parameter_count; ++i) {
      weights[i] = random_values(extents[i], random);
      for (double& weight : weights[i]) weight *= 0.5;
    }
    const Bytes labels = {1, 3, 0};
    const Values pixels = random_values({3, 1, shape.image_height, shape.image_width}, random);

    const NetworkRun<double> in_double(shape, weights, pixels, labels);
    const OracleNetwork network(shape, 3, in_double.resized);
    const auto loss = [&] { return network.loss(weights, labels); };
    CHECK_THAT(in_double.loss, WithinAbs(loss(), 1e-12));
    const NetworkRun<float> in_float(shape, weights, pixels, labels);
    CHECK_THAT(in_float.loss, WithinAbs(loss(), 1e-5));
    for (int i = 0; i < parameter_count; ++i) {
      INFO(parameter_names[i]);
      CHECK(relative_error(in_double.gradients[i], differences(weights[i], loss)) < tolerance);
      CHECK(relative_error(in_float.gradients[i], in_double.gradients[i]) < 1e-4);
    }
  }
}
