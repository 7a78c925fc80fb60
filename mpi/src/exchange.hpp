// The halos of a plan: who sends what to whom, buffers, and persistent requests.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "collective.hpp"
#include "pieces.hpp"

namespace plumb::mpi {

class Nccl;

/// What is copied between this rank's block, or the buffer of a box, and a message.
struct Part {
  std::array<Run, 3> runs;
  std::size_t box = 0;      ///< of the receiver's boxes
  std::int64_t offset = 0;  ///< in the message, in elements
};

/// All that goes between this rank and another, one way.
struct Message {
  int rank = 0;
  std::int64_t elements = 0;
  std::vector<Part> parts;
  Tensor on_device;  ///< where parts are gathered; on the CPU it is what MPI sends
  Tensor on_host;    ///< page-locked, where halos go through host memory
};

/// Messages are made once. A rank that has failed takes part all the same, so that nobody waits.
class Exchange {
 public:
  /// Collective only in that all ranks make it. `boxes` are this rank's that wait for halos.
  Exchange(Communicator& communicator, const Device& device, const Partition& partition,
           const std::vector<Box>& boxes, Transport transport, void* nccl_communicator);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Puts the gathering of what is sent on the queue. `source` is this rank's block, of five axes.
  void pack(Queue& queue, const ConstTensorView& source);
  /// Waits on the host until what is sent has been packed, where MPI is to read it.
  void settle();
  /// Lets the messages go. A rank that could not pack sends what is of no use, and will say so.
  void start();
  void wait(Queue& queue);
  /// Puts what has come for a box into its buffer, of five axes.
  void unpack(Queue& queue, std::size_t box, const TensorView& buffer);

  Transport transport() const { return transport_; }
  std::size_t bytes_sent() const;
  const std::vector<Message>& sends() const { return sends_; }
  const std::vector<Message>& receives() const { return receives_; }

 private:
  Extents extents_of(const Part& part) const;
  TensorView view_of(const Message& message, const Part& part, const DeviceId& device) const;
  void make_requests();
  void* memory_of(const Message& message) const;

  Communicator& communicator_;
  Device device_;
  DType dtype_;
  std::int64_t images_, channels_;
  std::array<std::int64_t, 3> origin_{};  ///< of this rank's block of the source
  Transport transport_;
  std::vector<Message> sends_, receives_;
  std::vector<MPI_Request> requests_;  ///< receives, then sends
  std::shared_ptr<Nccl> nccl_;
  std::optional<Event> packed_;
};

}  // namespace plumb::mpi
