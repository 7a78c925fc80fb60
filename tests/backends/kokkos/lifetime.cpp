// Who starts and who ends Kokkos, a case a process: exits with 0 where it went as promised, and
// says on standard error what did not. usage: kokkos_lifetime unasked|owned|started|finalised
#include <Kokkos_Core.hpp>
#include <cstdio>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "plumb/kokkos.hpp"
#include "plumb/plumb.hpp"

namespace {

int failures = 0;

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  ++failures;
}

void expect_error(plumb::ErrorCode code, const char* what, const std::function<void()>& call) {
  try {
    call();
    expect(false, what);
  } catch (const plumb::Error& e) {
    expect(e.code() == code, e.what());
  }
}

/// Looking at what is there does not start Kokkos.
void unasked() {
  plumb::backend_reports();
  const plumb::Device device = plumb::Device::open("auto");
  expect(device.id().backend != "kokkos", "auto does not take Kokkos");
  expect(!Kokkos::is_initialized(), "Kokkos has not been started");
  Kokkos::initialize();
  Kokkos::finalize();
}

/// The host's Kokkos is used and left as it was.
void owned() {
  Kokkos::initialize();
  {
    const plumb::Device device = plumb::Device::open("kokkos");
    plumb::Queue queue(device);
    const plumb::Tensor x(device, plumb::DType::f32, {100});
    plumb::relu(queue, x, x);
    queue.synchronize();
  }
  expect(Kokkos::is_initialized(), "Kokkos runs on after Plumb");
  Kokkos::finalize();
}

/// Nobody has started Kokkos: Plumb does, and does not end it.
void started() {
  {
    const plumb::Device device = plumb::Device::open("kokkos");
    expect(Kokkos::is_initialized(), "Plumb and the program have the same Kokkos");
    plumb::Queue queue(device);
    const plumb::Tensor x(device, plumb::DType::f32, {100});
    plumb::relu(queue, x, x);
    queue.synchronize();
  }
  expect(Kokkos::is_initialized(), "Plumb does not finalise");
}

/// The host ends its Kokkos while Plumb has devices, queues, tensors and plans of it.
void finalised() {
  Kokkos::initialize();
  const plumb::Device device = plumb::Device::open("kokkos");
  std::optional<plumb::Queue> queue(device);
  plumb::Queue wrapped = plumb::queue_of(device, Kokkos::DefaultExecutionSpace());
  std::optional<plumb::Tensor> x(std::in_place, device, plumb::DType::f32,
                                 plumb::Extents{1, 1, 8, 8});
  const plumb::Tensor w(device, plumb::DType::f32, {1, 1, 3, 3});
  const plumb::Tensor y(device, plumb::DType::f32, {1, 1, 6, 6});
  plumb::conv(*queue, {.x = *x, .w = w, .y = y});
  queue->synchronize();
  Kokkos::finalize();

  using enum plumb::ErrorCode;
  expect_error(device_failure, "a convolution is refused",
               [&] { plumb::conv(*queue, {.x = *x, .w = w, .y = y}); });
  expect_error(device_failure, "an operator is refused", [&] { plumb::relu(wrapped, y, y); });
  expect_error(device_failure, "waiting is refused", [&] { queue->synchronize(); });
  expect_error(device_failure, "a new queue is refused", [&] { plumb::Queue another(device); });
  expect_error(device_failure, "a new tensor is refused",
               [&] { plumb::Tensor another(device, plumb::DType::f32, {10}); });
  expect_error(device_failure, "measuring is refused", [&] { device.measure_ceilings(); });
  expect_error(device_unavailable, "a new device is refused",
               [&] { plumb::Device::open("kokkos"); });
  queue.reset();
  x.reset();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  struct Case {
    std::string_view name;
    void (*run)();
  };
  for (const Case& test : {Case{"unasked", unasked}, Case{"owned", owned}, Case{"started", started},
                           Case{"finalised", finalised}})
    if (test.name == name) {
      test.run();
      return failures == 0 ? 0 : 1;
    }
  std::fprintf(stderr, "no case '%s'\n", argc > 1 ? argv[1] : "");
  return 2;
}
