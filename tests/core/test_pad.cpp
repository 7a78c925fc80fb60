// Copies of images with what lies around them, as backends make them, on every device that is
// there.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <random>
#include <vector>

#include "plumb/backend.hpp"
#include "support/devices.hpp"

using namespace plumb;

namespace {

/// Where a boundary shows an element, one step outside at a time; -1 where it shows none.
std::int64_t shown(Boundary boundary, std::int64_t i, std::int64_t extent) {
  if (boundary == Boundary::zeros) return i >= 0 && i < extent ? i : -1;
  while (i < 0 || i >= extent) {
    const bool below = i < 0;
    if (boundary == Boundary::clamp) return below ? 0 : extent - 1;
    if (boundary == Boundary::periodic) i += below ? extent : -extent;
    if (boundary == Boundary::symmetric) i = below ? -1 - i : 2 * extent - 1 - i;
    if (boundary == Boundary::reflect) i = below ? -i : 2 * extent - 2 - i;
  }
  return i;
}

}  // namespace

TEST_CASE("pad: every boundary, with a value in the place of zeros, in every dtype") {
  std::mt19937 random(21);
  const auto between = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  for (const Device& device : plumb_test::all_devices()) {
    Queue queue(device);
    for (int round = 0; round < 200; ++round) {
      const DType dtype = std::array{DType::f32, DType::f64, DType::f16, DType::bf16}[round % 4];
      const double outside =
          std::array{0.0, 1.5, -3.0, std::numeric_limits<double>::infinity()}[between(0, 3)];
      Extents from{between(1, 2), between(1, 2), between(1, 4), between(1, 4), between(1, 6)};
      Extents to{from[0], from[1], between(1, 6), between(1, 6), between(1, 40)};
      const auto one = [&](std::int64_t extent) {  // one element has no neighbour to be reflected
        const auto boundary = static_cast<Boundary>(between(0, 4));
        return boundary == Boundary::reflect && extent == 1 ? Boundary::clamp : boundary;
      };
      const Triple begin{between(-6, 4), between(-6, 4), between(-9, 7)};
      const Triple step{between(1, 2), between(1, 2), between(1, 2)};
      const Boundaries boundary{one(from[2]), one(from[3]), one(from[4])};
      std::vector<double> storage(static_cast<std::size_t>(element_count(from))),
          found(static_cast<std::size_t>(element_count(to)));
      const TensorView sent(storage.data(), dtype, from, host);
      const TensorView received(found.data(), dtype, to, host);
      for (std::int64_t i = 0; i < element_count(from); ++i)
        store_element(sent, i, between(-100, 100));
      const Tensor x(device, dtype, from), y(device, dtype, to);
      copy(queue, sent, x);
      queue.backend().pad(
          {.x = x, .y = y, .begin = begin, .step = step, .boundary = boundary, .outside = outside});
      copy(queue, y, received);
      queue.synchronize();
      std::int64_t element = 0;
      for (std::int64_t image = 0; image < to[0] * to[1]; ++image)
        for (std::int64_t i = 0; i < to[2]; ++i)
          for (std::int64_t j = 0; j < to[3]; ++j)
            for (std::int64_t k = 0; k < to[4]; ++k, ++element) {
              const std::int64_t d = shown(boundary.d, begin.d + i * step.d, from[2]);
              const std::int64_t h = shown(boundary.h, begin.h + j * step.h, from[3]);
              const std::int64_t w = shown(boundary.w, begin.w + k * step.w, from[4]);
              const double expected =
                  d < 0 || h < 0 || w < 0
                      ? outside
                      : load_element(sent, ((image * from[2] + d) * from[3] + h) * from[4] + w);
              CAPTURE(to_string(device.id()), round, i, j, k);
              REQUIRE(load_element(received, element) == expected);
            }
    }
  }
}
