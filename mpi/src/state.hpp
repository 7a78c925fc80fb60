// What a Distributed holds, and the steps of its execute().
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exchange.hpp"
#include "plumb/distributed.hpp"
#include "shares.hpp"
#include "sums.hpp"

namespace plumb {

/// A box with all that its convolution needs.
struct BoxRun {
  mpi::Box box;
  ConvPlan plan;
  Tensor input;   ///< of five axes; none where the source is read where it lies
  Tensor output;  ///< of an image, to be folded; none otherwise
};

struct Distributed::State {
  State(MPI_Comm communicator, const Device& device, const ConvProblem& problem,
        const DistributedGrid& grid, const DistributedOptions& options);

  void execute(Queue& queue, const ConvTensors& tensors);
  DistributedBlock block_of(int rank, bool of_x) const;

  std::unique_ptr<mpi::Communicator> communicator;
  Device device;
  DistributedGrid grid;
  DistributedOptions options;
  std::optional<mpi::Partition> partition;

 private:
  friend class Distributed;
  /// The tensors of one call, checked and with five axes.
  struct Call {
    ConstTensorView source;  ///< this rank's block of what windows move over
    ConstTensorView filters;
    ConstTensorView bias;
    TensorView target;  ///< this rank's block of y or dx; of backward weights the sums of this rank
    TensorView db;
    ConstTensorView dy;  ///< of backward weights, with five axes
  };

  void check_and_cut(const ConvProblem& problem);
  std::string fingerprint() const;
  void make();
  void make_boxes();
  BoxRun make_run(const mpi::Box& box, bool is_first) const;
  ConvOptions options_of_box(bool is_first) const;
  bool finishes() const;  ///< bias, activation and what dx held come after the folding

  bool is(Direction direction) const { return partition->problem().direction == direction; }
  DistributedBlock own_block(bool of_x) const {
    return partition->block(communicator->rank(), of_x);
  }
  TensorView check_view(const TensorView& view, const char* name, bool of_x) const;
  Call call_of(Queue& queue, const ConvTensors& tensors);
  ConstTensorView masked(Queue& queue, const ConstTensorView& mask, const ConstTensorView& dy);

  void run_box(Queue& queue, const Call& call, const BoxRun& run) const;
  void gather_own(Queue& queue, const Call& call, const BoxRun& run) const;
  ConstTensorView lying_source(const Call& call, const mpi::Box& box) const;
  void fold(Queue& queue, const TensorView& dx) const;
  void finish(Queue& queue, const Call& call, const TensorView& dx) const;
  void write_sums(Queue& queue, const ConvTensors& tensors);
  void read_sums(Queue& queue);
  void execute_boxes(Queue& queue, const ConvTensors& tensors);
  void execute_shares(Queue& queue, const ConvTensors& tensors, Call& call);

  Extents weights_extents() const;  ///< of dw, five of them
  /// What travels between ranks: halos, or the channels of shares.
  const mpi::Messages& messages() const {
    return shares_ ? static_cast<const mpi::Messages&>(*shares_) : *exchange_;
  }

  mpi::RankBoxes boxes_;
  std::optional<BoxRun> interior_;
  std::vector<BoxRun> others_;
  std::unique_ptr<mpi::Exchange> exchange_;     ///< none where there are shares
  std::unique_ptr<mpi::WeightsShares> shares_;  ///< of reproducible backward weights
  Tensor masked_;                               ///< dy where a ReLU passed it on
  Tensor main_;                                 ///< dx before what comes after the folding
  Tensor dw_, db_;                              ///< the gradients of this rank alone
  std::vector<std::byte> staged_;               ///< dw and db on the host
  std::unique_ptr<mpi::RankSum> sum_;
};

}  // namespace plumb
