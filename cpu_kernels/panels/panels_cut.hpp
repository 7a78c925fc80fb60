// A convolution on the CPU is cut into panels of neighbouring outputs and blocks of terms.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu_kernels/conv/blocks.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// The most filters of one pass over a panel, whose sums stay in a cache from one block of terms to
/// the next.
inline constexpr std::int64_t filters_of_pass = 1024;

/// The cut of a problem, and the memory that it takes.
struct PanelCut {
  std::int64_t width, panels;  ///< outputs of a panel; panels of a group
  std::int64_t image_panels;   ///< panels of an image; 0 where one may have outputs of two
  std::int64_t step;           ///< from one term of a panel to the next
  std::int64_t block, blocks;  ///< terms of a block; blocks of an output's terms
  std::int64_t panel_reals;    ///< elements of a packed panel
  bool packed_first;           ///< whether all threads pack all panels before any multiplies
  std::size_t filters_bytes, bias_bytes, offsets_bytes, panels_bytes, panel_bytes, sums_bytes;

  std::size_t shared_bytes() const { return bias_bytes + offsets_bytes + panels_bytes; }
  std::size_t slot_bytes() const { return panel_bytes + sums_bytes; }
  /// Packed filters count towards the limit even where the caller keeps them, so that neither the
  /// choice nor the cut depends on who does.
  std::size_t bytes(int threads) const {
    return filters_bytes + shared_bytes() + static_cast<std::size_t>(threads) * slot_bytes();
  }
  /// Returns how many of the `wanted` threads have room.
  int threads(int wanted) const {
    return static_cast<int>(
        threads_with_room(wanted, filters_bytes + shared_bytes(), slot_bytes()));
  }
};

/// Says whether the image itself is a panel: a 1x1 convolution of a dense image at stride 1.
bool lies_as_panel(const ConvProblem& problem);

/// Returns the cut for `threads` threads, on whose number results do not depend. Real, float or
/// double, is the type of the sums.
template <class Real>
PanelCut panel_cut(const ConvProblem& problem, int threads);

}  // namespace plumb
