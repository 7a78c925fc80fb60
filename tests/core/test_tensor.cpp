// Tensors, views of views, and copies, on every device that is there.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <numeric>
#include <vector>

#include "support/devices.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("data comes back from every device as it was sent") {
  for (const Device& device : plumb_test::all_devices()) {
    Queue queue(device);
    std::vector<float> sent(2 * 3 * 5 * 7), received(sent.size(), -1.0f);
    std::iota(sent.begin(), sent.end(), 1.0f);
    const Extents extents{2, 3, 5, 7};
    for (const Strides& strides :
         {strides_for(Layout::nchw, extents), strides_for(Layout::nhwc, extents)}) {
      const Tensor tensor(device, DType::f32, extents, strides);
      copy(queue, ConstTensorView(sent.data(), extents, strides), tensor);
      copy(queue, tensor, TensorView(received.data(), extents, strides));
      queue.synchronize();
      REQUIRE(received == sent);
    }
  }
}

TEST_CASE("a copy refuses what it cannot do, and says so") {
  const Device cpu = Device::open("cpu");
  Queue queue(cpu);
  std::vector<float> data(100);
  const ConstTensorView dense(data.data(), {4, 5});
  const TensorView other(data.data() + 20, {5, 4});
  REQUIRE_THROWS_MATCHES(
      copy(queue, dense, other), Error,
      MessageMatches(ContainsSubstring("[4, 5]") && ContainsSubstring("[5, 4]")));
  const TensorView gaps(data.data(), {4, 5}, {10, 1});
  REQUIRE_THROWS_MATCHES(copy(queue, gaps, gaps), Error,
                         MessageMatches(ContainsSubstring("without gaps")));
  const TensorView elsewhere(data.data(), DType::f32, {4, 5}, DeviceId{"cuda", 3});
  REQUIRE_THROWS_MATCHES(copy(queue, dense, elsewhere), Error,
                         MessageMatches(ContainsSubstring("cuda:3")));
}

TEST_CASE("slices and reshapes point where they should") {
  std::vector<float> data(24);
  std::iota(data.begin(), data.end(), 0.0f);
  const ConstTensorView view(data.data(), {2, 3, 4});
  const ConstTensorView part = slice(view, 1, 1, 2);
  REQUIRE(part.extents() == Extents{2, 2, 4});
  REQUIRE(*static_cast<const float*>(part.data()) == 4.0f);
  REQUIRE_FALSE(part.is_dense());
  REQUIRE(reshape(view, {6, 4}).extents() == Extents{6, 4});
  REQUIRE_THROWS_AS(reshape(part, {16}), Error);
  REQUIRE_THROWS_AS(reshape(view, {5, 5}), Error);
  REQUIRE_THROWS_AS(slice(view, 1, 2, 2), Error);
  REQUIRE_THROWS_AS(slice(view, 3, 0, 1), Error);
}

TEST_CASE("a tensor that cannot be had is an error that names the size") {
  for (const Device& device : plumb_test::all_devices()) {
    try {
      Tensor(device, DType::f32, {std::int64_t{1} << 50});
      FAIL("2^52 bytes were allocated on " << device.info().name);
    } catch (const Error& e) {
      REQUIRE(e.code() == ErrorCode::out_of_memory);
      REQUIRE_THAT(e.what(), ContainsSubstring("4503599627370496"));
    }
    REQUIRE_THROWS_AS(Tensor(device, DType::f32, {2, -3}), Error);
    REQUIRE_THROWS_AS(Tensor(device, DType::f32, {4, 4}, {1, 1}), Error);
    REQUIRE(Tensor(device, DType::f64, {0, 7}).view().extent(1) == 7);
  }
}

TEST_CASE("negative strides lie inside the tensor's own memory") {
  const Device cpu = Device::open("cpu");
  const Tensor reversed(cpu, DType::f32, {5}, {-1});
  for (int i = 0; i < 5; ++i) reversed.data_as<float>()[-i] = static_cast<float>(i);
  REQUIRE(reversed.data_as<float>()[-4] == 4.0f);
}
