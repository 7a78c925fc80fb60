// The values that plumb.h starts geometries with, and one number for several of their fields.
#include <initializer_list>

#include "handles.hpp"

using plumb::c::at;
using plumb::c::run;

namespace {

template <class Geometry, class Value>
plumb_status set(const char* function, Geometry* geometry, Value value,
                 std::initializer_list<Value Geometry::*> fields) {
  return run(function, [&] {
    for (const auto field : fields) at(geometry, "geometry").*field = value;
  });
}

}  // namespace

plumb_status plumb_conv_geometry_init(plumb_conv_geometry* geometry) {
  return run(__func__, [&] {
    at(geometry, "geometry") = {
        .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1, .groups = 1};
  });
}

plumb_status plumb_conv_geometry_set_stride(plumb_conv_geometry* geometry, std::int64_t both) {
  using G = plumb_conv_geometry;
  return set(__func__, geometry, both, {&G::stride_h, &G::stride_w});
}

plumb_status plumb_conv_geometry_set_dilation(plumb_conv_geometry* geometry, std::int64_t both) {
  using G = plumb_conv_geometry;
  return set(__func__, geometry, both, {&G::dilation_h, &G::dilation_w});
}

plumb_status plumb_conv_geometry_set_padding(plumb_conv_geometry* geometry,
                                             std::int64_t every_side) {
  using G = plumb_conv_geometry;
  return set(__func__, geometry, every_side,
             {&G::padding_top, &G::padding_left, &G::padding_bottom, &G::padding_right});
}

plumb_status plumb_conv_geometry_nd_init(plumb_conv_geometry_nd* geometry) {
  return run(__func__, [&] {
    at(geometry, "geometry") = {.struct_size = sizeof(plumb_conv_geometry_nd),
                                .stride_d = 1,
                                .stride_h = 1,
                                .stride_w = 1,
                                .dilation_d = 1,
                                .dilation_h = 1,
                                .dilation_w = 1,
                                .groups = 1};
  });
}

plumb_status plumb_conv_geometry_nd_set_stride(plumb_conv_geometry_nd* geometry, std::int64_t all) {
  using G = plumb_conv_geometry_nd;
  return set(__func__, geometry, all, {&G::stride_d, &G::stride_h, &G::stride_w});
}

plumb_status plumb_conv_geometry_nd_set_dilation(plumb_conv_geometry_nd* geometry,
                                                 std::int64_t all) {
  using G = plumb_conv_geometry_nd;
  return set(__func__, geometry, all, {&G::dilation_d, &G::dilation_h, &G::dilation_w});
}

plumb_status plumb_conv_geometry_nd_set_padding(plumb_conv_geometry_nd* geometry,
                                                std::int64_t every_side) {
  using G = plumb_conv_geometry_nd;
  return set(__func__, geometry, every_side,
             {&G::padding_front, &G::padding_top, &G::padding_left, &G::padding_back,
              &G::padding_bottom, &G::padding_right});
}

plumb_status plumb_conv_geometry_nd_set_boundary(plumb_conv_geometry_nd* geometry,
                                                 plumb_boundary all) {
  using G = plumb_conv_geometry_nd;
  return set(__func__, geometry, all, {&G::boundary_d, &G::boundary_h, &G::boundary_w});
}

plumb_status plumb_pool_geometry_init(plumb_pool_geometry* geometry) {
  return run(__func__, [&] {
    at(geometry, "geometry") = {.window_h = 1,
                                .window_w = 1,
                                .stride_h = 1,
                                .stride_w = 1,
                                .dilation_h = 1,
                                .dilation_w = 1};
  });
}

plumb_status plumb_pool_geometry_set_window(plumb_pool_geometry* geometry, std::int64_t both) {
  using G = plumb_pool_geometry;
  return set(__func__, geometry, both, {&G::window_h, &G::window_w});
}

plumb_status plumb_pool_geometry_set_stride(plumb_pool_geometry* geometry, std::int64_t both) {
  using G = plumb_pool_geometry;
  return set(__func__, geometry, both, {&G::stride_h, &G::stride_w});
}

plumb_status plumb_pool_geometry_set_dilation(plumb_pool_geometry* geometry, std::int64_t both) {
  using G = plumb_pool_geometry;
  return set(__func__, geometry, both, {&G::dilation_h, &G::dilation_w});
}

plumb_status plumb_pool_geometry_set_padding(plumb_pool_geometry* geometry,
                                             std::int64_t every_side) {
  using G = plumb_pool_geometry;
  return set(__func__, geometry, every_side,
             {&G::padding_top, &G::padding_left, &G::padding_bottom, &G::padding_right});
}
