// Makes a device current for a few calls, and gives the caller's back.
#pragma once

#include "cuda_kernels/primitives/check.hpp"

namespace plumb::cuda {

class DeviceGuard {
 public:
  explicit DeviceGuard(int device) : device_(device) {
    check(cudaGetDevice(&previous_), "cudaGetDevice");
    if (previous_ != device_) check(cudaSetDevice(device_), "cudaSetDevice");
  }
  ~DeviceGuard() {
    if (previous_ != device_) cudaSetDevice(previous_);
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int device_;
  int previous_ = 0;
};

/// For destructors: runs one CUDA call with the device current. What CUDA says then is passed over:
/// a context that an earlier error broke, or a process that is ending, has nothing left to free.
template <class Call>
void release_on(int device, Call&& call) noexcept {
  try {
    const DeviceGuard guard(device);
    if (call() != cudaSuccess) cudaGetLastError();
  } catch (...) {  // no such device any more, and no memory to lose on it
  }
}

}  // namespace plumb::cuda
