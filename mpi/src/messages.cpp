#include "messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "nccl.hpp"
#include "plumb/error.hpp"
#include "transport.hpp"

namespace plumb::mpi {

Message& message_of(std::vector<Message>& messages, int rank) {
  const auto found = std::find_if(messages.begin(), messages.end(),
                                  [&](const Message& message) { return message.rank == rank; });
  if (found != messages.end()) return *found;
  messages.push_back({.rank = rank, .elements = 0, .on_device = {}, .on_host = {}});
  return messages.back();
}

Messages::~Messages() {
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (communicator_.is_broken() || finalised) {
    // Requests may be under way: the memory that they read and write stays.
    if (communicator_.is_broken()) {
      new std::vector<Message>(std::move(sends_));
      new std::vector<Message>(std::move(receives_));
    }
    return;
  }
  for (MPI_Request& request : requests_)
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
}

void Messages::make(Transport transport, void* nccl_communicator) {
  transport_ = chosen_transport(transport, device_, nccl_communicator != nullptr);
  const bool staged = transport_ == Transport::host_memory && device_.id() != host;
  for (std::vector<Message>* messages : {&sends_, &receives_})
    for (Message& message : *messages) {
      message.on_device = Tensor(device_, dtype_, {message.elements});
      if (staged)
        message.on_host = Tensor(device_, dtype_, {message.elements}, {}, Memory::pinned_host);
    }
  if (transport_ == Transport::nccl)
    nccl_ = Nccl::open(device_, nccl_communicator, communicator_.rank(), communicator_.size());
  else
    make_requests();
}

void* Messages::memory_of(const Message& message) const {
  return message.on_host.view().empty() ? message.on_device.data() : message.on_host.data();
}

void Messages::make_requests() {
  for (std::vector<Message>* messages : {&receives_, &sends_})
    for (const Message& message : *messages) {
      const std::int64_t bytes =
          message.elements * static_cast<std::int64_t>(size_in_bytes(dtype_));
      if (bytes > std::numeric_limits<int>::max())
        throw Error(ErrorCode::unsupported,
                    fmt::format("distributed: a message of {} bytes between ranks {} and {}; "
                                "expected less than 2^31",
                                bytes, communicator_.rank(), message.rank));
      requests_.push_back(MPI_REQUEST_NULL);
      const bool receives = messages == &receives_;
      const int code = receives
                           ? MPI_Recv_init(memory_of(message), static_cast<int>(bytes), MPI_BYTE,
                                           message.rank, 0, communicator_.get(), &requests_.back())
                           : MPI_Send_init(memory_of(message), static_cast<int>(bytes), MPI_BYTE,
                                           message.rank, 0, communicator_.get(), &requests_.back());
      check_mpi(code, receives ? "MPI_Recv_init" : "MPI_Send_init");
    }
}

TensorView Messages::part_of_message(const Message& message, std::int64_t offset,
                                     const Extents& extents) const {
  auto* const data = static_cast<std::byte*>(message.on_device.data()) +
                     offset * static_cast<std::int64_t>(size_in_bytes(dtype_));
  return TensorView(data, dtype_, extents, device_.id());
}

void Messages::packed(Queue& queue) {
  for (const Message& message : sends_)
    if (!message.on_host.view().empty()) copy(queue, message.on_device, message.on_host);
  packed_ = queue.record();
}

void Messages::settle() {
  if (packed_ && !nccl_) packed_->synchronize();  // also what came before has then left its buffers
}

void Messages::start() {
  if (is_idle()) return;
  if (nccl_) return nccl_->exchange(packed_, sends_, receives_);
  check_mpi(MPI_Startall(static_cast<int>(requests_.size()), requests_.data()), "MPI_Startall");
}

bool Messages::come_at_once() {
  if (is_idle() || nccl_) return false;
  std::int64_t elements = 0;
  for (const std::vector<Message>* messages : {&sends_, &receives_})
    for (const Message& message : *messages) elements += message.elements;
  constexpr double latency = 5e-6, bytes_a_second = 4e9;
  return communicator_.are_done_within(
      requests_, latency + static_cast<double>(elements) *
                               static_cast<double>(size_in_bytes(dtype_)) / bytes_a_second);
}

void Messages::wait(Queue& queue, const char* what) {
  if (is_idle()) return;
  if (nccl_) {
    nccl_->wait(queue);
  } else {
    communicator_.wait(requests_, what, [this](std::size_t i) {
      return i < receives_.size()
                 ? fmt::format("that of rank {}", receives_[i].rank)
                 : fmt::format("rank {} to take its own", sends_[i - receives_.size()].rank);
    });
  }
  for (const Message& message : receives_)
    if (!message.on_host.view().empty()) copy(queue, message.on_host, message.on_device);
}

std::size_t Messages::bytes_sent() const {
  std::size_t bytes = 0;
  for (const Message& message : sends_)
    bytes += static_cast<std::size_t>(message.elements) * size_in_bytes(dtype_);
  return bytes;
}

}  // namespace plumb::mpi
