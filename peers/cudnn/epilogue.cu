// Bias and ReLU as passes over a dense output.
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/primitives/check.hpp"
#include "cuda_kernels/primitives/scalar.cuh"
#include "peers/cudnn/epilogue.hpp"

namespace plumb::cuda::cudnn {
namespace {

constexpr int block_threads = 256;

struct Pass {
  std::int64_t outputs;
  std::int64_t inner;  ///< outputs between one channel and the next
  std::int64_t channels;
  bool keep;  ///< y has a say in the result
  bool relu;
};

template <class Stored>
__global__ void __launch_bounds__(block_threads)
    pass_over(const __grid_constant__ Pass pass, const Stored* bias, Stored* y) {
  const std::int64_t step = std::int64_t{gridDim.x} * block_threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_threads + threadIdx.x; i < pass.outputs;
       i += step) {
    using Value = ComputeType<Stored>;
    Value value = pass.keep ? convert<Value>(y[i]) : Value{0};
    // Nothing is added to what is not kept: -0 and 0 are different biases.
    if (bias) {
      const Value added = convert<Value>(bias[i / pass.inner % pass.channels]);
      value = pass.keep ? value + added : added;
    }
    if (pass.relu && value < 0) value = 0;  // a NaN stays
    y[i] = convert<Stored>(value);
  }
}

template <class Stored>
__global__ void __launch_bounds__(block_threads) fill(std::int64_t count, Stored* data) {
  const std::int64_t step = std::int64_t{gridDim.x} * block_threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_threads + threadIdx.x; i < count;
       i += step) {
    std::uint64_t z = (static_cast<std::uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    const float value = static_cast<float>(z >> 40) * 0x1p-23f - 1.0f;
    if constexpr (std::is_same_v<Stored, double>)
      data[i] = value;
    else
      data[i] = convert<Stored>(value);
  }
}

void run(const ConvProblem& problem, Layout layout, const void* bias, bool keep, bool relu, void* y,
         void* stream) {
  const Extents extents = output_of(problem).extents;
  const std::int64_t outputs = element_count(extents);
  const Pass pass{.outputs = outputs,
                  .inner = layout == Layout::nchw ? outputs / (extents[0] * extents[1]) : 1,
                  .channels = extents[1],
                  .keep = keep,
                  .relu = relu};
  with_any_stored(problem.dtype, [&]<class Stored>(Stored) {
    Launch(stream, blocks_for(outputs, block_threads), block_threads)(
        pass_over<Stored>, pass, static_cast<const Stored*>(bias), static_cast<Stored*>(y));
  });
}

}  // namespace

void spread_bias(const ConvProblem& problem, Layout layout, const void* bias, void* y,
                 void* stream) {
  run(problem, layout, bias, false, false, y, stream);
}

void finish(const ConvProblem& problem, Layout layout, const void* bias, Activation activation,
            void* y, void* stream) {
  run(problem, layout, bias, true, activation == Activation::relu, y, stream);
}

void clear(const ConvProblem& problem, void* y, void* stream) {
  const std::int64_t outputs = element_count(output_of(problem).extents);
  check(cudaMemsetAsync(y, 0, static_cast<std::size_t>(outputs) * size_in_bytes(problem.dtype),
                        static_cast<cudaStream_t>(stream)),
        "cudaMemsetAsync");
}

void fill_randomly(DType dtype, std::int64_t count, void* data, void* stream) {
  with_any_stored(dtype, [&]<class Stored>(Stored) {
    Launch(stream, blocks_for(count, block_threads), block_threads)(fill<Stored>, count,
                                                                    static_cast<Stored*>(data));
  });
}

}  // namespace plumb::cuda::cudnn
