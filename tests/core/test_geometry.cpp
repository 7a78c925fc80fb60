// One number is every side and both directions, two are height and width, four are each side: by
// the results, on every device and from C. tests/rules/as_users_write.cpp has the same as
// constants.
#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "plumb/plumb.hpp"
#include "support/c_handles.hpp"
#include "support/devices.hpp"
#include "support/host_tensor.hpp"

using namespace plumb;
using namespace plumb_test;

namespace {

struct Written {
  ConvGeometry short_form;
  std::int64_t stride[2], dilation[2], sides[4];  ///< height, width; top, left, bottom, right
};

const Written cases[] = {
    {{.padding = 1}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {{.padding = {1, 2}}, {1, 1}, {1, 1}, {1, 2, 1, 2}},
    {{.padding = {1, 2, 3, 0}}, {1, 1}, {1, 1}, {1, 2, 3, 0}},
    {{.stride = 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}},
    {{.stride = {2, 1}}, {2, 1}, {1, 1}, {0, 0, 0, 0}},
    {{.stride = 2, .dilation = 2, .padding = 2}, {2, 2}, {2, 2}, {2, 2, 2, 2}},
    {{.dilation = {1, 3}}, {1, 1}, {1, 3}, {0, 0, 0, 0}},
};

/// The problem with every field set by its name.
ConvProblem spelled_out(const Written& written) {
  ConvProblem problem;
  problem.n = 2, problem.c = 3, problem.h = 9, problem.w = 11;
  problem.k = 4, problem.r = 3, problem.s = 2;
  problem.stride.h = written.stride[0], problem.stride.w = written.stride[1];
  problem.dilation.h = written.dilation[0], problem.dilation.w = written.dilation[1];
  problem.padding.top = written.sides[0], problem.padding.left = written.sides[1];
  problem.padding.bottom = written.sides[2], problem.padding.right = written.sides[3];
  return check(problem);
}

}  // namespace

TEST_CASE("geometry: what one, two and four numbers mean, against the oracle") {
  for (const Device& device : all_devices()) {
    CAPTURE(device.info().name);
    for (const Written& written : cases) {
      const ConvProblem problem = spelled_out(written);
      CAPTURE(to_string(problem), problem.padding.bottom, problem.padding.right);
      Random random(5);
      HostTensor x(DType::f32, problem.x_extents()), w(DType::f32, problem.w_extents()),
          y(DType::f32, problem.y_extents());
      x.fill([&] { return random.integer(-4, 4); });
      w.fill([&] { return random.integer(-4, 4); });
      Queue queue(device);
      const DeviceTensor device_x(queue, x), device_w(queue, w), device_y(queue, y);
      conv(queue,
           {.x = ConstTensorView(device_x),
            .w = ConstTensorView(device_w),
            .y = TensorView(device_y)},
           written.short_form);
      device_y.read_back(queue, y);
      const std::vector<double> computed = y.values();
      const std::vector<OracleTerm> expected = conv_oracle(problem, x.view(), w.view());
      REQUIRE(computed.size() == expected.size());
      for (std::size_t i = 0; i < computed.size(); ++i) REQUIRE(computed[i] == expected[i].y);
    }
  }
}

TEST_CASE("geometry: pooling's window, stride and padding take one number likewise") {
  const Extents x{1, 2, 9, 11};
  CHECK(pooled_extents(x, {.window = 3}) == Extents{1, 2, 7, 9});
  CHECK(pooled_extents(x, {.window = 2, .stride = 2}) == Extents{1, 2, 4, 5});
  CHECK(pooled_extents(x, {.window = 3, .stride = 2, .padding = 1}) == Extents{1, 2, 5, 6});
  CHECK(pooled_extents(x, {.window = 3, .padding = {1, 2}}) == Extents{1, 2, 9, 13});
  CHECK(pooled_extents(x, {.window = 2, .dilation = 3}) == Extents{1, 2, 6, 8});
}

TEST_CASE("geometry: C's functions set every side and both directions") {
  plumb_conv_problem problem = small_problem();
  plumb_conv_geometry& g = problem.geometry;
  REQUIRE(plumb_conv_geometry_set_stride(&g, 2) == PLUMB_OK);
  REQUIRE(plumb_conv_geometry_set_dilation(&g, 3) == PLUMB_OK);
  REQUIRE(plumb_conv_geometry_set_padding(&g, 4) == PLUMB_OK);
  CHECK((g.stride_h == 2 && g.stride_w == 2 && g.dilation_h == 3 && g.dilation_w == 3));
  CHECK(
      (g.padding_top == 4 && g.padding_left == 4 && g.padding_bottom == 4 && g.padding_right == 4));
  CHECK(g.groups == small_problem().geometry.groups);
  std::int64_t extents[4] = {};
  REQUIRE(plumb_conv_output_extents(&problem, extents) == PLUMB_OK);
  CHECK((extents[2] == (8 + 8 - 7) / 2 + 1 && extents[3] == (9 + 8 - 7) / 2 + 1));

  plumb_pool_geometry pool;
  REQUIRE(plumb_pool_geometry_init(&pool) == PLUMB_OK);
  REQUIRE(plumb_pool_geometry_set_window(&pool, 3) == PLUMB_OK);
  REQUIRE(plumb_pool_geometry_set_stride(&pool, 2) == PLUMB_OK);
  REQUIRE(plumb_pool_geometry_set_dilation(&pool, 2) == PLUMB_OK);
  REQUIRE(plumb_pool_geometry_set_padding(&pool, 1) == PLUMB_OK);
  CHECK((pool.window_h == 3 && pool.window_w == 3 && pool.stride_h == 2 && pool.stride_w == 2));
  CHECK((pool.dilation_h == 2 && pool.dilation_w == 2 && pool.padding_top == 1 &&
         pool.padding_left == 1 && pool.padding_bottom == 1 && pool.padding_right == 1));
  const std::int64_t x[4] = {1, 1, 9, 11};
  REQUIRE(plumb_pooled_extents(x, &pool, extents) == PLUMB_OK);
  CHECK((extents[2] == (9 + 2 - 5) / 2 + 1 && extents[3] == (11 + 2 - 5) / 2 + 1));
}

TEST_CASE("geometry: in a problem's text a number without its width is both") {
  const ConvProblem problem = parse_problem("ic3ih9iw11oc4kh3sh2dh1ph1").problem;
  CHECK(problem.stride == Pair(2, 2));
  CHECK(problem.dilation == Pair(2, 2));
  CHECK(problem.padding == Padding(1, 1));
  CHECK(parse_problem("ic3ih9iw11oc4kh3ph1pw2").problem.padding == Padding(1, 2));
}
