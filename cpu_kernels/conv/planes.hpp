// The input of a band of output rows is copied to this layout. README.md draws it.
#pragma once

#include <cstdint>

namespace plumb {

/// In planes every term is a shift, and a band's outputs are one run of neighbours for all terms:
///
///   sums[k][i] = sum over terms of planes[i + offset[term]] w[term][k],   i = p * pitch + q.
///
/// A plane has the input rows of one remainder by the vertical stride. For columns there are two
/// layouts:
///   - a plane for each remainder by the horizontal stride, whose rows have a halo: the positions
///     over the halo at the end of each row are no outputs, and are computed and dropped;
///   - a plane for each filter column, whose rows are as long as those of the outputs: more is
///     copied, nothing is dropped.
struct Planes {
  std::int64_t row_planes, column_planes;  ///< of each channel
  std::int64_t column_step;                ///< input columns from one plane's first to the next's
  std::int64_t pitch, rows;                ///< pitch of a row; rows of a plane
  std::int64_t plane;                      ///< elements from one plane to the next
};

}  // namespace plumb
