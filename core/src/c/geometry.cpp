// The values that plumb.h starts geometries with, and one number for several of their fields.
#include <initializer_list>

#include "handles.hpp"

using plumb::c::at;
using plumb::c::run;

namespace {

template <class Geometry>
plumb_status set(const char* function, Geometry* geometry, std::int64_t value,
                 std::initializer_list<std::int64_t Geometry::*> fields) {
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
