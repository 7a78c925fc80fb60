// The boxes that a rank computes, and which part of each box's source lies with which rank.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "plumb/conv.hpp"
#include "windows.hpp"

namespace plumb::mpi {

/// Targets along D, H and W that are computed at once, from one box of the source.
struct Box {
  std::array<Window, 3> windows;
  /// Of backward data with a boundary: along each axis the image that it is, or -1 for what lies in
  /// the image itself. One with an image has an output of its own, which is then folded.
  std::array<int, 3> images{-1, -1, -1};
  bool is_image() const { return images != std::array<int, 3>{-1, -1, -1}; }
};

/// What one rank computes.
struct RankBoxes {
  std::array<AxisTargets, 3> targets;
  std::optional<Box> interior;  ///< whose source lies with the rank
  std::vector<Box> others;      ///< that wait for halos: the sides, and images
  bool folds = false;           ///< there are images on some rank
};
RankBoxes boxes_of(const Partition& partition, int rank);

/// A part of a box's source that lies with one rank: the runs of each axis.
struct Piece {
  int rank = 0;
  std::array<Run, 3> runs;
};
std::vector<Piece> pieces_of(const Partition& partition, int rank, const Box& box);

/// The local convolution of a box: its problem, for `images` of the batch, dense tensors.
ConvProblem problem_of_box(const Partition& partition, const Box& box, std::int64_t images);

/// Error (invalid_argument) for blocks thinner than their halos, along any axis.
void check_halos(const Partition& partition);

}  // namespace plumb::mpi
