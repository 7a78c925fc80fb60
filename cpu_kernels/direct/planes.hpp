// How the input of a band of output rows lies once it is copied.
#pragma once

#include <cstdint>

namespace plumb {

/// The input of a band of output rows, copied so that every term is a shift and the outputs are one
/// run of neighbours for all terms:
///
///   sums[k][i] = sum over terms of planes[i + offset[term]] w[term][k],   i = p * pitch + q.
///
/// With a stride, the rows of one remainder make a plane of their own. Columns come in two ways:
///   - a plane for each remainder, with rows as long as the last tap reaches: at the end of each
///     row are positions that are no outputs, which are computed and dropped;
///   - a plane for each column of the filter, with rows of just the outputs' width: more to copy,
///     nothing to drop.
struct Planes {
  std::int64_t row_planes, column_planes;  ///< of each channel
  std::int64_t column_step;                ///< input columns from one plane's first to the next's
  std::int64_t pitch, rows;                ///< of a plane
  std::int64_t plane;                      ///< from one plane to the next
};

}  // namespace plumb
