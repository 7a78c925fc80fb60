#include "sums.hpp"

#include <fmt/format.h>

#include <limits>

namespace plumb::mpi {

RankSum::RankSum(Communicator& communicator, std::int64_t numbers) : communicator_(communicator) {
  if (numbers > std::numeric_limits<int>::max())
    throw Error(ErrorCode::unsupported,
                fmt::format("distributed: a sum of {} weights; expected less than 2^31", numbers));
  const int ranks = communicator.size();
  for (int rank = 0; rank < ranks; ++rank) {
    begins_.push_back(static_cast<int>(numbers * rank / ranks));
    counts_.push_back(static_cast<int>(numbers * (rank + 1) / ranks) - begins_.back());
  }
  const int share = counts_[static_cast<std::size_t>(communicator.rank())];
  for (int rank = 0; rank < ranks; ++rank) {
    share_counts_.push_back(share);
    share_begins_.push_back(share * rank);
  }
  own_ = std::make_unique<std::vector<double>>(static_cast<std::size_t>(numbers));
  of_all_ = std::make_unique<std::vector<double>>(static_cast<std::size_t>(share) *
                                                  static_cast<std::size_t>(ranks));
  share_ = std::make_unique<std::vector<double>>(static_cast<std::size_t>(share));
}

void RankSum::run() {
  const auto wait = [&](MPI_Request& request) {
    try {
      communicator_.wait(request, "the weights' gradients of the other ranks");
    } catch (...) {
      for (auto* kept : {&own_, &of_all_, &share_}) static_cast<void>(kept->release());
      throw;
    }
  };
  MPI_Request request;
  check_mpi(MPI_Ialltoallv(own_->data(), counts_.data(), begins_.data(), MPI_DOUBLE,
                           of_all_->data(), share_counts_.data(), share_begins_.data(), MPI_DOUBLE,
                           communicator_.get(), &request),
            "MPI_Ialltoallv");
  wait(request);
  const std::size_t share = share_->size();
  for (std::size_t i = 0; i < share; ++i) {
    double sum = 0;
    for (std::size_t at = i; at < of_all_->size(); at += share) sum += (*of_all_)[at];
    (*share_)[i] = sum;
  }
  check_mpi(
      MPI_Iallgatherv(share_->data(), static_cast<int>(share), MPI_DOUBLE, own_->data(),
                      counts_.data(), begins_.data(), MPI_DOUBLE, communicator_.get(), &request),
      "MPI_Iallgatherv");
  wait(request);
}

}  // namespace plumb::mpi
