// What the probes share: memory, the time of a kernel, data, and a place that keeps results alive.
#pragma once

#include <algorithm>
#include <array>

#include "cuda_kernels/conv/launch.cuh"

namespace plumb::cuda {

/// Where a kernel leaves a trace of what it computed, so that the compiler cannot leave it out.
struct Trace {
  int ran;  ///< what was compiled for the device could do the work
  float value;

  /// Called by every thread with what its result depends on.
  __device__ void leave(float result) {
    constexpr float never = 0x1.2345p99f;
    if (result == never) value = result;
    if (blockIdx.x == 0 && threadIdx.x == 0) ran = 1;
  }
};

/// Even in [-1, 1), the same for the same number (the mixing of Murmur3, Appleby 2011).
__device__ inline float random_value(std::uint32_t number) {
  std::uint32_t z = (number + 1) * 0x9e3779b9u;
  z = (z ^ (z >> 16)) * 0x85ebca6bu;
  z = (z ^ (z >> 13)) * 0xc2b2ae35u;
  return static_cast<float>(static_cast<std::int32_t>(z ^ (z >> 16))) * 0x1p-31f;
}

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) {
    check(cudaMalloc(&data_, count * sizeof(T)), "cudaMalloc");
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

class TimingEvent {
 public:
  TimingEvent() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~TimingEvent() { cudaEventDestroy(event_); }
  TimingEvent(const TimingEvent&) = delete;
  TimingEvent& operator=(const TimingEvent&) = delete;
  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  double seconds_since(const TimingEvent& earlier) const {
    check(cudaEventSynchronize(event_), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, earlier.event_, event_), "cudaEventElapsedTime");
    return 1e-3 * milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// The median time of what `launch()` puts on the stream; the first run warms up.
template <class Call>
double median_seconds(cudaStream_t stream, Call&& launch) {
  std::array<double, 9> seconds;
  TimingEvent begin, end;
  launch();
  for (double& sample : seconds) {
    begin.record(stream);
    launch();
    end.record(stream);
    sample = end.seconds_since(begin);
  }
  const auto median = seconds.begin() + seconds.size() / 2;
  std::nth_element(seconds.begin(), median, seconds.end());
  return *median;
}

/// The rate of `launch(Trace*)`, which does `work` in all; 0 where the device has no code for it.
template <class Call>
double measured_rate(cudaStream_t stream, double work, Call&& launch) {
  const DeviceArray<Trace> trace(1);
  check(cudaMemsetAsync(trace.data(), 0, sizeof(Trace), stream), "cudaMemsetAsync");
  const double seconds = median_seconds(stream, [&] { launch(trace.data()); });
  Trace left{};
  check(cudaMemcpyAsync(&left, trace.data(), sizeof left, cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return left.ran != 0 ? work / seconds : 0;
}

/// Multiprocessors of the current device.
inline int multiprocessors() {
  int device = 0, count = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  return count;
}

}  // namespace plumb::cuda
