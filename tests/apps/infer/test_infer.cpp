// The network that plumb infer runs: its layers, its results against the oracle, and its weights'
// files.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "formats/safetensors.hpp"
#include "infer/inference.hpp"
#include "plumb/validate.hpp"
#include "support/files.hpp"
#include "training/random.hpp"

using namespace plumb;
using namespace plumb::app;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Two convolutions around which the input goes through a third, a maximum, an average and a linear
/// layer: each kind of step of ResNet-50, on images of 9x9.
Graph small_graph() {
  Graph graph;
  graph.steps = {{.name = "conv1",
                  .from = 0,
                  .to = 1,
                  .window = 3,
                  .stride = 2,
                  .padding = 1,
                  .relu = true,
                  .input = {2, 9, 9},
                  .output = {4, 5, 5}},
                 {.name = "maxpool",
                  .kind = StepKind::max_pool,
                  .from = 1,
                  .to = 2,
                  .window = 3,
                  .stride = 2,
                  .padding = 1,
                  .input = {4, 5, 5},
                  .output = {4, 3, 3}},
                 {.name = "layer1.0.downsample.0",
                  .from = 2,
                  .to = 1,
                  .input = {4, 3, 3},
                  .output = {6, 3, 3}},
                 {.name = "layer1.0.conv2",
                  .from = 2,
                  .to = 1,
                  .window = 3,
                  .padding = 1,
                  .relu = true,
                  .accumulate = true,
                  .input = {4, 3, 3},
                  .output = {6, 3, 3}},
                 {.name = "avgpool",
                  .kind = StepKind::average_pool,
                  .from = 1,
                  .to = 2,
                  .window = 3,
                  .input = {6, 3, 3},
                  .output = {6, 1, 1}},
                 {.name = "fc", .from = 2, .to = 3, .input = {6, 1, 1}, .output = {5, 1, 1}}};
  graph.buffer_elements = {162, 100, 36, 5};
  return graph;
}

std::vector<float> random_images(const Graph& graph, std::int64_t batch) {
  Random random(3);
  std::vector<float> images(static_cast<std::size_t>(batch * element_count(graph.image())));
  for (float& value : images) value = static_cast<float>(random.normal());
  return images;
}

/// A maximum or an average over windows, in double.
std::vector<double> pooled(const Step& step, std::int64_t images, const std::vector<double>& x) {
  const std::int64_t h = step.input[1], w = step.input[2];
  std::vector<double> y;
  for (std::int64_t image = 0; image < images * step.input[0]; ++image)
    for (std::int64_t p = 0; p < step.output[1]; ++p)
      for (std::int64_t q = 0; q < step.output[2]; ++q) {
        double sum = 0, most = -std::numeric_limits<double>::infinity();
        for (std::int64_t r = 0; r < step.window; ++r)
          for (std::int64_t s = 0; s < step.window; ++s) {
            const std::int64_t i = p * step.stride + r - step.padding;
            const std::int64_t j = q * step.stride + s - step.padding;
            if (i < 0 || i >= h || j < 0 || j >= w) continue;
            const double value = x[static_cast<std::size_t>((image * h + i) * w + j)];
            sum += value, most = std::max(most, value);
          }
        y.push_back(step.kind == StepKind::max_pool
                        ? most
                        : sum / static_cast<double>(step.window * step.window));
      }
  return y;
}

/// The logits by the oracle, in double throughout.
std::vector<double> expected(const Graph& graph, const Weights& weights, std::int64_t batch,
                             const std::vector<float>& images) {
  std::vector<std::vector<double>> buffers(graph.buffer_elements.size());
  buffers[0].assign(images.begin(), images.end());
  for (std::size_t i = 0; i < graph.steps.size(); ++i) {
    const Step& step = graph.steps[i];
    const std::vector<double> x = buffers[static_cast<std::size_t>(step.from)];
    std::vector<double>& y = buffers[static_cast<std::size_t>(step.to)];
    if (step.kind != StepKind::conv) {
      y = pooled(step, batch, x);
      continue;
    }
    const ConvProblem problem = problem_of(step, batch, DType::f64, Layout::nchw);
    const std::vector<double> w(weights[i].filters.begin(), weights[i].filters.end());
    const std::vector<double> bias(weights[i].bias.begin(), weights[i].bias.end());
    std::vector<double> sums;
    for (const OracleTerm& term :
         conv_oracle(problem, ConstTensorView(x.data(), problem.x_extents()),
                     ConstTensorView(w.data(), problem.w_extents()),
                     ConstTensorView(bias.data(), {problem.k})))
      sums.push_back(term.y);
    for (std::size_t j = 0; j < sums.size(); ++j) {
      if (step.accumulate) sums[j] += y[j];
      if (step.relu) sums[j] = std::max(sums[j], 0.0);
    }
    y = sums;
  }
  return buffers[static_cast<std::size_t>(graph.steps.back().to)];
}

double largest_difference(const std::vector<float>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double apart = std::abs(a[i] - b[i]);
    if (!(apart <= largest)) largest = apart;
  }
  return largest;
}

/// A tensor of this many values, from a function of the place.
template <class F>
StoredTensor stored(const Extents& extents, const F& value) {
  StoredTensor tensor{.extents = extents};
  for (std::int64_t i = 0; i < element_count(extents); ++i) {
    const float one = value(static_cast<std::size_t>(i));
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&one);
    tensor.data.insert(tensor.data.end(), bytes, bytes + sizeof one);
  }
  return tensor;
}

}  // namespace

TEST_CASE("infer: ResNet-50 has its layers, its weights and its operations") {
  const Graph graph = resnet50(224);
  CHECK(graph.image() == Extents{3, 224, 224});
  CHECK(graph.classes() == 1000);
  int convolutions = 0, residuals = 0;
  double flop = 0;
  std::int64_t parameters = 0;
  for (const Step& step : graph.steps) {
    CHECK(step.from != step.to);
    if (step.kind != StepKind::conv) continue;
    ++convolutions, residuals += step.accumulate;
    flop += problem_of(step, 1, DType::f32, Layout::nchw).flop();
    parameters += element_count(problem_of(step, 1, DType::f32, Layout::nchw).w_extents());
  }
  CHECK(convolutions == 54);
  CHECK(residuals == 16);
  CHECK(parameters == 25'502'912);  // torchvision's 25,557,032 less biases and batch norms
  CHECK(std::abs(flop / 2 - 4.089e9) < 0.001e9);
  CHECK(graph.steps[graph.steps.size() - 2].input == Extents{2048, 7, 7});
  CHECK(describe(graph.steps[0]) == "64 filters 7x7, stride 2, ReLU");
}

TEST_CASE("infer: every stored type and layout comes to the oracle's logits") {
  const Graph graph = small_graph();
  const Weights weights = random_weights(graph, 5);
  const std::vector<float> images = random_images(graph, 3);
  const std::vector<double> right = expected(graph, weights, 3, images);
  const Device device = Device::open("cpu");
  Queue queue(device);
  constexpr struct {
    DType dtype;
    double tolerance;
  } types[] = {{DType::f64, 1e-6}, {DType::f32, 2e-6}, {DType::f16, 1e-2}, {DType::bf16, 8e-2}};
  for (const auto& [dtype, tolerance] : types)
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      CAPTURE(to_string(dtype), to_string(layout));
      Inference network(queue, graph, weights, 3, {.dtype = dtype, .layout = layout});
      network.upload(queue, images);
      int steps = 0;
      network.forward(queue, [&] { ++steps; });
      CHECK(steps == 6);
      CHECK(largest_difference(network.logits(queue), right) < tolerance);
      CHECK(network.runs(0).starts_with("cpu.conv."));
      CHECK(network.runs(1) == "pool");
      // The same again: nothing of the first run is left in the sums.
      network.upload(queue, images);
      network.forward(queue);
      CHECK(largest_difference(network.logits(queue), right) < tolerance);
    }
}

TEST_CASE("infer: ResNet-50 of small images comes to the oracle's logits") {
  const Graph graph = resnet50(32);
  const Weights weights = random_weights(graph, 1);
  const std::vector<float> images = random_images(graph, 1);
  Queue queue(Device::open("cpu"));
  Inference network(queue, graph, weights, 1, {});
  network.upload(queue, images);
  network.forward(queue);
  const std::vector<double> right = expected(graph, weights, 1, images);
  double size = 0;
  for (const double value : right) size = std::max(size, std::abs(value));
  CHECK(size > 0.1);
  CHECK(size < 100);
  CHECK(largest_difference(network.logits(queue), right) < 1e-5 * size);
}

TEST_CASE("infer: weights from a file, with batch norm folded in, and files that are none") {
  const Graph graph = small_graph();
  const Weights drawn = random_weights(graph, 7);
  const plumb_test::Folder folder;
  Safetensors file;
  for (std::size_t i = 0; i < graph.steps.size(); ++i) {
    const Step& step = graph.steps[i];
    if (step.kind != StepKind::conv) continue;
    const bool linear = step.name == "fc";
    const std::int64_t k = step.output[0];
    const auto filter = [&](std::size_t j) { return drawn[i].filters[j]; };
    file.tensors[step.name + ".weight"] =
        linear ? stored({k, step.input[0]}, filter)
               : stored({k, step.input[0], step.window, step.window}, filter);
    if (linear) {
      file.tensors["fc.bias"] = stored({k}, [&](std::size_t j) { return drawn[i].bias[j]; });
      continue;
    }
    const std::string norm = step.name == "conv1"            ? "bn1"
                             : step.name == "layer1.0.conv2" ? "layer1.0.bn2"
                                                             : "layer1.0.downsample.1";
    const auto numbered = [&](const char* what, float first) {
      file.tensors[norm + what] =
          stored({k}, [&](std::size_t j) { return first + 0.25f * static_cast<float>(j); });
    };
    numbered(".weight", 1), numbered(".bias", -0.5f), numbered(".running_mean", 0.125f);
    numbered(".running_var", 0.5f);
  }
  const std::string path = folder / "weights.safetensors";
  write_safetensors(path, file);
  const Weights read = read_weights(graph, path);
  REQUIRE(read.size() == drawn.size());
  for (std::size_t i = 0; i < graph.steps.size(); ++i) {
    CAPTURE(graph.steps[i].name);
    if (graph.steps[i].kind != StepKind::conv) {
      CHECK(read[i].filters.empty());
      continue;
    }
    const std::size_t terms = drawn[i].filters.size() / drawn[i].bias.size();
    for (std::size_t j = 0; j < drawn[i].filters.size(); ++j) {
      const auto k = static_cast<double>(j / terms);
      const double factor =
          graph.steps[i].name == "fc" ? 1 : (1 + 0.25 * k) / std::sqrt(0.5 + 0.25 * k + 1e-5);
      CHECK(std::abs(read[i].filters[j] - drawn[i].filters[j] * factor) <= 1e-6);
      const double bias = graph.steps[i].name == "fc"
                              ? drawn[i].bias[j / terms]
                              : -0.5 + 0.25 * k - (0.125 + 0.25 * k) * factor;
      CHECK(std::abs(read[i].bias[j / terms] - bias) <= 1e-6);
    }
  }
  const auto refused = [&](const Safetensors& other) {
    write_safetensors(path, other);
    try {
      read_weights(graph, path);
    } catch (const FileError& e) {
      return std::string(e.what());
    }
    return std::string("nothing was refused");
  };
  Safetensors other = file;
  other.tensors.erase("bn1.running_mean");
  CHECK_THAT(refused(other), ContainsSubstring("no tensor 'bn1.running_mean' [4]"));
  other = file;
  other.tensors["more"] = stored({1}, [](std::size_t) { return 0.0f; });
  CHECK_THAT(refused(other), ContainsSubstring("more") && ContainsSubstring("does not belong"));
  other = file;
  other.tensors["fc.weight"] = stored({5, 5}, [](std::size_t) { return 0.0f; });
  CHECK_THAT(refused(other), ContainsSubstring("'fc.weight' is [5, 5], expected [5, 6, 1, 1]"));
}
