// Products of a warp whose fragments lie one under the other: a row of x is read once for a column
// of taps, and serves as many rows of outputs.
#pragma once

#include "cuda_kernels/grouped/grouped_products.cuh"

namespace plumb::cuda {

/// Adds all terms of a band, 16 neighbouring outputs of `m16` rows: those of the tile from `pixel`
/// on, and of the block's `strip`th strip.
template <GroupedFault fault, GroupedShape shape, class Params>
__device__ void add_band_products(const Params& params,
                                  const GroupedShared<shape, Params::size>& shared, int strip,
                                  int pixel, GroupedSums<shape>& sums) {
  constexpr int taps = grouped_band_taps, rows = shape.m16 + taps - 1;
  GroupedOperands<fault, shape, 1> of(params, shared, strip, pixel);
  const int columns = params.packed.columns_beside;
  const int row_halves = params.cut.row_units * grouped_unit_halves;
#pragma unroll 1
  for (int column = 0; column < columns; ++column) {
    const int term = of.terms[2 * column * taps];
#pragma unroll
    for (int j = 0; j < shape.bundles; ++j) {
      Fragment x[rows][4];
#pragma unroll
      for (int row = 0; row < rows; ++row)
        load_grouped(x[row], of.x[j][0] + (term + row * row_halves));
#pragma unroll
      for (int tap = 0; tap < taps; ++tap) {
        const int row = fault == GroupedFault::wrong_row && tap + 1 == taps ? tap - 1 : tap;
        of.template multiply<typename Params::Stored>(x + row, j, tap, sums);
      }
    }
    of.go_on(taps);
  }
}

}  // namespace plumb::cuda
