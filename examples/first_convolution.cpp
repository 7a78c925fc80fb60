// The example of the README: a 3x3 mean over an image of ones, on the best device of the machine.
#include <plumb/plumb.hpp>

#include <cstdio>
#include <vector>

int main() {
  plumb::Device device = plumb::Device::open();  // the first GPU that works, otherwise the CPU
  plumb::Queue queue(device);
  plumb::Tensor x(device, plumb::DType::f32, {1, 1, 28, 28});  // N C H W
  plumb::Tensor w(device, plumb::DType::f32, {1, 1, 3, 3});    // K C R S
  plumb::Tensor y(device, plumb::DType::f32, {1, 1, 26, 26});  // N K P Q
  std::vector<float> image(28 * 28, 1.0f), filter(3 * 3, 1.0f / 9), mean(26 * 26);
  copy(queue, {image.data(), x.extents()}, x);
  copy(queue, {filter.data(), w.extents()}, w);
  conv(queue, {.x = x, .w = w, .y = y});
  copy(queue, y, {mean.data(), y.extents()});
  queue.synchronize();
  std::printf("%s: %.3f\n", device.info().name.c_str(), mean[0]);
}
