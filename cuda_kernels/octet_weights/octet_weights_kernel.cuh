// The first kernel: a block sums a part of the units for some tiles of the product.
#pragma once

#include "cuda_kernels/octet_weights/octet_weights_products.cuh"

namespace plumb::cuda::octet_weights {

/// A block's unit and sums, as few_weights' UnitSums has them written and added.
template <int octets, int tiles, FewWeightsFault planted>
class OctetWork : public OctetUnit {
 public:
  using Arithmetic = Fp16x3;
  static constexpr FewWeightsFault fault = planted;

  TileSums<octets, tiles, planted> sums;

  __device__ OctetWork(const Params& params, const few_weights::BlockShare& share)
      : OctetUnit(params), sums(params, share) {}
  __device__ __forceinline__ void add(int exponent) { sums.add(params_, operands_, exponent); }
};

template <int octets, int tiles, int blocks_at_once, FewWeightsFault fault>
__global__ void __launch_bounds__(128 * octet_warpgroups, blocks_at_once)
    sum_octet_weights(const __grid_constant__ Params params, const float* x, const float* dy,
                      float* parts) {
  const few_weights::BlockShare share(params.few, blockIdx.x);
  few_weights::clear_shared(params.cut.few);
  OctetWork<octets, tiles, fault> work(params, share);
  few_weights::UnitSums(params.few, share, x, dy, work).run();
  work.sums.write(params, parts);
}

}  // namespace plumb::cuda::octet_weights
