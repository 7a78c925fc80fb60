// cuDNN's functions, taken from its shared library when they are first wanted: without it the CUDA
// backend works, and only the peers are refused.
#pragma once

#include <cudnn.h>

#include <string>

namespace plumb::cuda::cudnn {

struct Library {
  decltype(&cudnnGetVersion) get_version;
  decltype(&cudnnGetErrorString) get_error_string;
  decltype(&cudnnCreate) create;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&cudnnBackendSetAttribute) set_attribute;
  decltype(&cudnnBackendGetAttribute) get_attribute;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendExecute) execute;
};

/// Why there is no library; empty where there is one. Looked for once.
const std::string& why_missing();

/// Only where nothing is missing.
const Library& library();

/// Throws Error (device_failure) with cuDNN's own words.
void check(cudnnStatus_t status, const char* call);

}  // namespace plumb::cuda::cudnn
