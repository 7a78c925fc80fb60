// Padding: copies images with what their boundaries show around them, for kernels that know none.
// It is also what copies views with gaps, and what fills with zeros.
//
// Tiling: neighbouring threads are neighbouring elements of y in memory, or vectors of 16 bytes of
// them where both tensors have their elements side by side along one axis. Where they have them so
// along different axes, tiles are turned in shared memory (transpose.cuh). Bytes: x and y move
// once.
#include <algorithm>
#include <cstring>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/nn/copied_axes.hpp"
#include "cuda_kernels/nn/operators.hpp"
#include "cuda_kernels/nn/transpose.cuh"
#include "cuda_kernels/primitives/boundary.cuh"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;
constexpr int axes = CopiedAxes().size();
constexpr std::int64_t vector_bytes = 16;

/// Whether y's elements along the last axis may be moved `width` at a time, and nothing is read in
/// between.
bool takes_vectors(const CopiedAxes& all, const PadLaunch& call, std::int64_t width) {
  const CopiedAxis& last = all.back();
  const std::int64_t bytes = width * static_cast<std::int64_t>(size_in_bytes(call.x.dtype()));
  const auto aligned = [&](const void* data) {
    return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(bytes) == 0;
  };
  if (last.y_step != 1 || last.x_step != 1 || !last.is_plain() || last.outputs % width != 0 ||
      !aligned(call.x.data()) || !aligned(call.y.data()))
    return false;
  return std::all_of(all.begin(), all.end() - 1, [&](const CopiedAxis& axis) {
    return axis.x_step % width == 0 && axis.y_step % width == 0;
  });
}

void join_elements(CopiedAxes& all, std::int64_t width) {
  all.back().outputs /= width;
  all.back().extent /= width;
  for (CopiedAxis& axis : all)
    if (&axis != &all.back()) axis.x_step /= width, axis.y_step /= width;
}

bool fits_32_bits(const CopiedAxes& all) {
  double elements = 1, x_reach = 0, y_reach = 0, most = 0;
  const auto magnitude = [](std::int64_t number) { return std::abs(static_cast<double>(number)); };
  for (const CopiedAxis& axis : all) {
    const double last = static_cast<double>(axis.outputs - 1);
    elements *= static_cast<double>(axis.outputs);
    y_reach += last * magnitude(axis.y_step);
    x_reach +=
        static_cast<double>(std::max<std::int64_t>(axis.extent - 1, 0)) * magnitude(axis.x_step);
    most = std::max({most, 2.0 * static_cast<double>(axis.extent),
                     magnitude(axis.begin) + last * magnitude(axis.step)});
  }
  return std::max({elements, x_reach, y_reach, most}) < index32_limit;
}

template <class Index>
struct PadAxis {
  Divisor<Index> outputs;
  Index extent, begin, step, x_step, y_step;
  Boundary boundary;

  explicit PadAxis(const CopiedAxis& axis)
      : outputs(axis.outputs),
        extent(static_cast<Index>(axis.extent)),
        begin(static_cast<Index>(axis.begin)),
        step(static_cast<Index>(axis.step)),
        x_step(static_cast<Index>(axis.x_step)),
        y_step(static_cast<Index>(axis.y_step)),
        boundary(axis.boundary) {}
};

template <class Index>
struct PadShape {
  PadAxis<Index> axis[axes];  ///< the last runs fastest

  explicit PadShape(const CopiedAxes& all)
      : axis{PadAxis<Index>(all[0]), PadAxis<Index>(all[1]), PadAxis<Index>(all[2]),
             PadAxis<Index>(all[3]), PadAxis<Index>(all[4])} {}
};

/// Elements, or vectors of them, are copied as bits of their size.
template <class Bits, class Index>
__global__ void __launch_bounds__(block_threads)
    pad_elements(const __grid_constant__ PadShape<Index> shape, const Bits* x, Bits* y,
                 std::int64_t elements, Bits outside) {
  const std::int64_t grid_threads = std::int64_t{gridDim.x} * block_threads;
  for (std::int64_t element = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
       element < elements; element += grid_threads) {
    Index left = static_cast<Index>(element), from = 0, to = 0;
    bool inside = true;
#pragma unroll
    for (int i = axes - 1; i >= 0; --i) {
      const PadAxis<Index>& axis = shape.axis[i];
      Index index = left;
      if (i > 0) {
        const auto [above, here] = axis.outputs.divide(left);
        left = above, index = here;
      }
      const Index source = at_boundary(axis.boundary, axis.begin + index * axis.step, axis.extent);
      inside = inside && source >= 0;
      from += source * axis.x_step;
      to += index * axis.y_step;
    }
    Bits value = outside;
    if (inside) value = x[from];
    y[to] = value;
  }
}

template <class Bits>
void launch(const CopiedAxes& all, const PadLaunch& call, void* stream) {
  std::int64_t elements = 1;
  for (const CopiedAxis& axis : all) elements *= axis.outputs;
  const std::size_t bytes = size_in_bytes(call.y.dtype());
  alignas(vector_bytes) std::byte repeated[vector_bytes] = {};
  store_element(TensorView(repeated, call.y.dtype(), {1}, host), 0, call.outside);
  for (std::size_t at = bytes; at < vector_bytes; at += bytes)
    std::memcpy(repeated + at, repeated, bytes);
  Bits outside;
  std::memcpy(&outside, repeated, sizeof outside);
  with_index(fits_32_bits(all), [&]<class Index>(Index) {
    Launch(stream, blocks_for(elements, block_threads), block_threads)(
        pad_elements<Bits, Index>, PadShape<Index>(all), static_cast<const Bits*>(call.x.data()),
        static_cast<Bits*>(call.y.data()), elements, outside);
  });
}

}  // namespace

void pad(const PadLaunch& call, void* stream) {
  if (element_count(call.y.extents()) == 0) return;
  CopiedAxes all = axes_in_memory(call);
  const auto bytes = static_cast<std::int64_t>(size_in_bytes(call.x.dtype()));
  const std::int64_t width = vector_bytes / bytes;
  if (takes_vectors(all, call, width)) {
    join_elements(all, width);
    return launch<uint4>(all, call, stream);
  }
  if (const auto turned = TransposeAxes::of(all, bytes))
    return transpose(*turned, call.x.data(), call.y.data(), bytes, stream);
  switch (bytes) {
    case 8: return launch<std::uint64_t>(all, call, stream);
    case 4: return launch<std::uint32_t>(all, call, stream);
    default: return launch<std::uint16_t>(all, call, stream);
  }
}

}  // namespace plumb::cuda
