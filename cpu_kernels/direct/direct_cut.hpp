// How a direct convolution on the CPU is cut into bands of output rows, and the planes that a
// band's input is copied to. The cut depends on the problem alone.
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
  bool in_x;                 ///< whether planes lie in x itself
  std::int64_t rows, bands;  ///< output rows of a band, at most; bands of an image and group
  std::int64_t run_rows;     ///< output rows of a run whose sums are staged
  std::int64_t positions;    ///< of such a run, dropped ones too
  double rows_copied, elements_copied;  ///< for an image and group
  std::size_t offsets_bytes, filters_bytes, bias_bytes, planes_bytes, sums_bytes;

  std::size_t slot_bytes() const { return planes_bytes + sums_bytes; }
};

/// One cut for all columns of the outputs. Or two in the same bands: `first` for the columns that
/// fill whole vectors, which reads x itself, and `rest`.
struct Cuts {
  Cut first;
  std::optional<Cut> rest;
  std::int64_t columns;  ///< of `first`

  std::size_t shared_bytes() const {
    return (rest ? 2 : 1) * first.offsets_bytes + first.bias_bytes;
  }
  std::size_t slot_bytes() const { return first.slot_bytes() + (rest ? rest->slot_bytes() : 0); }
  /// Packed filters count towards the limit even where the caller keeps them, so that neither the
  /// choice nor the cut depends on who does.
  std::size_t bytes(int threads) const {
    return first.filters_bytes + shared_bytes() + static_cast<std::size_t>(threads) * slot_bytes();
  }
  /// How many of the threads wanted have room.
  int threads(int wanted) const {
    return static_cast<int>(
        threads_with_room(wanted, first.filters_bytes + shared_bytes(), slot_bytes()));
  }
};

/// Rows that pooling takes together, 2 or 1; and rows of the convolution that are computed, a
/// multiple of it.
inline std::int64_t rows_together(const ConvProblem& p) { return p.pool == Pool::none ? 1 : 2; }
inline std::int64_t rows_computed(const ConvProblem& p) {
  return p.p() / rows_together(p) * rows_together(p);
}

/// The stride, or 1 where there is no second output along it: then one plane holds all taps.
inline std::int64_t step_of(std::int64_t stride, std::int64_t outputs) {
  return outputs > 1 ? stride : 1;
}

/// Positions of a run of `rows` rows, those between the rows included.
inline std::int64_t positions_of(std::int64_t rows, std::int64_t pitch, std::int64_t q) {
  return (rows - 1) * pitch + q;
}

/// The cut of least work. For float and double, the type of the sums.
template <class Real>
Cuts cuts(const ConvProblem& problem);

/// The work of an image and group in products: those of all positions, dropped ones too, and what
/// copying takes in the same time.
double work(const ConvProblem& problem, const Cuts& cuts);

}  // namespace plumb
