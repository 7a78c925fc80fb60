// Sums over all but the channels, emulated: the bits of the CPU's, for random extents and layouts.
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <vector>

#include "draws.hpp"
#include "pad_run.hpp"

using namespace plumb;
using namespace plumb_test::emulation;

namespace {

bool sums_as_the_cpu_does(Random& random, BackendQueue& cpu, DType dtype) {
  const Extents extents{draw(random, 1, 3), draw(random, 1, 3), draw(random, 1, 3),
                        draw(random, 1, 40), draw(random, 1, 120)};
  // Of rows with a gap behind them an image is not one axis.
  Extents rows = extents;
  rows[4] += draw(random, 0, 1) * 3;
  Strides strides = strides_for(draw(random, 0, 1) == 0 ? Layout::nhwc : Layout::nchw, rows);
  // Elements along an axis may be one and the same.
  for (int axis = 2; axis < 5; ++axis)
    if (draw(random, 0, 4) == 0) strides[axis] = 0;
  const std::int64_t count = element_count(rows);
  std::vector<double> x_memory(static_cast<std::size_t>(count)), y_memory(8), expected(8);
  const TensorView flat(x_memory.data(), dtype, {count}, host);
  std::normal_distribution<double> normal;
  for (std::int64_t i = 0; i < count; ++i) store_element(flat, i, normal(random));
  const ConstTensorView x(x_memory.data(), dtype, extents, host, strides);
  const std::int64_t step = draw(random, 1, 2);
  const bool accumulate = draw(random, 0, 1) == 0;
  const auto into = [&](std::vector<double>& memory) {
    const TensorView all(memory.data(), dtype, {8}, host);
    for (std::int64_t i = 0; i < 8; ++i) store_element(all, i, static_cast<double>(i) - 2);
    return TensorView(memory.data(), dtype, {extents[1]}, host, {step});
  };
  run_sum({.x = x, .y = into(y_memory), .accumulate = accumulate});
  cpu.sum_channels({.x = x, .y = into(expected), .accumulate = accumulate});
  cpu.synchronize();
  return std::memcmp(y_memory.data(), expected.data(), 8 * sizeof(double)) == 0;
}

}  // namespace

TEST_CASE("sums, emulated: random channels as the CPU sums them") {
  Random random(5);
  const auto device = load_backend("cpu").backend->open(0);
  const auto cpu = device->make_queue();
  constexpr DType dtypes[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
  for (int i = 0; i < 120; ++i) {
    CAPTURE(i);
    REQUIRE(sums_as_the_cpu_does(random, *cpu, dtypes[i % 4]));
  }
}
