// What the tests of training share: a small network, random values, and images that can be learnt.
#pragma once

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

#include "dataset.hpp"
#include "network.hpp"
#include "plumb/plumb.hpp"
#include "training/random.hpp"

namespace plumb_test::training {

using namespace plumb;
using namespace plumb::app;

using Values = std::vector<double>;

inline Values random_values(const Extents& extents, Random& random) {
  Values values(static_cast<std::size_t>(element_count(extents)));
  for (double& value : values) value = random.normal();
  return values;
}

/// The largest difference of the two, as a share of the largest expected value.
inline double relative_error(const Values& computed, const Values& expected) {
  REQUIRE(computed.size() == expected.size());
  double error = 0, scale = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    REQUIRE(std::isfinite(computed[i]));
    error = std::max(error, std::abs(computed[i] - expected[i]));
    scale = std::max(scale, std::abs(expected[i]));
  }
  REQUIRE(scale > 0);
  return error / scale;
}

/// Small, and with no two sizes alike where they could be confused.
constexpr NetworkShape small_shape{.image_height = 7,
                                   .image_width = 6,
                                   .resized = 13,
                                   .conv1_channels = 2,
                                   .conv2_channels = 3,
                                   .filter = 3,
                                   .pool1 = 2,
                                   .pool2 = 2,
                                   .hidden = 5,
                                   .classes = 4};

template <class T>
Values read(const ConstTensorView& view) {
  const T* begin = static_cast<const T*>(view.data());
  return {begin, begin + element_count(view.extents())};
}
template <class T>
void write(const Values& values, const TensorView& view) {
  std::transform(values.begin(), values.end(), static_cast<T*>(view.data()),
                 [](double value) { return static_cast<T>(value); });
}

/// Bars at a height that the class decides, over noise.
inline Dataset bars(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  Dataset dataset{{count, 28, 28, Bytes(static_cast<std::size_t>(count) * 784)}, {}};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::uint8_t>(random.below(10));
    dataset.labels.push_back(label);
    for (std::int64_t pixel = 0; pixel < 784; ++pixel) {
      const bool bar = pixel / 28 / 2 == label + 2;
      dataset.images.pixels[static_cast<std::size_t>(i * 784 + pixel)] =
          static_cast<std::uint8_t>((bar ? 180 : 0) + random.below(60));
    }
  }
  return dataset;
}

}  // namespace plumb_test::training
