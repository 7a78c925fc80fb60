// Every CUDA call goes through check(): an error becomes an Error that names the call, CUDA's own
// name and text, and the place.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>
#include <string_view>

namespace plumb::cuda {

/// Throws Error: out_of_memory, or device_failure for every other status. It takes the error off
/// the calling thread, so that a later call does not meet it again; an error that broke the context
/// stays for good.
[[noreturn]] void fail(cudaError_t status, std::string_view call, std::source_location where);

inline void check(cudaError_t status, std::string_view call,
                  std::source_location where = std::source_location::current()) {
  if (status != cudaSuccess) [[unlikely]]
    fail(status, call, where);
}

}  // namespace plumb::cuda
