// A unit as it is stored becomes operands of wgmma: eight channels or filters of a position side by
// side, 16 bytes, positions as they follow each other in their plane.
#pragma once

#include "cuda_kernels/few_weights/few_weights_kernel.cuh"
#include "cuda_kernels/octet_weights/octet_weights.hpp"
#include "cuda_kernels/primitives/bulk_copy.cuh"

namespace plumb::cuda::octet_weights {

using few_weights::Fp16x3;

struct Params {
  few_weights::Params few;  ///< of units and their copies
  OctetWeightsCut cut;
  OctetTaps taps[octet_max_tap_tiles];
  Divisor<int> tap_tiles;
  Divisor<int> x_octet, channel_octets, dy_octet;  ///< positions of an octet's planes, octets

  __device__ const WeightsSizes& sizes() const { return few.plan.sizes; }
};

/// Writes octets of positions that planes have one behind the other, `count` in all: `source` finds
/// an octet's elements, and `to` has low halves so far behind the high ones. Returns the largest
/// magnitude that was left to the next range.
template <class OfRange, class Source>
__device__ __forceinline__ int write_octets(const OfRange& range, const Source& source,
                                            std::uint16_t* to, int low, int count, int thread,
                                            int threads) {
  int left = 0;
  for (int at = thread; at < count; at += threads) {
    few_weights::Eight<true> eight;
    eight.read(range, source(at), left);
    eight.template write<0>(eight.high, to + octet * at);
    eight.template write<0>(eight.low, to + low + octet * at);
  }
  order_shared_writes();
  return left;
}

/// Where a block's operands lie in shared memory, behind the unit as it is stored: [high, low]
/// [image][octet of channels][plane of taps][row][column][channel], [high, low][octet of
/// filters][image][row][column][filter].
struct Operands {
  std::uint16_t *x, *dy;
};

/// A unit as it is stored and as it is multiplied. It holds no address of its own members, so that
/// compilers keep them in registers, and the sums beside them.
class OctetUnit {
 public:
  few_weights::StoredUnit<float> unit;

  __device__ explicit OctetUnit(const Params& params)
      : unit(params.cut.few),
        params_(params),
        operands_{unit.operands(), unit.operands() + 2 * params.cut.x_high} {}

  template <class OfRange>
  __device__ __forceinline__ int write_x(const OfRange& range) const {
    const OctetWeightsCut& cut = params_.cut;
    const int apart = params_.x_octet.value();
    const auto source = [&](int at) {
      const auto [number, position] = params_.x_octet.divide(at);
      const auto [image, first] = params_.channel_octets.divide(number);
      const int channel = octet * first;
      return few_weights::Apart{unit.x + (image * cut.few.block_c + channel) * apart + position,
                                apart, cut.few.block_c - channel};
    };
    return write_octets(range, source, operands_.x, cut.x_high, cut.x_high / octet, thread(),
                        params_.cut.few.threads());
  }
  template <class OfRange>
  __device__ __forceinline__ int write_dy(const OfRange& range) const {
    const OctetWeightsCut& cut = params_.cut;
    const int apart = params_.dy_octet.value();
    const auto source = [&](int at) {
      const auto [number, position] = params_.dy_octet.divide(at);
      const int filter = octet * number;
      return few_weights::Apart{unit.dy + filter * apart + position, apart,
                                cut.few.block_k - filter};
    };
    return write_octets(range, source, operands_.dy, cut.dy_high, cut.dy_high / octet, thread(),
                        params_.cut.few.threads());
  }

 protected:
  const Params& params_;
  Operands operands_;

 private:
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
};

}  // namespace plumb::cuda::octet_weights
