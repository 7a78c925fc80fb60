// The size of a band and of its blocks of channels, by what they cost.
#pragma once

#include <cstdint>

#include "cpu_kernels/channels/channels_plan.hpp"

namespace plumb {

/// A band's size and the channels that its slab has at a time.
struct ChannelsCut {
  std::int64_t rows, columns, block;
  double products;  ///< that take as long as the work of all bands does
};

/// Finds the cut of least cost of a plan whose bands are not set yet; of no rows where none keeps
/// the limits.
template <class Real>
class ChannelsCutter {
 public:
  ChannelsCutter(const ConvProblem& problem, const ChannelsKernels<Real>& kernels,
                 const ChannelsPlan& plan)
      : problem_(problem), kernels_(kernels), plan_(plan) {}

  ChannelsCut best() const;
  /// From a column of the slab to the next, of so many channels.
  std::int64_t pitch(std::int64_t block) const;

 private:
  double window_bytes(const ChannelsCut& cut) const;
  std::int64_t block_of(std::int64_t rows, std::int64_t columns) const;
  double tiles(std::int64_t rows, std::int64_t columns, double terms) const;
  double positions(const ChannelsCut& cut) const;
  double planes(const ChannelsCut& cut) const;
  double copied(const ChannelsCut& cut) const;
  double products(const ChannelsCut& cut) const;

  const ConvProblem& problem_;
  const ChannelsKernels<Real>& kernels_;
  const ChannelsPlan& plan_;
};

}  // namespace plumb
