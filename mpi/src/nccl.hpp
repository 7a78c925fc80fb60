// Halos by NCCL, which is opened at run time: nothing of it is linked.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "plumb/device.hpp"

namespace plumb::mpi {

struct Message;

/// NCCL with the caller's communicator, on a queue beside the caller's.
class Nccl {
 public:
  /// Error (unsupported) where libnccl.so.2 cannot be opened, and (invalid_argument) where the
  /// communicator has other ranks than MPI's.
  static std::shared_ptr<Nccl> open(const Device& device, void* communicator, int rank, int ranks);
  virtual ~Nccl() = default;
  /// Sends and receives once `packed` has happened.
  virtual void exchange(const std::optional<Event>& packed, const std::vector<Message>& sends,
                        const std::vector<Message>& receives) = 0;
  /// Later work of the queue starts when all has come.
  virtual void wait(Queue& queue) = 0;
};

}  // namespace plumb::mpi
