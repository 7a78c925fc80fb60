// An instance of an execution space as a queue.
#pragma once

#include <memory>

#include "host_space.hpp"
#ifdef KOKKOS_ENABLE_CUDA
#include "cuda_space.hpp"
#endif
#include "kokkos_kernels/operators.hpp"
#include "plumb/backend.hpp"
#include "runtime.hpp"

namespace plumb::kokkos {

template <class Space>
class KokkosQueue final : public BackendQueue {
 public:
  using Parts = SpaceParts<Space>;

  /// `space` stays the caller's, who sees that it outlives the queue.
  KokkosQueue(int number, const Space& space) : number_(number), space_(space) {}
  /// With an instance of its own.
  explicit KokkosQueue(int number) : number_(number), space_(own_.make()) {}
  ~KokkosQueue() override {
    if (workspace_) work_.deallocate(workspace_);
  }

  void* native() const override { return &*space_; }
  void synchronize() override {
    require_running();
    work_.synchronize();
  }
  bool is_capturing() const override { return work_.is_capturing(); }
  std::shared_ptr<BackendEvent> record() override {
    require_running();
    return work_.record();
  }
  void wait(const BackendEvent& event) override {
    require_running();
    work_.wait(event);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    require_running();
    work_.copy(to, from, bytes);
  }
  void* workspace(std::size_t bytes) override {
    if (bytes > workspace_bytes_) {
      require_running();
      if (workspace_) work_.deallocate(workspace_);  // first: the two are not held at once
      workspace_ = nullptr;
      workspace_bytes_ = 0;
      workspace_ = work_.allocate(bytes);
      workspace_bytes_ = bytes;
    }
    return workspace_;
  }
  void conv(const ConvAlgorithm& algorithm, const ConvLaunch& call,
            const KernelPlan* plan) override {
    launch([&] { algorithm.launch(call, plan); });
  }
  void pad(const PadLaunch& call) override {
    launch([&] { kokkos::pad(call, instance()); });
  }
  void join_phases(const PhasesLaunch& call) override {
    launch([&] { kokkos::join_phases(call, instance()); });
  }
  void add(const AddLaunch& call) override {
    launch([&] { kokkos::add(call, instance()); });
  }
  void sum_channels(const SumLaunch& call) override {
    launch([&] { kokkos::sum_channels(call, instance()); });
  }
  void relu_backward(const ConstTensorView& y, const ConstTensorView& dy,
                     const TensorView& dx) override {
    launch([&] { kokkos::relu_backward(y, dy, dx, instance()); });
  }
  void pool(const PoolLaunch& call) override {
    launch([&] { kokkos::pool(call, instance()); });
  }
  void relu(const ConstTensorView& x, const TensorView& y) override {
    launch([&] { kokkos::relu(x, y, instance()); });
  }
  void softmax(const ConstTensorView& x, const TensorView& y) override {
    launch([&] { kokkos::softmax(x, y, instance()); });
  }
  void resize_bilinear(const ConstTensorView& x, const TensorView& y) override {
    launch([&] { kokkos::resize_bilinear(x, y, instance()); });
  }
  void pool_backward(const PoolBackwardLaunch& call) override {
    launch([&] { kokkos::pool_backward(call, instance()); });
  }
  void resize_bilinear_backward(const ConstTensorView& dy, const TensorView& dx) override {
    launch([&] { kokkos::resize_bilinear_backward(dy, dx, instance()); });
  }
  void softmax_cross_entropy(const CrossEntropyLaunch& call) override {
    launch([&] { kokkos::softmax_cross_entropy(call, instance()); });
  }
  void sgd_step(const SgdLaunch& call) override {
    launch([&] { kokkos::sgd_step(call, instance()); });
  }

 private:
  Instance instance() const { return {number_, &*space_}; }
  template <class F>
  void launch(const F& f) {
    in_kokkos([&] { work_.launch(f); });
  }

  int number_;  ///< of the space among the spaces
  [[no_unique_address]] typename Parts::OwnInstance own_;
  HeldInstance<Space> space_;
  typename Parts::Work work_{*space_};
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace plumb::kokkos
