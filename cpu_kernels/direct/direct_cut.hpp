// How a direct convolution on the CPU is cut into bands of output rows, and what its input is
// copied to (planes.hpp). The cut depends on the problem alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cpu_kernels/conv/blocks.hpp"
#include "cpu_kernels/conv/conv_block.hpp"
#include "cpu_kernels/direct/planes.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// How a problem is cut, and the memory that takes.
struct Cut {
  Planes planes;
  bool in_x;                 ///< whether x itself may stand in for planes
  std::int64_t rows, bands;  ///< output rows of a band, at most; bands of an image and group
  std::int64_t run_rows;     ///< output rows of a run whose sums are staged
  std::int64_t positions;    ///< of such a run, with what is dropped
  double rows_copied, elements_copied;  ///< for an image and group
  std::size_t offsets_bytes, filters_bytes, bias_bytes, planes_bytes, sums_bytes;

  std::size_t slot_bytes() const { return planes_bytes + sums_bytes; }
};

/// One cut for all columns of the outputs; or one for those that fill whole vectors, whose rows are
/// read where they lie in x, and another for the rest, both in the same bands.
struct Cuts {
  Cut first;
  std::optional<Cut> rest;
  std::int64_t columns;  ///< of the first

  std::size_t shared_bytes() const {
    return (rest ? 2 : 1) * first.offsets_bytes + first.bias_bytes;
  }
  std::size_t slot_bytes() const { return first.slot_bytes() + (rest ? rest->slot_bytes() : 0); }
  /// The packed filters count towards the limit wherever they lie: what runs, and how it is cut,
  /// does not depend on who keeps them.
  std::size_t bytes(int threads) const {
    return first.filters_bytes + shared_bytes() + static_cast<std::size_t>(threads) * slot_bytes();
  }
  /// Threads that there is room for.
  int threads(int wanted) const {
    return static_cast<int>(
        threads_with_room(wanted, first.filters_bytes + shared_bytes(), slot_bytes()));
  }
};

/// Rows of outputs that are made together, and those that are made at all: pooling takes pairs.
inline std::int64_t rows_together(const ConvProblem& p) { return p.pool == Pool::none ? 1 : 2; }
inline std::int64_t rows_computed(const ConvProblem& p) {
  return p.p() / rows_together(p) * rows_together(p);
}

/// The stride as taps see it: without a second output along a direction, one plane holds all taps.
inline std::int64_t step_of(std::int64_t stride, std::int64_t outputs) {
  return outputs > 1 ? stride : 1;
}

/// Places of a run of so many rows.
inline std::int64_t positions_of(std::int64_t rows, std::int64_t pitch, std::int64_t q) {
  return (rows - 1) * pitch + q;
}

/// Of the possible cuts the one of least work. For sums of float and double.
template <class Real>
Cuts cuts(const ConvProblem& problem);

/// In products: those of all positions, dropped ones among them, and what copying takes instead.
double work(const ConvProblem& problem, const Cuts& cuts);

}  // namespace plumb
