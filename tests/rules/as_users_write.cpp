// What users write, compiled with their warnings: each options struct with any one field named, and
// padding, strides and windows as one number, two and four. tests/rules/check_warnings compiles it
// with every compiler that is there; nothing of it runs.
#include <plumb/plumb.h>

#include <plumb/plumb.hpp>

namespace {

using plumb::ConvGeometry;
using plumb::Padding;
using plumb::Pair;

/// What counts for an image without a depth: one number is along the depth too, two are not.
constexpr Pair flat(const Pair& of) { return {of.h, of.w}; }
constexpr Padding flat(const Padding& of) { return {of.top, of.left, of.bottom, of.right}; }

// One number is both directions and every side, two are height and width, four are each side.
static_assert(flat(ConvGeometry{.stride = 2}.stride) == Pair{2, 2});
static_assert(flat(ConvGeometry{.stride = {2}}.stride) == Pair{2, 2});
static_assert(ConvGeometry{.stride = {2, 3}}.stride == Pair{2, 3});
static_assert(flat(ConvGeometry{.dilation = 2}.dilation) == Pair{2, 2});
static_assert(flat(ConvGeometry{.padding = 1}.padding) == Padding{1, 1, 1, 1});
static_assert(flat(ConvGeometry{.padding = {1}}.padding) == Padding{1, 1, 1, 1});
static_assert(ConvGeometry{.padding = {1, 2}}.padding == Padding{1, 2, 1, 2});
static_assert(ConvGeometry{.padding = {1, 2, 3, 4}}.padding == Padding{1, 2, 3, 4});
static_assert(ConvGeometry{}.padding == Padding{0} && ConvGeometry{}.stride == Pair{1});
static_assert(flat(plumb::PoolGeometry{.window = 2, .stride = 2}.window) == Pair{2, 2});
static_assert(flat(plumb::PoolGeometry{.window = 2, .padding = 1}.padding) == Padding{1, 1, 1, 1});
// Three are depth, height and width, six are each side; the old name of three is of two.
static_assert(ConvGeometry{.stride = 2}.stride == plumb::Triple{2, 2, 2});
static_assert(ConvGeometry{.stride = {2, 3}}.stride == plumb::Triple{1, 2, 3});
static_assert(ConvGeometry{.stride = {1, 2, 3}}.stride == plumb::Triple{1, 2, 3});
static_assert(ConvGeometry{.padding = 1}.padding.back == 1);
static_assert(ConvGeometry{.padding = {1, 2}}.padding == Padding{0, 1, 2, 0, 1, 2});
static_assert(ConvGeometry{.padding = {1, 2, 3}}.padding == Padding{1, 2, 3, 1, 2, 3});
static_assert(ConvGeometry{.padding = {1, 2, 3, 4, 5, 6}}.padding.front == 1);
// One boundary is of all axes, two are height and width, three depth, height and width.
static_assert(ConvGeometry{}.boundary == plumb::Boundaries{plumb::Boundary::zeros});
static_assert(ConvGeometry{.boundary = plumb::Boundary::periodic}.boundary.d ==
              plumb::Boundary::periodic);
static_assert(
    ConvGeometry{.boundary = {plumb::Boundary::clamp, plumb::Boundary::reflect}}.boundary ==
    plumb::Boundaries{plumb::Boundary::zeros, plumb::Boundary::clamp, plumb::Boundary::reflect});
// A fraction is no number of pixels.
static_assert(!std::is_convertible_v<double, Pair> && !std::is_convertible_v<float, Padding>);

}  // namespace

void use(plumb::Queue& queue, const plumb::Tensor& x, const plumb::Tensor& w,
         const plumb::Tensor& bias, const plumb::Tensor& y, int pixels, std::size_t sizes);
void use(plumb::Queue& queue, const plumb::Tensor& x, const plumb::Tensor& w,
         const plumb::Tensor& bias, const plumb::Tensor& y, int pixels, std::size_t sizes) {
  conv(queue, {.x = x, .w = w, .y = y});
  conv(queue, {.x = x, .w = w, .y = y}, {.padding = 1});
  conv(queue, {.x = x, .w = w, .y = y}, {.padding = {1, 1, 1, 1}});
  conv(queue, {.x = x, .w = w, .y = y}, {.stride = pixels, .padding = {pixels, 0}});
  conv(queue, {.x = x, .w = w, .y = y}, {.stride = static_cast<std::int64_t>(sizes)});
  conv(queue, {.x = x, .w = w, .bias = bias, .y = y}, {.groups = 2}, {.math = plumb::Math::tf32});
  conv(queue, {.x = x, .w = w, .y = y}, {.pool = plumb::Pool::max_2x2},
       {.activation = plumb::Activation::relu});
  conv(queue, {.x = x, .w = w, .y = y}, {}, {.algorithm = "cpu.conv.direct"});
  conv(queue, {.x = x, .w = w, .y = y}, {.padding = 1, .boundary = plumb::Boundary::periodic});
  conv(queue, {.x = x, .w = w, .y = y},
       {.padding = {pixels, 0, pixels},
        .boundary = {plumb::Boundary::clamp, plumb::Boundary::zeros, plumb::Boundary::symmetric}});
  conv(queue, {.x = x, .w = w, .y = y}, {.padding = {1, 1, 1, 1, 1, 1}}, {.accumulate = true});
  pool(queue, x, y, {.window = 2, .stride = 2});
  pool(queue, x, y, {.kind = plumb::PoolKind::average, .window = {2, 3}, .padding = {1, 1, 0, 0}});
  linear(queue, {.x = x, .w = w, .y = y}, {.deterministic = true});
  relu(queue, x, x);

  plumb::ConvProblem problem;
  problem.padding = 1;
  problem.stride = {2, 1};
  problem.d = 8, problem.t = 3, problem.padding.front = 1;
  problem.boundary.d = plumb::Boundary::reflect;
  const plumb::ConvPlan plan(queue.device(), problem, {.workspace_limit_bytes = 1 << 20});
  plan.execute(queue, plan.pack(queue, w), {.x = x, .y = y});
  const plumb::Device with_log = plumb::Device::open("cpu", {.log = [](std::string_view) {}});
  const plumb::Device with_memory = plumb::Device::open(
      "cpu", {.allocator = {
                  .allocate = [](std::size_t, plumb::Memory, void*) -> void* { return nullptr; }}});
  conv_host(with_log, {.x = x, .w = w, .y = y}, {.padding = 1}, {}, {.streams = 2});
  conv_host(with_memory, {.x = x, .w = w, .y = y}, {}, {}, {.memory_budget_bytes = 1 << 30});
  plumb::ConvPipeline(with_log, problem, {}, {.images_per_segment = 8})
      .run({.x = x, .w = w, .y = y});
  plumb::measure({&plan, 1}, {.min_samples = 3});
  plumb::measure({&plan, 1}, {.check = false});
  tune(with_log, problem, {.math = plumb::Math::fp32});
  tune(with_log, problem, {.write = false});
  tune(with_log, problem, {.measure = {.seconds_limit = 0.1}});
  plumb::validation_corpus({.quick = true});
  validate(with_log, conv_algorithms(with_log), {.problem = problem});
  validate(with_log, conv_algorithms(with_log), {.name = "mine", .problem = problem, .bias = true},
           {.seed = 2});
  validate(with_log, conv_algorithms(with_log), {.problem = problem}, {.full_check_limit = 1e6});

  plumb_conv_geometry geometry;
  plumb_conv_geometry_init(&geometry);
  plumb_conv_geometry_set_padding(&geometry, 1);
  plumb_conv_geometry_nd deep;
  plumb_conv_geometry_nd_init(&deep);
  plumb_conv_geometry_nd_set_boundary(&deep, PLUMB_SYMMETRIC);
}
