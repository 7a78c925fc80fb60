// A direct convolution on the CPU is cut into bands of output rows, and a band's input is copied to
// planes. The cut depends on the problem alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cpu_kernels/conv/blocks.hpp"
#include "cpu_kernels/conv/conv_block.hpp"
#include "cpu_kernels/conv/planes.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// The cut of a problem, and the memory that it takes.
struct Cut {
  Planes planes;
  bool in_x;                 ///< whether planes lie in x itself
  std::int64_t rows, bands;  ///< most output rows of a band; bands of an image and group
  std::int64_t run_rows;     ///< output rows of a run whose sums are staged
  std::int64_t positions;    ///< positions of a run whose sums are staged, dropped ones too
  double rows_copied, elements_copied;  ///< of an image and group
  std::size_t offsets_bytes, filters_bytes, bias_bytes, planes_bytes, sums_bytes;

  std::size_t slot_bytes() const { return planes_bytes + sums_bytes; }
};

/// There is one cut for all columns of the outputs, or two in the same bands: `first` for the
/// columns that fill whole vectors, which reads x itself, and `rest`.
struct Cuts {
  Cut first;
  std::optional<Cut> rest;
  std::int64_t columns;  ///< columns of `first`

  std::size_t shared_bytes() const {
    return (rest ? 2 : 1) * first.offsets_bytes + first.bias_bytes;
  }
  std::size_t slot_bytes() const { return first.slot_bytes() + (rest ? rest->slot_bytes() : 0); }
  /// Packed filters count towards the limit even where the caller keeps them, so that neither the
  /// choice nor the cut depends on who does.
  std::size_t bytes(int threads) const {
    return first.filters_bytes + shared_bytes() + static_cast<std::size_t>(threads) * slot_bytes();
  }
  /// Returns how many of the `wanted` threads have room.
  int threads(int wanted) const {
    return static_cast<int>(
        threads_with_room(wanted, first.filters_bytes + shared_bytes(), slot_bytes()));
  }
};

/// rows_together() returns the rows that pooling takes together, 2 or 1; rows_computed() the rows
/// of the convolution that are computed, a multiple of it.
inline std::int64_t rows_together(const ConvProblem& p) { return p.pool == Pool::none ? 1 : 2; }
inline std::int64_t rows_computed(const ConvProblem& p) {
  return p.p() / rows_together(p) * rows_together(p);
}

/// Returns the stride, or 1 where there is no second output along it: then one plane holds all
/// taps.
inline std::int64_t step_of(std::int64_t stride, std::int64_t outputs) {
  return outputs > 1 ? stride : 1;
}

/// Returns the positions of a run of `rows` rows, those between the rows included.
inline std::int64_t positions_of(std::int64_t rows, std::int64_t pitch, std::int64_t q) {
  return (rows - 1) * pitch + q;
}

/// Returns the cut of least work. Real, float or double, is the type of the sums.
template <class Real>
Cuts cuts(const ConvProblem& problem);

/// Returns the work of an image and group in products: those of all positions, dropped ones too,
/// and as many as fit the time of the copies.
double work(const ConvProblem& problem, const Cuts& cuts);

}  // namespace plumb
