// A queue of the CPU: each call has finished when it returns, so that there is nothing to wait for.
#include "backends/cpu/queue.hpp"

#include <chrono>
#include <cstring>

#include "backends/cpu/memory.hpp"
#include "cpu_kernels/nn/operators.hpp"

namespace plumb {
namespace {

class CpuEvent final : public BackendEvent {
 public:
  void synchronize() const override {}
  bool done() const override { return true; }
  double seconds_since(const BackendEvent& earlier) const override {
    const auto& other = static_cast<const CpuEvent&>(earlier);
    return std::chrono::duration<double>(time_ - other.time_).count();
  }

 private:
  std::chrono::steady_clock::time_point time_ = std::chrono::steady_clock::now();
};

class CpuQueue final : public BackendQueue {
 public:
  void* native() const override { return nullptr; }
  void synchronize() override {}
  std::shared_ptr<BackendEvent> record() override { return std::make_shared<CpuEvent>(); }
  void wait(const BackendEvent&) override {}
  void copy(void* to, const void* from, std::size_t bytes) override {
    std::memmove(to, from, bytes);
  }
  void* workspace(std::size_t bytes) override {
    if (bytes > workspace_bytes_) {
      workspace_.reset();  // first, so that the old and the new are not held at once
      workspace_bytes_ = 0;
      workspace_.reset(allocate_host(bytes));
      workspace_bytes_ = bytes;
    }
    return workspace_.get();
  }
  void conv(const ConvAlgorithm& algorithm, const ConvLaunch& launch,
            const KernelPlan* plan) override {
    algorithm.launch(launch, plan);
  }
  void pad(const PadLaunch& launch) override { cpu_pad(launch); }
  void join_phases(const PhasesLaunch& launch) override { cpu_join_phases(launch); }
  void add(const AddLaunch& launch) override { cpu_add(launch); }
  void sum_channels(const SumLaunch& launch) override { cpu_sum_channels(launch); }
  void relu_backward(const ConstTensorView& y, const ConstTensorView& dy,
                     const TensorView& dx) override {
    cpu_relu_backward(y, dy, dx);
  }
  void pool(const PoolLaunch& launch) override { cpu_pool(launch); }
  void relu(const ConstTensorView& x, const TensorView& y) override { cpu_relu(x, y); }
  void softmax(const ConstTensorView& x, const TensorView& y) override { cpu_softmax(x, y); }
  void resize_bilinear(const ConstTensorView& x, const TensorView& y) override {
    cpu_resize_bilinear(x, y);
  }
  void pool_backward(const PoolBackwardLaunch& launch) override { cpu_pool_backward(launch); }
  void resize_bilinear_backward(const ConstTensorView& dy, const TensorView& dx) override {
    cpu_resize_bilinear_backward(dy, dx);
  }
  void softmax_cross_entropy(const CrossEntropyLaunch& launch) override {
    cpu_softmax_cross_entropy(launch);
  }
  void sgd_step(const SgdLaunch& launch) override { cpu_sgd_step(launch); }

 private:
  HostMemory workspace_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace

std::unique_ptr<BackendQueue> make_cpu_queue() { return std::make_unique<CpuQueue>(); }

}  // namespace plumb
