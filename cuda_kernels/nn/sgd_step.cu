// A step of stochastic gradient descent. Every operation rounds by itself, as on other devices.
//
// Tiling: there is none; neighbouring threads are neighbouring elements of w's rows.
// Bytes: dw is read; w and the velocity are read and written.
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/nn/element_offsets.cuh"
#include "cuda_kernels/nn/operators.hpp"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

template <class Value, class Index>
struct StepShape {
  ElementOffsets<Index, 3> offsets;  ///< in w, dw and the velocity
  Value rate, momentum, decay;
  bool nesterov;

  explicit StepShape(const SgdLaunch& call)
      : offsets(call.w.extents(), {call.w.strides(), call.dw.strides(),
                                   (call.velocity.empty() ? call.w : call.velocity).strides()}),
        rate(static_cast<Value>(call.options.learning_rate)),
        momentum(static_cast<Value>(call.options.momentum)),
        decay(static_cast<Value>(call.options.weight_decay)),
        nesterov(call.options.nesterov) {}
};

template <class Stored, class Index>
__global__ void __launch_bounds__(block_threads)
    take_step(const __grid_constant__ StepShape<ComputeType<Stored>, Index> shape, Stored* w,
              const Stored* dw, Stored* velocity, std::int64_t elements) {
  using Value = ComputeType<Stored>;
  const std::int64_t grid_threads = std::int64_t{gridDim.x} * block_threads;
  for (std::int64_t element = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
       element < elements; element += grid_threads) {
    const auto [to, from, kept] = shape.offsets.at(element).of;
    const Value before = convert<Value>(w[to]);
    Value direction = convert<Value>(dw[from]);
    if (shape.decay != 0) direction += rounded_product(shape.decay, before);
    if (velocity) {
      const Value now = rounded_product(shape.momentum, convert<Value>(velocity[kept])) + direction;
      velocity[kept] = convert<Stored>(now);
      direction = shape.nesterov ? direction + rounded_product(shape.momentum, now) : now;
    }
    w[to] = convert<Stored>(before - rounded_product(shape.rate, direction));
  }
}

}  // namespace

void sgd_step(const SgdLaunch& call, void* stream) {
  const Extents& extents = call.w.extents();
  const std::int64_t elements = element_count(extents);
  double largest = std::max({reach(extents, call.w.strides()), reach(extents, call.dw.strides()),
                             static_cast<double>(elements)});
  if (!call.velocity.empty()) largest = std::max(largest, reach(extents, call.velocity.strides()));
  with_any_stored(call.w.dtype(), [&]<class Stored>(Stored) {
    with_index(largest < index32_limit, [&]<class Index>(Index) {
      Launch(stream, blocks_for(elements, block_threads), block_threads)(
          take_step<Stored, Index>, StepShape<ComputeType<Stored>, Index>(call),
          static_cast<Stored*>(call.w.data()), static_cast<const Stored*>(call.dw.data()),
          static_cast<Stored*>(call.velocity.data()), elements);
    });
  });
}

}  // namespace plumb::cuda
