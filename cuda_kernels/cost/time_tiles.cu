// plumb_time_tiles PROBLEM [COUNT]: the COUNT (20) most promising tiles of each unit of streamed
// filters, in fp16x3, TF32 and FP16, timed one by one on the first GPU. A line a tile: predicted
// and measured milliseconds (the median of seven), and how far y is from that of the unit's first
// tile.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "cuda_kernels/streamed_filters/streamed_launch.cuh"
#include "plumb/problem_text.hpp"

using namespace plumb;
using namespace plumb::cuda;

namespace {

constexpr int samples = 7;

DeviceInfo first_gpu() {
  DeviceInfo info;
  info.id = {.backend = "cuda"};
  int shared = 0;
  check(cudaDeviceGetAttribute(&info.units, cudaDevAttrMultiProcessorCount, 0), "attribute");
  check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), "attribute");
  check(cudaDeviceGetAttribute(&info.compute_major, cudaDevAttrComputeCapabilityMajor, 0),
        "attribute");
  info.shared_memory_bytes = static_cast<std::size_t>(shared);
  info.nominal_bytes_per_second = 4.8e12;  // an H200's, for which the predictions are
  info.nominal_fp32_flop_per_second = 67e12;
  return info;
}

/// Device memory of random elements, or of none.
template <class Stored>
class Buffer {
 public:
  Buffer(std::int64_t count, bool random) : count_(count) {
    check(cudaMalloc(&data_, static_cast<std::size_t>(count) * sizeof(Stored)), "cudaMalloc");
    if (!random) return;
    std::mt19937 bits(1);
    std::vector<Stored> values(static_cast<std::size_t>(count));
    for (Stored& value : values)
      value = Stored(static_cast<float>(static_cast<std::int32_t>(bits())) * 0x1p-31f);
    check(cudaMemcpy(data_, values.data(), values.size() * sizeof(Stored), cudaMemcpyDefault),
          "cudaMemcpy");
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* get() const { return data_; }
  std::vector<Stored> values() const {
    std::vector<Stored> values(static_cast<std::size_t>(count_));
    check(cudaMemcpy(values.data(), data_, values.size() * sizeof(Stored), cudaMemcpyDefault),
          "cudaMemcpy");
    return values;
  }

 private:
  std::int64_t count_;
  void* data_ = nullptr;
};

template <class Run>
double median_milliseconds(const Run& run) {
  cudaEvent_t begin{}, end{};
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<float> times(samples);
  run();
  for (float& time : times) {
    check(cudaEventRecord(begin), "cudaEventRecord");
    run();
    check(cudaEventRecord(end), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    check(cudaEventElapsedTime(&time, begin, end), "cudaEventElapsedTime");
  }
  check(cudaEventDestroy(begin), "cudaEventDestroy");
  check(cudaEventDestroy(end), "cudaEventDestroy");
  std::sort(times.begin(), times.end());
  return static_cast<double>(times[samples / 2]);
}

const char* to_text(Staging staging) {
  switch (staging) {
    case Staging::bulk: return "staged";
    case Staging::async: return "staged by threads";
    case Staging::ahead: return "ahead";
    case Staging::none: return "in place";
  }
  return "";
}

/// Times tiles of one unit, where its n8 tiles are what the problem's filters take.
template <class Scheme, int rows, int n8_tiles, class Stored>
void time_unit(const char* arithmetic, ConvProblem problem, const DeviceInfo& device, int count) {
  problem.dtype = dtype_of_stored<Stored>;
  const std::int64_t needed = ceil_div(problem.k, WindowTerms(problem).eight_filters());
  if (TogetherN8Tiles::at_least(static_cast<int>(std::min<std::int64_t>(needed, 16))) != n8_tiles)
    return;
  constexpr WindowKernelConfig unit = window_unit<Scheme, StreamedTerms<true>, rows, n8_tiles>;
  const WindowCosts costs = window_costs<Scheme>;
  std::vector<WindowTiles> tiles = all_window_tiles(problem, device, unit, costs, Staging::bulk);
  tiles.resize(std::min<std::size_t>(tiles.size(), static_cast<std::size_t>(count)));
  const PackedWindows packed(problem, unit, costs);
  const Buffer<Stored> x(element_count(problem.x_extents()), true);
  const Buffer<Stored> w(element_count(problem.w_extents()), true);
  const Buffer<Stored> y(element_count(problem.y_extents()), false);
  const Buffer<char> filters(static_cast<std::int64_t>(packed.bytes), false);
  pack_windows<Scheme, StripKSteps, Stored>({.problem = problem,
                                             .device = device,
                                             .w = w.get(),
                                             .filters = filters.get(),
                                             .native_queue = nullptr},
                                            packed);
  std::vector<Stored> first;
  for (const WindowTiles& tile : tiles) {
    const ConvLaunch call{.problem = problem,
                          .device = device,
                          .x = x.get(),
                          .w = nullptr,
                          .filters = filters.get(),
                          .bias = nullptr,
                          .y = y.get(),
                          .activation = Activation::none,
                          .workspace = nullptr,
                          .native_queue = nullptr};
    const double measured = median_milliseconds([&] {
      launch_windows<Scheme, StreamedTerms<true>, rows, n8_tiles, Stored>(call, tile, packed);
    });
    const std::vector<Stored> met = y.values();
    if (first.empty()) first = met;
    float apart = 0;
    for (std::size_t i = 0; i < met.size(); ++i)
      apart = std::max(apart, std::abs(float(met[i]) - float(first[i])));
    std::printf(
        "%-6s rows %d n8 %d: images %d strips %d windows %d threads %d blocks %d k tiles %d %s: "
        "predicted %.4f measured %.4f apart %.2e\n",
        arithmetic, rows, n8_tiles, tile.images, tile.strips, tile.windows, tile.threads,
        tile.blocks, tile.k_tiles, to_text(tile.staging), tile.seconds * 1e3, measured,
        static_cast<double>(apart));
  }
}

/// What the library has for these numbers of n8 tiles, and fewer rows with more warps.
void time_all(const ConvProblem& problem, const DeviceInfo& device, int count) {
  time_unit<SplitWindows, 4, 2, float>("fp16x3", problem, device, count);
  time_unit<SplitWindows, 2, 2, float>("fp16x3", problem, device, count);
  time_unit<SplitWindows, 1, 8, float>("fp16x3", problem, device, count);
  time_unit<SplitWindows, 2, 8, float>("fp16x3", problem, device, count);
  time_unit<Tf32Windows, 4, 2, float>("tf32", problem, device, count);
  time_unit<Tf32Windows, 2, 2, float>("tf32", problem, device, count);
  time_unit<Tf32Windows, 2, 8, float>("tf32", problem, device, count);
  time_unit<Tf32Windows, 1, 8, float>("tf32", problem, device, count);
  time_unit<Fp16Windows, 4, 2, __half>("fp16", problem, device, count);
  time_unit<Fp16Windows, 2, 8, __half>("fp16", problem, device, count);
  time_unit<Fp16Windows, 4, 8, __half>("fp16", problem, device, count);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2 || count > 3) {
    std::fprintf(stderr, "usage: plumb_time_tiles PROBLEM [COUNT]\n");
    return 2;
  }
  try {
    const ConvProblem problem = plumb::check(parse_problem(arguments[1]).problem);
    time_all(problem, first_gpu(), count > 2 ? std::stoi(arguments[2]) : 20);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plumb_time_tiles: %s\n", error.what());
    return 1;
  }
}
