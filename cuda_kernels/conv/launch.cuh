// Kernel launches are checked, and run on one-dimensional grids that hold any size.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/primitives/check.hpp"
#include "plumb/device.hpp"

namespace plumb::cuda {

/// Returns the blocks of `per_block` elements that cover `count`, as far as a grid reaches; kernels
/// loop over the rest. Only a grid's x dimension goes beyond 65,535, so all grids here are lines.
inline unsigned blocks_for(std::int64_t count, std::int64_t per_block) {
  constexpr std::int64_t widest_grid = 0x7fffffff;
  return static_cast<unsigned>(std::min(ceil_div(count, per_block), widest_grid));
}

/// Launches a kernel: `Launch(stream, blocks, threads)(kernel, arguments...)` reports a failed
/// launch with the line it stands on. It may be used while a stream is being captured.
class Launch {
 public:
  Launch(void* stream, unsigned blocks, dim3 threads, std::size_t shared_bytes = 0,
         std::source_location where = std::source_location::current())
      : where_(where) {
    config_.gridDim = dim3(blocks);
    config_.blockDim = threads;
    config_.dynamicSmemBytes = shared_bytes;
    config_.stream = static_cast<cudaStream_t>(stream);
  }
  /// Narrows the grid to what the device holds at once, for persistent kernels.
  template <class Kernel>
  Launch& resident(Kernel kernel, const DeviceInfo& device) {
    allow_shared_memory(kernel);
    int blocks = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
              &blocks, kernel, static_cast<int>(config_.blockDim.x), config_.dynamicSmemBytes),
          "cudaOccupancyMaxActiveBlocksPerMultiprocessor", where_);
    const auto most = static_cast<unsigned>(std::max(blocks, 1) * std::max(device.units, 1));
    config_.gridDim.x = std::min(config_.gridDim.x, most);
    return *this;
  }
  /// Lets blocks start while the kernel before on the stream ends. They call
  /// wait_for_kernel_before() ahead of whatever they read or write of memory.
  Launch& early() {
    cudaLaunchAttribute& early = add_attribute();
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    return *this;
  }
  /// Has so many blocks that follow each other be a cluster (primitives/cluster.cuh).
  Launch& cluster(int blocks) {
    cudaLaunchAttribute& cluster = add_attribute();
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {.x = static_cast<unsigned>(blocks), .y = 1, .z = 1};
    return *this;
  }

  template <class... Parameters, class... Arguments>
  void operator()(void (*kernel)(Parameters...), Arguments&&... arguments) {
    allow_shared_memory(kernel);
    config_.attrs = attributes_;
    // The status returned is this launch's own; cudaGetLastError would also report an error that
    // other code on the thread left behind.
    check(cudaLaunchKernelEx(&config_, kernel, std::forward<Arguments>(arguments)...),
          "kernel launch", where_);
  }

 private:
  /// Bytes that need no opt-in: 48 KB, of which a kernel's static arrays take their part.
  static constexpr std::size_t without_asking = 32 << 10;

  /// Raises the kernel's limit of dynamic shared memory, once for each device and only beyond
  /// `without_asking`, to all that the device has: another thread may launch the same kernel with
  /// more.
  template <class Kernel>
  void allow_shared_memory(Kernel kernel) {
    if (config_.dynamicSmemBytes <= without_asking || asked_) return;
    asked_ = true;
    int device = 0, most = 0;
    check(cudaGetDevice(&device), "cudaGetDevice", where_);
    // Asking takes the driver longer than a launch does.
    static std::mutex mutex;
    static std::set<std::pair<const void*, int>> raised;
    const std::lock_guard lock(mutex);
    const std::pair<const void*, int> key{reinterpret_cast<const void*>(kernel), device};
    if (raised.contains(key)) return;
    check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          "cudaDeviceGetAttribute", where_);
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes", where_);
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               most - static_cast<int>(attributes.sharedSizeBytes)),
          "cudaFuncSetAttribute", where_);
    raised.insert(key);
  }

  cudaLaunchAttribute& add_attribute() { return attributes_[config_.numAttrs++]; }

  cudaLaunchConfig_t config_{};
  cudaLaunchAttribute attributes_[2]{};  ///< one of each kind
  bool asked_ = false;
  std::source_location where_;
};

}  // namespace plumb::cuda
