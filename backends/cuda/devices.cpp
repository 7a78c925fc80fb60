// Counts and describes CUDA devices.
#include "devices.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdlib>

#include "cuda_kernels/cost/machine.hpp"
#include "cuda_kernels/primitives/check.hpp"
#include "plumb/quote.hpp"

namespace plumb::cuda {
namespace {

int attribute(cudaDeviceAttr name, int index) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, name, index), "cudaDeviceGetAttribute");
  return value;
}

DeviceCount none(Reason reason, std::string sentence) { return {0, reason, std::move(sentence)}; }

}  // namespace

int runtime_version() {
  int version = 0;
  check(cudaRuntimeGetVersion(&version), "cudaRuntimeGetVersion");
  return version;
}

int driver_version() {
  int version = 0;  // and stays 0 without a driver, which is no error; a stub of one may be
  if (cudaDriverGetVersion(&version) != cudaSuccess) cudaGetLastError();
  return version;
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

DeviceCount count_devices() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return {.devices = devices};
  cudaGetLastError();

  const int driver = driver_version();
  if (status == cudaErrorStubLibrary)
    return none(
        Reason::no_driver,
        "the libcuda.so.1 that was found is the CUDA toolkit's stub, not the NVIDIA driver");
  if (status == cudaErrorInsufficientDriver && driver == 0)
    return none(Reason::no_driver, "the NVIDIA driver is not installed (no libcuda.so.1)");
  if (status == cudaErrorInsufficientDriver)
    return none(Reason::driver_too_old,
                fmt::format("the NVIDIA driver is for CUDA {}; this build needs one for CUDA {}",
                            version_text(driver), version_text(runtime_version())));
  if (status == cudaSuccess || status == cudaErrorNoDevice) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return none(Reason::no_device,
                visible ? fmt::format("the NVIDIA driver shows no GPU (CUDA_VISIBLE_DEVICES is "
                                      "{})",
                                      quoted(visible))
                        : "the NVIDIA driver shows no GPU");
  }
  return none(status == cudaErrorMemoryAllocation ? Reason::out_of_memory : Reason::device_error,
              fmt::format("the NVIDIA driver does not start: {} ({})", cudaGetErrorName(status),
                          cudaGetErrorString(status)));
}

DeviceInfo describe_device(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  constexpr double hertz_per_kilohertz = 1e3;
  const double clock = hertz_per_kilohertz * attribute(cudaDevAttrClockRate, index);
  const double memory_clock = hertz_per_kilohertz * attribute(cudaDevAttrMemoryClockRate, index);
  const double bus_bytes = attribute(cudaDevAttrGlobalMemoryBusWidth, index) / 8.0;
  const int units = properties.multiProcessorCount;
  const int lanes = fp32_lanes_of(properties.major, properties.minor);
  return {
      .id = {"cuda", index},
      .name = properties.name,
      .instruction_set = fmt::format("sm_{}{}", properties.major, properties.minor),
      .units = units,
      .memory_bytes = properties.totalGlobalMem,
      .shared_memory_bytes = properties.sharedMemPerBlockOptin,
      .compute_major = properties.major,
      .compute_minor = properties.minor,
      .driver_version = driver_version(),
      .nominal_bytes_per_second = 2 * memory_clock * bus_bytes,  // data on both clock edges
      .nominal_fp32_flop_per_second = 2.0 * lanes * units * clock,
  };
}

}  // namespace plumb::cuda
