// Allocation on a CUDA device and, pinned, on the host beside it.
#include "device.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "cuda_kernels/probes/ceilings.hpp"
#include "device_guard.hpp"
#include "plumb/error.hpp"
#include "queue.hpp"

namespace plumb::cuda {
namespace {

std::size_t free_host_bytes() {
  const long pages = sysconf(_SC_AVPHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  return pages < 0 || page_bytes < 0
             ? 0
             : static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_bytes);
}

}  // namespace

std::size_t CudaDevice::free_bytes() const {
  const DeviceGuard guard(index());
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

void* CudaDevice::allocate(std::size_t bytes, Memory memory) {
  const DeviceGuard guard(index());
  void* allocated = nullptr;
  try {
    if (memory == Memory::device)
      check(cudaMalloc(&allocated, bytes), "cudaMalloc");
    else
      // Portable: whatever device is opened next to this one copies from it at full speed too.
      check(cudaHostAlloc(&allocated, bytes, cudaHostAllocPortable), "cudaHostAlloc");
  } catch (const Error& e) {
    if (e.code() != ErrorCode::out_of_memory) throw;
    throw Error(e.code(), memory == Memory::device
                              ? fmt::format("{} bytes asked for on {}, {} free: {}", bytes,
                                            to_string(info_.id), free_bytes(), e.what())
                              : fmt::format("{} bytes of pinned host memory asked for, {} free: {}",
                                            bytes, free_host_bytes(), e.what()));
  }
  return allocated;
}

void CudaDevice::deallocate(void* memory, Memory kind) noexcept {
  release_on(index(),
             [&] { return kind == Memory::device ? cudaFree(memory) : cudaFreeHost(memory); });
}

bool CudaDevice::is_pinned(const void* host_memory) const noexcept try {
  const DeviceGuard guard(index());
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, host_memory) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return attributes.type == cudaMemoryTypeHost;
} catch (...) {  // no such device any more
  return false;
}

std::unique_ptr<BackendQueue> CudaDevice::make_queue() {
  const DeviceGuard guard(index());
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return std::make_unique<CudaQueue>(info_, stream, CudaQueue::Ownership::own);
}

std::unique_ptr<BackendQueue> CudaDevice::wrap_queue(void* native) {
  return std::make_unique<CudaQueue>(info_, static_cast<cudaStream_t>(native),
                                     CudaQueue::Ownership::borrowed);
}

DeviceCeilings CudaDevice::measure_ceilings() {
  const DeviceGuard guard(index());
  return cuda::measure_ceilings(static_cast<cudaStream_t>(make_queue()->native()));
}

double CudaDevice::clock_hertz() {
  const DeviceGuard guard(index());
  return measure_clock_hertz(static_cast<cudaStream_t>(make_queue()->native()));
}

}  // namespace plumb::cuda
