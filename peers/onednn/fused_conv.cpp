// Writes a problem down for oneDNN, and runs what it makes of it.
#include "peers/onednn/fused_conv.hpp"

#include <vector>

#include "peers/placement.hpp"

namespace plumb::onednn {
namespace {

constexpr std::size_t alignment = 256;

/// The strides with the free ones, along extents of one, as a dense tensor has them: oneDNN
/// compares them all.
Strides plain(const Extents& extents, const Strides& strides) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc})
    if (lies_in(layout, extents, strides)) return strides_for(layout, extents);
  return strides;
}

Sizes sizes(const Dims& values) {
  return {values.begin(), static_cast<std::size_t>(values.rank())};
}

Desc given(const Extents& extents, const Strides& strides, DType dtype) {
  return Desc::with_strides(sizes(extents), sizes(plain(extents, strides)), dtype);
}

/// Of K C/G (T) R S with its groups, which oneDNN counts as a dimension of their own.
std::vector<std::int64_t> grouped_extents(const ConvProblem& p) {
  const Extents extents = p.w_extents();
  std::vector<std::int64_t> grouped(extents.begin(), extents.end());
  if (p.groups == 1) return grouped;
  grouped.front() /= p.groups;
  grouped.insert(grouped.begin(), p.groups);
  return grouped;
}

/// w or dw as the caller has it.
Desc given_w(const ConvProblem& p) {
  const Strides strides = plain(p.w_extents(), p.w_strides);
  if (p.groups == 1) return Desc::with_strides(sizes(p.w_extents()), sizes(strides), p.dtype);
  std::vector<std::int64_t> grouped(strides.begin(), strides.end());
  grouped.insert(grouped.begin(), p.k / p.groups * strides[0]);
  return Desc::with_strides(grouped_extents(p), grouped, p.dtype);
}

/// What the convolution calls the tensors that have the parts of x, w and y.
struct Roles {
  struct {
    int query, argument;
  } image, filters, output;
};

Roles roles(const ConvProblem& p) {
  switch (p.direction) {
    case Direction::forward: break;
    case Direction::backward_data:
      return {{dy_query, dy_argument}, {w_query, w_argument}, {dx_query, dx_argument}};
    case Direction::backward_weights:
      return {{x_query, x_argument}, {dy_query, dy_argument}, {dw_query, dw_argument}};
  }
  return {{x_query, x_argument}, {w_query, w_argument}, {y_query, y_argument}};
}

Operation choose(const ConvProblem& p, Layouts layouts, const Desc& bias, bool relu) {
  const bool any = layouts == Layouts::chosen;
  const Desc x = any ? Desc::of_any_layout(sizes(p.x_extents()), p.dtype)
                     : given(p.x_extents(), p.x_strides, p.dtype);
  const Desc w = any ? Desc::of_any_layout(grouped_extents(p), p.dtype) : given_w(p);
  const Desc y = any ? Desc::of_any_layout(sizes(p.y_extents()), p.dtype)
                     : given(p.y_extents(), p.y_strides, p.dtype);
  const std::int64_t strides[] = {p.stride.d, p.stride.h, p.stride.w};
  const std::int64_t dilations[] = {p.dilation.d - 1, p.dilation.h - 1, p.dilation.w - 1};
  const std::int64_t before[] = {p.padding.front, p.padding.top, p.padding.left};
  const std::int64_t after[] = {p.padding.back, p.padding.bottom, p.padding.right};
  const std::size_t axes = p.has_depth() ? 3 : 2;
  const Windows windows{.strides = Sizes(strides).last(axes),
                        .dilations = Sizes(dilations).last(axes),
                        .before = Sizes(before).last(axes),
                        .after = Sizes(after).last(axes)};
  switch (p.direction) {
    case Direction::forward: break;
    case Direction::backward_data: return Operation::backward_data(x, w, y, windows);
    case Direction::backward_weights: return Operation::backward_weights(x, w, y, windows);
  }
  return Operation::convolution(x, w, bias, y, windows, relu);
}

Desc bias_of(const ConvProblem& p) {
  const std::int64_t extent[] = {p.k}, stride[] = {1};
  return Desc::with_strides(extent, stride, p.dtype);
}

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

Desc given_image(const ConvProblem& p) {
  const ConvOperand image = image_of(p);
  return given(image.extents, image.strides, p.dtype);
}

Desc given_output(const ConvProblem& p) {
  if (p.direction == Direction::backward_weights) return given_w(p);
  const ConvOperand output = output_of(p);
  return given(output.extents, output.strides, p.dtype);
}

/// Calls `f(element, channel)` for each of a tensor of rank 4 or 5.
template <class F>
void for_each_element(const ConvOperand& tensor, float* data, const F& f) {
  const auto& [name, e, steps] = tensor;
  const bool deep = e.rank() == 5;
  const int h = deep ? 3 : 2;
  for (std::int64_t n = 0; n < e[0]; ++n)
    for (std::int64_t c = 0; c < e[1]; ++c)
      for (std::int64_t d = 0; d < (deep ? e[2] : 1); ++d)
        for (std::int64_t i = 0; i < e[h]; ++i)
          for (std::int64_t j = 0; j < e[h + 1]; ++j)
            f(data[n * steps[0] + c * steps[1] + (deep ? d * steps[2] : 0) + i * steps[h] +
                   j * steps[h + 1]],
              c);
}

}  // namespace

void finish_gradient(const ConvLaunch& launch) {
  const auto* const bias = static_cast<const float*>(launch.bias);
  const bool relu = launch.activation == Activation::relu;
  if (!bias && !relu) return;
  for_each_element(output_of(launch.problem), static_cast<float*>(launch.y),
                   [&](float& value, std::int64_t channel) {
                     if (bias) value += bias[channel];
                     if (relu && value < 0) value = 0;
                   });
}

void clear_output(const ConvLaunch& launch) {
  for_each_element(output_of(launch.problem), static_cast<float*>(launch.y),
                   [](float& value, std::int64_t) { value = 0; });
}

Desc given_filters(const ConvProblem& p) {
  if (p.direction == Direction::backward_weights) return given(p.y_extents(), p.y_strides, p.dtype);
  return given_w(p);
}

Desc packed_filters(const ConvProblem& problem, Layouts layouts) {
  if (problem.direction == Direction::backward_weights) return given_filters(problem);
  ConvProblem image = problem;
  image.n = 1;
  return choose(image, layouts, {}, false).desc(w_query);
}

void* Workspace::take(std::size_t bytes) {
  void* piece = memory_ + taken_;
  taken_ += rounded_up(bytes);
  return piece;
}

Argument::Argument(Direction direction, const Desc& given, const Desc& wanted)
    : direction_(direction), given_(given), wanted_(wanted) {
  if (given == wanted) return;
  reorder_ = direction == Direction::in ? Operation::reorder(given, wanted)
                                        : Operation::reorder(wanted, given);
  scratchpad_ = reorder_.desc(scratchpad_query);
}

std::size_t Argument::workspace_bytes() const {
  return reorder_ ? rounded_up(wanted_.bytes()) + rounded_up(scratchpad_.bytes()) : 0;
}

Piece Argument::before(Stream* stream, const void* data, Workspace& workspace) const {
  if (!reorder_) return {given_, data};
  Piece inside(wanted_, workspace.take(wanted_.bytes()));
  if (direction_ == Direction::in)
    reorder(reorder_, stream, Piece(given_, data), inside, workspace.take(scratchpad_.bytes()));
  return inside;
}

void Argument::after(Stream* stream, void* data, const Piece& worked_on,
                     Workspace& workspace) const {
  if (reorder_ && direction_ == Direction::out)
    reorder(reorder_, stream, worked_on, Piece(given_, data), workspace.take(scratchpad_.bytes()));
}

FusedConv::FusedConv(const ConvProblem& problem, Layouts layouts, bool bias, bool relu,
                     const Desc& filters)
    : FusedConv(problem, bias ? bias_of(problem) : Desc(), filters,
                choose(problem, layouts, bias ? bias_of(problem) : Desc(), relu)) {}

FusedConv::FusedConv(const ConvProblem& problem, const Desc& bias, const Desc& filters,
                     const Operation& chosen)
    : conv_(chosen),
      x_(Argument::Direction::in, given_image(problem), chosen.desc(roles(problem).image.query)),
      w_(Argument::Direction::in, filters, chosen.desc(roles(problem).filters.query)),
      y_(Argument::Direction::out, given_output(problem), chosen.desc(roles(problem).output.query)),
      bias_(bias),
      scratchpad_(chosen.desc(scratchpad_query)) {}

std::size_t FusedConv::workspace_bytes() const {
  return x_.workspace_bytes() + w_.workspace_bytes() + y_.workspace_bytes() +
         rounded_up(scratchpad_.bytes());
}

void FusedConv::run(const ConvLaunch& launch) const {
  const WorkStream stream;
  Workspace workspace(launch.workspace);
  const Piece x = x_.before(stream.get(), launch.x, workspace);
  const Piece w = w_.before(stream.get(), launch.filters ? launch.filters : launch.w, workspace);
  const Piece y = y_.before(stream.get(), launch.y, workspace);
  Piece bias, scratchpad;
  const Roles of = roles(launch.problem);
  std::vector<ExecutionArgument> arguments{
      {of.image.argument, x.get()}, {of.filters.argument, w.get()}, {of.output.argument, y.get()}};
  if (scratchpad_) {
    scratchpad = Piece(scratchpad_, workspace.take(scratchpad_.bytes()));
    arguments.push_back({scratchpad_argument, scratchpad.get()});
  }
  if (bias_) {
    bias = Piece(bias_, launch.bias);
    arguments.push_back({bias_argument, bias.get()});
  }
  conv_.execute(stream.get(), arguments);
  y_.after(stream.get(), launch.y, y, workspace);
  stream.wait();
}

}  // namespace plumb::onednn
