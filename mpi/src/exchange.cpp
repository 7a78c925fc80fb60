#include "exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "nccl.hpp"
#include "plumb/error.hpp"
#include "transport.hpp"
#include "views.hpp"

namespace plumb::mpi {
namespace {

/// The message to or from a rank; made where there is none.
Message& message_of(std::vector<Message>& messages, int rank) {
  const auto found = std::find_if(messages.begin(), messages.end(),
                                  [&](const Message& message) { return message.rank == rank; });
  if (found != messages.end()) return *found;
  messages.push_back({.rank = rank, .elements = 0, .parts = {}, .on_device = {}, .on_host = {}});
  return messages.back();
}

}  // namespace

Exchange::Exchange(Communicator& communicator, const Device& device, const Partition& partition,
                   const std::vector<Box>& boxes, Transport transport, void* nccl_communicator)
    : communicator_(communicator),
      device_(device),
      dtype_(partition.problem().dtype),
      images_(partition.images_of(communicator.rank())) {
  const bool backward = partition.problem().direction == Direction::backward_data;
  channels_ = backward ? partition.problem().k : partition.problem().c;
  const Dims begin = partition.block(communicator.rank(), !backward).begin;
  origin_ = {begin[2], begin[3], begin[4]};

  const auto add = [&](std::vector<Message>& messages, int rank, const Piece& piece,
                       std::size_t box) {
    Message& message = message_of(messages, rank);
    const Part part{.runs = piece.runs, .box = box, .offset = message.elements};
    message.elements += element_count(extents_of(part));
    message.parts.push_back(part);
  };
  const int own = communicator.rank();
  for (std::size_t i = 0; i < boxes.size(); ++i)
    for (const Piece& piece : pieces_of(partition, own, boxes[i]))
      if (piece.rank != own) add(receives_, piece.rank, piece, i);
  // What others wait for is what they would compute of themselves, in the same order.
  const int images_place = partition.place_of(own).n;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    if (rank == own || partition.place_of(rank).n != images_place) continue;
    const RankBoxes theirs = boxes_of(partition, rank);
    for (std::size_t i = 0; i < theirs.others.size(); ++i)
      for (const Piece& piece : pieces_of(partition, rank, theirs.others[i]))
        if (piece.rank == own) add(sends_, rank, piece, i);
  }
  transport_ = chosen_transport(transport, device, nccl_communicator != nullptr);
  const bool staged = transport_ == Transport::host_memory && device.id() != host;
  for (std::vector<Message>* messages : {&sends_, &receives_})
    for (Message& message : *messages) {
      message.on_device = Tensor(device, dtype_, {message.elements});
      if (staged)
        message.on_host = Tensor(device, dtype_, {message.elements}, {}, Memory::pinned_host);
    }
  if (transport_ == Transport::nccl)
    nccl_ = Nccl::open(device, nccl_communicator, communicator.rank(), communicator.size());
  else
    make_requests();
}

Exchange::~Exchange() {
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
  for (MPI_Request& request : requests_) MPI_Request_free(&request);
}

Extents Exchange::extents_of(const Part& part) const {
  return {images_, channels_, part.runs[0].sent(), part.runs[1].sent(), part.runs[2].sent()};
}

TensorView Exchange::view_of(const Message& message, const Part& part,
                             const DeviceId& device) const {
  auto* const data = static_cast<std::byte*>(message.on_device.data()) +
                     part.offset * static_cast<std::int64_t>(size_in_bytes(dtype_));
  return TensorView(data, dtype_, extents_of(part), device);
}

void* Exchange::memory_of(const Message& message) const {
  return message.on_host.view().empty() ? message.on_device.data() : message.on_host.data();
}

void Exchange::make_requests() {
  for (std::vector<Message>* messages : {&receives_, &sends_})
    for (const Message& message : *messages) {
      const std::int64_t bytes =
          message.elements * static_cast<std::int64_t>(size_in_bytes(dtype_));
      if (bytes > std::numeric_limits<int>::max())
        throw Error(ErrorCode::unsupported,
                    fmt::format("distributed: a halo of {} bytes between ranks {} and {}; expected "
                                "less than 2^31",
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

void Exchange::pack(Queue& queue, const ConstTensorView& source) {
  if (sends_.empty() && receives_.empty()) return;
  for (const Message& message : sends_) {
    for (const Part& part : message.parts) {
      ConstTensorView view = source;
      for (int i = 0; i < 3; ++i) {
        const auto axis = static_cast<std::size_t>(i);
        const Run& run = part.runs[axis];
        view = run_of_view(view, 2 + i, run.lowest() - origin_[axis], run.sent());
      }
      copy(queue, view, view_of(message, part, device_.id()));
    }
    if (!message.on_host.view().empty()) copy(queue, message.on_device, message.on_host);
  }
  packed_ = queue.record();
}

void Exchange::settle() {
  if (packed_ && !nccl_) packed_->synchronize();  // also what came before has then left its buffers
}

void Exchange::start() {
  if (sends_.empty() && receives_.empty()) return;
  if (nccl_) return nccl_->exchange(packed_, sends_, receives_);
  check_mpi(MPI_Startall(static_cast<int>(requests_.size()), requests_.data()), "MPI_Startall");
}

void Exchange::wait(Queue& queue) {
  if (sends_.empty() && receives_.empty()) return;
  if (nccl_) {
    nccl_->wait(queue);
  } else {
    communicator_.wait(requests_, "halos", [this](std::size_t i) {
      return i < receives_.size()
                 ? fmt::format("that of rank {}", receives_[i].rank)
                 : fmt::format("rank {} to take its own", sends_[i - receives_.size()].rank);
    });
  }
  for (const Message& message : receives_)
    if (!message.on_host.view().empty()) copy(queue, message.on_host, message.on_device);
}

void Exchange::unpack(Queue& queue, std::size_t box, const TensorView& buffer) {
  for (const Message& message : receives_)
    for (const Part& part : message.parts) {
      if (part.box != box) continue;
      ConstTensorView from = view_of(message, part, device_.id());
      TensorView to = buffer;
      for (int i = 0; i < 3; ++i) {
        const Run& run = part.runs[static_cast<std::size_t>(i)];
        from = run_of_view(from, 2 + i, run.step < 0 ? run.count - 1 : 0, run.count, run.step);
        to = run_of_view(to, 2 + i, run.at, run.count);
      }
      copy(queue, from, to);
    }
}

std::size_t Exchange::bytes_sent() const {
  std::size_t bytes = 0;
  for (const Message& message : sends_)
    bytes += static_cast<std::size_t>(message.elements) * size_in_bytes(dtype_);
  return bytes;
}

}  // namespace plumb::mpi
