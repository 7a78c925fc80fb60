// Sizes, strides and windows at the ends of 64 bits: each is refused by its value, and nothing that
// is computed from it overflows (the preset asan runs this under UBSan, which ends the process).
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <limits>
#include <vector>

#include "plumb/plumb.hpp"
#include "support/refusal.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using plumb_test::refusal;

namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max(),
                       least = std::numeric_limits<std::int64_t>::min(),
                       large = std::int64_t{1} << 62;
constexpr std::int64_t extremes[] = {most,   most - 1,           least, least + 1, large,
                                     -large, 7905747460161236407};

template <class F>
void refused(const F& call, const std::string& value) {
  const Error error = refusal(call);
  CHECK(error.code() == ErrorCode::invalid_argument);
  CHECK_THAT(error.what(), ContainsSubstring(value));
}

}  // namespace

TEST_CASE("extremes: each value of a pooling is refused by its name") {
  const auto with = [](auto change, std::int64_t value) {
    PoolGeometry geometry{.window = 2};
    change(geometry, value);
    refused([&] { pooled_extents({1, 1, 8, 8}, geometry); }, std::to_string(value));
  };
  for (const std::int64_t value : extremes) {
    CAPTURE(value);
    with([](auto& g, auto v) { g.window.h = v; }, value);
    with([](auto& g, auto v) { g.window.w = v; }, value);
    with([](auto& g, auto v) { g.stride.h = v; }, value);
    with([](auto& g, auto v) { g.stride.w = v; }, value);
    with([](auto& g, auto v) { g.dilation.h = v; }, value);
    with([](auto& g, auto v) { g.dilation.w = v; }, value);
    with([](auto& g, auto v) { g.padding.top = v; }, value);
    with([](auto& g, auto v) { g.padding.left = v; }, value);
    with([](auto& g, auto v) { g.padding.bottom = v; }, value);
    with([](auto& g, auto v) { g.padding.right = v; }, value);
    refused([&] { pooled_extents({1, 1, value, 8}, {}); }, std::to_string(value));
    refused([&] { pooled_extents({value, 1, 8, 8}, {}); }, std::to_string(value));
  }
  // Products that wrapped into something small: 7 * dilation + 1, and a padding beside it.
  refused(
      [] {
        pooled_extents({1, 1, 2, 2}, {.window = {8, 1}, .dilation = {7905747460161236407, 1}});
      },
      "dilation.h is 7905747460161236407");
  refused(
      [] {
        pooled_extents(
            {1, 1, 2, 2},
            {.window = {2, 1}, .dilation = {most, 1}, .padding = {most - 1, 0, most - 1, 0}});
      },
      std::to_string(most));
  // The largest that are taken as sizes.
  constexpr std::int64_t limit = std::int64_t{1} << 48;
  refused(
      [] {
        pooled_extents({1, 1, 2, 2}, {.window = {limit, 1}, .dilation = {limit, 1}});
      },
      "a window of 281474976710656 rows at dilation 281474976710656 does not fit");
  CHECK(pooled_extents({1, 1, limit, 8},
                       {.window = {2, 1}, .stride = {limit, 1}, .ceil_mode = true}) ==
        Extents{1, 1, 1, 8});
}

TEST_CASE("extremes: each value of a convolution is refused by its name") {
  for (const std::int64_t value : extremes) {
    CAPTURE(value);
    std::int64_t ConvProblem::*const sizes[] = {
        &ConvProblem::n, &ConvProblem::c, &ConvProblem::h, &ConvProblem::w,
        &ConvProblem::k, &ConvProblem::r, &ConvProblem::s, &ConvProblem::groups};
    for (const auto size : sizes) {
      ConvProblem problem;
      problem.*size = value;
      refused([&] { check(problem); }, std::to_string(value));
      CHECK(problem.p() >= 0);
      CHECK(problem.q() >= 0);
    }
    for (int field = 0; field < 8; ++field) {
      ConvProblem problem;
      problem.h = problem.w = 4, problem.r = problem.s = 2;
      std::int64_t* const fields[] = {&problem.stride.h,       &problem.stride.w,
                                      &problem.dilation.h,     &problem.dilation.w,
                                      &problem.padding.top,    &problem.padding.left,
                                      &problem.padding.bottom, &problem.padding.right};
      *fields[field] = value;
      refused([&] { check(problem); }, std::to_string(value));
      CHECK(problem.p() >= 0);
      CHECK(problem.q() >= 0);
    }
    for (int dimension = 0; dimension < 4; ++dimension) {
      ConvProblem problem;
      problem.n = problem.c = problem.h = problem.w = 2;
      Strides strides{8, 4, 2, 1};
      strides[dimension] = value;
      problem.x_strides = strides;
      refused([&] { check(problem); }, std::to_string(value));
      problem.x_strides = {};
      problem.y_strides = strides;
      refused([&] { check(problem); }, std::to_string(value));
    }
  }
  ConvProblem none;
  none.stride = 0;
  CHECK(none.p() == 0);
  // Each below the limit, and their sum above it.
  ConvProblem sum;
  sum.n = sum.c = sum.h = sum.w = 2;
  constexpr std::int64_t half = std::int64_t{1} << 57;
  sum.x_strides = {half, -half, half, 1};
  refused([&] { check(sum); }, std::to_string(half));
}

TEST_CASE("extremes: strides of what every operator reads and writes") {
  Queue queue(Device::open("cpu"));
  std::vector<float> from(16, 1), to(16, 9);
  const std::vector<float> kept = to;
  for (const std::int64_t value : extremes) {
    CAPTURE(value);
    const std::string named = std::to_string(value);
    for (int dimension = 0; dimension < 4; ++dimension) {
      const Extents extents{2, 2, 2, 2};
      Strides strides{8, 4, 2, 1};
      strides[dimension] = value;
      const TensorView x(from.data(), extents), y(to.data(), extents),
          far_x(from.data(), extents, strides), far_y(to.data(), extents, strides);
      refused([&] { relu(queue, far_x, y); }, named);
      refused([&] { relu(queue, x, far_y); }, named);
      refused([&] { pool(queue, far_x, y, {}); }, named);
      refused([&] { pool(queue, x, far_y, {}); }, named);
      refused([&] { resize_bilinear(queue, far_x, y); }, named);
      refused([&] { resize_bilinear(queue, x, far_y); }, named);
      refused([&] { copy(queue, far_x, far_y); }, named);
      refused([&] { slice(far_x, dimension, 1, 1); }, named);
      refused([&] { slice(ConstTensorView(far_x), dimension, 1, 1); }, named);
      refused([&] { reshape(far_x, {16}); }, named);
      refused([&] { Tensor(queue.device(), DType::f32, extents, strides); }, named);
      refused([&] { slice(x, dimension, value, 1); }, named);
      refused([&] { slice(x, dimension, 0, value); }, named);
      refused([&] { slice(x, dimension, value, value); }, named);
    }
    for (int dimension = 0; dimension < 2; ++dimension) {
      Strides strides{2, 1};
      strides[dimension] = value;
      const TensorView x(from.data(), {2, 2}), y(to.data(), {2, 2}),
          far_x(from.data(), {2, 2}, strides), far_y(to.data(), {2, 2}, strides);
      refused([&] { softmax(queue, far_x, y); }, named);
      refused([&] { softmax(queue, x, far_y); }, named);
      refused([&] { linear(queue, {.x = far_x, .w = x, .y = y}); }, named);
      refused([&] { linear(queue, {.x = x, .w = far_x, .y = y}); }, named);
      refused(
          [&] {
            linear(queue, {.x = x, .w = TensorView(from.data() + 8, {2, 2}), .y = far_y});
          },
          named);
    }
    // Extents too: of views, whose dense strides are made at once, and of memory.
    const auto relu_of = [&](const Extents& extents) {
      relu(queue, ConstTensorView(from.data(), extents), TensorView(to.data(), extents));
    };
    refused([&] { relu_of({value, 2}); }, named);
    refused([&] { relu_of({2, value, 2}); }, named);
    refused([&] { relu_of({value, value, value}); }, named);
    refused([&] { Tensor(queue.device(), DType::f64, {value, 3}); }, named);
    refused([&] { element_count({3, value}); }, named);
    refused([&] { strides_for(Layout::nhwc, {2, value, value, 2}); }, named);
    refused([&] { reshape(TensorView(from.data(), {16}), {value, 2}); }, named);
  }
  CHECK(to == kept);
  // A stride for each extent.
  const TensorView x(from.data(), {2, 2}), short_y(to.data(), {2, 2}, Strides{2});
  refused([&] { relu(queue, x, short_y); }, "y has 1 strides; expected 2");
  refused([&] { linear(queue, {.x = x, .w = x, .y = short_y}); }, "y has 1 strides; expected 2");
}
