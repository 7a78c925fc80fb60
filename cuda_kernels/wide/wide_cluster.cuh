// The blocks of a cluster sum parts of a tile's steps, and exchange the sums: each block adds those
// of some of the tile's warps in the order of the splits, and goes on to write these outputs alone.
//
// Sums are sent to where stages were. A block's tile in a cluster is its last one, so that nothing
// is loaded behind it: stages are free when all blocks have met, and a block that has what it waits
// for is written to no more.
#pragma once

#include "cuda_kernels/primitives/cluster.cuh"
#include "cuda_kernels/wide/wide_consumer.cuh"

namespace plumb::cuda {

/// A warp's sums of one block: what the block that adds them is sent by each.
template <WideShape shape>
class WideExchange {
 public:
  using Sums = WideSums<shape>;
  static constexpr int quads = Sums::m64_tiles * Sums::n8_tiles, quad_bytes = 32 * sizeof(float4),
                       warp_bytes = quads * quad_bytes;
  static_assert(wide_consumers / 32 * warp_bytes <= shape.stages() * shape.stage_bytes());

  /// `blocks` are those of the cluster, of which `split` is this one and `adds` the one that adds
  /// the warp's sums.
  __device__ WideExchange(const WideShared<shape>& shared, int warp, int adds, int blocks,
                          int split)
      : received_(shared.pixels(0) + (warp - adds) * warp_bytes +
                  static_cast<int>(threadIdx.x) % 32 * static_cast<int>(sizeof(float4))),
        sent_(shared.sent(warp)),
        blocks_(blocks),
        split_(split) {}

  /// One lane calls it in the block that adds.
  __device__ void expect() const { sent_.arrive_expecting((blocks_ - 1) * warp_bytes); }
  __device__ __forceinline__ void send(const Sums& sums, int block) const {
    const ClusterMemory to(of_split(split_), sent_, block);
#pragma unroll
    for (int i = 0; i < quads; ++i) to.send(i * quad_bytes, quad(sums, i));
  }
  /// Adds the sums of all splits in their order; of the first two it makes no difference which one
  /// is added to the other. `left_out` are lost.
  __device__ __forceinline__ void receive(Sums& sums, int left_out) const {
    if (split_ > 1) {
#pragma unroll
      for (int i = 0; i < quads; ++i) at(split_, i) = quad(sums, i);
    }
    sent_.wait_for_blocks(0);
    if (split_ > 1) {
#pragma unroll
      for (int i = 0; i < quads; ++i) {
        const float4 first = at(0, i);
        float* const to = sums.of[i / Sums::n8_tiles] + i % Sums::n8_tiles * 4;
        to[0] = first.x, to[1] = first.y, to[2] = first.z, to[3] = first.w;
      }
    }
#pragma unroll 1
    for (int split = 1; split < blocks_ - left_out; ++split) {
      const int other = split == 1 && split_ == 1 ? 0 : split;
#pragma unroll
      for (int i = 0; i < quads; ++i) {
        const float4 more = at(other, i);
        float* const to = sums.of[i / Sums::n8_tiles] + i % Sums::n8_tiles * 4;
        to[0] += more.x, to[1] += more.y, to[2] += more.z, to[3] += more.w;
      }
    }
  }

 private:
  __device__ static float4 quad(const Sums& sums, int i) {
    const float* const of = sums.of[i / Sums::n8_tiles] + i % Sums::n8_tiles * 4;
    return {of[0], of[1], of[2], of[3]};
  }
  /// Where this lane's sums of a split lie.
  __device__ char* of_split(int split) const { return received_ + split * warp_bytes; }
  __device__ float4& at(int split, int i) const {
    return *reinterpret_cast<float4*>(of_split(split) + i * quad_bytes);
  }

  char* received_;
  SentBarrier& sent_;
  int blocks_, split_;
};

/// Exchanges the sums of a tile that the blocks of a cluster sum together; warp by warp they add
/// them in turn. Returns whether this block has added this warp's, and writes them. All consumer
/// threads call it; inlined, as all that has sums.
template <WideFault fault, WideShape shape, class Params>
__device__ __forceinline__ bool add_splits(const Params& params, const WideShared<shape>& shared,
                                           WideSums<shape>& sums, const WideWorkItem& work) {
  const int warp = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 32, 0);
  const int blocks = params.cluster.value(), adds = params.cluster.divide(warp).remainder;
  const int pixel = warpgroup_corner<shape>(work, warp / 4).pixel + 16 * (warp % 4);
  const bool here = pixel < params.pixels;  // in all blocks or in none
  const WideExchange<shape> exchange(shared, warp, adds, blocks, work.split);
  if (here && adds == work.split && threadIdx.x % 32 == 0) exchange.expect();
  meet_cluster();
  if (!here) return false;
  if (adds != work.split) {
    exchange.send(sums, adds);
    return false;
  }
  exchange.receive(sums, fault == WideFault::lost_split ? 1 : 0);
  return true;
}

}  // namespace plumb::cuda
