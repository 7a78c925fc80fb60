// A convolution as the kernel's warps see it, a block's shared memory, and its share of the work.
#pragma once

#include <cstdint>

#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/primitives/cluster.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/tensor_copy.cuh"
#include "cuda_kernels/wide/wide.hpp"
#include "cuda_kernels/wide/wide_axes.hpp"
#include "cuda_kernels/wide/wide_halves.cuh"

namespace plumb::cuda {

/// Mistakes that tests plant in the kernel; `none` everywhere else.
enum class WideFault {
  none,
  wrong_swizzle,  ///< filters are packed without the swizzle
  stale_stage,    ///< a tile's last step takes the pixels that its stage had before
  lost_split,     ///< the last split is not added
  low_twice,      ///< the second of three products takes x's low halves as the first does
  wrong_group,    ///< a group's pixels are those of the group before
  wrong_term,     ///< filters have their folded taps in another order than x
  kept_small,     ///< sums of small operands are kept however small they are
  // Of pixels that go through registers:
  stale_fragment,  ///< a step's first terms are those of the stage before
  lost_low,        ///< low halves of x are zeros
  swapped_terms,   ///< a fragment's first four terms are its last ones
  // Of outputs that the copy engine stores:
  lost_box,  ///< a tile's first box is not stored
};

/// What is stored and what is multiplied, as types: a WideClass of the host.
template <class StoredType, class OperandType, int of_products, bool reads_across = false>
struct WideArithmetic {
  using Stored = StoredType;
  using Operand = OperandType;  ///< `float` is TF32
  static constexpr int products = of_products;
  static constexpr bool splits_operands = products == 3;
  static constexpr bool across = reads_across;  ///< planes of x as they lie (lies_across())
  static constexpr WideClass host{dtype_of_stored<Stored>, dtype_of_stored<Operand>, products};
  static constexpr int rounds = host.rounds();
  static constexpr bool splits_in_memory = host.splits_in_memory();
  static constexpr bool splits_in_registers = host.splits_in_registers();
  static constexpr bool stores_boxes = host.stores_boxes();
  static constexpr bool in_registers = pixels_in_registers(host, across);
  static constexpr int operand_bytes = sizeof(Operand);
  static constexpr int step_channels = swizzle_row_bytes / operand_bytes;
};
using WideFp16 = WideArithmetic<__half, __half, 1>;
using WideBf16 = WideArithmetic<__nv_bfloat16, __nv_bfloat16, 1>;
using WideFp16Across = WideArithmetic<__half, __half, 1, true>;
using WideBf16Across = WideArithmetic<__nv_bfloat16, __nv_bfloat16, 1, true>;
using WideTf32 = WideArithmetic<float, float, 1>;
using WideFp16x3 = WideArithmetic<float, __half, 3>;
using WideTf32x3 = WideArithmetic<float, float, 3>;
using WideFp64 = WideArithmetic<double, double, 1>;  // of wide_mma/ alone

inline constexpr int wide_consumers = 32 * wide_consumer_warps, wide_threads = wide_consumers + 128;

/// One axis of the product: w, h, d.
struct WideAxis {
  int taps, stride, dilation, before;
  Divisor<int> outputs;
  std::int64_t y_step;  ///< in elements
};

/// An output pixel by its coordinates.
struct WidePixel {
  int n, at[3];  ///< q, p, z
};

/// What only operands that are split need.
struct WideScales {
  const int* of_image;   ///< words of WideScale
  const int* of_filter;  ///< likewise; neither where halves are not scaled
  const float* dense;    ///< the filters as they were: K, taps, C/G
  float least_sum = 0;   ///< smaller ones of small operands are made anew
};

template <class Of>
struct WideParams {
  using Arithmetic = Of;
  using Stored = typename Of::Stored;
  static constexpr int across_pixels = wide_across_pixels(Of::operand_bytes);

  CUtensorMap map;      ///< of x
  CUtensorMap y_boxes;  ///< where `stores_boxes`
  const Stored* x;
  const char* filters;  ///< packed
  Stored* y;
  /// Of splits, pixels and rows: splits × pixels × all_rows; null where there is one.
  ComputeType<Stored>* sums;
  WideScales scales;
  Epilogue<Stored> epilogue;
  WideAxis axis[3];
  WideImageAxes of_x;
  std::int64_t x_n, x_c, y_n, y_k;  ///< strides in elements
  std::int64_t plane_bytes;         ///< of packed filters: where the low halves begin
  int axes;                         ///< of the map; 0: its rows are pixels (im2col_rows.hpp)
  WideGroups groups;
  int x_channels;      ///< of a group in x: C/G
  int group_channels;  ///< from a group's first channel to the next one's, in the map's tensor
  int low_channels;    ///< where the low halves begin in it
  int rows, all_rows;  ///< of packed filters, of a group and of all
  int channel_blocks, steps;  ///< steps of one product
  int splits, pixels, works;
  int whole;              ///< works that are tiles of a block by itself; all but for clusters
  int cluster_blocks;     ///< that a device holds at once
  Divisor<int> cluster;   ///< blocks that share the steps of a tile behind those
  int image_pixels;       ///< across: those of an image, whose tiles are its own
  Divisor<int> n_tiles;   ///< of all groups
  Divisor<int> of_group;  ///< n tiles of a group
  Divisor<int> m_tiles;
  WideAccess access;      ///< of y
  bool lays_out_filters;  ///< outputs of a pixel lie side by side
  bool repairs;           ///< zeros may have met Inf, or operands did not fit
  bool stores_boxes;      ///< the copy engine stores y (wide_boxes.cuh)

  /// Whether outputs of a filter are nearer to each other than those of a pixel.
  PLUMB_HOST_DEVICE bool has_planes() const {
    return access != WideAccess::filters && !lays_out_filters;
  }
  __device__ int all_steps() const { return Of::rounds * steps; }
  __device__ WidePixel pixel(int number) const {
    const auto [above, q] = axis[0].outputs.divide(number);
    const auto [planes, p] = axis[1].outputs.divide(above);
    const auto [n, z] = axis[2].outputs.divide(planes);
    return {n, {q, p, z}};
  }
  /// Where a pixel's outputs begin, in elements from y.
  __device__ std::int64_t y_of(const WidePixel& of) const {
    return of.n * y_n + of.at[2] * axis[2].y_step + of.at[1] * axis[1].y_step +
           of.at[0] * axis[0].y_step;
  }
};

/// Whether a sum is to be made anew by the definition: it is NaN, or of TF32 halves infinite, since
/// high ones may be larger than the values by so much that their product is beyond fp32.
template <class Arithmetic, class Sum>
__device__ inline bool is_doubtful(Sum sum) {
  if constexpr (Arithmetic::splits_in_registers)
    return !(fabsf(sum) < __int_as_float(infinity_bits));
  else
    return sum != sum;
}

/// A block's shared memory: stages of pixels and filters, what consumer warps stage, and barriers.
template <WideShape shape>
class WideShared {
 public:
  __device__ WideShared() {
    const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(dynamic_shared()));
    stages_ = dynamic_shared() + (-at & (swizzle_atom_bytes - 1));
  }
  __device__ char* pixels(int stage) const { return stages_ + stage * shape.stage_bytes(); }
  /// Those of low halves, where a stage has them, follow.
  __device__ char* filters(int stage) const { return pixels(stage) + shape.a_bytes(); }
  /// Warps' 2 KB of a slot follow each other.
  __device__ char* staged(int warp, int slot = 0) const {
    return stages_ + shape.stages() * shape.stage_bytes() + slot * wide_slot_bytes +
           warp * (wide_slot_bytes / 8);
  }
  __device__ StageBarrier& full(int stage) const {
    return reinterpret_cast<StageBarrier*>(barriers())[stage];
  }
  __device__ Mbarrier& empty(int stage) const {
    return reinterpret_cast<Mbarrier*>(barriers())[shape.stages() + stage];
  }
  /// Counts what other blocks of a cluster send of a consumer warp's sums.
  __device__ SentBarrier& sent(int warp) const {
    return reinterpret_cast<SentBarrier*>(barriers())[2 * shape.stages() + warp];
  }

 private:
  __device__ char* barriers() const { return staged(0, wide_slots); }

  char* stages_;
};
static_assert(sizeof(StageBarrier) == 8 && sizeof(Mbarrier) == 8 && sizeof(SentBarrier) == 8);

/// Where producers or consumers are in the circular buffer of stages, and the parity of its full
/// barriers there.
template <WideShape shape>
struct WideStage {
  int number = 0, parity = 0;

  __device__ void advance() {
    if (++number == shape.stages()) number = 0, parity ^= 1;
  }
};

/// A tile of a block: pixels and a group's filters from there on, and the steps that are summed, of
/// all products one after the other.
struct WideWorkItem {
  int pixel, group, filter, split, begin, end;
  bool in_cluster = false;  ///< whose blocks sum the tile's splits
};

/// Returns a tile by its number. A block's are its own and each gridDim.x behind; filters are
/// fastest, so that the tiles under way at one time share pixels.
template <WideShape shape, class Params>
__device__ inline WideWorkItem wide_work(const Params& params, int number) {
  const bool in_cluster = !Params::Arithmetic::across && number >= params.whole;
  int tile = number, of_cluster = 0;
  if (in_cluster) {
    // Blocks of a cluster follow each other, and so do their works: whole ones are clusters' too.
    const auto [behind, rank] = params.cluster.divide(number - params.whole);
    tile = params.whole + behind, of_cluster = rank;
  }
  const auto [above, n_tile] = params.n_tiles.divide(tile);
  const auto [of_splits, m_tile] = params.m_tiles.divide(above);
  const auto [group, in_group] = params.of_group.divide(n_tile);
  const int split = in_cluster ? of_cluster : of_splits,
            splits = in_cluster ? params.cluster.value() : params.splits;
  WideWorkItem item{.pixel = m_tile * shape.m,
                    .group = group,
                    .filter = in_group * shape.n,
                    .split = split,
                    .begin = 0,
                    .end = params.all_steps(),
                    .in_cluster = in_cluster};
  if (splits > 1) {
    item.begin = first_step(split, splits, params.all_steps());
    item.end = first_step(split + 1, splits, params.all_steps());
  }
  return item;
}

}  // namespace plumb::cuda
