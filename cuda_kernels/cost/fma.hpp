// These models say how long the kernels in fma/ take. Kernels say how they cut a problem; models
// know what that costs.
#pragma once

#include <cstdint>

#include "cuda_kernels/cost/kernel_model.hpp"
#include "cuda_kernels/fma/band_tile.hpp"

namespace plumb::cuda {

/// How far the loops over a filter's taps are unrolled.
enum class UnrolledTaps { none, columns, both };

double direct_seconds(const ConvProblem& problem, const DeviceInfo& device,
                      Accumulator accumulator);
double direct_unrolled_seconds(const ConvProblem& problem, const DeviceInfo& device,
                               UnrolledTaps unrolled);

/// The tiles of a product, which are square.
struct GemmTiles {
  int side;            ///< 8, 16 or 32: filters, pixels and terms of a step
  std::int64_t count;  ///< tiles of filters and pixels
};
double implicit_gemm_seconds(const ConvProblem& problem, const DeviceInfo& device,
                             Accumulator accumulator, const GemmTiles& tiles);
/// `unrolled_bytes` are the bytes of the whole im2col matrix.
double im2col_gemm_seconds(const ConvProblem& problem, const DeviceInfo& device,
                           const GemmTiles& tiles, double unrolled_bytes);

struct RegisterTile {
  BandTile tile;        ///< the band of a block; its unit is a thread's outputs
  std::int64_t blocks;  ///< blocks that have a band
  bool whole_rows;      ///< whether a kernel for the filters' width reads rows at once
};
double register_tile_seconds(const ConvProblem& problem, const DeviceInfo& device,
                             const RegisterTile& of);

/// A thread of few_terms makes some pixels of all filters of its share.
struct FewTerms {
  int terms, filter_pitch;             ///< of the kernel
  int makes, reads, writes;            ///< pixels made and written, and pixels read for each term
  double threads;                      ///< threads of one share of the filters
  bool lines;                          ///< whether it writes whole lines of memory
  int vector;                          ///< pixels of a store where it does not
  std::int64_t image_pixels;           ///< of an output image
  std::int64_t share_filters, shares;  ///< filters of a share, and how many there are
};
double few_terms_seconds(const ConvProblem& problem, const DeviceInfo& device, const FewTerms& of);

/// A thread of few_filters makes `rows` by `columns` outputs of each filter.
struct FewFilters {
  int filters, width, rows, columns;
  int x_fours, w_pitch;  ///< reads of a row of input; elements of a row of weights
  int x_rows, x_pitch;   ///< rows and pitch of the input under a block's outputs
  int block_threads;     ///< threads of a block
  int tile_columns;      ///< columns of a block's outputs
  bool aligned;          ///< whether rows of input begin at multiples of 16 bytes
  double blocks;         ///< blocks for all outputs
};
/// Counts the instructions of all threads, and the wavefronts of shared memory.
IssuedWork few_filters_work(const ConvProblem& problem, const FewFilters& of);
double few_filters_seconds(const ConvProblem& problem, const DeviceInfo& device,
                           const FewFilters& of, int y_vector);

}  // namespace plumb::cuda
