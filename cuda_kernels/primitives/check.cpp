// A failed CUDA call becomes an Error here.
#include "cuda_kernels/primitives/check.hpp"

#include <fmt/format.h>

#include "plumb/error.hpp"

namespace plumb::cuda {

void fail(cudaError_t status, std::string_view call, std::source_location where) {
  cudaGetLastError();
  std::string_view file = where.file_name();
  file.remove_prefix(file.find_last_of('/') + 1);  // npos + 1 is 0
  throw Error(
      status == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::device_failure,
      fmt::format("{}: {} ({}), at {}:{}", call, cudaGetErrorName(status),
                  cudaGetErrorString(status), file, where.line()));
}

}  // namespace plumb::cuda
