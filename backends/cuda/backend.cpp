// The CUDA backend: what is there, and the opening of devices.
#include <fmt/format.h>

#include "conv_algorithms.hpp"
#include "cuda_kernels/primitives/device_code.hpp"
#include "device.hpp"
#include "device_guard.hpp"
#include "devices.hpp"
#include "plumb/backend.hpp"
#include "plumb/error.hpp"

namespace plumb {
namespace cuda {
namespace {

ErrorCode code_of(Reason obstacle) {
  return obstacle == Reason::out_of_memory ? ErrorCode::out_of_memory
                                           : ErrorCode::device_unavailable;
}

BackendProbe probe_devices() {
  DeviceCount count = count_devices();
  BackendProbe probe{.reason = count.reason, .sentence = std::move(count.sentence)};
  for (int index = 0; index < count.devices; ++index)
    probe.devices.push_back(describe_device(index));
  return probe;
}

/// Makes the device's context, and asks it for one of this build's kernels.
void check_device_runs_our_code(const DeviceInfo& device) {
  const auto refuse = [&](Reason reason, const std::string& why) {
    throw Error(code_of(reason),
                fmt::format("{} ({}, compute capability {}.{}): {}", to_string(device.id),
                            device.name, device.compute_major, device.compute_minor, why),
                reason);
  };
  cudaError_t status = cudaSuccess;
  try {
    const DeviceGuard guard(device.id.index);
    status = find_device_code();
    // What an earlier kernel of this process broke stays broken; this call says so, and waits for
    // nothing.
    std::size_t free = 0, total = 0;
    if (status == cudaSuccess) check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  } catch (const Error& e) {
    refuse(e.code() == ErrorCode::out_of_memory ? Reason::out_of_memory : Reason::device_error,
           e.what());
  }
  switch (status) {
    case cudaSuccess: return;
    case cudaErrorMemoryAllocation:
      refuse(Reason::out_of_memory, "there is not even memory for a context");
      break;
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
      refuse(Reason::no_code_for_device,
             fmt::format("this build holds code for {} only", compiled_architectures()));
      break;
    case cudaErrorUnsupportedPtxVersion:
      refuse(Reason::no_code_for_device,
             fmt::format("this build holds machine code for {} only, and its PTX of CUDA {} is too "
                         "new for a driver for CUDA {}",
                         compiled_architectures(), version_text(runtime_version()),
                         version_text(device.driver_version)));
      break;
    default:
      refuse(Reason::device_error,
             fmt::format("{} ({})", cudaGetErrorName(status), cudaGetErrorString(status)));
  }
}

class CudaBackend final : public Backend {
 public:
  std::string_view name() const override { return "cuda"; }

  std::string version() const override {
    const int driver = driver_version();
    return fmt::format("CUDA runtime {}, {}", version_text(runtime_version()),
                       driver == 0 ? "no driver" : "driver " + version_text(driver));
  }

  std::span<const ConvAlgorithm* const> conv_algorithms() const override {
    return cuda::conv_algorithms();
  }
  BackendProbe probe() const noexcept override try { return probe_devices(); } catch (...) {
    return failed_probe();
  }

  std::unique_ptr<BackendDevice> open(int index) override {
    const DeviceCount count = count_devices();
    if (count.reason != Reason::none)
      throw Error(code_of(count.reason), count.sentence, count.reason);
    if (index < 0 || index >= count.devices)
      throw Error(ErrorCode::device_unavailable,
                  fmt::format("no device cuda:{}; there {} {}", index,
                              count.devices == 1 ? "is" : "are", count.devices),
                  Reason::no_device);
    DeviceInfo info = describe_device(index);
    check_device_runs_our_code(info);
    return std::make_unique<CudaDevice>(std::move(info));
  }
};

}  // namespace
}  // namespace cuda

Backend& cuda_backend() {
  static cuda::CudaBackend backend;
  return backend;
}

}  // namespace plumb
