// Writes a problem down for oneDNN, versions 2 and 3, and runs what it makes of it.
#include "peers/onednn/fused_conv.hpp"

#include <algorithm>

#include "peers/placement.hpp"

namespace plumb::onednn {
namespace {

using dnnl::memory;
using Format = memory::format_tag;

constexpr std::size_t alignment = 256;

memory::dims dims(const Dims& values) { return {values.begin(), values.end()}; }

/// The strides with the free ones, along extents of one, as a dense tensor has them: oneDNN
/// compares them all.
Strides plain(const Extents& extents, const Strides& strides) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc})
    if (lies_in(layout, extents, strides)) return strides_for(layout, extents);
  return strides;
}

memory::desc given(const Extents& extents, const Strides& strides) {
  return {dims(extents), memory::data_type::f32, dims(plain(extents, strides))};
}

memory::desc any(const memory::desc& like) {
#if DNNL_VERSION_MAJOR >= 3
  return {like.get_dims(), memory::data_type::f32, Format::any};
#else
  return {like.dims(), memory::data_type::f32, Format::any};
#endif
}

dnnl::primitive_attr attributes(bool relu) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  // Whatever the environment says: no operand may be rounded.
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  if (!relu) return attributes;
  dnnl::post_ops after;
#if DNNL_VERSION_MAJOR >= 3
  after.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
#else
  after.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
#endif
  attributes.set_post_ops(after);
  return attributes;
}

dnnl::convolution_forward::primitive_desc choose(const dnnl::engine& engine, const ConvProblem& p,
                                                 Layouts layouts, bool with_bias, bool relu) {
  memory::desc x = given(p.x_extents(), p.x_strides), w = given_filters(p),
               y = given(p.y_extents(), p.y_strides);
  if (layouts == Layouts::chosen) x = any(x), w = any(w), y = any(y);
  const memory::desc bias =
      with_bias ? memory::desc({p.k}, memory::data_type::f32, Format::x) : memory::desc();
  const memory::dims strides{p.stride.h, p.stride.w};
  const memory::dims dilations{p.dilation.h - 1, p.dilation.w - 1};
  const memory::dims before{p.padding.top, p.padding.left};
  const memory::dims after{p.padding.bottom, p.padding.right};
  // Direct, which is every kernel that forms plain sums: Winograd has to be asked for.
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
  constexpr auto kind = dnnl::prop_kind::forward_inference;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, kind,    algorithm, x,      w,     bias,
          y,      strides, dilations, before, after, attributes(relu)};
#else
  return {{kind, algorithm, x, w, bias, y, strides, dilations, before, after},
          attributes(relu),
          engine};
#endif
}

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

// oneDNN counts groups as a dimension of their own.
memory::desc given_filters(const ConvProblem& p) {
  const Strides strides = plain(p.w_extents(), p.w_strides);
  if (p.groups == 1) return {dims(p.w_extents()), memory::data_type::f32, dims(strides)};
  const std::int64_t in_group = p.k / p.groups;
  return {{p.groups, in_group, p.c / p.groups, p.r, p.s},
          memory::data_type::f32,
          {in_group * strides[0], strides[0], strides[1], strides[2], strides[3]}};
}

memory::desc packed_filters(const dnnl::engine& engine, const ConvProblem& problem,
                            Layouts layouts) {
  ConvProblem image = problem;
  image.n = 1;
  return choose(engine, image, layouts, false, false).weights_desc();
}

void* Workspace::take(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* piece = memory_ + taken_;
  taken_ += rounded_up(bytes);
  return piece;
}

Argument::Argument(const dnnl::engine& engine, Direction direction, const memory::desc& given,
                   const memory::desc& wanted)
    : engine_(engine), direction_(direction), given_(given), wanted_(wanted) {
  if (given == wanted) return;
  const bool in = direction == Direction::in;
  const dnnl::reorder::primitive_desc chosen(engine, in ? given : wanted, engine,
                                             in ? wanted : given, attributes(false));
  scratchpad_ = chosen.scratchpad_desc();
  reorder_ = dnnl::reorder(chosen);
}

std::size_t Argument::workspace_bytes() const {
  return reorder_ ? rounded_up(wanted_.get_size()) + rounded_up(scratchpad_.get_size()) : 0;
}

void Argument::reorder(const dnnl::stream& stream, memory from, memory to,
                       Workspace& workspace) const {
  memory scratchpad(scratchpad_, engine_, workspace.take(scratchpad_.get_size()));
  reorder_->execute(stream,
                    {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, scratchpad}});
}

memory Argument::before(const dnnl::stream& stream, void* data, Workspace& workspace) const {
  if (!reorder_) return {given_, engine_, data};
  memory inside(wanted_, engine_, workspace.take(wanted_.get_size()));
  if (direction_ == Direction::in)
    reorder(stream, memory(given_, engine_, data), inside, workspace);
  return inside;
}

void Argument::after(const dnnl::stream& stream, void* data, memory& worked_on,
                     Workspace& workspace) const {
  if (reorder_ && direction_ == Direction::out)
    reorder(stream, worked_on, memory(given_, engine_, data), workspace);
}

FusedConv::FusedConv(const dnnl::engine& engine, const ConvProblem& problem, Layouts layouts,
                     bool bias, bool relu, const memory::desc& filters)
    : FusedConv(engine, problem, filters, choose(engine, problem, layouts, bias, relu)) {}

FusedConv::FusedConv(const dnnl::engine& engine, const ConvProblem& problem,
                     const memory::desc& filters,
                     const dnnl::convolution_forward::primitive_desc& chosen)
    : engine_(engine),
      conv_(chosen),
      x_(engine, Argument::Direction::in, given(problem.x_extents(), problem.x_strides),
         chosen.src_desc()),
      w_(engine, Argument::Direction::in, filters, chosen.weights_desc()),
      y_(engine, Argument::Direction::out, given(problem.y_extents(), problem.y_strides),
         chosen.dst_desc()),
      bias_(chosen.bias_desc()),
      scratchpad_(chosen.scratchpad_desc()) {}

std::size_t FusedConv::workspace_bytes() const {
  return x_.workspace_bytes() + w_.workspace_bytes() + y_.workspace_bytes() +
         rounded_up(scratchpad_.get_size());
}

void FusedConv::run(const ConvLaunch& launch) const {
  dnnl::stream stream(engine_);
  Workspace workspace(launch.workspace);
  // oneDNN's memory has no const; inputs are only read.
  void* const x_data = const_cast<void*>(launch.x);
  void* const w_data = const_cast<void*>(launch.filters ? launch.filters : launch.w);
  memory x = x_.before(stream, x_data, workspace);
  memory w = w_.before(stream, w_data, workspace);
  memory y = y_.before(stream, launch.y, workspace);
  memory scratchpad(scratchpad_, engine_, workspace.take(scratchpad_.get_size()));
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, x},
                                            {DNNL_ARG_WEIGHTS, w},
                                            {DNNL_ARG_DST, y},
                                            {DNNL_ARG_SCRATCHPAD, scratchpad}};
  if (launch.bias)
    arguments.emplace(DNNL_ARG_BIAS, memory(bias_, engine_, const_cast<void*>(launch.bias)));
  conv_.execute(stream, arguments);
  y_.after(stream, launch.y, y, workspace);
  stream.wait();
}

}  // namespace plumb::onednn
