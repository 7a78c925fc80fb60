// The C interface in one to three dimensions does what the C++ one does, on every device.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "c_case.hpp"
#include "support/devices.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::c;
using Catch::Matchers::ContainsSubstring;

namespace {

plumb_conv_geometry_nd plain() {
  plumb_conv_geometry_nd geometry;
  REQUIRE(plumb_conv_geometry_nd_init(&geometry) == PLUMB_OK);
  return geometry;
}

plumb_conv_options_nd accumulating() {
  plumb_conv_options_nd options;
  REQUIRE(plumb_conv_options_nd_init(&options) == PLUMB_OK);
  options.bias = options.accumulate = 1;
  options.activation = PLUMB_RELU;
  return options;
}

plumb_conv_geometry_nd deep_geometry() {
  plumb_conv_geometry_nd geometry = plain();
  geometry.stride_w = 2;
  geometry.dilation_d = 2;
  geometry.padding_front = geometry.padding_top = geometry.padding_right = 1;
  geometry.padding_back = geometry.padding_bottom = 2;
  geometry.groups = 2;
  geometry.boundary_d = PLUMB_PERIODIC;
  geometry.boundary_h = PLUMB_REFLECT;
  geometry.boundary_w = PLUMB_CLAMP;
  return geometry;
}

/// relu(conv(x, w) + bias + y) of two images of 4x5x6 with the geometry above, through C++.
struct Deep {
  const Extents x_extents{2, 4, 4, 5, 6}, w_extents{6, 2, 2, 3, 3}, y_extents{2, 6, 5, 6, 3};
  std::vector<float> x = values(2 * 4 * 4 * 5 * 6, 0.37f), w = values(6 * 2 * 2 * 3 * 3, 0.71f);
  std::vector<float> bias = values(6, 1.3f), before = values(2 * 6 * 5 * 6 * 3, 0.11f), y = before;
  explicit Deep(const Device& device) {
    conv_host(device,
              {.x = {x.data(), x_extents},
               .w = {w.data(), w_extents},
               .bias = {bias.data(), {6}},
               .y = {y.data(), y_extents}},
              {.stride = {1, 1, 2},
               .dilation = {2, 1, 1},
               .padding = {1, 1, 0, 2, 2, 1},
               .groups = 2,
               .boundary = {Boundary::periodic, Boundary::reflect, Boundary::clamp}},
              {.activation = Activation::relu, .accumulate = true});
    REQUIRE(y != before);
  }
};

std::vector<std::int64_t> listed(const Extents& extents) {
  return {extents.begin(), extents.end()};
}

plumb_conv_problem_nd problem_of(const plumb_conv_geometry_nd& geometry) {
  plumb_conv_problem_nd problem;
  REQUIRE(plumb_conv_problem_nd_init(&problem) == PLUMB_OK);
  problem.n = 2;
  problem.c = 4, problem.d = 4, problem.h = 5, problem.w = 6;
  problem.k = 6, problem.t = 2, problem.r = 3, problem.s = 3;
  problem.geometry = &geometry;
  return problem;
}

}  // namespace

TEST_CASE("c: a problem with a depth, boundaries and a sum, each way of calling") {
  const plumb_conv_geometry_nd geometry = deep_geometry();
  const plumb_conv_options_nd options = accumulating();
  const plumb_conv_problem_nd problem = problem_of(geometry);
  std::int64_t extents[5];
  REQUIRE(plumb_conv_output_extents_nd(&problem, extents) == PLUMB_OK);
  REQUIRE(Extents(extents, 5) == Extents{2, 6, 5, 6, 3});
  for (const Device& same : all_devices()) {
    const std::string spec = to_string(same.id());
    CAPTURE(spec);
    const Deep deep(same);
    const CDevice device(spec.c_str());
    const CQueue queue(device);
    const OnDevice x(device, queue, deep.x), w(device, queue, deep.w),
        bias(device, queue, deep.bias);
    {
      plumb_plan* plan = nullptr;
      REQUIRE(plumb_plan_create_nd(device, &problem, &options, &plan) == PLUMB_OK);
      const OnDevice y(device, queue, deep.before);
      REQUIRE(plumb_plan_execute(plan, queue, x, w, bias, y, nullptr) == PLUMB_OK);
      CHECK(y.download() == deep.y);
      plumb_plan_destroy(plan);
    }
    {
      const OnDevice y(device, queue, deep.before);
      const plumb_tensor tx = tensor(x, device, listed(deep.x_extents)),
                         tw = tensor(w, device, listed(deep.w_extents)),
                         tb = tensor(bias, device, {6}),
                         ty = tensor(y, device, listed(deep.y_extents));
      REQUIRE(plumb_conv_nd(queue, &tx, &tw, &tb, &ty, &geometry, &options) == PLUMB_OK);
      CHECK(y.download() == deep.y);
    }
    std::vector<float> y = deep.before;
    const plumb_tensor tx = tensor(deep.x.data(), nullptr, listed(deep.x_extents)),
                       tw = tensor(deep.w.data(), nullptr, listed(deep.w_extents)),
                       tb = tensor(deep.bias.data(), nullptr, {6}),
                       ty = tensor(y.data(), nullptr, listed(deep.y_extents));
    REQUIRE(plumb_conv_host_nd(device, &tx, &tw, &tb, &ty, &geometry, &options) == PLUMB_OK);
    CHECK(y == deep.y);
  }
}

TEST_CASE("c: images of one axis and of two, and no geometry or options") {
  const CDevice device;
  const CQueue queue(device);
  const std::vector<float> x{1, 2, 3, 4, 5}, w{1, 10, 100};
  std::vector<float> y(5, -1);
  const plumb_tensor tx = tensor(x.data(), device, {1, 1, 5}),
                     tw = tensor(w.data(), device, {1, 1, 3});
  plumb_tensor ty = tensor(y.data(), device, {1, 1, 5});
  plumb_conv_geometry_nd geometry = plain();
  REQUIRE(plumb_conv_geometry_nd_set_padding(&geometry, 1) == PLUMB_OK);
  const std::pair<plumb_boundary, std::vector<float>> shown[] = {
      {PLUMB_ZEROS, {210, 321, 432, 543, 54}},
      {PLUMB_PERIODIC, {215, 321, 432, 543, 154}},
      {PLUMB_REFLECT, {212, 321, 432, 543, 454}},
      {PLUMB_SYMMETRIC, {211, 321, 432, 543, 554}},
      {PLUMB_CLAMP, {211, 321, 432, 543, 554}}};
  for (const auto& [boundary, expected] : shown) {
    REQUIRE(plumb_conv_geometry_nd_set_boundary(&geometry, boundary) == PLUMB_OK);
    REQUIRE(plumb_conv_nd(queue, &tx, &tw, nullptr, &ty, &geometry, nullptr) == PLUMB_OK);
    CHECK(y == expected);
  }
  y = {-1, -1, -1};
  ty = tensor(y.data(), device, {1, 1, 1, 3});
  const plumb_tensor plate = tensor(x.data(), device, {1, 1, 1, 5}),
                     row = tensor(w.data(), device, {1, 1, 1, 3});
  REQUIRE(plumb_conv_nd(queue, &plate, &row, nullptr, &ty, nullptr, nullptr) == PLUMB_OK);
  CHECK(y == std::vector<float>{321, 432, 543});

  // The calls of plumb.h take the tensors too; they have nothing to say along a depth.
  y = {-1, -1, -1};
  const plumb_tensor block = tensor(x.data(), device, {1, 1, 5, 1, 1}),
                     column = tensor(w.data(), device, {1, 1, 3, 1, 1});
  ty = tensor(y.data(), device, {1, 1, 3, 1, 1});
  REQUIRE(plumb_conv(queue, &block, &column, nullptr, &ty, nullptr, nullptr) == PLUMB_OK);
  CHECK(y == std::vector<float>{321, 432, 543});
}

TEST_CASE("c: five strides, of which an image without a depth has no use for one") {
  const CDevice device;
  const CQueue queue(device);
  plumb_conv_problem_nd problem;
  REQUIRE(plumb_conv_problem_nd_init(&problem) == PLUMB_OK);
  problem.w = 4;
  const std::int64_t every_other[] = {8, 8, 77, 8, 2};
  problem.x_strides = every_other;
  std::int64_t extents[5];
  REQUIRE(plumb_conv_output_extents_nd(&problem, extents) == PLUMB_OK);
  REQUIRE(Extents(extents, 5) == Extents{1, 1, 1, 1, 4});
  plumb_plan* plan = nullptr;
  REQUIRE(plumb_plan_create_nd(device, &problem, nullptr, &plan) == PLUMB_OK);
  const std::vector<float> x{1, 0, 2, 0, 3, 0, 4, 0}, w{2};
  std::vector<float> y(4, NAN);
  REQUIRE(plumb_plan_execute(plan, queue, x.data(), w.data(), nullptr, y.data(), nullptr) ==
          PLUMB_OK);
  REQUIRE(y == std::vector<float>{2, 4, 6, 8});
  plumb_plan_destroy(plan);
}

TEST_CASE("c: explain and validate in three dimensions") {
  const CDevice device;
  const plumb_conv_geometry_nd geometry = deep_geometry();
  const plumb_conv_problem_nd problem = problem_of(geometry);
  const plumb_conv_options_nd options = accumulating();
  plumb_explanation* explanation = nullptr;
  REQUIRE(plumb_explain_nd(device, &problem, &options, &explanation) == PLUMB_OK);
  plumb_plan* plan = nullptr;
  REQUIRE(plumb_plan_create_nd(device, &problem, &options, &plan) == PLUMB_OK);
  ConvProblem same;
  same.n = 2, same.c = 4, same.d = 4, same.h = 5, same.w = 6;
  same.k = 6, same.t = 2, same.r = 3, same.s = 3, same.groups = 2;
  same.stride = {1, 1, 2}, same.dilation = {2, 1, 1}, same.padding = {1, 1, 0, 2, 2, 1};
  same.boundary = {Boundary::periodic, Boundary::reflect, Boundary::clamp};
  const auto expected = explain(Device::open("cpu"), same, {.bias = true, .accumulate = true});
  std::size_t size = 0;
  REQUIRE(plumb_explanation_size(explanation, &size) == PLUMB_OK);
  REQUIRE(size == expected.size());
  for (std::size_t i = 0; i < size; ++i) {
    plumb_candidate candidate;
    std::int32_t copies = -1, fused = -1;
    REQUIRE(plumb_explanation_entry(explanation, i, &candidate) == PLUMB_OK);
    REQUIRE(plumb_explanation_stages(explanation, i, &copies, &fused) == PLUMB_OK);
    CHECK(candidate.algorithm == expected[i].algorithm);
    CHECK(candidate.workspace_bytes == expected[i].workspace_bytes);
    CHECK((copies != 0) == expected[i].copies_input);
    CHECK((fused != 0) == expected[i].accumulate_fused);
  }
  std::int32_t number = -1;
  REQUIRE(plumb_explanation_stages(explanation, size, &number, &number) == PLUMB_INVALID_ARGUMENT);
  plumb_explanation_destroy(explanation);
  plumb_plan_destroy(plan);

  plumb_validation validation;
  REQUIRE(plumb_validate_nd(device, &problem, nullptr, &validation) == PLUMB_OK);
  CAPTURE(validation.sentence);
  CHECK(validation.passed == 1);
  CHECK(validation.max_error_over_bound > 0);
}

TEST_CASE("c: what a struct with a size cannot be is refused by its values") {
  const CDevice device;
  plumb_conv_geometry_nd geometry = plain();
  plumb_conv_problem_nd problem = problem_of(geometry);
  plumb_conv_options_nd options = accumulating();
  plumb_plan* plan = nullptr;
  const auto refused = [&](const char* message) {
    CHECK(plumb_plan_create_nd(device, &problem, &options, &plan) == PLUMB_INVALID_ARGUMENT);
    CHECK(plan == nullptr);
    CHECK_THAT(plumb_last_message(), ContainsSubstring(message));
  };
  geometry.boundary_h = 5;
  refused("boundary_h is 5; expected 0 to 4");
  geometry.boundary_h = 0;
  geometry.stride_d = 0;
  refused("stride.d is 0");
  geometry.stride_d = 1;
  geometry.struct_size = 0;
  refused("geometry.struct_size is 0; expected at least");
  geometry.struct_size = sizeof geometry;
  problem.struct_size = sizeof problem - 8;
  refused("problem.struct_size is");
  problem.struct_size = sizeof problem;
  problem.direction = 3;
  refused("direction is 3; expected 0 to 2");
  problem.direction = PLUMB_FORWARD;
  options.relu_mask = 1;
  refused("masked; expected a gradient");
  options.relu_mask = 0;
  problem.d = 1, problem.t = 1;
  geometry.pool = PLUMB_MAX_POOL_2X2;
  refused("accumulated and pooled");
  geometry.pool = PLUMB_NO_POOL;

  // Of a program compiled against a later header: what is behind has its default, or is refused.
  struct {
    plumb_conv_options_nd known;
    std::int64_t unknown;
  } later{options, 0};
  later.known.struct_size = sizeof later;
  REQUIRE(plumb_plan_create_nd(device, &problem, &later.known, &plan) == PLUMB_OK);
  plumb_plan_destroy(plan);
  later.unknown = 256;
  REQUIRE(plumb_plan_create_nd(device, &problem, &later.known, &plan) == PLUMB_INVALID_ARGUMENT);
  REQUIRE_THAT(plumb_last_message(),
               ContainsSubstring("options.struct_size is") && ContainsSubstring("expects zeros"));
}

TEST_CASE("C: gradients are those of C++, by calls and by plans", "[c]") {
  const Device cpu = Device::open("cpu");
  Queue cpp_queue(cpu);
  plumb_device* device = nullptr;
  plumb_queue* queue = nullptr;
  REQUIRE(plumb_device_open("cpu", nullptr, &device) == PLUMB_OK);
  REQUIRE(plumb_queue_create(device, &queue) == PLUMB_OK);
  const Extents x_extents{2, 3, 9, 8}, w_extents{4, 3, 3, 3}, y_extents{2, 4, 5, 4};
  std::vector<float> x = values(2 * 3 * 9 * 8, 0.37f), w = values(4 * 3 * 9, 0.71f),
                     dy = values(2 * 4 * 5 * 4, 0.53f), mask = values(2 * 4 * 5 * 4, 0.91f);
  std::vector<float> dx(x.size()), dw(w.size()), db(4), expected_dx = dx, expected_dw = dw,
                                                        expected_db = db;
  const ConvGeometry geometry{.stride = 2, .padding = 1};
  conv_backward_data(cpp_queue,
                     {.dy = {dy.data(), y_extents},
                      .w = {w.data(), w_extents},
                      .dx = {expected_dx.data(), x_extents},
                      .mask = {mask.data(), y_extents}},
                     geometry);
  conv_backward_weights(cpp_queue,
                        {.x = {x.data(), x_extents},
                         .dy = {dy.data(), y_extents},
                         .dw = {expected_dw.data(), w_extents},
                         .db = {expected_db.data(), {4}}},
                        geometry);
  const auto tensor = [](const std::vector<float>& data, const Extents& extents) {
    plumb_tensor made;
    REQUIRE(plumb_tensor_init(&made, data.data(), nullptr, PLUMB_F32, extents.rank(),
                              extents.begin(), nullptr) == PLUMB_OK);
    return made;
  };
  const plumb_tensor c_x = tensor(x, x_extents), c_w = tensor(w, w_extents),
                     c_dy = tensor(dy, y_extents), c_mask = tensor(mask, y_extents),
                     c_dx = tensor(dx, x_extents), c_dw = tensor(dw, w_extents),
                     c_db = tensor(db, {4});
  plumb_conv_geometry_nd c_geometry = plain();
  c_geometry.stride_h = c_geometry.stride_w = 2;
  c_geometry.padding_top = c_geometry.padding_left = 1;
  c_geometry.padding_bottom = c_geometry.padding_right = 1;
  CHECK(plumb_conv_backward_data(queue, &c_dy, &c_w, &c_dx, &c_mask, nullptr, &c_geometry,
                                 nullptr) == PLUMB_OK);
  CHECK(dx == expected_dx);
  CHECK(plumb_conv_backward_weights(queue, &c_x, &c_dy, &c_dw, &c_db, nullptr, &c_geometry,
                                    nullptr) == PLUMB_OK);
  CHECK(dw == expected_dw);
  CHECK(db == expected_db);
  std::fill(dx.begin(), dx.end(), 0.0f), std::fill(dw.begin(), dw.end(), 0.0f);
  std::fill(db.begin(), db.end(), 0.0f);
  CHECK(plumb_conv_backward_data_host(device, &c_dy, &c_w, &c_dx, &c_mask, nullptr, &c_geometry,
                                      nullptr) == PLUMB_OK);
  CHECK(dx == expected_dx);
  CHECK(plumb_conv_backward_weights_host(device, &c_x, &c_dy, &c_dw, &c_db, nullptr, &c_geometry,
                                         nullptr) == PLUMB_OK);
  CHECK(dw == expected_dw);
  CHECK(db == expected_db);

  plumb_conv_problem_nd problem;
  REQUIRE(plumb_conv_problem_nd_init(&problem) == PLUMB_OK);
  problem.n = 2, problem.c = 3, problem.h = 9, problem.w = 8;
  problem.k = 4, problem.r = 3, problem.s = 3;
  problem.geometry = &c_geometry;
  problem.direction = PLUMB_BACKWARD_WEIGHTS;
  plumb_conv_options_nd options;
  REQUIRE(plumb_conv_options_nd_init(&options) == PLUMB_OK);
  options.bias = 1;
  plumb_plan* plan = nullptr;
  REQUIRE(plumb_plan_create_nd(device, &problem, &options, &plan) == PLUMB_OK);
  std::fill(dw.begin(), dw.end(), 0.0f), std::fill(db.begin(), db.end(), 0.0f);
  CHECK(plumb_plan_execute_gradient(plan, queue, x.data(), dy.data(), nullptr, nullptr, dw.data(),
                                    db.data(), nullptr) == PLUMB_OK);
  CHECK(dw == expected_dw);
  CHECK(db == expected_db);
  plumb_plan_destroy(plan);

  std::vector<float> y(x.size());
  const plumb_tensor c_y = tensor(y, x_extents);
  CHECK(plumb_conv_transpose(queue, &c_dy, &c_w, nullptr, &c_y, &c_geometry, nullptr) == PLUMB_OK);
  conv_backward_data(cpp_queue,
                     {.dy = {dy.data(), y_extents},
                      .w = {w.data(), w_extents},
                      .dx = {expected_dx.data(), x_extents}},
                     geometry);
  CHECK(y == expected_dx);
  std::fill(y.begin(), y.end(), 0.0f);
  CHECK(plumb_conv_transpose_host(device, &c_dy, &c_w, nullptr, &c_y, &c_geometry, nullptr) ==
        PLUMB_OK);
  CHECK(y == expected_dx);
  CHECK(plumb_conv_transpose(queue, &c_x, &c_w, nullptr, &c_y, &c_geometry, nullptr) ==
        PLUMB_INVALID_ARGUMENT);
  plumb_queue_destroy(queue);
  plumb_device_close(device);
}
