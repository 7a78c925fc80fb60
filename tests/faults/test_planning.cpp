// How often algorithms plan: once for each convolution that conv() or a ConvPlan meets, and never
// in a launch.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <thread>
#include <vector>

#include "fake_count.hpp"
#include "fault.hpp"
#include "plumb/plumb.hpp"

using namespace plumb;

namespace {

/// What the fake module's first algorithm has planned so far.
int plans_made() { return plumb_test::fake_count("plumb_fake_plans"); }

/// Forty images of other sizes, and the tensors of a 3x3 convolution of each.
struct Convolutions {
  explicit Convolutions(const Device& device) {
    for (std::int64_t i = 0; i < count; ++i) {
      x.emplace_back(device, DType::f32, Extents{2, 3, 8 + i, 9});
      w.emplace_back(device, DType::f32, Extents{4, 3, 3, 3});
      y.emplace_back(device, DType::f32, Extents{2, 4, 6 + i, 7});
    }
  }
  ConvTensors at(std::size_t i) const { return {.x = x[i], .w = w[i], .bias = {}, .y = y[i]}; }

  static constexpr std::int64_t count = 40;
  std::vector<Tensor> x, w, y;
};

}  // namespace

TEST_CASE("planning: forty convolutions that run a hundred times each are planned once each") {
  const Device device = Device::open("cuda");
  Queue queue(device);
  const Convolutions convolutions(device);
  const int before = plans_made();
  for (int round = 0; round < 100; ++round)
    for (std::size_t i = 0; i < convolutions.x.size(); ++i) conv(queue, convolutions.at(i));
  CHECK(plans_made() - before == Convolutions::count);
}

TEST_CASE("planning: a second thread that executes the same plans plans nothing") {
  const Device device = Device::open("cuda");
  const Convolutions convolutions(device);
  std::vector<ConvPlan> plans;
  for (std::size_t i = 0; i < convolutions.x.size(); ++i)
    plans.emplace_back(device, problem_of(convolutions.at(i), {}));
  const int before = plans_made();
  std::thread([&] {
    Queue queue(device);
    for (int round = 0; round < 3; ++round)
      for (std::size_t i = 0; i < plans.size(); ++i) plans[i].execute(queue, convolutions.at(i));
  }).join();
  CHECK(plans_made() == before);
}
