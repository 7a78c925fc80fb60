// Tensors, views of views, and copies, on every device that is there.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "support/devices.hpp"
#include "support/host_tensor.hpp"

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
  const TensorView onto_itself(data.data() + 50, {4, 5}, {1, 1});
  REQUIRE_THROWS_MATCHES(copy(queue, dense, onto_itself), Error,
                         MessageMatches(ContainsSubstring("overlap")));
  const TensorView shifted(data.data() + 3, {4, 5}, {6, 1});
  REQUIRE_THROWS_MATCHES(copy(queue, dense, shifted), Error,
                         MessageMatches(ContainsSubstring("nothing in common")));
  REQUIRE_THROWS_AS(copy(queue, ConstTensorView(), shifted), Error);
  const TensorView nowhere(static_cast<float*>(nullptr), {4, 5}, {6, 1});
  REQUIRE_THROWS_MATCHES(copy(queue, dense, nowhere), Error,
                         MessageMatches(ContainsSubstring("null")));
  const TensorView doubles(static_cast<double*>(nullptr), {4, 5});
  REQUIRE_THROWS_MATCHES(copy(queue, dense, doubles), Error,
                         MessageMatches(ContainsSubstring("f64")));
  const TensorView elsewhere(data.data(), DType::f32, {4, 5}, DeviceId{"cuda", 3});
  REQUIRE_THROWS_MATCHES(copy(queue, dense, elsewhere), Error,
                         MessageMatches(ContainsSubstring("cuda:3")));
}

namespace {

/// Strides of a view that does not overlap itself: its axes in any order, some of them reversed,
/// with gaps between neighbours.
Strides any_strides(const Extents& extents, std::mt19937& random) {
  std::vector<int> order(extents.rank());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  Strides strides = extents;
  std::int64_t step = 1;
  for (const int axis : order) {
    step *= 1 + static_cast<std::int64_t>(random() % 2);
    strides[axis] = random() % 4 == 0 ? -step : step;
    step *= extents[axis];
  }
  return strides;
}

}  // namespace

TEST_CASE("views with gaps are copied between and within devices, and their gaps stay") {
  std::mt19937 random(7);
  for (const Device& device : plumb_test::all_devices()) {
    Queue queue(device);
    for (int round = 0; round < 150; ++round) {
      const DType dtype = static_cast<DType>(random() % 4);
      Extents extents;
      const int rank = 1 + static_cast<int>(random() % 6);
      std::int64_t sizes[6];
      for (std::int64_t& size : sizes) size = 1 + static_cast<std::int64_t>(random() % 4);
      extents = Extents(sizes, static_cast<std::size_t>(rank));
      plumb_test::HostTensor sent(dtype, extents, any_strides(extents, random));
      double next = 0;
      sent.fill(
          [&] { return ++next / 4; });  // at most 1024 values, which every dtype holds or rounds
      // Host to device, within the device, and back, each view with strides of its own.
      plumb_test::HostTensor first(dtype, extents, any_strides(extents, random));
      plumb_test::HostTensor second(dtype, extents, any_strides(extents, random));
      plumb_test::HostTensor received(dtype, extents, any_strides(extents, random));
      const plumb_test::DeviceTensor a(queue, first), b(queue, second);
      copy(queue, sent.view(), a);
      copy(queue, a, b);
      copy(queue, b, received.view());
      b.read_back(queue, second);
      INFO(device.info().name << ", " << to_string(dtype) << " " << to_string(extents));
      REQUIRE(second.values() == sent.values());
      REQUIRE(second.surroundings_untouched());
      REQUIRE(received.values() == sent.values());
      REQUIRE(received.surroundings_untouched());
    }
  }
}

TEST_CASE("what is copied may repeat or run backwards") {
  for (const Device& device : plumb_test::all_devices()) {
    Queue queue(device);
    const std::vector<double> line{1, 2, 3};
    std::vector<double> result(6, -1);
    const Tensor there(device, DType::f64, {3}), out(device, DType::f64, {2, 3});
    copy(queue, ConstTensorView(line.data(), {3}), there);
    copy(queue,
         ConstTensorView(there.data_as<double>() + 2, DType::f64, {2, 3}, device.id(), {0, -1}),
         out);
    copy(queue, out, TensorView(result.data(), {2, 3}));
    queue.synchronize();
    REQUIRE(result == std::vector<double>{3, 2, 1, 3, 2, 1});
  }
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
