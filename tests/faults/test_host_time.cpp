// What a call takes of the host besides the kernel's launch: of a plan that is kept, and of conv(),
// which looks its plan up.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <functional>

#include "fault.hpp"
#include "plumb/plumb.hpp"

using namespace plumb;

namespace {

/// Microseconds of a call: of the fastest of many batches of calls, which no other process
/// disturbs.
double call_microseconds(const std::function<void()>& call) {
  constexpr int batches = 200, calls = 100;
  double fastest = 1e9;
  for (int batch = 0; batch < batches; ++batch) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - begin;
    fastest = std::min(fastest, taken.count() / calls);
  }
  return fastest;
}

}  // namespace

TEST_CASE("host time: a kept plan's execute takes less than 3 us, conv() less than 5 us") {
#if !defined(NDEBUG) || defined(PLUMB_TEST_SANITIZED)
  SKIP("built without optimisation or with sanitizers");
#else
  const plumb_test::Playing no_kernel("no_kernel");
  const Device device = Device::open("cuda");
  Queue queue(device);
  const Tensor x(device, DType::f32, {8, 3, 32, 32}), w(device, DType::f32, {16, 3, 3, 3}),
      bias(device, DType::f32, {16});
  Tensor y(device, DType::f32, {8, 16, 30, 30});
  const ConvTensors tensors{.x = x, .w = w, .bias = bias, .y = y};
  const ConvPlan plan(device, problem_of(tensors, {}), {.bias = true});
  const double execute = call_microseconds([&] { plan.execute(queue, tensors); });
  conv(queue, tensors);
  const double cached = call_microseconds([&] { conv(queue, tensors); });
  WARN("execute " << execute << " us, conv() " << cached << " us");
  CHECK(execute < 3);
  CHECK(cached < 5);
#endif
}
