// A convolution as the kernels see it. It is plain data, because sources for several instruction
// sets share it.
#pragma once

#include <cstdint>

#include "plumb/types.hpp"

namespace plumb {

/// Elements [begin, end), counted from a tensor's pointer, that loads of whole vectors may read.
struct ReadableRange {
  std::int64_t begin = 0, end = 0;
  bool holds(std::int64_t from, std::int64_t to) const { return begin <= from && to <= end; }
};

/// Steps are in elements.
struct ConvShape {
  DType dtype;
  bool relu, accumulate, padded, pooled;
  bool reproducible;  ///< zeros that are stored have no sign
  const void* bias;   ///< null, or one value for each output channel

  const void* x;
  std::int64_t h, w;
  std::int64_t x_n, x_c, x_h, x_w;
  ReadableRange x_readable;  ///< range that loads of whole vectors stay in

  const void* filters;
  std::int64_t w_k, w_c, w_r, w_s;
  std::int64_t group_c, r, s, group_k;

  void* y;
  std::int64_t p, q;  ///< outputs of the convolution, before pooling
  std::int64_t y_n, y_k, y_p, y_q;

  Pair stride, dilation;
  std::int64_t top, left;

  std::int64_t terms() const { return group_c * r * s; }
  /// Says whether sums are activated as they are finished; where y's old values are added, only
  /// then.
  bool relu_of_sums() const { return relu && !accumulate; }
};

}  // namespace plumb
