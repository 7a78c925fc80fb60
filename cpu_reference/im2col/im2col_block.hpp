// A thread takes an im2col convolution in blocks (conv_im2col.cpp). A block's functions are
// compiled once for each instruction set (im2col_block.inl).
//
// The columns of the im2col matrix are output pixels, numbered along rows, images and the batch;
// its rows are the terms (c, r, s) of an output, in the order in which a filter has them in memory:
// (r, s, c) where its channels are innermost. A block gathers a part of that matrix and multiplies
// it by the filters:
//
//   sums[channel][column] = sum over terms of patches[term][column] filters[channel][term]
//
// Vectors run over pixels, however few channels there are.
#pragma once

#include <cstdint>

#include "cpu_kernels/conv/conv_shape.hpp"

namespace plumb {

/// A convolution as its blocks see it. Where there is one filter, its step w_k is that of a dense
/// filter, so that it may be used in place.
struct Im2colConv : ConvShape {
  /// The step in x from one output of a row to the next: stride.w * x_w. Images of a single output
  /// are laid out as one row that runs along the batch: then it is x_n, stride.w is 0, and y_q is
  /// that of n.
  std::int64_t x_q;
  /// Whether the terms of a filter are in the order (r, s, c).
  bool channels_innermost;
};

/// Output channels [k, k + k_count) of a group and columns [column, column + columns), summed over
/// the terms [term, term + term_count).
struct Im2colBlock {
  std::int64_t group;
  std::int64_t k, k_count;
  std::int64_t column, columns;
  std::int64_t term, term_count;
};

/// Consecutive columns that lie in one row of outputs.
struct ColumnRun {
  std::int64_t q, count;
  std::int64_t h;  ///< row of x under the first tap, maybe outside the image
  std::int64_t x;  ///< offset of the first column's first tap, maybe outside the image
  std::int64_t y;  ///< offset of the first column in y
};

/// Room for one block, of element type T (the type computed in).
template <class T>
struct Im2colScratch {
  std::int64_t depth;      ///< terms of one product
  std::int64_t k_product;  ///< channels of one product
  ColumnRun* runs;         ///< [columns]
  T* patches;              ///< [depth][columns]
  T* filters;              ///< [k_product][depth], null where the filters are used in place
  T* sums;                 ///< [k_count][columns]
  T* packed_patches;  ///< as many as `patches`, in the order in which Eigen's product reads them
  T* packed_filters;  ///< [k_product][depth], in the order in which Eigen's product reads them
};

/// What is done to a block: `sum` fills the sums from x and the filters, `store` adds the bias,
/// applies the activation, rounds once, and writes to y.
template <class T>
struct Im2colKernels {
  void (*sum)(const Im2colConv&, const Im2colBlock&, const Im2colScratch<T>&);
  void (*store)(const Im2colConv&, const Im2colBlock&, const Im2colScratch<T>&);
};
struct Im2colKernelSet {
  Im2colKernels<float> fp32;
  Im2colKernels<double> fp64;
};

/// The functions that were compiled for an instruction set. The library holds the baseline's on
/// every machine, the others' on x86-64.
extern const Im2colKernelSet im2col_kernels_baseline, im2col_kernels_avx2, im2col_kernels_avx512;

}  // namespace plumb
