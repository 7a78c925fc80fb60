// ResNet-50 as steps: five buffers, in two of which the blocks' outputs take turns.
#include "infer/graph.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace plumb::app {
namespace {

class Builder {
 public:
  explicit Builder(std::int64_t side) : shapes_(buffers) { shapes_[images] = {3, side, side}; }

  enum Buffer { images, even, odd, reduced, filtered, buffers };

  /// From a buffer into another; the new one's shape follows.
  Step& add(const std::string& name, StepKind kind, int from, int to, std::int64_t channels,
            std::int64_t window, std::int64_t stride, std::int64_t padding) {
    const Extents& x = shapes_[static_cast<std::size_t>(from)];
    const auto after = [&](std::int64_t extent) {
      return (extent + 2 * padding - window) / stride + 1;
    };
    Step step{.name = name,
              .kind = kind,
              .from = from,
              .to = to,
              .window = window,
              .stride = stride,
              .padding = padding,
              .input = x,
              .output = {channels, after(x[1]), after(x[2])}};
    shapes_[static_cast<std::size_t>(to)] = step.output;
    graph_.steps.push_back(std::move(step));
    return graph_.steps.back();
  }
  Step& conv(const std::string& name, int from, int to, std::int64_t filters, std::int64_t window,
             std::int64_t stride = 1) {
    return add(name, StepKind::conv, from, to, filters, window, stride, window / 2);
  }

  /// 1x1, 3x3 and 1x1 around which the block's input goes, as it is or through a 1x1 convolution.
  /// Its output lies where the sum is: over its input, or in the other buffer.
  void bottleneck(const std::string& name, std::int64_t width, std::int64_t stride, bool project) {
    const int x = block_, y = project ? other() : block_;
    if (project) conv(name + ".downsample.0", x, y, 4 * width, 1, stride);
    conv(name + ".conv1", x, reduced, width, 1).relu = true;
    conv(name + ".conv2", reduced, filtered, width, 3, stride).relu = true;
    Step& expand = conv(name + ".conv3", filtered, y, 4 * width, 1);
    expand.relu = expand.accumulate = true;
    block_ = y;
  }

  int block() const { return block_; }
  int other() const { return block_ == even ? odd : even; }
  const Extents& shape(int buffer) const { return shapes_[static_cast<std::size_t>(buffer)]; }

  Graph finished() {
    graph_.buffer_elements.assign(buffers, 0);
    const auto holds = [&](int buffer, const Extents& shape) {
      std::int64_t& most = graph_.buffer_elements[static_cast<std::size_t>(buffer)];
      most = std::max(most, element_count(shape));
    };
    for (const Step& step : graph_.steps) holds(step.from, step.input), holds(step.to, step.output);
    return std::move(graph_);
  }

 private:
  Graph graph_;
  std::vector<Extents> shapes_;
  int block_ = even;
};

}  // namespace

std::string describe(const Step& step) {
  std::string text;
  switch (step.kind) {
    case StepKind::conv: text = fmt::format("{} filters", step.output[0]); break;
    case StepKind::max_pool: text = "maximum"; break;
    case StepKind::average_pool: text = "average"; break;
  }
  text += fmt::format(" {0}x{0}", step.window);
  if (step.stride > 1 && step.kind != StepKind::average_pool)
    text += fmt::format(", stride {}", step.stride);
  if (step.accumulate) text += ", residual";
  if (step.relu) text += ", ReLU";
  return text;
}

Graph resnet50(std::int64_t side) {
  Builder b(side);
  b.conv("conv1", Builder::images, Builder::odd, 64, 7, 2).relu = true;
  b.add("maxpool", StepKind::max_pool, Builder::odd, b.block(), 64, 3, 2, 1);
  constexpr struct {
    int blocks;
    std::int64_t width, stride;
  } stages[] = {{3, 64, 1}, {4, 128, 2}, {6, 256, 2}, {3, 512, 2}};
  int number = 1;
  for (const auto& stage : stages) {
    for (int i = 0; i < stage.blocks; ++i)
      b.bottleneck(fmt::format("layer{}.{}", number, i), stage.width, i == 0 ? stage.stride : 1,
                   i == 0);
    ++number;
  }
  b.add("avgpool", StepKind::average_pool, b.block(), Builder::reduced, 2048, b.shape(b.block())[1],
        1, 0);
  b.conv("fc", Builder::reduced, Builder::filtered, 1000, 1);
  return b.finished();
}

ConvProblem problem_of(const Step& step, std::int64_t n, DType dtype, Layout layout) {
  ConvProblem problem;
  problem.stride = step.stride;
  problem.padding = step.padding;
  problem.dtype = dtype;
  problem.n = n;
  problem.c = step.input[0], problem.h = step.input[1], problem.w = step.input[2];
  problem.k = step.output[0], problem.r = problem.s = step.window;
  problem.x_strides = strides_for(layout, problem.x_extents());
  problem.w_strides = strides_for(layout, problem.w_extents());
  problem.y_strides = strides_for(layout, problem.y_extents());
  return check(problem);
}

PoolGeometry pool_geometry(const Step& step) {
  return {.kind = step.kind == StepKind::max_pool ? PoolKind::max : PoolKind::average,
          .window = {step.window, step.window},
          .stride = {step.stride, step.stride},
          .padding = {step.padding, step.padding}};
}

}  // namespace plumb::app
