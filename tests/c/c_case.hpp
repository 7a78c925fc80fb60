// What the tests of the C interface share: arrays in a device's memory, and one convolution with
// what C++ makes of it.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plumb/plumb.h"
#include "plumb/plumb.hpp"
#include "support/c_handles.hpp"

namespace plumb_test::c {

using namespace plumb;

inline std::vector<float> values(std::size_t count, float step) {
  std::vector<float> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = std::sin(step * static_cast<float>(i + 1));
  return made;
}

/// A host array in the device's memory; the bytes of `array` come back with download().
class OnDevice {
 public:
  OnDevice(const plumb_device* device, plumb_queue* queue, const std::vector<float>& array)
      : device_(device), queue_(queue), bytes_(array.size() * sizeof(float)) {
    REQUIRE(plumb_allocate(device, bytes_, PLUMB_DEVICE_MEMORY, &data_) == PLUMB_OK);
    REQUIRE(plumb_copy(queue, data_, array.data(), bytes_) == PLUMB_OK);
    REQUIRE(plumb_queue_synchronize(queue) == PLUMB_OK);
  }
  ~OnDevice() {
    plumb_queue_synchronize(queue_);
    plumb_deallocate(device_, data_, bytes_, PLUMB_DEVICE_MEMORY);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  operator void*() const { return data_; }  // NOLINT: as the pointer itself
  std::vector<float> download() const {
    std::vector<float> array(bytes_ / sizeof(float));
    REQUIRE(plumb_copy(queue_, array.data(), data_, bytes_) == PLUMB_OK);
    REQUIRE(plumb_queue_synchronize(queue_) == PLUMB_OK);
    return array;
  }

 private:
  const plumb_device* device_;
  plumb_queue* queue_;
  std::size_t bytes_;
  void* data_ = nullptr;
};

inline plumb_tensor tensor(const void* data, const plumb_device* device,
                           const std::vector<std::int64_t>& extents) {
  plumb_tensor made;
  REQUIRE(plumb_tensor_init(&made, data, device, PLUMB_F32,
                            static_cast<std::int32_t>(extents.size()), extents.data(),
                            nullptr) == PLUMB_OK);
  return made;
}

inline const ConvGeometry small_geometry{
    .stride = {2, 1}, .dilation = {1, 2}, .padding = {1, 2, 0, 3}, .groups = 2};

/// relu(conv(x, w) + bias) of small_problem(), in the same device through C++.
struct Reference {
  std::vector<float> x = values(2 * 6 * 8 * 9, 0.37f), w = values(4 * 3 * 3 * 3, 0.71f);
  std::vector<float> bias = values(4, 1.3f), y = std::vector<float>(2 * 4 * 4 * 10);
  explicit Reference(const std::string& spec) {
    conv_host(Device::open(spec),
              {.x = {x.data(), {2, 6, 8, 9}},
               .w = {w.data(), {4, 3, 3, 3}},
               .bias = {bias.data(), {4}},
               .y = {y.data(), {2, 4, 4, 10}}},
              small_geometry, {.activation = Activation::relu});
  }
};

inline plumb_conv_options with_bias_and_relu() {
  plumb_conv_options options;
  REQUIRE(plumb_conv_options_init(&options) == PLUMB_OK);
  options.bias = 1;
  options.activation = PLUMB_RELU;
  return options;
}

/// small_problem() with its reference, and a device and queue through C.
struct SmallConv {
  std::string spec;
  Reference reference;
  CDevice device;
  CQueue queue;
  plumb_conv_problem problem = small_problem();
  plumb_conv_options options = with_bias_and_relu();

  explicit SmallConv(const Device& same)
      : spec(to_string(same.id())), reference(spec), device(spec.c_str()), queue(device) {}
};

}  // namespace plumb_test::c
