// Reproducible gradients by the weights: each rank computes the gradient of some of the channels
// over the whole batch and image, as one rank by itself does, so that no sum is cut by the grid.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "messages.hpp"
#include "pieces.hpp"

namespace plumb::mpi {

/// The channels of one rank: whole groups, or a part of one group's. No channels: it computes none.
struct Share {
  std::int64_t groups = 0;
  std::int64_t c_begin = 0, c_count = 0;    ///< of x
  std::int64_t k_begin = 0, k_count = 0;    ///< of dy, the first axis of dw
  std::int64_t cw_begin = 0, cw_count = 0;  ///< of the second axis of dw
  bool is_empty() const { return k_count == 0; }
  /// Whether it has the bias's gradient of its k: one of those that share them has.
  bool has_bias() const { return cw_begin == 0 && !is_empty(); }
};

/// One for each rank: whole groups as long as there are as many; else each group's K and C are cut,
/// so that the largest share has the least work, and among those gathers the fewest elements.
std::vector<Share> shares_of(const ConvProblem& problem, int ranks);

/// What it takes: the ranks' blocks of x and dy, of the channels of each share, are sent to the
/// rank that has it; then all get dw and db. Their elements are those that one rank writes.
class WeightsShares : public Messages {
 public:
  /// `options` without a mask. Error (out_of_memory) where the channels of this rank's share do not
  /// fit: N D H W of x and N Z P Q of dy each.
  WeightsShares(Communicator& communicator, const Device& device, const Partition& partition,
                const ConvOptions& options, Transport transport, void* nccl_communicator);

  /// This rank's blocks, of five axes.
  void pack(Queue& queue, const ConstTensorView& x, const ConstTensorView& dy);
  /// While messages travel.
  void gather_own(Queue& queue, const ConstTensorView& x, const ConstTensorView& dy);
  /// Once they have come. dw, of five axes, and db are read where they are accumulated to.
  void compute(Queue& queue, const TensorView& dw, const TensorView& db);
  void exchange_results();  ///< collective
  /// Writes all of dw and db; waits.
  void write(Queue& queue, const TensorView& dw, const TensorView& db);

  std::string description() const;  ///< a line

 private:
  const Share& own() const { return shares_[static_cast<std::size_t>(communicator_.rank())]; }
  std::size_t bytes_of(const Share& share) const;
  TensorView of_share(const TensorView& dw, const Share& share) const;
  void make_plan(const ConvProblem& whole, const ConvOptions& options);

  const Partition& partition_;
  bool bias_, accumulate_;
  Extents filter_;  ///< T, R, S
  std::vector<Share> shares_;
  std::optional<ConvPlan> plan_;  ///< none where the share has no channels
  Tensor x_, dy_;                 ///< the whole of the share's channels
  Tensor dw_, db_;                ///< of the share
  std::vector<int> counts_, begins_;
  // Where a time limit passes, MPI may still write to them: they are then left.
  std::unique_ptr<std::vector<std::byte>> staged_, all_;
};

}  // namespace plumb::mpi
