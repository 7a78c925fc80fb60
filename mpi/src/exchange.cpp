#include "exchange.hpp"

#include "views.hpp"

namespace plumb::mpi {

Exchange::Exchange(Communicator& communicator, const Device& device, const Partition& partition,
                   const std::vector<Box>& boxes, Transport transport, void* nccl_communicator)
    : Messages(communicator, device, partition.problem().dtype),
      images_(partition.images_of(communicator.rank())) {
  const bool backward = partition.problem().direction == Direction::backward_data;
  channels_ = backward ? partition.problem().k : partition.problem().c;
  const Dims begin = partition.block(communicator.rank(), !backward).begin;
  origin_ = {begin[2], begin[3], begin[4]};

  const auto add = [&](std::vector<Message>& messages, std::vector<Part>& parts, int rank,
                       const Piece& piece, std::size_t box) {
    Message& message = message_of(messages, rank);
    const Part part{.runs = piece.runs, .rank = rank, .box = box, .offset = message.elements};
    message.elements += element_count(extents_of(part));
    parts.push_back(part);
  };
  const int own = communicator.rank();
  for (std::size_t i = 0; i < boxes.size(); ++i)
    for (const Piece& piece : pieces_of(partition, own, boxes[i]))
      if (piece.rank != own) add(receives_, received_, piece.rank, piece, i);
  // What others wait for is what they would compute of themselves, in the same order.
  const int images_place = partition.place_of(own).n;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    if (rank == own || partition.place_of(rank).n != images_place) continue;
    const RankBoxes theirs = boxes_of(partition, rank);
    for (std::size_t i = 0; i < theirs.others.size(); ++i)
      for (const Piece& piece : pieces_of(partition, rank, theirs.others[i]))
        if (piece.rank == own) add(sends_, sent_, rank, piece, i);
  }
  make(transport, nccl_communicator);
}

Extents Exchange::extents_of(const Part& part) const {
  return {images_, channels_, part.runs[0].sent(), part.runs[1].sent(), part.runs[2].sent()};
}

TensorView Exchange::view_of(std::vector<Message>& messages, const Part& part) const {
  return part_of_message(message_of(messages, part.rank), part.offset, extents_of(part));
}

void Exchange::pack(Queue& queue, const ConstTensorView& source) {
  if (is_idle()) return;
  for (const Part& part : sent_) {
    ConstTensorView view = source;
    for (int i = 0; i < 3; ++i) {
      const auto axis = static_cast<std::size_t>(i);
      const Run& run = part.runs[axis];
      view = run_of_view(view, 2 + i, run.lowest() - origin_[axis], run.sent());
    }
    copy(queue, view, view_of(sends_, part));
  }
  packed(queue);
}

void Exchange::unpack(Queue& queue, std::size_t box, const TensorView& buffer) {
  for (const Part& part : received_) {
    if (part.box != box) continue;
    ConstTensorView from = view_of(receives_, part);
    TensorView to = buffer;
    for (int i = 0; i < 3; ++i) {
      const Run& run = part.runs[static_cast<std::size_t>(i)];
      from = run_of_view(from, 2 + i, run.step < 0 ? run.count - 1 : 0, run.count, run.step);
      to = run_of_view(to, 2 + i, run.at, run.count);
    }
    copy(queue, from, to);
  }
}

}  // namespace plumb::mpi
