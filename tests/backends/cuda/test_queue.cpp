// Streams and events of the CUDA backend.
#ifdef PLUMB_TEST_CUDA
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <utility>
#include <vector>

#include "cuda_case.hpp"
#include "plumb/backend.hpp"

using namespace plumb;
using namespace plumb_test::cuda;
using plumb_test::Stream;

TEST_CASE("cuda: the caller's stream is used and left alone") {
  const Device device = gpu();
  SmallConv conv(device);
  const Stream own;
  for (cudaStream_t stream : {own.stream, cudaStream_t{nullptr}}) {
    {
      Queue queue = Queue::wrap(device, stream);
      REQUIRE(queue.native() == stream);
      conv.forget_y(queue);
      ConvPlan(device, conv.problem).execute(queue, conv.tensors());
      expect(cudaStreamSynchronize(stream));
      REQUIRE(download(queue, conv.y) == conv.expected(1));
      queue.backend().workspace(1 << 20);
    }
    expect(cudaStreamSynchronize(stream));  // it is still there
  }
}

TEST_CASE("cuda: events measure, order queues, and outlive what made them") {
  const auto [before, after] = [] {
    const Device device = gpu();
    Queue queue(device);
    const Tensor x(device, DType::f32, {1 << 24}), y(device, DType::f32, {1 << 24});
    relu(queue, x, y);  // so that loading the kernel is not timed
    const Event first = queue.record();
    relu(queue, x, y);
    const Event second = queue.record();
    Queue other(device);
    other.wait(second);
    other.synchronize();
    REQUIRE(second.done());
    REQUIRE(first.done());
    return std::pair(first, second);
  }();
  const double seconds = seconds_between(before, after);
  REQUIRE(seconds > 1e-6);  // 128 MiB must move
  REQUIRE(seconds < 1);
}

TEST_CASE("cuda: a queue follows another by an event") {
  const Device device = gpu();
  SmallConv conv(device);
  const ConvPlan plan(device, conv.problem);
  const Tensor positive(device, DType::f32, conv.y.extents());
  Queue producer(device), consumer(device);
  for (int round = 0; round < 20; ++round) {
    const float first = static_cast<float>(round % 3);
    conv.fill_x(producer, first);
    plan.execute(producer, conv.tensors());
    consumer.wait(producer.record());
    relu(consumer, conv.y, positive);
    std::vector<float> expected = conv.expected(first);
    for (float& value : expected) value = std::max(value, 0.0f);
    REQUIRE(download(consumer, positive) == expected);
    producer.wait(consumer.record());
  }
}
#endif
