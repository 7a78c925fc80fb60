// Steps of training on one device.
#include "training/steps.hpp"

#include <algorithm>
#include <type_traits>

namespace plumb::app {
namespace {

std::int64_t largest(std::span<const std::int64_t> batches) {
  return *std::max_element(batches.begin(), batches.end());
}

/// Plans convolutions that give the same bits in every run: the specified ones, which no number of
/// threads changes, where the device has them. CUDA's kernels depend on no number of threads, and
/// those on tensor cores are the faster ones.
Planner planner_for(const Device& device) {
  return [device](const ConvProblem& problem, ConvOptions options) {
    options.deterministic = true;
    options.reproducible = device.id().backend != "cuda";
    try {
      return ConvPlan(device, problem, options);
    } catch (const Error& e) {
      if (!options.reproducible || e.code() != ErrorCode::unsupported) throw;
    }
    options.reproducible = false;
    return ConvPlan(device, problem, options);
  };
}

Network planned_network(const Device& device, const NetworkShape& shape,
                        std::span<const std::int64_t> batches, DType dtype) {
  Network network(device, shape, largest(batches), Purpose::training, dtype);
  network.plan(batches, planner_for(device));
  return network;
}

/// Calls f with a value of the C++ type that the network stores.
template <class F>
auto with_type(DType dtype, const F& f) {
  return dtype == DType::f64 ? f(double{}) : f(float{});
}

/// Copies the images that `indices` name, as numbers from 0 to 1.
template <class T>
void gather(const IdxImages& images, std::span<const std::uint32_t> indices, T* to) {
  const auto width = static_cast<std::ptrdiff_t>(images.width);
  const auto pixels = static_cast<std::size_t>(images.height * images.width);
  for (const std::uint32_t index : indices) {
    const std::uint8_t* from = images.pixels.data() + (index & ~mirrored_image) * pixels;
    T* const end = std::transform(
        from, from + pixels, to, [](std::uint8_t pixel) { return static_cast<T>(pixel) / T(255); });
    if ((index & mirrored_image) != 0)
      for (T* row = to; row != end; row += width) std::reverse(row, row + width);
    to = end;
  }
}

template <class T>
std::int64_t count_correct(const T* logits, std::int64_t classes,
                           std::span<const std::int64_t> labels) {
  std::int64_t correct = 0;
  for (const std::int64_t label : labels) {
    correct += std::max_element(logits, logits + classes) - logits == label;
    logits += classes;
  }
  return correct;
}

/// Values of the type that the tensor stores; done when it returns.
template <class Value>
void upload(Queue& queue, const std::vector<Value>& values, const Tensor& tensor) {
  with_type(tensor.dtype(), [&]<class T>(T) {
    const std::vector<T> stored(values.begin(), values.end());
    copy(queue, ConstTensorView(stored.data(), tensor.extents()), tensor);
    queue.synchronize();
  });
}

template <class Value>
std::vector<Value> download(Queue& queue, const Tensor& tensor) {
  return with_type(tensor.dtype(), [&]<class T>(T) {
    std::vector<T> stored(static_cast<std::size_t>(element_count(tensor.extents())));
    copy(queue, tensor, TensorView(stored.data(), tensor.extents()));
    queue.synchronize();
    std::vector<Value> values(stored.size());
    std::transform(stored.begin(), stored.end(), values.begin(),
                   [](T value) { return static_cast<Value>(value); });
    return values;
  });
}

}  // namespace

Steps::Steps(const Device& device, const NetworkShape& shape, std::span<const std::int64_t> batches,
             DType dtype)
    : queue_(device),
      network_(planned_network(device, shape, batches, dtype)),
      backward_(device, network_, largest(batches), batches, planner_for(device)) {
  const std::int64_t n = largest(batches);
  images_ = Tensor(device, dtype, {n, 1, shape.image_height, shape.image_width});
  labels_ = Tensor(device, DType::f64, {n});
  loss_ = Tensor(device, DType::f64, {1});
  for (int i = 0; i < parameter_count; ++i) {
    const Extents& extents = network_.parameters()[i].extents();
    velocity_[i] = Tensor(device, dtype, extents);
    app::upload(queue_, std::vector<float>(static_cast<std::size_t>(element_count(extents))),
                velocity_[i]);
  }
  for (Stage& stage : stages_) {
    const auto pinned = [&](DType stored, const Extents& extents) {
      return Tensor(device, stored, extents, {}, Memory::pinned_host);
    };
    stage.pixels = pinned(dtype, images_.extents());
    stage.labels = pinned(DType::f64, {n});
    stage.logits = pinned(dtype, {n, shape.classes});
    stage.loss = pinned(DType::f64, {1});
  }
}

// The staging memory must not go while the device still copies.
Steps::~Steps() {
  try {
    queue_.synchronize();
  } catch (...) {
  }
}

void Steps::submit(const Dataset& dataset, std::span<const std::uint32_t> indices,
                   const std::optional<SgdOptions>& sgd,
                   const std::function<void(const BatchResult&)>& on_result) {
  Stage& stage = stages_[next_];
  next_ = (next_ + 1) % stages_.size();
  collect(stage, on_result);

  const auto n = static_cast<std::int64_t>(indices.size());
  const auto batch = [n](const Tensor& tensor) { return slice(tensor.view(), 0, 0, n); };
  with_type(network_.dtype(),
            [&]<class T>(T) { gather(dataset.images, indices, stage.pixels.data_as<T>()); });
  stage.expected.clear();
  for (const std::uint32_t index : indices)
    stage.expected.push_back(dataset.labels[index & ~mirrored_image]);
  std::copy(stage.expected.begin(), stage.expected.end(), stage.labels.data_as<std::int64_t>());

  copy(queue_, batch(stage.pixels), batch(images_));
  copy(queue_, batch(stage.labels), batch(labels_));
  const LabelView labels{labels_.data_as<std::int64_t>(), n, queue_.device().id()};
  const TensorView logits = network_.activations(n).logits;
  network_.forward(queue_, batch(images_));
  if (sgd) {
    backward_.run(queue_, n, labels, loss_);
    step(*sgd);
  } else {
    softmax_cross_entropy(queue_, {.logits = logits, .labels = labels, .loss = loss_});
  }
  copy(queue_, logits, batch(stage.logits));
  copy(queue_, loss_, stage.loss);
  stage.done = queue_.record();
}

void Steps::step(const SgdOptions& sgd) {
  for (int i = 0; i < parameter_count; ++i)
    sgd_step(queue_,
             {.w = network_.parameters()[i],
              .dw = backward_.gradients()[i],
              .velocity = sgd.momentum > 0 ? velocity_[i].view() : TensorView()},
             sgd);
}

void Steps::collect(Stage& stage, const std::function<void(const BatchResult&)>& on_result) const {
  if (!stage.done) return;
  stage.done->synchronize();
  stage.done.reset();
  const std::int64_t correct = with_type(network_.dtype(), [&]<class T>(T) {
    return count_correct(stage.logits.data_as<const T>(), network_.shape().classes, stage.expected);
  });
  on_result(
      {static_cast<std::int64_t>(stage.expected.size()), *stage.loss.data_as<double>(), correct});
}

void Steps::finish(const std::function<void(const BatchResult&)>& on_result) {
  // From the one that is longest in flight on.
  for (std::size_t i = 0; i < stages_.size(); ++i)
    collect(stages_[(next_ + i) % stages_.size()], on_result);
}

void Steps::upload(const TrainingState& state) {
  set_weights(state.weights);
  for (int i = 0; i < parameter_count; ++i) app::upload(queue_, state.velocity[i], velocity_[i]);
}

void Steps::set_weights(const PerParameter<std::vector<float>>& weights) {
  for (int i = 0; i < parameter_count; ++i)
    app::upload(queue_, weights[i], network_.parameters()[i]);
}

TrainingState Steps::download() {
  TrainingState state;
  for (int i = 0; i < parameter_count; ++i) {
    state.weights[i] = app::download<float>(queue_, network_.parameters()[i]);
    state.velocity[i] = app::download<float>(queue_, velocity_[i]);
  }
  return state;
}

PerParameter<std::vector<double>> Steps::weights() {
  PerParameter<std::vector<double>> values;
  for (int i = 0; i < parameter_count; ++i)
    values[i] = app::download<double>(queue_, network_.parameters()[i]);
  return values;
}

}  // namespace plumb::app
