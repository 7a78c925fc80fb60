// Backward weights on the CPU is cut into blocks of dw, and its sum into parts of whole bands. The
// order of the sum depends on the problem and on the lanes of the instruction set alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu_kernels/conv/blocks.hpp"
#include "cpu_kernels/conv/planes.hpp"
#include "cpu_kernels/conv/weights_kernels.hpp"
#include "plumb/conv.hpp"
#include "plumb/gradient_tree.hpp"

namespace plumb {

/// How the positions of a problem are summed. An image here is a plane of outputs: N Z of them, or
/// those of `side` neighbours in the batch, a position of all of them after the other.
struct WeightsSum {
  std::int64_t side = 1;         ///< images side by side, 1 or a vector's lanes
  std::int64_t images;           ///< ceil(N / side) Z
  std::int64_t images_together;  ///< of a band; more than 1 only where it has all of their rows
  std::int64_t rows;             ///< output rows of a band
  std::int64_t bands_of_image;   ///< 1 where a band has several images
  std::int64_t bands;            ///< of all images
  std::int64_t parts;            ///< neighbouring bands are summed first, then the parts by a tree

  /// Returns the first band of a part.
  std::int64_t band_of(std::int64_t part) const { return bands * part / parts; }
};

/// A problem's sizes along all axes, whatever its tensors' rank.
struct WeightsAxes {
  std::int64_t x_n, x_c, x_d, x_h, x_w, w_k, w_c, w_t, w_r, w_s, y_n, y_k, y_z, y_p, y_q;
};
WeightsAxes weights_axes(const ConvProblem& problem);

/// The cut of a problem, and the memory that it takes.
struct WeightsPlan : KernelPlan {
  WeightsSum sum;
  Planes planes;
  std::int64_t image_planes;  ///< elements of the planes of an image, of all T and a block's C
  bool in_x;                  ///< whether x is read where it lies
  bool by_filters;            ///< whether vectors run over filters; otherwise over positions
  bool flat;         ///< whether an image's rows are one run, with what lies between them in x
  bool dy_in_place;  ///< whether dy is read where it lies
  std::int64_t k_block, k_blocks, c_block, c_blocks;
  std::int64_t padded;                     ///< filters of a block, those that fill its vectors too
  std::size_t offsets_bytes, parts_bytes;  ///< that all threads share
  /// Of a thread; of a block's elements of dw where there is one part alone.
  std::size_t planes_bytes, dy_bytes, sums_bytes, starts_bytes, block_bytes;

  std::size_t shared_bytes() const { return offsets_bytes + parts_bytes; }
  std::size_t slot_bytes() const {
    return planes_bytes + dy_bytes + sums_bytes + starts_bytes + block_bytes;
  }
};

/// Returns how far apart filters of packed dy lie, in elements: each begins at a line of cache, and
/// rows may be written in whole vectors.
inline std::int64_t gradient_step(std::int64_t positions) { return round_up(positions + 15, 16); }

/// Returns the most additions on the way of a product to its sum in dw.
template <class Real>
double weights_chain(const ConvProblem& problem);

template <class Real>
WeightsPlan plan_weights(const ConvProblem& problem, const WeightsKernels<Real>& kernels);

/// The same with bands that lie within the segments of a tree, vectors over positions, and room for
/// sixteen chains of each sum in a level-2 cache; how segments are added is the caller's.
template <class Real>
WeightsPlan plan_weights_in_segments(const ConvProblem& problem, const GradientTree& tree);

/// Returns the work in products of full vectors.
template <class Real>
double weights_work(const ConvProblem& problem, const WeightsKernels<Real>& kernels,
                    const WeightsPlan& plan);

}  // namespace plumb
