// The weights of a network's steps on the host.
#include "infer/weights.hpp"

#include <fmt/format.h>

#include <cmath>

#include "errors.hpp"
#include "formats/safetensors.hpp"
#include "training/random.hpp"

namespace plumb::app {
namespace {

Extents filter_extents(const Step& step) {
  return {step.output[0], step.input[0], step.window, step.window};
}

/// "layer1.0.bn2" of "layer1.0.conv2", "layer1.0.downsample.1" of "layer1.0.downsample.0"; empty
/// where no batch norm follows.
std::string norm_of(const std::string& conv) {
  if (const std::size_t at = conv.rfind("conv"); at != std::string::npos)
    return conv.substr(0, at) + "bn" + conv.substr(at + 4);
  std::string norm = conv;
  if (!norm.ends_with(".0")) return "";
  norm.back() = '1';
  return norm;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(read_safetensors(path)) {}

  bool has(const std::string& name) const { return file_.tensors.count(name) > 0; }

  /// A tensor of these extents, or of these without those of one at their end, as linear layers are
  /// stored.
  std::vector<float> take(const std::string& name, const Extents& extents) {
    const auto found = file_.tensors.find(name);
    if (found == file_.tensors.end())
      throw FileError(fmt::format("{}: no tensor '{}' {}: not the weights of this network",
                                  shown_path(path_), name, to_string(extents)));
    const bool linear = extents.rank() == 4 && extents[2] == 1 && extents[3] == 1 &&
                        found->second.extents == Extents{extents[0], extents[1]};
    if (!(found->second.extents == extents) && !linear)
      throw FileError(fmt::format("{}: tensor '{}' is {}, expected {}", shown_path(path_), name,
                                  to_string(found->second.extents), to_string(extents)));
    std::vector<float> values = as_floats(found->second);
    file_.tensors.erase(found);
    return values;
  }

  void require_done() const {
    if (!file_.tensors.empty())
      throw FileError(fmt::format("{}: tensor {} does not belong to this network",
                                  shown_path(path_), printable(file_.tensors.begin()->first)));
  }

 private:
  std::string path_;
  Safetensors file_;
};

/// y = (x - mean) / sqrt(variance + epsilon) * scale + shift, as a factor for each filter and a
/// bias. In double: the file's floats are what is exact.
void fold(Reader& file, const std::string& norm, StepWeights& weights) {
  constexpr double epsilon = 1e-5;  // torchvision's
  const auto k = static_cast<std::int64_t>(weights.bias.size());
  const auto scale = file.take(norm + ".weight", {k}), shift = file.take(norm + ".bias", {k}),
             mean = file.take(norm + ".running_mean", {k}),
             variance = file.take(norm + ".running_var", {k});
  const std::size_t terms = weights.filters.size() / weights.bias.size();
  for (std::size_t i = 0; i < weights.bias.size(); ++i) {
    const double factor = scale[i] / std::sqrt(variance[i] + epsilon);
    for (std::size_t j = i * terms; j < (i + 1) * terms; ++j)
      weights.filters[j] = static_cast<float>(weights.filters[j] * factor);
    weights.bias[i] = static_cast<float>(shift[i] + (weights.bias[i] - mean[i]) * factor);
  }
}

}  // namespace

Weights random_weights(const Graph& graph, std::uint64_t seed) {
  Random random(seed);
  Weights weights;
  for (const Step& step : graph.steps) {
    StepWeights& one = weights.emplace_back();
    if (step.kind != StepKind::conv) continue;
    const Extents extents = filter_extents(step);
    const double terms = static_cast<double>(element_count(extents) / extents[0]);
    const double scale = std::sqrt((step.accumulate ? 0.1 : step.relu ? 2 : 1) / terms);
    one.filters.resize(static_cast<std::size_t>(element_count(extents)));
    for (float& value : one.filters) value = static_cast<float>(random.normal() * scale);
    one.bias.resize(static_cast<std::size_t>(extents[0]));
    for (float& value : one.bias) value = static_cast<float>(random.normal() * 0.1);
  }
  return weights;
}

Weights read_weights(const Graph& graph, const std::string& path) {
  Reader file(path);
  Weights weights;
  for (const Step& step : graph.steps) {
    StepWeights& one = weights.emplace_back();
    if (step.kind != StepKind::conv) continue;
    one.filters = file.take(step.name + ".weight", filter_extents(step));
    const std::int64_t k = step.output[0];
    const std::string norm = norm_of(step.name);
    const bool normalised = !norm.empty() && file.has(norm + ".running_var");
    if (normalised && !file.has(step.name + ".bias"))
      one.bias.resize(static_cast<std::size_t>(k));
    else
      one.bias = file.take(step.name + ".bias", {k});
    if (normalised) fold(file, norm, one);
  }
  file.require_done();
  return weights;
}

}  // namespace plumb::app
