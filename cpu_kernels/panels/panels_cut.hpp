// How a convolution on the CPU is cut into panels of neighbouring outputs and blocks of terms, and
// the memory that takes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu_kernels/conv/blocks.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// The most filters of one pass over a panel: their sums stay in a cache from one block of terms to
/// the next.
inline constexpr std::int64_t filters_of_pass = 1024;

/// How a problem is cut, and the memory that takes.
struct PanelCut {
  std::int64_t width, panels;  ///< outputs of a panel; panels of a group
  std::int64_t image_panels;   ///< panels of an image where none has outputs of two; otherwise 0
  std::int64_t step;           ///< from one term of a panel to the next
  std::int64_t block, blocks;  ///< terms of a block
  std::int64_t panel_reals;    ///< elements of a packed panel
  bool packed_first;           ///< all threads pack all panels before any multiplies
  std::size_t filters_bytes, bias_bytes, offsets_bytes, panels_bytes, panel_bytes, sums_bytes;

  std::size_t shared_bytes() const { return bias_bytes + offsets_bytes + panels_bytes; }
  std::size_t slot_bytes() const { return panel_bytes + sums_bytes; }
  /// Packed filters count towards the limit even where the caller keeps them, so that neither the
  /// choice nor the cut depends on who does.
  std::size_t bytes(int threads) const {
    return filters_bytes + shared_bytes() + static_cast<std::size_t>(threads) * slot_bytes();
  }
  /// How many of the threads wanted have room.
  int threads(int wanted) const {
    return static_cast<int>(
        threads_with_room(wanted, filters_bytes + shared_bytes(), slot_bytes()));
  }
};

/// Whether the image itself is a panel: a 1x1 convolution of a dense image at stride 1.
bool lies_as_panel(const ConvProblem& problem);

/// The cut for so many threads, on whose number results do not depend. For float and double, the
/// type of the sums.
template <class Real>
PanelCut panel_cut(const ConvProblem& problem, int threads);

}  // namespace plumb
