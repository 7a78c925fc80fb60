// What the backend does on Kokkos::Cuda beside launching kernels: memory, streams, copies, events.
#pragma once

#include <cuda_runtime_api.h>
#include <memory>
#include <string>
#include <type_traits>

#include "host_space.hpp"
#include "kokkos_kernels/spaces.hpp"
#include "plumb/backend.hpp"
#include "plumb/error.hpp"
#include "runtime.hpp"

namespace plumb::kokkos {

/// Error: out_of_memory, or device_failure, naming the call and CUDA's own error.
inline void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw Error(
      status == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::device_failure,
      std::string(call) + ": " + cudaGetErrorName(status) + " (" + cudaGetErrorString(status) +
          ")");
}

/// The device that Kokkos uses: one, which it has chosen when it was initialised.
inline int cuda_device() { return is_running() ? Kokkos::Cuda().cuda_device() : 0; }

/// Makes Kokkos' device current for a few calls, and gives the caller's back.
class CudaGuard {
 public:
  CudaGuard() {
    check_cuda(cudaGetDevice(&previous_), "cudaGetDevice");
    if (previous_ != device_) check_cuda(cudaSetDevice(device_), "cudaSetDevice");
  }
  ~CudaGuard() {
    if (previous_ != device_) cudaSetDevice(previous_);
  }
  CudaGuard(const CudaGuard&) = delete;
  CudaGuard& operator=(const CudaGuard&) = delete;

 private:
  int device_ = cuda_device();
  int previous_ = 0;
};

/// Why Kokkos cannot be started: built for CUDA it wants a device, whatever space is used.
inline Reason cuda_obstacle(std::string& sentence) {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return Reason::none;
  cudaGetLastError();
  sentence = std::string("this Kokkos was built for CUDA, and there is no device: ") +
             (status == cudaSuccess ? "the driver shows none" : cudaGetErrorString(status));
  switch (status) {
    case cudaErrorStubLibrary: return Reason::no_driver;
    case cudaErrorInsufficientDriver: {
      int driver = 0;
      const bool installed = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
      cudaGetLastError();
      return installed ? Reason::driver_too_old : Reason::no_driver;
    }
    case cudaSuccess:
    case cudaErrorNoDevice: return Reason::no_device;
    default: return Reason::device_error;
  }
}

class CudaEvent final : public BackendEvent {
 public:
  explicit CudaEvent(cudaStream_t stream) {
    check_cuda(cudaEventCreate(&event_), "cudaEventCreate");
    if (const cudaError_t status = cudaEventRecord(event_, stream); status != cudaSuccess) {
      cudaEventDestroy(event_);
      check_cuda(status, "cudaEventRecord");
    }
  }
  ~CudaEvent() override {
    if (cudaEventDestroy(event_) != cudaSuccess) cudaGetLastError();
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void synchronize() const override {
    check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize");
  }
  bool done() const override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      cudaGetLastError();  // it is kept like an error, and is none
      return false;
    }
    check_cuda(status, "cudaEventQuery");
    return true;
  }
  double seconds_since(const BackendEvent& earlier) const override {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, of(earlier), event_), "cudaEventElapsedTime");
    return milliseconds * 1e-3;
  }
  static cudaEvent_t of(const BackendEvent& event) {
    const auto* own = dynamic_cast<const CudaEvent*>(&event);
    if (!own)
      throw Error(ErrorCode::invalid_argument,
                  "an event of another device; expected one of Kokkos on CUDA");
    return own->event_;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

template <>
struct SpaceParts<Kokkos::Cuda> {
  static DeviceInfo describe() {
    const int index = cuda_device();
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
    const auto attribute = [&](cudaDeviceAttr name) {
      int value = 0;
      check_cuda(cudaDeviceGetAttribute(&value, name, index), "cudaDeviceGetAttribute");
      return value;
    };
    constexpr double hertz_per_kilohertz = 1e3, lanes = 128;
    const double bus_bytes = attribute(cudaDevAttrGlobalMemoryBusWidth) / 8.0;
    DeviceInfo info;
    info.name = std::string(properties.name) + " (Kokkos " + Kokkos::Cuda::name() + ")";
    info.instruction_set =
        "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
    info.units = properties.multiProcessorCount;
    info.memory_bytes = properties.totalGlobalMem;
    info.shared_memory_bytes =
        is_running()
            ? static_cast<std::size_t>(Kokkos::TeamPolicy<Kokkos::Cuda>::scratch_size_max(0))
            : properties.sharedMemPerBlock;
    info.compute_major = properties.major;
    info.compute_minor = properties.minor;
    info.nominal_bytes_per_second =
        2 * hertz_per_kilohertz * attribute(cudaDevAttrMemoryClockRate) * bus_bytes;
    info.nominal_fp32_flop_per_second =
        2 * lanes * info.units * hertz_per_kilohertz * attribute(cudaDevAttrClockRate);
    return info;
  }

  static std::size_t free_bytes() {
    const CudaGuard guard;
    std::size_t free = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return free;
  }

  static void* allocate(std::size_t bytes, Memory kind) {
    const CudaGuard guard;
    void* memory = nullptr;
    const cudaError_t status = kind == Memory::device
                                   ? cudaMalloc(&memory, bytes)
                                   : cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw Error(ErrorCode::out_of_memory,
                  "kokkos: " + std::to_string(bytes) + " bytes asked for; " +
                      std::to_string(free_bytes()) + " bytes are free on the device");
    }
    check_cuda(status, "cudaMalloc");
    return memory;
  }
  static void deallocate(void* memory, Memory kind) noexcept {
    // What CUDA says then is passed over: a process that is ending has nothing left to free.
    if ((kind == Memory::device ? cudaFree(memory) : cudaFreeHost(memory)) != cudaSuccess)
      cudaGetLastError();
  }
  static bool is_pinned(const void* memory) noexcept {
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) {
      cudaGetLastError();
      return false;
    }
    return attributes.type == cudaMemoryTypeHost;
  }

  /// A stream for a queue of its own. It outlives the instance that Kokkos makes of it.
  class OwnInstance {
   public:
    OwnInstance() = default;
    ~OwnInstance() {
      if (stream_ && cudaStreamDestroy(stream_) != cudaSuccess) cudaGetLastError();
    }
    OwnInstance(const OwnInstance&) = delete;
    OwnInstance& operator=(const OwnInstance&) = delete;
    Kokkos::Cuda make() {
      const CudaGuard guard;
      check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                 "cudaStreamCreateWithFlags");
      return Kokkos::Cuda(stream_);
    }

   private:
    cudaStream_t stream_ = nullptr;
  };

  class Work {
   public:
    explicit Work(const Kokkos::Cuda& space) : stream_(space.cuda_stream()) {}
    template <class F>
    void launch(const F& f) const {
      const CudaGuard guard;
      if (is_capturing())
        throw Error(ErrorCode::unsupported,
                    "kokkos: the stream is being captured in a CUDA graph, which the Kokkos "
                    "backend does not take part in; use the device cuda");
      f();
    }
    bool is_capturing() const {
      const CudaGuard guard;
      cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
      check_cuda(cudaStreamIsCapturing(stream_, &capture), "cudaStreamIsCapturing");
      return capture != cudaStreamCaptureStatusNone;
    }
    void synchronize() const {
      const CudaGuard guard;
      check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    }
    std::shared_ptr<BackendEvent> record() const {
      const CudaGuard guard;
      return std::make_shared<CudaEvent>(stream_);
    }
    void wait(const BackendEvent& event) const {
      const CudaGuard guard;
      check_cuda(cudaStreamWaitEvent(stream_, CudaEvent::of(event)), "cudaStreamWaitEvent");
    }
    void copy(void* to, const void* from, std::size_t bytes) const {
      const CudaGuard guard;
      check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
    }
    void* allocate(std::size_t bytes) const {
      const CudaGuard guard;
      void* memory = nullptr;
      check_cuda(cudaMallocAsync(&memory, bytes, stream_), "cudaMallocAsync");
      return memory;
    }
    void deallocate(void* memory) const noexcept {
      if (cudaFreeAsync(memory, stream_) != cudaSuccess) cudaGetLastError();
    }

   private:
    cudaStream_t stream_;
  };
};

}  // namespace plumb::kokkos
