#include "shares.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "plumb/error.hpp"
#include "views.hpp"

namespace plumb::mpi {
namespace {

/// Into how many parts the K and C of a group are cut.
struct Cut {
  std::int64_t k = 1, c = 1;
};

std::int64_t ceil_quotient(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

Cut cut_of_group(const ConvProblem& problem, std::int64_t ranks) {
  const std::int64_t of_k = problem.k / problem.groups, of_c = problem.c / problem.groups;
  const auto cost = [&](const Cut& cut) {
    const std::int64_t k = ceil_quotient(of_k, cut.k), c = ceil_quotient(of_c, cut.c);
    const double gathered = static_cast<double>(c * problem.d * problem.h * problem.w) +
                            static_cast<double>(k * problem.z() * problem.p() * problem.q());
    return std::tuple(k * c, gathered);
  };
  Cut best;
  for (Cut cut; cut.k <= std::min(of_k, ranks); ++cut.k)
    for (cut.c = 1; cut.c <= std::min(of_c, ranks / cut.k); ++cut.c)
      if (cost(cut) < cost(best)) best = cut;
  return best;
}

/// Channels of the part of a view, and of the box in a whole tensor that a block is.
template <class View>
View channels_of(const View& view, std::int64_t begin, std::int64_t count) {
  return slice(view, 1, begin, count);
}

TensorView box_of(TensorView view, const DistributedBlock& block) {
  for (const int axis : {0, 2, 3, 4})
    view = slice(view, axis, block.begin[axis], block.extents[axis]);
  return view;
}

Extents with_channels(Extents extents, std::int64_t channels) {
  extents[1] = channels;
  return extents;
}

}  // namespace

std::vector<Share> shares_of(const ConvProblem& problem, int ranks) {
  std::vector<Share> shares(static_cast<std::size_t>(ranks));
  const std::int64_t groups = problem.groups;
  const std::int64_t of_k = problem.k / groups, of_c = problem.c / groups;
  if (ranks <= groups) {
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const std::int64_t begin = groups / ranks * at + groups % ranks * at / ranks;
      const std::int64_t end = groups / ranks * (at + 1) + groups % ranks * (at + 1) / ranks;
      shares[i] = {.groups = end - begin,
                   .c_begin = begin * of_c,
                   .c_count = (end - begin) * of_c,
                   .k_begin = begin * of_k,
                   .k_count = (end - begin) * of_k,
                   .cw_begin = 0,
                   .cw_count = of_c};
    }
    return shares;
  }
  const Cut cut = cut_of_group(problem, ranks / groups);
  std::size_t next = 0;
  for (std::int64_t g = 0; g < groups; ++g)
    for (std::int64_t i = 0; i < cut.k; ++i)
      for (std::int64_t j = 0; j < cut.c; ++j) {
        const std::int64_t k = of_k * i / cut.k, c = of_c * j / cut.c;
        const std::int64_t c_count = of_c * (j + 1) / cut.c - c;
        shares[next++] = {.groups = 1,
                          .c_begin = g * of_c + c,
                          .c_count = c_count,
                          .k_begin = g * of_k + k,
                          .k_count = of_k * (i + 1) / cut.k - k,
                          .cw_begin = c,
                          .cw_count = c_count};
      }
  return shares;
}

WeightsShares::WeightsShares(Communicator& communicator, const Device& device,
                             const Partition& partition, const ConvOptions& options,
                             Transport transport, void* nccl_communicator)
    : Messages(communicator, device, partition.problem().dtype),
      partition_(partition),
      bias_(options.bias),
      accumulate_(options.accumulate),
      filter_{partition.problem().t, partition.problem().r, partition.problem().s},
      shares_(shares_of(partition.problem(), communicator.size())) {
  const auto elements = [&](int from, const Share& share) {
    return element_count(with_channels(partition.block(from, true).extents, share.c_count)) +
           element_count(with_channels(partition.block(from, false).extents, share.k_count));
  };
  std::int64_t bytes = 0;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const Share& theirs = shares_[static_cast<std::size_t>(rank)];
    begins_.push_back(static_cast<int>(bytes));
    counts_.push_back(static_cast<int>(bytes_of(theirs)));
    bytes += static_cast<std::int64_t>(bytes_of(theirs));
    if (bytes > std::numeric_limits<int>::max())
      throw Error(ErrorCode::unsupported,
                  "distributed: reproducible gradients by the weights of 2^31 bytes or more; "
                  "expected fewer weights");
    if (rank == communicator.rank()) continue;
    const std::int64_t sent = elements(communicator.rank(), theirs);
    const std::int64_t received = elements(rank, own());
    if (sent > 0) message_of(sends_, rank).elements = sent;
    if (received > 0) message_of(receives_, rank).elements = received;
  }
  make(transport, nccl_communicator);
  staged_ = std::make_unique<std::vector<std::byte>>(bytes_of(own()));
  all_ = std::make_unique<std::vector<std::byte>>(static_cast<std::size_t>(bytes));
  if (!own().is_empty()) make_plan(partition.problem(), options);
}

void WeightsShares::make_plan(const ConvProblem& whole, const ConvOptions& options) {
  ConvProblem local = whole;
  local.x_strides = local.w_strides = local.y_strides = {};
  local.c = own().c_count;
  local.k = own().k_count;
  local.groups = own().groups;
  ConvOptions of_share = options;
  of_share.bias = options.bias && own().has_bias();
  x_ = Tensor(device_, dtype_, {whole.n, local.c, whole.d, whole.h, whole.w});
  dy_ = Tensor(device_, dtype_, {whole.n, local.k, whole.z(), whole.p(), whole.q()});
  dw_ = Tensor(device_, dtype_, {local.k, own().cw_count, whole.t, whole.r, whole.s});
  if (of_share.bias) db_ = Tensor(device_, dtype_, {local.k});
  plan_.emplace(device_, local, of_share);
}

std::size_t WeightsShares::bytes_of(const Share& share) const {
  const std::int64_t weights = share.k_count * share.cw_count * element_count(filter_);
  const std::int64_t biases = bias_ && share.has_bias() ? share.k_count : 0;
  return static_cast<std::size_t>(weights + biases) * size_in_bytes(dtype_);
}

TensorView WeightsShares::of_share(const TensorView& dw, const Share& share) const {
  return slice(slice(dw, 0, share.k_begin, share.k_count), 1, share.cw_begin, share.cw_count);
}

void WeightsShares::pack(Queue& queue, const ConstTensorView& x, const ConstTensorView& dy) {
  if (is_idle()) return;
  for (const Message& message : sends_) {
    const Share& share = shares_[static_cast<std::size_t>(message.rank)];
    const ConstTensorView of_x = channels_of(x, share.c_begin, share.c_count);
    copy(queue, of_x, part_of_message(message, 0, of_x.extents()));
    const ConstTensorView of_dy = channels_of(dy, share.k_begin, share.k_count);
    copy(queue, of_dy, part_of_message(message, element_count(of_x.extents()), of_dy.extents()));
  }
  packed(queue);
}

void WeightsShares::gather_own(Queue& queue, const ConstTensorView& x, const ConstTensorView& dy) {
  if (own().is_empty()) return;
  const int rank = communicator_.rank();
  copy(queue, channels_of(x, own().c_begin, own().c_count),
       box_of(x_, partition_.block(rank, true)));
  copy(queue, channels_of(dy, own().k_begin, own().k_count),
       box_of(dy_, partition_.block(rank, false)));
}

void WeightsShares::compute(Queue& queue, const TensorView& dw, const TensorView& db) {
  if (own().is_empty()) return;
  for (const Message& message : receives_) {
    const DistributedBlock x = partition_.block(message.rank, true);
    const DistributedBlock dy = partition_.block(message.rank, false);
    const Extents of_x = with_channels(x.extents, own().c_count);
    copy(queue, part_of_message(message, 0, of_x), box_of(x_, x));
    copy(queue,
         part_of_message(message, element_count(of_x), with_channels(dy.extents, own().k_count)),
         box_of(dy_, dy));
  }
  const bool has_bias = !db_.view().empty();
  if (accumulate_) {
    copy(queue, of_share(dw, own()), dw_);
    if (has_bias) copy(queue, slice(db, 0, own().k_begin, own().k_count), db_);
  }
  plan_->execute(queue, {.x = x_, .w = dy_, .y = dw_, .db = has_bias ? db_.view() : TensorView()});
  copy(queue, dw_, TensorView(staged_->data(), dtype_, dw_.extents()));
  if (has_bias)
    copy(queue, db_,
         TensorView(staged_->data() + element_count(dw_.extents()) *
                                          static_cast<std::int64_t>(size_in_bytes(dtype_)),
                    dtype_, db_.extents()));
  queue.synchronize();
}

void WeightsShares::exchange_results() {
  MPI_Request request;
  check_mpi(
      MPI_Iallgatherv(staged_->data(), static_cast<int>(staged_->size()), MPI_BYTE, all_->data(),
                      counts_.data(), begins_.data(), MPI_BYTE, communicator_.get(), &request),
      "MPI_Iallgatherv");
  try {
    communicator_.wait(request, "the weights' gradients of the other ranks");
  } catch (...) {
    for (auto* kept : {&staged_, &all_}) static_cast<void>(kept->release());
    throw;
  }
}

void WeightsShares::write(Queue& queue, const TensorView& dw, const TensorView& db) {
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    const Share& share = shares_[i];
    if (share.is_empty()) continue;
    const Extents extents{share.k_count, share.cw_count, filter_[0], filter_[1], filter_[2]};
    std::byte* const from = all_->data() + begins_[i];
    copy(queue, ConstTensorView(from, dtype_, extents), of_share(dw, share));
    if (bias_ && share.has_bias())
      copy(queue,
           ConstTensorView(
               from + element_count(extents) * static_cast<std::int64_t>(size_in_bytes(dtype_)),
               dtype_, {share.k_count}),
           slice(db, 0, share.k_begin, share.k_count));
  }
  queue.synchronize();  // the next call writes what is copied from here
}

std::string WeightsShares::description() const {
  if (!plan_) return "share: none of the channels\n";
  return fmt::format("share: {} of x from {}, {} of dy from {}, the whole of each, {}\n",
                     own().c_count, own().c_begin, own().k_count, own().k_begin,
                     plan_->algorithm().name);
}

}  // namespace plumb::mpi
