// One thread's work for tiles: a band's input, its blocks and where they go.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu_kernels/tiles/tiles_kernels.hpp"
#include "cpu_kernels/tiles/tiles_plan.hpp"
#include "plumb/algorithm.hpp"

namespace plumb {

/// What a thread needs of the workspace: the bias of a group's filters in fp32, and the slab.
std::size_t slot_bytes(const TilesPlan& plan);

class TilesBand {
 public:
  /// `slot` is the thread's workspace. The thread's tiles are configured until it is gone.
  TilesBand(const ConvLaunch& launch, const TilesPlan& plan, const TileKernels& kernels,
            std::byte* slot);
  TilesBand(const TilesBand&) = delete;
  TilesBand& operator=(const TilesBand&) = delete;
  ~TilesBand() { kernels_.end(); }

  void run(std::int64_t task);

 private:
  void load_bias();
  void load_slab();
  void load_rows(const BFloat16* image, std::int64_t first, BFloat16* row) const;
  void load_slab_row(const BFloat16* x, BFloat16* row) const;

  void run_by_positions(std::int64_t begin, std::int64_t end);
  void run_by_filters(std::int64_t begin, std::int64_t end);
  std::int64_t position_blocks() const;
  void take_positions(std::int64_t index);
  void place(std::int64_t first, int before, int count);
  void run_block(std::int64_t block);
  int filters_of(std::int64_t block) const;
  const BFloat16* packed(std::int64_t block) const;
  void sum_nans_again(std::int64_t block);
  float sum_again(std::int64_t place, std::int64_t block, std::int64_t filter) const;

  const ConvLaunch& launch_;
  const ConvProblem& p_;
  const TilesPlan& plan_;
  const TileKernels& kernels_;
  const ImageStrides x_, y_;
  float* const bias_;
  BFloat16* const slab_;

  // The task.
  std::int64_t group_ = 0, first_row_ = 0, rows_ = 0, z_ = 0, n_ = 0;
  const BFloat16* filters_ = nullptr;  ///< the group's, packed

  // The block's positions: the terms of the first, how far apart they lie, and which places of the
  // band they are, counted along rows of plan_.row_places. Of some there is no output.
  const BFloat16* from_ = nullptr;
  std::int64_t step_ = 0, first_ = 0;
  int positions_ = 0;
  std::int64_t y_at_[max_positions];  ///< or no_output
  alignas(64) float sums_[max_positions * block_side];
};

}  // namespace plumb
