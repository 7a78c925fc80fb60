// A network on one device.
#include "infer/inference.hpp"

namespace plumb::app {
namespace {

/// Host memory of a tensor that lies as one on the device, for a copy there or back.
class Staging {
 public:
  explicit Staging(const TensorView& like)
      : bytes_(static_cast<std::size_t>(element_count(like.extents())) *
               size_in_bytes(like.dtype())),
        view_(bytes_.data(), like.dtype(), like.extents(), host, like.strides()) {}
  const TensorView& view() const { return view_; }

  /// Calls f(offset of an element, its place in a dense tensor) for all elements.
  template <class F>
  void for_each(const F& f) const {
    const Extents& e = view_.extents();
    const Strides& s = view_.strides();
    std::size_t place = 0;
    for (std::int64_t n = 0; n < e[0]; ++n)
      for (std::int64_t c = 0; c < e[1]; ++c)
        for (std::int64_t h = 0; h < e[2]; ++h)
          for (std::int64_t w = 0; w < e[3]; ++w)
            f(n * s[0] + c * s[1] + h * s[2] + w * s[3], place++);
  }

 private:
  std::vector<std::byte> bytes_;
  TensorView view_;
};

/// Rounds dense values to the stored type and copies them into a view of rank 4.
void fill(Queue& queue, const std::vector<float>& values, const TensorView& to) {
  const Staging staging(to);
  staging.for_each([&](std::int64_t offset, std::size_t place) {
    store_element(staging.view(), offset, values[place]);
  });
  copy(queue, staging.view(), to);
  queue.synchronize();
}

}  // namespace

TensorView Inference::view(int buffer, const Extents& image) const {
  const Extents extents{batch_, image[0], image[1], image[2]};
  const Tensor& memory = buffers_[static_cast<std::size_t>(buffer)];
  return {memory.data(), precision_.dtype, extents, memory.view().device(),
          strides_for(precision_.layout, extents)};
}

Inference::Inference(Queue& queue, const Graph& graph, const Weights& weights, std::int64_t batch,
                     const Precision& precision)
    : graph_(graph), batch_(batch), precision_(precision) {
  const Device& device = queue.device();
  for (const std::int64_t elements : graph.buffer_elements)
    buffers_.emplace_back(device, precision.dtype, Extents{batch * elements});
  for (std::size_t i = 0; i < graph.steps.size(); ++i) {
    const Step& step = graph.steps[i];
    Layer layer{.x = view(step.from, step.input), .y = view(step.to, step.output)};
    if (step.kind == StepKind::conv) {
      const ConvProblem problem = problem_of(step, batch, precision.dtype, precision.layout);
      const ConvOptions options{.math = precision.math,
                                .bias = true,
                                .activation = step.relu ? Activation::relu : Activation::none,
                                .accumulate = step.accumulate};
      const ConvPlan& plan = layer.plan.emplace_back(device, problem, options);
      const Tensor w(device, precision.dtype, problem.w_extents(), problem.w_strides);
      fill(queue, weights[i].filters, w);
      layer.filters = plan.pack(queue, w);
      layer.bias = Tensor(device, precision.dtype, {problem.k});
      fill(queue, weights[i].bias, reshape(layer.bias.view(), {1, 1, 1, problem.k}));
      queue.synchronize();  // before w goes
    }
    layers_.push_back(std::move(layer));
  }
}

void Inference::upload(Queue& queue, const std::vector<float>& images) {
  fill(queue, images, view(0, graph_.image()));
}

void Inference::forward(Queue& queue, const std::function<void()>& step_queued) const {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto& [plan, filters, bias, x, y] = layers_[i];
    if (plan.empty())
      pool(queue, x, y, pool_geometry(graph_.steps[i]));
    else
      plan.front().execute(queue, filters, {.x = x, .bias = bias, .y = y});
    step_queued();
  }
}

std::vector<float> Inference::logits(Queue& queue) const {
  const Staging staging(layers_.back().y);
  copy(queue, layers_.back().y, staging.view());
  queue.synchronize();
  std::vector<float> values(static_cast<std::size_t>(batch_ * graph_.classes()));
  staging.for_each([&](std::int64_t offset, std::size_t place) {
    values[place] = static_cast<float>(load_element(staging.view(), offset));
  });
  return values;
}

std::string_view Inference::runs(std::size_t step) const {
  return layers_[step].plan.empty() ? "pool" : layers_[step].plan.front().algorithm().name;
}

}  // namespace plumb::app
