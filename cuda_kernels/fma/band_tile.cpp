// Cuts the outputs into tiles.
#include "cuda_kernels/fma/band_tile.hpp"

#include <algorithm>

namespace plumb::cuda {
namespace {

/// Returns the tile of at most `most` that cuts `extent` into equal shares.
std::int64_t even_share(std::int64_t extent, std::int64_t most) {
  return ceil_div(extent, ceil_div(extent, std::max<std::int64_t>(most, 1)));
}

/// Returns the number of elements under `outputs` neighbouring outputs along one direction.
std::int64_t swept(std::int64_t outputs, std::int64_t stride, std::int64_t taps,
                   std::int64_t dilation) {
  return (outputs - 1) * stride + (taps - 1) * dilation + 1;
}

/// Fills in the fields that follow from the numbers of units.
void measure(BandTile& tile, const ConvProblem& problem, std::size_t wanted_bytes) {
  tile.x_rows = swept(tile.rows * tile.unit.rows, problem.stride.h, problem.r, problem.dilation.h);
  tile.x_columns =
      swept(tile.columns * tile.unit.columns, problem.stride.w, problem.s, problem.dilation.w);
  // Threads read vectors of four, and the last vector may reach three elements beyond those used.
  tile.pitch = (tile.x_columns + 3) / 4 * 4;
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double channel_bytes =
      4 * (number(tile.images * tile.unit.images) * number(tile.x_rows) * number(tile.pitch) +
           number(problem.r * problem.s) * number(tile.filters * tile.unit.filters));
  const double fitting = static_cast<double>(wanted_bytes) / channel_bytes;
  tile.channels =
      even_share(problem.c / problem.groups, static_cast<std::int64_t>(std::min(fitting, 1e6)));
  tile.bytes = static_cast<std::size_t>(std::min(channel_bytes * number(tile.channels), 1e9));
}

}  // namespace

BandTile make_band_tile(const ConvProblem& problem, const UnitTile& unit,
                        const BandLimits& limits) {
  BandTile tile{.unit = unit};
  tile.columns =
      even_share(ceil_div(problem.q(), unit.columns), std::min(limits.columns, limits.units));
  tile.filters = even_share(ceil_div(problem.k / problem.groups, unit.filters),
                            std::min(limits.filters, limits.units / tile.columns));
  tile.rows =
      even_share(ceil_div(problem.p(), unit.rows), limits.units / (tile.columns * tile.filters));
  tile.images = even_share(ceil_div(std::max<std::int64_t>(problem.n, 1), unit.images),
                           limits.enough_units / (tile.columns * tile.filters * tile.rows));
  measure(tile, problem, limits.bytes);
  // A block takes fewer outputs until their input fits.
  for (std::int64_t BandTile::*extent :
       {&BandTile::images, &BandTile::rows, &BandTile::filters, &BandTile::columns})
    while (tile.bytes > limits.bytes && tile.*extent > 1) {
      tile.*extent = (tile.*extent + 1) / 2;
      measure(tile, problem, limits.bytes);
    }
  return tile;
}

}  // namespace plumb::cuda
