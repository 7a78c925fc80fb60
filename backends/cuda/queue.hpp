// A CUDA stream as a queue, and CUDA events.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "branches.hpp"
#include "plumb/backend.hpp"

namespace plumb::cuda {

class CudaEvent final : public BackendEvent {
 public:
  /// Recorded where `stream`, of the current device, stands now.
  CudaEvent(int device, cudaStream_t stream);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void synchronize() const override;
  bool done() const override;
  double seconds_since(const BackendEvent& earlier) const override;
  cudaEvent_t native() const { return event_; }

 private:
  int device_;
  cudaEvent_t event_ = nullptr;
};

class CudaQueue final : public BackendQueue {
 public:
  enum class Ownership { own, borrowed };

  /// `stream` may be null, the legacy default stream. It must outlive a queue that borrows it.
  CudaQueue(const DeviceInfo& device, cudaStream_t stream, Ownership ownership)
      : CudaQueue(device.id, stream, ownership) {}
  CudaQueue(const DeviceId& device, cudaStream_t stream, Ownership ownership);
  ~CudaQueue() override;
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  void* native() const override { return stream_; }
  void fork(int branches) override;
  BackendQueue& branch(int number) override;
  void join() override;
  void synchronize() override;
  bool is_capturing() const override;
  std::shared_ptr<BackendEvent> record() override;
  void wait(const BackendEvent& event) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  /// Grown in the stream's own order, so that work already there keeps what it was given.
  /// Error: unsupported where it would have to grow while the stream is being captured.
  void* workspace(std::size_t bytes) override;
  void pack_filters(const ConvAlgorithm& algorithm, const FilterPacking& packing,
                    const KernelPlan* plan) override;
  void conv(const ConvAlgorithm& algorithm, const ConvLaunch& launch,
            const KernelPlan* plan) override;
  void pad(const PadLaunch& launch) override;
  void join_phases(const PhasesLaunch& launch) override;
  void add(const AddLaunch& launch) override;
  void sum_channels(const SumLaunch& launch) override;
  void relu_backward(const ConstTensorView& y, const ConstTensorView& dy,
                     const TensorView& dx) override;
  void pool(const PoolLaunch& launch) override;
  void relu(const ConstTensorView& x, const TensorView& y) override;
  void softmax(const ConstTensorView& x, const TensorView& y) override;
  void resize_bilinear(const ConstTensorView& x, const TensorView& y) override;
  void pool_backward(const PoolBackwardLaunch& launch) override;
  void resize_bilinear_backward(const ConstTensorView& dy, const TensorView& dx) override;
  void softmax_cross_entropy(const CrossEntropyLaunch& launch) override;
  void sgd_step(const SgdLaunch& launch) override;

 private:
  void grow_workspace(std::size_t bytes);

  DeviceId device_;
  cudaStream_t stream_;
  Ownership ownership_;
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
  std::unique_ptr<CudaBranches> branches_;  ///< from the first fork() on
};

}  // namespace plumb::cuda
