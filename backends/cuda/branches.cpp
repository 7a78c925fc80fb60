#include "branches.hpp"

#include "device_guard.hpp"
#include "queue.hpp"

namespace plumb::cuda {
namespace {

/// A stream may be made while another one is being captured.
cudaStream_t make_stream() {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
  cudaStream_t stream = nullptr;
  const cudaError_t made = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
  check(made, "cudaStreamCreateWithFlags");
  return stream;
}

}  // namespace

OrderingEvent::OrderingEvent(int device) : device_(device) {
  check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

OrderingEvent::~OrderingEvent() {
  release_on(device_, [&] { return cudaEventDestroy(event_); });
}

void OrderingEvent::record(cudaStream_t earlier) const {
  check(cudaEventRecord(event_, earlier), "cudaEventRecord");
}

void OrderingEvent::wait(cudaStream_t later) const {
  check(cudaStreamWaitEvent(later, event_), "cudaStreamWaitEvent");
}

struct CudaBranches::Branch {
  CudaQueue queue;
  OrderingEvent joined;

  explicit Branch(const DeviceId& device)
      : queue(device, make_stream(), CudaQueue::Ownership::own), joined(device.index) {}
  cudaStream_t stream() const { return static_cast<cudaStream_t>(queue.native()); }
};

CudaBranches::CudaBranches(const DeviceId& device) : device_(device), forked_(device.index) {}
CudaBranches::~CudaBranches() = default;

void CudaBranches::fork(cudaStream_t stream, int branches) {
  while (static_cast<int>(branches_.size()) < branches)
    branches_.push_back(std::make_unique<Branch>(device_));
  forked_.record(stream);
  for (open_ = 0; open_ < branches; ++open_)
    forked_.wait(branches_[static_cast<std::size_t>(open_)]->stream());
}

BackendQueue& CudaBranches::queue(int number) {
  return branches_.at(static_cast<std::size_t>(number))->queue;
}

void CudaBranches::join(cudaStream_t stream) {
  while (open_ > 0) {
    const Branch& branch = *branches_[static_cast<std::size_t>(--open_)];
    branch.joined.record(branch.stream());
    branch.joined.wait(stream);
  }
}

}  // namespace plumb::cuda
