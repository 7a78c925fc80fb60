// A convolution that the interleaved kernels' sources make on the host.
#pragma once

#include "cuda_kernels/interleaved/interleaved.hpp"
#include "plumb/conv.hpp"

namespace plumb_test::emulation {

enum class InterleavedKind { fp16x3, fp16, bf16, fp16_scaled };

struct InterleavedRun {
  const plumb::ConvProblem& problem;
  InterleavedKind kind;
  const plumb::cuda::InterleavedLayout& layout;
  const void *x, *w, *bias;  ///< bias or null
  void* y;
  bool relu = false;
  int blocks = 2;   ///< at most, which go through the tiles
  int units = 132;  ///< of the device that tiles are planned for: fewer have larger ones
};

/// Packs the filters and convolves. Returns whether vectors of filters were stored.
bool run_interleaved(const InterleavedRun& run);

/// The most of the half-warp's lanes, which read eight bytes each, that meet in a bank of shared
/// memory where vectors of filters of `rows` rows of outputs are read from the stage.
int bank_conflicts(int element_bytes, int rows);

}  // namespace plumb_test::emulation
