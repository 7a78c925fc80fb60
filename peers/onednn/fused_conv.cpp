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

Desc given(const Extents& extents, const Strides& strides) {
  return Desc::with_strides(sizes(extents), sizes(plain(extents, strides)));
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

Operation choose(const ConvProblem& p, Layouts layouts, const Desc& bias, bool relu) {
  const bool any = layouts == Layouts::chosen;
  const Desc x =
      any ? Desc::of_any_layout(sizes(p.x_extents())) : given(p.x_extents(), p.x_strides);
  const Desc w = any ? Desc::of_any_layout(grouped_extents(p)) : given_filters(p);
  const Desc y =
      any ? Desc::of_any_layout(sizes(p.y_extents())) : given(p.y_extents(), p.y_strides);
  const std::int64_t strides[] = {p.stride.d, p.stride.h, p.stride.w};
  const std::int64_t dilations[] = {p.dilation.d - 1, p.dilation.h - 1, p.dilation.w - 1};
  const std::int64_t before[] = {p.padding.front, p.padding.top, p.padding.left};
  const std::int64_t after[] = {p.padding.back, p.padding.bottom, p.padding.right};
  const std::size_t axes = p.has_depth() ? 3 : 2;
  return Operation::convolution(x, w, bias, y,
                                {.strides = Sizes(strides).last(axes),
                                 .dilations = Sizes(dilations).last(axes),
                                 .before = Sizes(before).last(axes),
                                 .after = Sizes(after).last(axes)},
                                relu);
}

Desc bias_of(const ConvProblem& p) {
  const std::int64_t extent[] = {p.k}, stride[] = {1};
  return Desc::with_strides(extent, stride);
}

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

Desc given_filters(const ConvProblem& p) {
  const Strides strides = plain(p.w_extents(), p.w_strides);
  if (p.groups == 1) return Desc::with_strides(sizes(p.w_extents()), sizes(strides));
  std::vector<std::int64_t> grouped(strides.begin(), strides.end());
  grouped.insert(grouped.begin(), p.k / p.groups * strides[0]);
  return Desc::with_strides(grouped_extents(p), grouped);
}

Desc packed_filters(const ConvProblem& problem, Layouts layouts) {
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
      x_(Argument::Direction::in, given(problem.x_extents(), problem.x_strides),
         chosen.desc(x_query)),
      w_(Argument::Direction::in, filters, chosen.desc(w_query)),
      y_(Argument::Direction::out, given(problem.y_extents(), problem.y_strides),
         chosen.desc(y_query)),
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
  std::vector<ExecutionArgument> arguments{
      {x_argument, x.get()}, {w_argument, w.get()}, {y_argument, y.get()}};
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
