// Copies, emulated: random layouts of both tensors, aligned and not, with and without padding.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <numeric>
#include <vector>

#include "draws.hpp"
#include "pad_run.hpp"
#include "support/sanitized.hpp"

using namespace plumb;
using namespace plumb_test::emulation;

namespace {

/// A tensor whose axes follow each other in memory in any order, with gaps at times.
struct Layout {
  Strides strides{0, 0, 0, 0, 0};
  std::int64_t first = 0, elements = 1;

  Layout(Random& random, const Extents& extents, const std::vector<int>& order) {
    const std::int64_t gaps = draw(random, 0, 3);  // of 0: any, of 1: up to whole vectors
    for (const int axis : order) {
      strides[axis] = elements;
      elements *= extents[axis];
      if (gaps == 0 && elements > 1) elements += draw(random, 0, 4);
      if (gaps == 1) elements = (elements + 7) / 8 * 8;
    }
    first = draw(random, 0, 2) == 0 ? draw(random, 1, 5) : 0;
    elements += first;
  }
};

std::vector<int> any_order(Random& random) {
  std::vector<int> order(5);
  std::iota(order.begin(), order.end(), 0);
  // Channels or columns innermost, as layouts have them, or any axis.
  std::shuffle(order.begin(), order.end(), random);
  const std::int64_t kind = draw(random, 0, 2);
  if (kind == 0) return {1, 4, 3, 2, 0};
  if (kind == 1) return {4, 3, 2, 1, 0};
  return order;
}

std::vector<char> noise(Random& random, std::size_t bytes) {
  std::vector<char> data(bytes);
  for (char& byte : data) byte = static_cast<char>(draw(random, 1, 255));
  return data;
}

struct Case {
  Extents x, y;
  Triple begin{0}, step{1};
};

Case draw_case(Random& random) {
  constexpr std::int64_t sizes[] = {1, 1, 2, 3, 8, 9, 16, 31, 64, 65, 72, 130};
  Case one;
  std::int64_t extents[5], elements = 1;
  for (std::int64_t& extent : extents) {
    do extent = sizes[draw(random, 0, 11)];
    while (elements * extent > 100000);
    elements *= extent;
  }
  one.x = one.y = {extents[0], extents[1], extents[2], extents[3], extents[4]};
  if (draw(random, 0, 4) != 0) return one;
  one.begin = {draw(random, -2, 2), draw(random, -2, 2), draw(random, -2, 2)};
  one.step = {draw(random, 1, 2), draw(random, 1, 2), draw(random, 1, 2)};
  return one;
}

/// Copies, and returns whether every byte of y's memory is what it has to be.
bool copies_right(Random& random, DType dtype, bool& transposed) {
  const Case one = draw_case(random);
  const std::size_t bytes = size_in_bytes(dtype);
  const Layout of_x(random, one.x, any_order(random)), of_y(random, one.y, any_order(random));
  const auto size = [&](const Layout& of) { return static_cast<std::size_t>(of.elements) * bytes; };
  const std::vector<char> x = noise(random, size(of_x));
  std::vector<char> y = noise(random, size(of_y)), expected = y;
  const auto at = [&](const Layout& of, const std::int64_t(&i)[5]) {
    std::int64_t element = of.first;
    for (int axis = 0; axis < 5; ++axis) element += i[axis] * of.strides[axis];
    return static_cast<std::size_t>(element) * bytes;
  };
  std::int64_t i[5];
  for (i[0] = 0; i[0] < one.y[0]; ++i[0])
    for (i[1] = 0; i[1] < one.y[1]; ++i[1])
      for (i[2] = 0; i[2] < one.y[2]; ++i[2])
        for (i[3] = 0; i[3] < one.y[3]; ++i[3])
          for (i[4] = 0; i[4] < one.y[4]; ++i[4]) {
            const std::int64_t from[5] = {i[0], i[1], one.begin.d + i[2] * one.step.d,
                                          one.begin.h + i[3] * one.step.h,
                                          one.begin.w + i[4] * one.step.w};
            bool inside = true;
            for (int axis = 2; axis < 5; ++axis)
              inside = inside && from[axis] >= 0 && from[axis] < one.x[axis];
            char* const to = expected.data() + at(of_y, i);
            if (inside)
              std::memcpy(to, x.data() + at(of_x, from), bytes);
            else
              std::memset(to, 0, bytes);
          }
  const auto first = [&](const Layout& of) { return static_cast<std::size_t>(of.first) * bytes; };
  const PadLaunch call{
      .x = ConstTensorView(x.data() + first(of_x), dtype, one.x, host, of_x.strides),
      .y = TensorView(y.data() + first(of_y), dtype, one.y, host, of_y.strides),
      .begin = one.begin,
      .step = one.step};
  transposed = is_transposed(call);
  run_pad(call);
  return y == expected;
}

}  // namespace

TEST_CASE("pad, emulated: random copies") {
  Random random(7);
  constexpr DType dtypes[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
  int transposed = 0;
  constexpr int copies = plumb_test::is_sanitized ? 60 : 400;
  for (int i = 0; i < copies; ++i) {
    CAPTURE(i);
    bool one = false;
    REQUIRE(copies_right(random, dtypes[i % 4], one));
    transposed += one ? 1 : 0;
  }
  CHECK(transposed > copies / 10);
}

TEST_CASE("pad, emulated: what is turned in shared memory") {
  float memory[1] = {};
  const auto turns = [&](const Extents& extents, const Strides& x, const Strides& y) {
    return is_transposed({.x = ConstTensorView(memory, DType::f32, extents, host, x),
                          .y = TensorView(memory, DType::f32, extents, host, y)});
  };
  const Extents image{2, 16, 1, 4, 4};
  const Strides planes{256, 16, 16, 4, 1}, channels{256, 1, 256, 64, 16};
  CHECK(turns(image, channels, planes));
  CHECK(turns(image, planes, channels));
  CHECK_FALSE(turns(image, planes, planes));
  CHECK_FALSE(turns({2, 4, 1, 4, 4}, {64, 1, 64, 16, 4}, {64, 16, 16, 4, 1}));  // few channels
}
