// Streams beside a queue's own, for work that may run at the same time.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "plumb/backend.hpp"

namespace plumb::cuda {

class CudaQueue;

/// An event that orders streams and has no time.
class OrderingEvent {
 public:
  explicit OrderingEvent(int device);
  ~OrderingEvent();
  OrderingEvent(const OrderingEvent&) = delete;
  OrderingEvent& operator=(const OrderingEvent&) = delete;
  /// What is put on `later` after a wait() begins behind the work that `earlier` had at record().
  void record(cudaStream_t earlier) const;
  void wait(cudaStream_t later) const;

 private:
  int device_;
  cudaEvent_t event_ = nullptr;
};

/// A queue's branches: streams and events that are made once and used again. The device is current
/// in all calls. While the queue's stream is being captured, the branches' are too.
class CudaBranches {
 public:
  explicit CudaBranches(const DeviceId& device);
  ~CudaBranches();

  /// So many streams begin behind the work of `stream`.
  void fork(cudaStream_t stream, int branches);
  BackendQueue& queue(int number);
  /// `stream` goes on behind all of them.
  void join(cudaStream_t stream);

 private:
  struct Branch;
  DeviceId device_;
  OrderingEvent forked_;
  std::vector<std::unique_ptr<Branch>> branches_;
  int open_ = 0;
};

}  // namespace plumb::cuda
