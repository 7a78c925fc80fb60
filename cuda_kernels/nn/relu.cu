// ReLU: y = max(x, 0) element by element, NaN kept; x and y may be the same memory.
//
// Tiling: there is none. A thread takes a vector of 16 bytes in views without gaps, and one
//   element, along y's memory, in others.
// Bytes: x and y move once. Only vectors reach the memory's rate with two-byte types.
#include <cstddef>
#include <numeric>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/nn/operators.hpp"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

/// The elements of two views as the fewest nested loops, the innermost along y's memory.
struct Loops {
  Extents extents;
  Strides x, y;

  Loops(const ConstTensorView& from, const ConstTensorView& to) {
    std::array<int, Dims::max_rank> order{};
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.begin() + to.rank(),
                     [&](int a, int b) { return std::abs(to.stride(a)) > std::abs(to.stride(b)); });
    std::array<std::int64_t, Dims::max_rank> sizes{}, x_steps{}, y_steps{};
    std::size_t rank = 0;
    for (int i = 0; i < to.rank(); ++i) {
      const int dimension = order[i];
      const std::int64_t size = to.extent(dimension);
      if (size == 1) continue;
      const bool continues = rank > 0 && x_steps[rank - 1] == size * from.stride(dimension) &&
                             y_steps[rank - 1] == size * to.stride(dimension);
      if (!continues) ++rank;
      sizes[rank - 1] = (continues ? sizes[rank - 1] : 1) * size;
      x_steps[rank - 1] = from.stride(dimension);
      y_steps[rank - 1] = to.stride(dimension);
    }
    if (rank == 0) sizes[rank++] = 1;
    extents = Extents(sizes.data(), rank);
    x = Strides(x_steps.data(), rank);
    y = Strides(y_steps.data(), rank);
  }
};

template <class Index>
struct LoopShape {
  int rank;
  Divisor<Index> extent[Dims::max_rank];
  Index x_step[Dims::max_rank], y_step[Dims::max_rank];

  explicit LoopShape(const Loops& loops) : rank(loops.extents.rank()) {
    for (int i = 0; i < rank; ++i) {
      extent[i] = Divisor<Index>(loops.extents[i]);
      x_step[i] = static_cast<Index>(loops.x[i]);
      y_step[i] = static_cast<Index>(loops.y[i]);
    }
  }
};

template <class Stored>
__device__ Stored rectified(Stored value) {
  using Value = ComputeType<Stored>;
  return convert<Value>(value) < 0 ? convert<Stored>(Value{0}) : value;
}

template <class Stored, class Index>
__global__ void __launch_bounds__(block_threads)
    relu_elements(const __grid_constant__ LoopShape<Index> shape, const Stored* x, Stored* y,
                  std::int64_t elements) {
  const std::int64_t grid_threads = std::int64_t{gridDim.x} * block_threads;
  for (std::int64_t element = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
       element < elements; element += grid_threads) {
    Index rest = static_cast<Index>(element), x_offset = 0, y_offset = 0;
#pragma unroll
    for (int i = Dims::max_rank - 1; i >= 0; --i) {
      if (i >= shape.rank) continue;
      const auto [outer, index] = shape.extent[i].divide(rest);
      x_offset += index * shape.x_step[i];
      y_offset += index * shape.y_step[i];
      rest = outer;
    }
    y[y_offset] = rectified(x[x_offset]);
  }
}

template <class Stored>
struct alignas(16) Vector {
  static constexpr int size = 16 / sizeof(Stored);
  Stored elements[size];
};

/// Says whether x and y are dense and begin at multiples of 16 bytes.
template <class Stored>
__global__ void __launch_bounds__(block_threads)
    relu_vectors(const Stored* x, Stored* y, std::int64_t elements) {
  constexpr int size = Vector<Stored>::size;
  const std::int64_t vectors = elements / size;
  const std::int64_t grid_threads = std::int64_t{gridDim.x} * block_threads;
  const std::int64_t thread = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
  for (std::int64_t i = thread; i < vectors; i += grid_threads) {
    Vector<Stored> vector = reinterpret_cast<const Vector<Stored>*>(x)[i];
#pragma unroll
    for (Stored& element : vector.elements) element = rectified(element);
    reinterpret_cast<Vector<Stored>*>(y)[i] = vector;
  }
  if (const std::int64_t last = vectors * size + thread; last < elements)
    y[last] = rectified(x[last]);
}

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

}  // namespace

void relu(const ConstTensorView& x, const TensorView& y, void* stream) {
  const std::int64_t elements = element_count(y.extents());
  const Loops loops(x, y);
  const bool is_one_run =
      loops.extents.rank() == 1 && (elements == 1 || (loops.x[0] == 1 && loops.y[0] == 1));
  with_any_stored(x.dtype(), [&]<class Stored>(Stored) {
    const auto* from = static_cast<const Stored*>(x.data());
    auto* to = static_cast<Stored*>(y.data());
    if (is_one_run && is_aligned(from) && is_aligned(to)) {
      constexpr std::int64_t block_elements = block_threads * Vector<Stored>::size;
      Launch(stream, blocks_for(elements, block_elements), block_threads)(relu_vectors<Stored>,
                                                                          from, to, elements);
      return;
    }
    const double largest = std::max({reach(loops.extents, loops.x), reach(loops.extents, loops.y),
                                     static_cast<double>(elements)});
    with_index(largest < index32_limit, [&]<class Index>(Index) {
      Launch(stream, blocks_for(elements, block_threads), block_threads)(
          relu_elements<Stored, Index>, LoopShape<Index>(loops), from, to, elements);
    });
  });
}

}  // namespace plumb::cuda
