// Streams, events, copies, and the workspace of a queue.
#include "queue.hpp"

#include <fmt/format.h>

#include "cuda_kernels/nn/operators.hpp"
#include "device_guard.hpp"
#include "plumb/error.hpp"

namespace plumb::cuda {
namespace {

const CudaEvent& cuda_event(const BackendEvent& event) {
  const auto* own = dynamic_cast<const CudaEvent*>(&event);
  if (!own)
    throw Error(ErrorCode::invalid_argument, "an event of another backend; expected one of CUDA");
  return *own;
}

}  // namespace

CudaEvent::CudaEvent(int device, cudaStream_t stream) : device_(device) {
  check(cudaEventCreate(&event_), "cudaEventCreate");
  if (const cudaError_t status = cudaEventRecord(event_, stream); status != cudaSuccess) {
    cudaEventDestroy(event_);
    check(status, "cudaEventRecord");
  }
}

CudaEvent::~CudaEvent() {
  release_on(device_, [&] { return cudaEventDestroy(event_); });
}

void CudaEvent::synchronize() const {
  const DeviceGuard guard(device_);
  check(cudaEventSynchronize(event_), "cudaEventSynchronize");
}

bool CudaEvent::done() const {
  const DeviceGuard guard(device_);
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // it is kept like an error, and is none
    return false;
  }
  check(status, "cudaEventQuery");
  return true;
}

double CudaEvent::seconds_since(const BackendEvent& earlier) const {
  const DeviceGuard guard(device_);
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, cuda_event(earlier).native(), event_),
        "cudaEventElapsedTime");
  return milliseconds * 1e-3;
}

CudaQueue::CudaQueue(const DeviceId& device, cudaStream_t stream, Ownership ownership)
    : device_(device), stream_(stream), ownership_(ownership) {}

CudaQueue::~CudaQueue() {
  if (workspace_) release_on(device_.index, [&] { return cudaFreeAsync(workspace_, stream_); });
  if (ownership_ == Ownership::own)
    release_on(device_.index, [&] { return cudaStreamDestroy(stream_); });
}

void CudaQueue::synchronize() {
  const DeviceGuard guard(device_.index);
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

std::shared_ptr<BackendEvent> CudaQueue::record() {
  const DeviceGuard guard(device_.index);
  return std::make_shared<CudaEvent>(device_.index, stream_);
}

void CudaQueue::wait(const BackendEvent& event) {
  const DeviceGuard guard(device_.index);
  check(cudaStreamWaitEvent(stream_, cuda_event(event).native()), "cudaStreamWaitEvent");
}

void CudaQueue::fork(int branches) {
  const DeviceGuard guard(device_.index);
  if (!branches_) branches_ = std::make_unique<CudaBranches>(device_);
  branches_->fork(stream_, branches - 1);
}

BackendQueue& CudaQueue::branch(int number) {
  return number == 0 ? *this : branches_->queue(number - 1);
}

void CudaQueue::join() {
  const DeviceGuard guard(device_.index);
  branches_->join(stream_);
}

void CudaQueue::copy(void* to, const void* from, std::size_t bytes) {
  const DeviceGuard guard(device_.index);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
}

void* CudaQueue::workspace(std::size_t bytes) {
  if (bytes > workspace_bytes_) grow_workspace(bytes);
  return workspace_;
}

bool CudaQueue::is_capturing() const {
  const DeviceGuard guard(device_.index);
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream_, &capture), "cudaStreamIsCapturing");
  return capture != cudaStreamCaptureStatusNone;
}

void CudaQueue::grow_workspace(std::size_t bytes) {
  const DeviceGuard guard(device_.index);
  if (is_capturing())
    throw Error(ErrorCode::unsupported,
                fmt::format("a workspace of {} bytes is needed while the stream is being captured, "
                            "and the queue has {}; pass one to execute(), or execute once before "
                            "the capture begins",
                            bytes, workspace_bytes_));
  if (workspace_) {
    void* outgrown = workspace_;
    workspace_ = nullptr;
    workspace_bytes_ = 0;
    check(cudaFreeAsync(outgrown, stream_), "cudaFreeAsync");
  }
  const cudaError_t status = cudaMallocAsync(&workspace_, bytes, stream_);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    throw Error(ErrorCode::out_of_memory,
                fmt::format("{} bytes of workspace asked for on {}, {} free", bytes,
                            to_string(device_), free));
  }
  check(status, "cudaMallocAsync");
  workspace_bytes_ = bytes;
}

void CudaQueue::pack_filters(const ConvAlgorithm& algorithm, const FilterPacking& packing,
                             const KernelPlan* plan) {
  const DeviceGuard guard(device_.index);
  algorithm.pack_filters(packing, plan);
}

void CudaQueue::conv(const ConvAlgorithm& algorithm, const ConvLaunch& launch,
                     const KernelPlan* plan) {
  const DeviceGuard guard(device_.index);
  algorithm.launch(launch, plan);
}

void CudaQueue::pad(const PadLaunch& launch) {
  const DeviceGuard guard(device_.index);
  cuda::pad(launch, stream_);
}

void CudaQueue::join_phases(const PhasesLaunch& launch) {
  const DeviceGuard guard(device_.index);
  cuda::join_phases(launch, stream_);
}

void CudaQueue::add(const AddLaunch& launch) {
  const DeviceGuard guard(device_.index);
  cuda::add(launch, stream_);
}

void CudaQueue::sum_channels(const SumLaunch& launch) {
  const DeviceGuard guard(device_.index);
  cuda::sum_channels(launch, stream_);
}

void CudaQueue::relu_backward(const ConstTensorView& y, const ConstTensorView& dy,
                              const TensorView& dx) {
  const DeviceGuard guard(device_.index);
  cuda::relu_backward(y, dy, dx, stream_);
}

void CudaQueue::pool(const PoolLaunch& launch) {
  const DeviceGuard guard(device_.index);
  cuda::pool(launch, stream_);
}

void CudaQueue::relu(const ConstTensorView& x, const TensorView& y) {
  const DeviceGuard guard(device_.index);
  cuda::relu(x, y, stream_);
}

void CudaQueue::softmax(const ConstTensorView& x, const TensorView& y) {
  const DeviceGuard guard(device_.index);
  cuda::softmax(x, y, stream_);
}

void CudaQueue::resize_bilinear(const ConstTensorView& x, const TensorView& y) {
  const DeviceGuard guard(device_.index);
  cuda::resize_bilinear(x, y, stream_);
}

void CudaQueue::pool_backward(const PoolBackwardLaunch& launch) {
  const DeviceGuard guard(device_.index);
  cuda::pool_backward(launch, stream_);
}

void CudaQueue::resize_bilinear_backward(const ConstTensorView& dy, const TensorView& dx) {
  const DeviceGuard guard(device_.index);
  cuda::resize_bilinear_backward(dy, dx, stream_);
}

void CudaQueue::softmax_cross_entropy(const CrossEntropyLaunch& launch) {
  const DeviceGuard guard(device_.index);
  cuda::softmax_cross_entropy(launch, stream_);
}

void CudaQueue::sgd_step(const SgdLaunch& launch) {
  const DeviceGuard guard(device_.index);
  cuda::sgd_step(launch, stream_);
}

}  // namespace plumb::cuda
