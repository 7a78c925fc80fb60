// The halos of a plan: who sends what to whom.
#pragma once

#include <array>
#include <vector>

#include "messages.hpp"
#include "pieces.hpp"

namespace plumb::mpi {

/// What is copied between this rank's block, or the buffer of a box, and a message.
struct Part {
  std::array<Run, 3> runs;
  int rank = 0;             ///< whose message it is in
  std::size_t box = 0;      ///< of the receiver's boxes
  std::int64_t offset = 0;  ///< in the message, in elements
};

class Exchange : public Messages {
 public:
  /// Collective only in that all ranks make it. `boxes` are this rank's that wait for halos.
  Exchange(Communicator& communicator, const Device& device, const Partition& partition,
           const std::vector<Box>& boxes, Transport transport, void* nccl_communicator);

  /// Puts the gathering of what is sent on the queue. `source` is this rank's block, of five axes.
  void pack(Queue& queue, const ConstTensorView& source);
  /// Puts what has come for a box into its buffer, of five axes.
  void unpack(Queue& queue, std::size_t box, const TensorView& buffer);

 private:
  Extents extents_of(const Part& part) const;
  TensorView view_of(std::vector<Message>& messages, const Part& part) const;

  std::int64_t images_, channels_;
  std::array<std::int64_t, 3> origin_{};  ///< of this rank's block of the source
  std::vector<Part> sent_, received_;
};

}  // namespace plumb::mpi
