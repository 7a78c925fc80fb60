// Elements of several tensors of the same extents, for operators that go through them one by one.
#pragma once

#include "cuda_kernels/primitives/index.cuh"
#include "plumb/types.hpp"

namespace plumb::cuda {

/// Where the element of a number lies in each of `count` tensors of the same five extents, the last
/// running fastest.
template <class Index, int count>
class ElementOffsets {
 public:
  struct Offsets {
    Index of[count];
  };

  ElementOffsets(const Extents& extents, const Strides (&strides)[count]) {
    for (int i = 0; i < 5; ++i) {
      if (i > 0) inner_[i - 1] = Divisor<Index>(extents[i]);
      for (int tensor = 0; tensor < count; ++tensor)
        steps_[tensor][i] = step<Index>(extents, strides[tensor], i);
    }
  }

  __device__ Offsets at(std::int64_t element) const {
    Offsets offsets{};
    Index rest = static_cast<Index>(element);
#pragma unroll
    for (int i = 4; i > 0; --i) {
      const auto [outer, index] = inner_[i - 1].divide(rest);
#pragma unroll
      for (int tensor = 0; tensor < count; ++tensor)
        offsets.of[tensor] += index * steps_[tensor][i];
      rest = outer;
    }
#pragma unroll
    for (int tensor = 0; tensor < count; ++tensor) offsets.of[tensor] += rest * steps_[tensor][0];
    return offsets;
  }

 private:
  Divisor<Index> inner_[4];  ///< extents behind the first
  Index steps_[count][5];
};

}  // namespace plumb::cuda
