// Random problems on random grids, and what a rank's block of the result should be: a part of what
// this rank computes of the whole by itself.
#pragma once

#include <mpi.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "plumb/distributed.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test {

inline constexpr double time_limit_seconds = 20;

inline int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}
/// The CPU, or what PLUMB_MPI_TEST_DEVICE names: "ranks" gives a node's GPUs to its ranks in turn.
inline plumb::Device test_device() {
  const char* const name = std::getenv("PLUMB_MPI_TEST_DEVICE");
  if (!name || !*name) return plumb::Device::open("cpu");
  if (std::string(name) == "ranks") return plumb::device_for_rank(MPI_COMM_WORLD).device;
  return plumb::Device::open(name);
}
inline int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

/// A problem and its grid. The same seed gives the same on every rank.
struct SpreadCase {
  plumb::ConvProblem problem;
  plumb::DistributedGrid grid;
  plumb::DistributedOptions options;
  std::uint32_t seed = 0;
  std::string text() const;
};

/// Nothing where the values drawn make no convolution.
std::optional<SpreadCase> random_case(std::uint32_t seed, int ranks, plumb::Direction direction);

/// The tensors of a whole problem by their parts, on the host.
struct WholeTensors {
  HostTensor source, filters, target;
  std::optional<HostTensor> bias, mask, db;
};
/// Small integers, whose sums are exact, or normal numbers.
WholeTensors whole_tensors(const SpreadCase& spread, bool integers);

/// This rank's block of a whole tensor, in memory of its own with gaps, if `strides` says so.
HostTensor block_of(const HostTensor& whole, const plumb::DistributedBlock& block,
                    const plumb::Strides& strides = {});

/// The whole computed by this rank; the target is written.
void compute_whole(const plumb::Device& device, const SpreadCase& spread, WholeTensors& whole);

/// What this rank has of the result, computed by all.
struct SpreadResult {
  std::vector<double> values, expected;
  bool surroundings_untouched = true;
};
/// `whole` has been computed from `before`, a copy of it with the old target.
SpreadResult compute_spread(const plumb::Device& device, const SpreadCase& spread,
                            const WholeTensors& before, const WholeTensors& whole, int times = 1);

}  // namespace plumb_test
