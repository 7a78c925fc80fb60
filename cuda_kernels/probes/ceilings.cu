// The memory's and the FMA pipes' ceilings, and the clock.
//
// Copy: each thread moves four pieces of 16 bytes, all loaded before the first is stored; the
//   arrays are far larger than L2, and random, because some chips compress zeros.
// FMA: eight independent chains a thread in registers, 1,024 threads or more a multiprocessor. The
//   sums swing around their limit, so that the operands' bits change as those of real data do.
#include "cuda_kernels/probes/ceilings.hpp"

#include <cuda_fp16.h>

#include "cuda_kernels/probes/probe.cuh"
#include "cuda_kernels/probes/tensor_cores.hpp"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

__global__ void __launch_bounds__(block_threads) fill(float4* data, std::int64_t count) {
  const std::int64_t grid_threads = std::int64_t{gridDim.x} * block_threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_threads + threadIdx.x; i < count;
       i += grid_threads) {
    const auto number = static_cast<std::uint32_t>(4 * i);
    data[i] = {random_value(number), random_value(number + 1), random_value(number + 2),
               random_value(number + 3)};
  }
}

constexpr int pieces = 4;  // of 16 bytes, for each thread
constexpr std::int64_t block_pieces = pieces * block_threads;

__global__ void __launch_bounds__(block_threads)
    copy(float4* __restrict__ to, const float4* __restrict__ from, Trace* trace) {
  const std::int64_t first = blockIdx.x * block_pieces + threadIdx.x;
  float4 values[pieces];
#pragma unroll
  for (int i = 0; i < pieces; ++i) values[i] = from[first + i * block_threads];
#pragma unroll
  for (int i = 0; i < pieces; ++i) to[first + i * block_threads] = values[i];
  trace->leave(values[0].x);
}

/// Read and written.
double copy_bytes_per_second(cudaStream_t stream) {
  constexpr std::size_t largest_bytes = std::size_t{1} << 30;
  std::size_t free_bytes = 0, all_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo");
  const std::size_t wanted = std::min(largest_bytes, free_bytes / 4) / sizeof(float4);
  const auto blocks = static_cast<unsigned>(std::max<std::size_t>(wanted / block_pieces, 1));
  const std::int64_t count = blocks * block_pieces;
  const DeviceArray<float4> from(count), to(count);
  Launch(stream, blocks, block_threads)(fill, from.data(), count);
  return measured_rate(stream, 2.0 * sizeof(float4) * static_cast<double>(count),
                       [&](Trace* trace) {
                         Launch(stream, blocks, block_threads)(copy, to.data(), from.data(), trace);
                       });
}

__device__ float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ double multiply_add(double a, double b, double c) { return fma(a, b, c); }
__device__ __half2 multiply_add(__half2 a, __half2 b, __half2 c) { return __hfma2(a, b, c); }

template <class Value>
__device__ Value broadcast(float value) {
  if constexpr (std::is_same_v<Value, __half2>)
    return __float2half2_rn(value);
  else
    return value;
}
__device__ float as_float(float value) { return value; }
__device__ float as_float(double value) { return static_cast<float>(value); }
__device__ float as_float(__half2 value) { return __low2float(value) + __high2float(value); }

constexpr int chains = 8;
constexpr float swing = -0.9995f;  // swings on for thousands of steps, and fp16 holds it nearly

template <class Value>
__global__ void __launch_bounds__(block_threads, 4)
    fma_chains(int steps, float factor_value, Trace* trace) {
  const Value factor = broadcast<Value>(factor_value);
  const Value addend = broadcast<Value>(random_value(threadIdx.x));
  Value sums[chains];
#pragma unroll
  for (int i = 0; i < chains; ++i)
    sums[i] = broadcast<Value>(random_value(chains * threadIdx.x + i));
  for (int step = 0; step < steps; step += 8)
#pragma unroll
    for (int unrolled = 0; unrolled < 8; ++unrolled)
#pragma unroll
      for (int i = 0; i < chains; ++i) sums[i] = multiply_add(sums[i], factor, addend);
  float all = 0;
#pragma unroll
  for (int i = 0; i < chains; ++i) all += as_float(sums[i]);
  trace->leave(all);
}

template <class Value>
double fma_flop_per_second(cudaStream_t stream, int steps) {
  const auto blocks = static_cast<unsigned>(32 * multiprocessors());  // a few waves
  constexpr double lanes = std::is_same_v<Value, __half2> ? 2 : 1;
  const double flop = 2.0 * lanes * chains * steps * block_threads * blocks;
  return measured_rate(stream, flop, [&](Trace* trace) {
    Launch(stream, blocks, block_threads)(fma_chains<Value>, steps, swing, trace);
  });
}

struct ClockReading {
  long long cycles;
  unsigned long long nanoseconds;
};

__device__ ClockReading read_clocks() {
  ClockReading reading;
  reading.cycles = clock64();
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(reading.nanoseconds)::"memory");
  return reading;
}

/// Every block computes for `nanoseconds`; the first thread of all says how many cycles that took.
__global__ void __launch_bounds__(block_threads)
    count_cycles(unsigned long long nanoseconds, float factor, ClockReading* elapsed,
                 Trace* trace) {
  const ClockReading begin = read_clocks();
  ClockReading now;
  float sum = random_value(threadIdx.x);
  do {
#pragma unroll 64
    for (int i = 0; i < 1024; ++i) sum = fmaf(sum, factor, 0.5f);
    now = read_clocks();
  } while (now.nanoseconds - begin.nanoseconds < nanoseconds);
  if (blockIdx.x == 0 && threadIdx.x == 0)
    *elapsed = {now.cycles - begin.cycles, now.nanoseconds - begin.nanoseconds};
  trace->leave(sum);
}

/// The clock, counted while all multiprocessors compute for `nanoseconds`.
double counted_hertz(cudaStream_t stream, unsigned long long nanoseconds) {
  const DeviceArray<ClockReading> elapsed(1);
  const DeviceArray<Trace> trace(1);
  const auto blocks = static_cast<unsigned>(multiprocessors());
  Launch(stream, blocks, block_threads)(count_cycles, nanoseconds, swing, elapsed.data(),
                                        trace.data());
  ClockReading reading{};
  check(cudaMemcpyAsync(&reading, elapsed.data(), sizeof reading, cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return 1e9 * static_cast<double>(reading.cycles) / static_cast<double>(reading.nanoseconds);
}

}  // namespace

DeviceCeilings measure_ceilings(cudaStream_t stream) {
  counted_hertz(stream, 200'000'000);  // a clock that idled takes its time to rise
  const TensorCoreRates tensor_cores = measure_tensor_cores(stream);
  return {
      .bytes_per_second = copy_bytes_per_second(stream),
      // Fewer steps in fp64: most chips have a 64th of the units for it.
      .fp64_flop_per_second = fma_flop_per_second<double>(stream, 4096),
      .fp32_flop_per_second = fma_flop_per_second<float>(stream, 16384),
      .fp16_fma_flop_per_second = fma_flop_per_second<__half2>(stream, 16384),
      .tf32_flop_per_second = tensor_cores.tf32,
      .bf16_flop_per_second = tensor_cores.bf16,
      .fp16_flop_per_second = tensor_cores.fp16,
  };
}

double measure_clock_hertz(cudaStream_t stream) { return counted_hertz(stream, 10'000'000); }

}  // namespace plumb::cuda
