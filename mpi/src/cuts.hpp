// How a problem is cut along its axes: which rank has what of x and of y.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plumb/distributed.hpp"

namespace plumb::mpi {

/// Where the parts of an axis begin, and behind the last one where it ends.
using Cuts = std::vector<std::int64_t>;

/// The part that has `index`, which lies within the axis.
int part_of(const Cuts& cuts, std::int64_t index);

/// One axis of the image, with the filter's movement along it.
struct Axis {
  const char* name = "";  ///< "height"
  std::int64_t in = 1, out = 1;
  std::int64_t taps = 1, stride = 1, dilation = 1;
  std::int64_t before = 0, after = 0;
  Boundary boundary = Boundary::zeros;
  Cuts x, y;
  bool is_depth = false;

  int parts() const { return static_cast<int>(x.size()) - 1; }
  bool is_cut() const { return parts() > 1; }
  std::int64_t reach() const { return (taps - 1) * dilation + 1; }  ///< of the filter, in elements
};

/// Which part of each axis a rank has.
struct Place {
  int n = 0;
  std::array<int, 3> axes{};
};

/// A problem that has been checked, cut by a grid.
class Partition {
 public:
  /// Throws Error (invalid_argument) for what Distributed says of grid and sizes.
  Partition(const ConvProblem& problem, const DistributedGrid& grid, const DistributedSizes& sizes);

  const ConvProblem& problem() const { return problem_; }
  const Axis& axis(int i) const { return axes_[static_cast<std::size_t>(i)]; }  ///< D, H, W
  int ranks() const;
  Place place_of(int rank) const;
  int rank_of(const Place& place) const;
  std::int64_t images_of(int rank) const;  ///< of the batch
  /// With five extents; `c` channels.
  DistributedBlock block(int rank, bool of_x) const;

 private:
  ConvProblem problem_;
  Cuts n_;
  std::array<Axis, 3> axes_;
};

}  // namespace plumb::mpi
