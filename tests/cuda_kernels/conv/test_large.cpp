// Indices beyond 2^31 on a GPU: checked at samples, because nothing here could check them all.
#ifdef PLUMB_TEST_CUDA
#include <cuda_runtime_api.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "plumb/backend.hpp"
#include "support/devices.hpp"

using namespace plumb;

namespace {

constexpr std::int64_t side = 46400;  // squared, more than 2^31

Half half(double value) { return Half(static_cast<float>(value)); }

void upload(Queue& queue, const std::vector<Half>& values, const TensorView& to) {
  copy(queue, ConstTensorView(values.data(), DType::f16, to.extents(), host, to.strides()), to);
  queue.synchronize();
}

std::vector<Half> download(Queue& queue, const ConstTensorView& from) {
  std::vector<Half> values(static_cast<std::size_t>(element_count(from.extents())));
  copy(queue, from, TensorView(values.data(), DType::f16, from.extents(), host, from.strides()));
  queue.synchronize();
  return values;
}

void fill_with_nan(Queue& queue, const Tensor& tensor) {
  const auto bytes = static_cast<std::size_t>(element_count(tensor.extents())) * sizeof(Half);
  REQUIRE(cudaMemsetAsync(tensor.data(), 0xff, bytes, static_cast<cudaStream_t>(queue.native())) ==
          cudaSuccess);
}

/// Calls `f(plan)` for each algorithm of the device that can run the problem.
template <class F>
int for_each_algorithm(const Device& device, const ConvProblem& problem, const F& f) {
  int count = 0;
  for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
    if (!algorithm->numerics.bounded) continue;  // another library's, which may round as it likes
    const ConvOptions options{.math = Math::fp16, .algorithm = std::string(algorithm->name)};
    const auto candidates = explain(device, problem, options);
    if (std::none_of(candidates.begin(), candidates.end(), [](auto& c) { return c.chosen; }))
      continue;
    CAPTURE(algorithm->name);
    f(ConvPlan(device, problem, options));
    ++count;
  }
  return count;
}

struct Pixel {
  std::int64_t p, q;
};
std::vector<Pixel> sampled_pixels() {
  constexpr std::int64_t last = side - 1;
  constexpr std::int64_t passes = (std::int64_t{1} << 31) / side;  // row of element 2^31
  std::vector<Pixel> pixels{{0, 0},      {0, last},      {last, 0},       {last, last},
                            {passes, 0}, {passes, last}, {passes + 1, 17}};
  std::mt19937_64 random(2031);
  std::uniform_int_distribution<std::int64_t> anywhere(0, last);
  for (int i = 0; i < 25; ++i) pixels.push_back({anywhere(random), anywhere(random)});
  return pixels;
}

Device gpu_with_room(std::size_t bytes) {
  const Device device = plumb_test::device_or_skip("cuda");
  if (device.free_bytes() < bytes)
    SKIP(device.free_bytes() << " bytes free on the GPU; this test needs " << bytes);
  return device;
}

}  // namespace

TEST_CASE("cuda: resizing and convolving more than 2^31 elements", "[large]") {
  const Device device = gpu_with_room(2 * side * side * sizeof(Half) + (std::size_t{1} << 28));
  Queue queue(device);
  constexpr std::int64_t coarse = 64;
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  std::vector<Half> grid(coarse * coarse), filter(9);
  for (Half& value : grid) value = half(normal(random));
  for (Half& value : filter) value = half(normal(random));
  const Tensor small(device, DType::f16, {1, 1, coarse, coarse});
  const Tensor w(device, DType::f16, {1, 1, 3, 3});
  const Tensor x(device, DType::f16, {1, 1, side, side});
  const Tensor y(device, DType::f16, {1, 1, side, side});
  upload(queue, grid, small);
  upload(queue, filter, w);
  fill_with_nan(queue, x);
  resize_bilinear(queue, small, x);
  const auto element = [&](const Tensor& tensor, const Pixel& at) {
    return static_cast<double>(static_cast<float>(
        download(queue, slice(slice(tensor.view(), 2, at.p, 1), 3, at.q, 1)).front()));
  };

  for (const auto& [p, q] : sampled_pixels()) {
    const auto between = [](std::int64_t output) {
      const double centre = (static_cast<double>(output) + 0.5) * coarse / side - 0.5;
      return std::clamp(centre, 0.0, static_cast<double>(coarse - 1));
    };
    const auto at = [&](std::int64_t h, std::int64_t column) {
      return static_cast<double>(static_cast<float>(grid[static_cast<std::size_t>(
          std::min(h, coarse - 1) * coarse + std::min(column, coarse - 1))]));
    };
    const auto h = static_cast<std::int64_t>(between(p)), c = static_cast<std::int64_t>(between(q));
    const double fh = between(p) - static_cast<double>(h), fc = between(q) - static_cast<double>(c);
    const double expected = std::lerp(std::lerp(at(h, c), at(h, c + 1), fc),
                                      std::lerp(at(h + 1, c), at(h + 1, c + 1), fc), fh);
    CAPTURE(p, q);
    // Half an f16 place, and what coordinates near `coarse` in float are off by.
    CHECK(std::abs(element(x, {p, q}) - expected) <= 0x1p-11 * std::abs(expected) + 1e-4);
  }

  ConvProblem problem;
  problem.dtype = DType::f16;
  problem.h = problem.w = side;
  problem.r = problem.s = 3;
  problem.padding = {1, 1, 1, 1};
  ConvProblem one_output = problem;  // the patch under one output, its padding written out
  one_output.h = one_output.w = 3;
  one_output.padding = {};
  const int run = for_each_algorithm(device, problem, [&](const ConvPlan& plan) {
    fill_with_nan(queue, y);
    plan.execute(queue, {.x = x, .w = w, .y = y});
    for (const auto& [p, q] : sampled_pixels()) {
      std::vector<Half> patch(9);
      for (std::int64_t r = 0; r < 3; ++r)
        for (std::int64_t s = 0; s < 3; ++s) {
          const Pixel at{p + r - 1, q + s - 1};
          if (at.p >= 0 && at.p < side && at.q >= 0 && at.q < side)
            patch[static_cast<std::size_t>(3 * r + s)] = half(element(x, at));
        }
      const OracleTerm oracle =
          conv_oracle_at(check(one_output), ConstTensorView(patch.data(), {1, 1, 3, 3}),
                         ConstTensorView(filter.data(), {1, 1, 3, 3}), {}, 0, 0, 0, 0);
      const double computed = element(y, {p, q});
      CAPTURE(p, q, computed, oracle.y);
      CHECK(std::abs(computed - oracle.y) <=
            conv_error_bound(plan.algorithm().numerics, one_output, oracle, computed));
    }
  });
  CHECK(run >= 2);
}

TEST_CASE("cuda: images that lie more than 2^31 elements apart", "[large]") {
  const Device device = gpu_with_room(side * side * sizeof(Half) + (std::size_t{1} << 28));
  Queue queue(device);
  const Tensor memory(device, DType::f16, {side * side});
  constexpr std::int64_t apart = side * side - 3 * 64 - 1;
  static_assert(apart > std::int64_t{1} << 31);
  ConvProblem problem;
  problem.dtype = DType::f16;
  problem.n = 2;
  problem.c = 3;
  problem.h = problem.w = 8;
  problem.k = 2;
  problem.r = problem.s = 3;
  problem.padding = {1, 0, 2, 1};
  problem.stride = {2, 1};
  std::vector<Half> values(2 * 3 * 64), filters(2 * 3 * 9);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = half(static_cast<double>(i % 9) - 4);
  for (std::size_t i = 0; i < filters.size(); ++i)
    filters[i] = half(static_cast<double>(i % 5) - 2);
  const auto oracle = conv_oracle(check(problem), ConstTensorView(values.data(), {2, 3, 8, 8}),
                                  ConstTensorView(filters.data(), {2, 3, 3, 3}));
  const Tensor w(device, DType::f16, problem.w_extents());
  const Tensor y(device, DType::f16, problem.y_extents());
  upload(queue, filters, w);

  for (const bool backwards : {false, true}) {  // the second image behind the first, or before it
    fill_with_nan(queue, memory);
    Half* const low = memory.data_as<Half>();
    const Strides strides{backwards ? -apart : apart, 64, 8, 1};
    const TensorView x(backwards ? low + apart : low, DType::f16, {2, 3, 8, 8}, device.id(),
                       strides);
    for (std::int64_t n = 0; n < 2; ++n) {
      const auto begin = values.begin() + n * 3 * 64;
      upload(queue, {begin, begin + 3 * 64},
             TensorView(static_cast<Half*>(x.data()) + n * strides[0], DType::f16, {3, 8, 8},
                        device.id()));
    }
    problem.x_strides = strides;
    const int run = for_each_algorithm(device, problem, [&](const ConvPlan& plan) {
      fill_with_nan(queue, y);
      plan.execute(queue, {.x = x, .w = w, .y = y});
      const std::vector<Half> computed = download(queue, y);
      CAPTURE(backwards);
      for (std::size_t i = 0; i < oracle.size(); ++i)
        REQUIRE(static_cast<double>(static_cast<float>(computed[i])) == oracle[i].y);
    });
    CHECK(run >= 2);
  }
}

namespace {

/// A field of more than 2^31 floats, which repeats a block whose length no row divides.
class LargeField {
 public:
  LargeField(const Device& device, Queue& queue, const Extents& extents)
      : field_(device, DType::f32, extents), block_((1 << 24) + 7) {
    std::mt19937 random(29);
    std::normal_distribution<float> normal;
    for (float& value : block_) value = normal(random);
    const std::int64_t all = element_count(extents), length = std::ssize(block_);
    for (std::int64_t first = 0; first < all; first += length) {
      const Extents run{std::min(length, all - first)};
      copy(queue, ConstTensorView(block_.data(), run),
           TensorView(field_.data_as<float>() + first, DType::f32, run, device.id()));
    }
    queue.synchronize();
  }
  const Tensor& tensor() const { return field_; }
  float at(std::int64_t element) const {
    return block_[static_cast<std::size_t>(element % std::ssize(block_))];
  }

 private:
  Tensor field_;
  std::vector<float> block_;
};

/// Where outputs are looked at: the corners, the plane of element 2^31, and anywhere.
std::vector<std::int64_t> sampled_outputs(std::int64_t all) {
  std::vector<std::int64_t> outputs{0, all - 1, std::int64_t{1} << 31, (std::int64_t{1} << 31) - 1};
  std::mt19937_64 random(31);
  std::uniform_int_distribution<std::int64_t> anywhere(0, all - 1);
  for (int i = 0; i < 60; ++i) outputs.push_back(anywhere(random));
  return outputs;
}

}  // namespace

TEST_CASE("cuda: periodic fields of more than 2^31 elements", "[large]") {
  ConvProblem problem;
  problem.padding = 1;
  problem.boundary = Boundary::periodic;
  problem.r = problem.s = 3;
  SECTION("a plane") { problem.h = problem.w = 46400; }
  SECTION("a volume") {
    problem.d = 1291, problem.h = 1300, problem.w = 1301;
    problem.t = 3;
  }
  problem = check(problem);
  const std::int64_t all = element_count(problem.x_extents());
  REQUIRE(all > std::int64_t{1} << 31);
  const Device device =
      gpu_with_room(2 * static_cast<std::size_t>(all) * sizeof(float) + (std::size_t{1} << 30));
  Queue queue(device);
  const LargeField x(device, queue, problem.x_extents());
  const Tensor y(device, DType::f32, problem.y_extents()),
      w(device, DType::f32, problem.w_extents());
  std::vector<float> filter(static_cast<std::size_t>(element_count(problem.w_extents())));
  std::iota(filter.begin(), filter.end(), -7.0f);
  copy(queue, ConstTensorView(filter.data(), problem.w_extents()), w);
  ConvProblem one_output = problem;  // the patch under one output, its padding written out
  one_output.d = problem.t, one_output.h = one_output.w = 3;
  one_output.padding = {};
  one_output.x_strides = one_output.w_strides = one_output.y_strides = {};
  one_output = check(one_output);

  const int run = for_each_algorithm(device, problem, [&](const ConvPlan& plan) {
    REQUIRE(cudaMemsetAsync(y.data(), 0xff, static_cast<std::size_t>(all) * sizeof(float),
                            static_cast<cudaStream_t>(queue.native())) == cudaSuccess);
    plan.execute(queue, {.x = x.tensor(), .w = w, .y = y});
    for (const std::int64_t output : sampled_outputs(all)) {
      const std::int64_t q = output % problem.w, p = output / problem.w % problem.h,
                         z = output / problem.w / problem.h;
      std::vector<float> patch;
      for (std::int64_t t = 0; t < problem.t; ++t)
        for (std::int64_t r = 0; r < 3; ++r)
          for (std::int64_t s = 0; s < 3; ++s) {
            const std::int64_t d = (z + t - problem.t / 2 + problem.d) % problem.d;
            const std::int64_t h = (p + r - 1 + problem.h) % problem.h;
            const std::int64_t column = (q + s - 1 + problem.w) % problem.w;
            patch.push_back(x.at((d * problem.h + h) * problem.w + column));
          }
      const OracleTerm oracle =
          conv_oracle_at(one_output, ConstTensorView(patch.data(), one_output.x_extents()),
                         ConstTensorView(filter.data(), one_output.w_extents()), {}, 0, 0, 0, 0, 0);
      float computed = 0;
      copy(queue, ConstTensorView(y.data_as<float>() + output, DType::f32, {1}, device.id()),
           TensorView(&computed, {1}));
      queue.synchronize();
      CAPTURE(z, p, q, computed, oracle.y);
      CHECK(std::abs(computed - oracle.y) <=
            conv_error_bound(plan.algorithm().numerics, one_output, oracle, computed));
    }
  });
  CHECK(run >= 2);
}
#endif
