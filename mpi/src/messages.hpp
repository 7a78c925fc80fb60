// Messages of one call between this rank and others: buffers, persistent requests, and NCCL in
// their place where that is how they travel.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "collective.hpp"
#include "plumb/distributed.hpp"

namespace plumb::mpi {

class Nccl;

/// All that goes between this rank and another, one way.
struct Message {
  int rank = 0;
  std::int64_t elements = 0;
  Tensor on_device;  ///< where parts are gathered; on the CPU it is what MPI sends
  Tensor on_host;    ///< page-locked, where messages go through host memory
};

/// The message to or from a rank; made where there is none.
Message& message_of(std::vector<Message>& messages, int rank);

/// Messages are made once. A rank that has failed takes part all the same, so that nobody waits.
class Messages {
 public:
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  /// Waits on the host until what is sent has been packed, where MPI is to read it.
  void settle();
  /// Lets the messages go. A rank that could not pack sends what is of no use, and will say so.
  void start();
  /// Waits for as long as a copy within a node may take, and says whether all have come; wait()
  /// follows either way.
  bool come_at_once();
  /// `what` names them in the error of a time limit: "halos".
  void wait(Queue& queue, const char* what);

  Transport transport() const { return transport_; }
  std::size_t bytes_sent() const;
  const std::vector<Message>& sends() const { return sends_; }
  const std::vector<Message>& receives() const { return receives_; }

 protected:
  Messages(Communicator& communicator, const Device& device, DType dtype)
      : communicator_(communicator), device_(device), dtype_(dtype) {}

  /// Makes buffers and requests of the sends and receives that there are now.
  void make(Transport transport, void* nccl_communicator);
  /// Puts the copies to the host on the queue, where there are any; `pack` ends with it.
  void packed(Queue& queue);
  /// A dense part of a message's buffer, from element `offset` on.
  TensorView part_of_message(const Message& message, std::int64_t offset,
                             const Extents& extents) const;
  bool is_idle() const { return sends_.empty() && receives_.empty(); }

  Communicator& communicator_;
  Device device_;
  DType dtype_;
  std::vector<Message> sends_, receives_;

 private:
  void make_requests();
  void* memory_of(const Message& message) const;

  Transport transport_ = Transport::automatic;
  std::vector<MPI_Request> requests_;  ///< receives, then sends
  std::shared_ptr<Nccl> nccl_;
  std::optional<Event> packed_;
};

}  // namespace plumb::mpi
