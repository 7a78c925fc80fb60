// A convolution as the pieces that threads work on see it: plain data, since sources for several
// instruction sets share it.
#pragma once

#include <cstdint>

#include "plumb/types.hpp"

namespace plumb {

/// Steps are in elements.
struct ConvShape {
  DType dtype;
  bool relu, padded, pooled;
  const void* bias;  ///< null, or one for each output channel

  const void* x;
  std::int64_t h, w;
  std::int64_t x_n, x_c, x_h, x_w;
  std::int64_t x_elements;  ///< that follow x in memory; 0 where that is not known

  const void* filters;
  std::int64_t w_k, w_c, w_r, w_s;
  std::int64_t group_c, r, s, group_k;

  void* y;
  std::int64_t p, q;  ///< of the convolution, before pooling
  std::int64_t y_n, y_k, y_p, y_q;

  Pair stride, dilation;
  std::int64_t top, left;

  std::int64_t terms() const { return group_c * r * s; }
};

}  // namespace plumb
