// The order in which reproducible backward weights sums.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "plumb/conv.hpp"

namespace plumb {

/// The sum of an element of dw over n, z, p, q is cut into segments, which are added by a binary
/// tree: 0 to 1, 2 to 3, ..., then each second of these sums to the one after it, until one is
/// left; what has no partner waits for the next round. A segment is some rows of a plane of dy, or
/// some whole planes one after another (n, then z). Its products are summed in sixteen chains of
/// fused multiply-adds from zero, in the order of its rows and columns, of which chain i has the
/// columns q with q mod 16 = i; then chains 8 to 15 are added to 0 to 7, 4 to 7 to 0 to 3, and so
/// on. It depends on N, Z, P and Q alone.
struct GradientTree {
  static constexpr int lanes = 16;                 ///< chains of a segment
  static constexpr std::int64_t positions = 4096;  ///< of a segment of more than one row, at most
  std::int64_t planes = 0;                         ///< N Z
  std::int64_t planes_together = 1;                ///< of a segment
  std::int64_t rows = 1;                           ///< of each plane of a segment
  std::int64_t of_plane = 1;                       ///< segments that a plane is cut into
  std::int64_t segments = 0;                       ///< all of them

  /// The tree of a problem that check() has passed.
  explicit GradientTree(const ConvProblem& problem) : planes(problem.n * problem.z()) {
    const std::int64_t p = problem.p(), most = std::max<std::int64_t>(positions / problem.q(), 1);
    rows = p;
    if (p <= most) {
      planes_together = most / p;
      segments = (planes + planes_together - 1) / planes_together;
      return;
    }
    const std::int64_t parts = (p + most - 1) / most;
    rows = (p + parts - 1) / parts;
    of_plane = (p + rows - 1) / rows;
    segments = planes * of_plane;
  }

  /// The first plane of a segment, how many there are, and its rows of each.
  struct Segment {
    std::int64_t plane;   ///< the first, n Z + z
    std::int64_t planes;  ///< how many
    std::int64_t p;       ///< the first row of each
    std::int64_t rows;    ///< of each plane
  };
  /// Returns where a segment lies, of a problem of `p` output rows.
  Segment at(std::int64_t segment, std::int64_t p) const {
    const std::int64_t plane = segment / of_plane * planes_together;
    const std::int64_t first = segment % of_plane * rows;
    return {plane, std::min(planes_together, planes - plane), first, std::min(rows, p - first)};
  }
  /// Returns how many consecutive segments, a power of two, a part has where there are to be at
  /// most `parts`. The sums of parts are added by the same tree.
  std::int64_t segments_of_part(std::int64_t parts) const {
    std::int64_t together = 1;
    while ((segments + together - 1) / together > parts) together *= 2;
    return together;
  }
  /// Returns the most additions on the way of a product to the sum, of a problem of `q` output
  /// columns with at least one segment.
  double chain(std::int64_t q) const {
    const auto of_lanes = std::bit_width(static_cast<unsigned>(lanes - 1));
    const auto of_segments = std::bit_width(static_cast<std::uint64_t>(segments - 1));
    return static_cast<double>(planes_together * rows * ((q + lanes - 1) / lanes) + of_lanes +
                               of_segments);
  }
};

}  // namespace plumb
