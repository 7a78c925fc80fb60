// cuDNN's functions, taken from its shared library when they are first wanted: without it the CUDA
// backend works, and only the peers are refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "peers/cudnn/abi.hpp"
#include "plumb/algorithm.hpp"

namespace plumb::cuda::cudnn {

struct Library {
  LibraryReport report;

  std::size_t (*get_version)();
  const char* (*get_error_string)(cudnnStatus_t);
  cudnnStatus_t (*create)(cudnnHandle_t*);
  cudnnStatus_t (*set_stream)(cudnnHandle_t, void* stream);
  cudnnStatus_t (*create_descriptor)(cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t*);
  cudnnStatus_t (*destroy_descriptor)(cudnnBackendDescriptor_t);
  cudnnStatus_t (*set_attribute)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                 cudnnBackendAttributeType_t, std::int64_t count,
                                 const void* values);
  cudnnStatus_t (*get_attribute)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                 cudnnBackendAttributeType_t, std::int64_t max_count,
                                 std::int64_t* count, void* values);
  cudnnStatus_t (*finalize)(cudnnBackendDescriptor_t);
  cudnnStatus_t (*execute)(cudnnHandle_t, cudnnBackendDescriptor_t plan,
                           cudnnBackendDescriptor_t pack);
};

/// cuDNN, or the reason why there is none. Only where there is a library may its functions be
/// called.
const Library& library();

/// Throws Error (device_failure) with cuDNN's own words.
void check(cudnnStatus_t status, const char* call);

extern const Provider provider;

}  // namespace plumb::cuda::cudnn
