// Gradients by the weights, summed over the ranks in their order.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collective.hpp"
#include "plumb/tensor.hpp"

namespace plumb::mpi {

/// The sum of as many numbers of each rank. Rank r sums the r-th share of them, in double and in
/// the order of the ranks, and all get it: twice the numbers travel, however many ranks there are.
class RankSum {
 public:
  RankSum(Communicator& communicator, std::int64_t numbers);
  std::vector<double>& numbers() { return *own_; }  ///< this rank's, which become the sums
  void run();                                       ///< collective

 private:
  Communicator& communicator_;
  std::vector<int> counts_, begins_, share_counts_, share_begins_;
  // Where a time limit passes, MPI may still write to them: they are then left.
  std::unique_ptr<std::vector<double>> own_, of_all_, share_;
};

}  // namespace plumb::mpi
