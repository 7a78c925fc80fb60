// From plumb.h's structs to C++'s, and the values that plumb.h starts them with.
#include "convert.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <limits>

#include "handles.hpp"

namespace plumb::c {
namespace {

/// plumb.h counts as the C++ enumerations do, so that one table less can be wrong.
template <class Enum>
Enum enumerator(std::int32_t value, Enum last, const char* name) {
  if (value < 0 || value > static_cast<std::int32_t>(last))
    refuse(fmt::format("{} is {}; expected 0 to {}", name, value, static_cast<int>(last)));
  return static_cast<Enum>(value);
}

template <class Enum>
constexpr bool same(std::int32_t c_value, Enum value) {
  return c_value == static_cast<std::int32_t>(value);
}
static_assert(same(PLUMB_F32, DType::f32) && same(PLUMB_F64, DType::f64) &&
              same(PLUMB_F16, DType::f16) && same(PLUMB_BF16, DType::bf16));
static_assert(same(PLUMB_FP64, Math::fp64) && same(PLUMB_FP32, Math::fp32) &&
              same(PLUMB_TF32, Math::tf32) && same(PLUMB_MATH_BF16, Math::bf16) &&
              same(PLUMB_MATH_FP16, Math::fp16));
static_assert(same(PLUMB_NO_ACTIVATION, Activation::none) && same(PLUMB_RELU, Activation::relu));
static_assert(same(PLUMB_NO_POOL, Pool::none) && same(PLUMB_MAX_POOL_2X2, Pool::max_2x2));
static_assert(same(PLUMB_DEVICE_MEMORY, Memory::device) &&
              same(PLUMB_PINNED_HOST_MEMORY, Memory::pinned_host));
static_assert(same(PLUMB_POOL_MAX, PoolKind::max) && same(PLUMB_POOL_AVERAGE, PoolKind::average));

static_assert(same(PLUMB_ZEROS, Boundary::zeros) && same(PLUMB_PERIODIC, Boundary::periodic) &&
              same(PLUMB_REFLECT, Boundary::reflect) &&
              same(PLUMB_SYMMETRIC, Boundary::symmetric) && same(PLUMB_CLAMP, Boundary::clamp));
static_assert(same(PLUMB_FORWARD, Direction::forward) &&
              same(PLUMB_BACKWARD_DATA, Direction::backward_data) &&
              same(PLUMB_BACKWARD_WEIGHTS, Direction::backward_weights));

Strides strides_of(const std::int64_t* values, std::size_t count) {
  return values ? Strides(values, count) : Strides();
}

/// A struct that begins with its size, as this library knows it, or one of `least` bytes, without
/// the fields that came later: they are zero then. What the caller's has beyond must be zero, since
/// nothing here would do what it asks for.
template <class Struct>
Struct sized(const Struct& given, const char* name, std::size_t least = sizeof(Struct)) {
  const std::size_t size = given.struct_size;
  if (size < least)
    refuse(fmt::format("{}.struct_size is {}; expected at least {} (plumb_*_init() sets it)", name,
                       size, least));
  if (size < sizeof(Struct)) {
    Struct whole{};
    std::memcpy(&whole, &given, size);
    return whole;
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(&given);
  for (std::size_t i = sizeof(Struct); i < size; ++i)
    if (bytes[i] != 0)
      refuse(
          fmt::format("{}.struct_size is {}, and byte {} of it is {}; this library knows the "
                      "first {} and expects zeros behind them",
                      name, size, i, bytes[i], sizeof(Struct)));
  return given;
}

}  // namespace

DType dtype_of(plumb_dtype dtype) { return enumerator(dtype, DType::bf16, "dtype"); }
Memory memory_of(plumb_memory memory) { return enumerator(memory, Memory::pinned_host, "memory"); }
plumb_memory to_c(Memory memory) { return static_cast<plumb_memory>(memory); }
plumb_math to_c(Math math) { return static_cast<plumb_math>(math); }

ConvGeometry geometry_of(const plumb_conv_geometry* geometry) {
  if (!geometry) return {};
  const plumb_conv_geometry& g = *geometry;
  return {.stride = {g.stride_h, g.stride_w},
          .dilation = {g.dilation_h, g.dilation_w},
          .padding = {g.padding_top, g.padding_left, g.padding_bottom, g.padding_right},
          .groups = g.groups,
          .pool = enumerator(g.pool, Pool::max_2x2, "pool")};
}

ConvGeometry geometry_of(const plumb_conv_geometry_nd* geometry) {
  if (!geometry) return {};
  const plumb_conv_geometry_nd g = sized(*geometry, "geometry");
  return {.stride = {g.stride_d, g.stride_h, g.stride_w},
          .dilation = {g.dilation_d, g.dilation_h, g.dilation_w},
          .padding = {g.padding_front, g.padding_top, g.padding_left, g.padding_back,
                      g.padding_bottom, g.padding_right},
          .groups = g.groups,
          .pool = enumerator(g.pool, Pool::max_2x2, "pool"),
          .boundary = {enumerator(g.boundary_d, Boundary::clamp, "boundary_d"),
                       enumerator(g.boundary_h, Boundary::clamp, "boundary_h"),
                       enumerator(g.boundary_w, Boundary::clamp, "boundary_w")}};
}

/// What both structs of a problem have, for tensors of so many strides.
template <class Given>
static ConvProblem problem_from(const Given& from, const ConvGeometry& geometry, int rank) {
  ConvProblem problem;
  static_cast<ConvGeometry&>(problem) = geometry;
  problem.dtype = dtype_of(from.dtype);
  problem.n = from.n;
  problem.c = from.c;
  problem.h = from.h;
  problem.w = from.w;
  problem.k = from.k;
  problem.r = from.r;
  problem.s = from.s;
  problem.x_strides = strides_of(from.x_strides, rank);
  problem.w_strides = strides_of(from.w_strides, rank);
  problem.y_strides = strides_of(from.y_strides, rank);
  return problem;
}

ConvProblem problem_of(const plumb_conv_problem* given) {
  const plumb_conv_problem& from = at(given, "problem");
  return problem_from(from, geometry_of(&from.geometry), 4);
}

ConvProblem problem_of(const plumb_conv_problem_nd* given) {
  const plumb_conv_problem_nd from = sized(at(given, "problem"), "problem");
  ConvProblem problem = problem_from(from, geometry_of(from.geometry), 5);
  problem.d = from.d;
  problem.t = from.t;
  problem.direction = enumerator(from.direction, Direction::backward_weights, "direction");
  return problem;
}

ConvOptions options_of(const plumb_conv_options* given) {
  if (!given) return {};
  return {.math = enumerator(given->math, Math::fp16, "math"),
          .algorithm = given->algorithm ? given->algorithm : "",
          .bias = given->bias != 0,
          .activation = enumerator(given->activation, Activation::relu, "activation"),
          .workspace_limit_bytes = given->workspace_limit_bytes,
          .deterministic = given->deterministic != 0};
}

ConvOptions options_of(const plumb_conv_options_nd* given) {
  if (!given) return {};
  const plumb_conv_options_nd from =
      sized(*given, "options", offsetof(plumb_conv_options_nd, reproducible));
  return {.math = enumerator(from.math, Math::fp16, "math"),
          .algorithm = from.algorithm ? from.algorithm : "",
          .bias = from.bias != 0,
          .activation = enumerator(from.activation, Activation::relu, "activation"),
          .workspace_limit_bytes = from.workspace_limit_bytes,
          .deterministic = from.deterministic != 0,
          .accumulate = from.accumulate != 0,
          .relu_mask = from.relu_mask != 0,
          .reproducible = from.reproducible != 0};
}

PoolGeometry pool_geometry_of(const plumb_pool_geometry* given) {
  const plumb_pool_geometry& g = at(given, "geometry");
  return {.kind = enumerator(g.kind, PoolKind::average, "kind"),
          .window = {g.window_h, g.window_w},
          .stride = {g.stride_h, g.stride_w},
          .dilation = {g.dilation_h, g.dilation_w},
          .padding = {g.padding_top, g.padding_left, g.padding_bottom, g.padding_right},
          .ceil_mode = g.ceil_mode != 0,
          .count_padding = g.count_padding != 0};
}

LinearBackwardTensors linear_gradients_of(const plumb_linear_gradients* given) {
  const plumb_linear_gradients from = sized(at(given, "tensors"), "tensors");
  return {.x = view_if(from.x, "x"),
          .w = view_if(from.w, "w"),
          .dy = view_of(from.dy, "dy"),
          .dx = view_if(from.dx, "dx"),
          .dw = view_if(from.dw, "dw"),
          .db = view_if(from.db, "db"),
          .mask = view_if(from.mask, "mask")};
}

SgdOptions sgd_options_of(const plumb_sgd_options* given) {
  if (!given) return {};
  const plumb_sgd_options from = sized(*given, "options");
  if (from.reserved != 0) refuse(fmt::format("options.reserved is {}; expected 0", from.reserved));
  return {.learning_rate = from.learning_rate,
          .momentum = from.momentum,
          .weight_decay = from.weight_decay,
          .nesterov = from.nesterov != 0};
}

TensorView view_if(const plumb_tensor* tensor, const char* name) {
  return tensor ? view_of(tensor, name) : TensorView();
}

TensorView view_of(const plumb_tensor* tensor, const char* name) {
  const plumb_tensor& t = at(tensor, name);
  if (t.rank < 1 || t.rank > Dims::max_rank)
    refuse(fmt::format("{} has rank {}; expected 1 to {}", name, t.rank, Dims::max_rank));
  const auto rank = static_cast<std::size_t>(t.rank);
  return {t.data, dtype_of(t.dtype), Extents(t.extents, rank),
          t.device ? t.device->device.id() : host, Strides(t.strides, rank)};
}

ConvTensors tensors_of(const plumb_tensor* x, const plumb_tensor* w, const plumb_tensor* bias,
                       const plumb_tensor* y) {
  return {.x = view_of(x, "x"),
          .w = view_of(w, "w"),
          .bias = bias ? ConstTensorView(view_of(bias, "bias")) : ConstTensorView(),
          .y = view_of(y, "y")};
}

}  // namespace plumb::c

using plumb::c::at;
using plumb::c::run;

plumb_status plumb_conv_problem_init(plumb_conv_problem* problem) {
  return run(__func__, [&] {
    at(problem, "problem") = {.n = 1, .c = 1, .h = 1, .w = 1, .k = 1, .r = 1, .s = 1};
    plumb_conv_geometry_init(&problem->geometry);
  });
}

plumb_status plumb_conv_problem_nd_init(plumb_conv_problem_nd* problem) {
  return run(__func__, [&] {
    at(problem, "problem") = {.struct_size = sizeof(plumb_conv_problem_nd),
                              .n = 1,
                              .c = 1,
                              .d = 1,
                              .h = 1,
                              .w = 1,
                              .k = 1,
                              .t = 1,
                              .r = 1,
                              .s = 1};
  });
}

plumb_status plumb_conv_options_nd_init(plumb_conv_options_nd* options) {
  return run(__func__, [&] {
    at(options, "options") = {.struct_size = sizeof(plumb_conv_options_nd),
                              .math = PLUMB_FP32,
                              .workspace_limit_bytes = std::numeric_limits<std::size_t>::max()};
  });
}

plumb_status plumb_conv_options_init(plumb_conv_options* options) {
  return run(__func__, [&] {
    at(options, "options") = {.math = PLUMB_FP32,
                              .workspace_limit_bytes = std::numeric_limits<std::size_t>::max()};
  });
}

plumb_status plumb_tensor_init(plumb_tensor* tensor, const void* data, const plumb_device* device,
                               plumb_dtype dtype, std::int32_t rank, const std::int64_t* extents,
                               const std::int64_t* strides) {
  return run(__func__, [&] {
    at(tensor, "tensor") = {};
    at(extents, "extents");
    plumb_tensor made{.data = const_cast<void*>(data),  // inputs and outputs are one type in C
                      .device = device,
                      .dtype = dtype,
                      .rank = rank};
    plumb::c::dtype_of(dtype);
    if (rank < 1 || rank > plumb::Dims::max_rank)
      plumb::c::refuse(fmt::format("rank {}; expected 1 to {}", rank, plumb::Dims::max_rank));
    const plumb::Extents given(extents, static_cast<std::size_t>(rank));
    plumb::element_count(given);  // throws on what dense_strides() could not take
    const plumb::Strides dense = plumb::dense_strides(given);
    for (int i = 0; i < rank; ++i) {
      made.extents[i] = extents[i];
      made.strides[i] = strides ? strides[i] : dense[i];
    }
    *tensor = made;
  });
}
