// Where bilinear interpolation samples, along one direction.
#pragma once

#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {

/// The two pixels that an output lies between along one direction, and how far it is to `high`.
/// Every operation rounds on its own, as on other devices, so that all of them sample alike.
template <class Index, class Value>
struct Between {
  Index low, high;
  Value fraction;

  __device__ Between(Index output, Value scale, Index extent) {
    const Value centre = static_cast<Value>(output) + Value{0.5};
    Value coordinate = rounded_product(centre, scale) - Value{0.5};
    const Value last = static_cast<Value>(extent - 1);
    coordinate = coordinate < 0 ? 0 : coordinate > last ? last : coordinate;
    low = static_cast<Index>(coordinate);  // truncation rounds down, since it is not negative
    // `last` may have been rounded up for extents beyond what Value counts exactly.
    if (low > extent - 1) low = extent - 1;
    high = low < extent - 1 ? low + 1 : low;
    fraction = coordinate - static_cast<Value>(low);
  }
};

}  // namespace plumb::cuda
