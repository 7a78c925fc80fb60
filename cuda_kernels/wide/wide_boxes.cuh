// Outputs leave by the copy engine (PTX cp.async.bulk.tensor): warps stage a box of them in shared
// memory, one thread begins its store, and the next box is staged meanwhile.
//
// Rows of a box have 128 bytes, swizzled (primitives/swizzle.hpp). Where filters lie side by side a
// row is a pixel's, and a warp's 16 pixels are a box. In planes a row is a filter's pixels: those
// of four warps, of f32 of two, which then stage a box together.
#pragma once

#include "cuda_kernels/primitives/bulk_copy.cuh"
#include "cuda_kernels/primitives/named_barrier.cuh"
#include "cuda_kernels/primitives/stmatrix.cuh"
#include "cuda_kernels/wide/wide_boxes.hpp"
#include "cuda_kernels/wide/wide_consumer.cuh"
#include "cuda_kernels/wide/wide_fragments.cuh"
#include "cuda_kernels/wide/wide_outputs.cuh"
#include "cuda_kernels/wide/wide_repair.cuh"

namespace plumb::cuda {

template <WideShape shape, class Params>
class WideBoxes {
 public:
  using Stored = typename Params::Stored;
  using Sum = ComputeType<Stored>;

  __device__ WideBoxes(const Params& params, const WideShared<shape>& shared)
      : params_(params),
        shared_(shared),
        warp_(__shfl_sync(all_lanes, static_cast<int>(threadIdx.x) / 32, 0)) {}

  /// Writes the warpgroup's sums of a tile, all of its reduction, which are not added to y. All
  /// its threads call it.
  template <WideFault fault>
  __device__ __forceinline__ void write(WideSums<shape>& sums, const WideWorkItem& work) {
    // Warps that stage a box together meet as often either way.
    if (params_.repairs && __any_sync(all_lanes, has_non_finite(sums)))
      return write_repaired<fault>(sums, work);
#pragma unroll
    for (int number = 0; number < all_parts; ++number) {
      const Part part(params_, work, warp_, number);
      if (!part.exists) continue;
      begin_box();
      stage(sums_of(sums, number), part);
      end_box<fault>(part, number);
    }
  }
  /// Shared memory is the block's until its stores have read it.
  __device__ void finish() const {
    if (leads()) wait_for_store_reads();
  }

 private:
  using Arithmetic = typename Params::Arithmetic;
  using Fragments = WideFragments<Params>;
  using Sums = WideSums<shape>;
  static constexpr unsigned all_lanes = 0xffffffff;
  static constexpr int bytes = sizeof(Stored), columns = Fragments::columns;
  static constexpr bool planes = Arithmetic::across;
  /// That stage a box together, each its 16 pixels.
  static constexpr int warps = planes ? columns / wide_box_pixels : 1;

  static constexpr int parts = Sums::n8_tiles * 8 / columns, all_parts = Sums::m64_tiles * parts;

  /// A part of a tile: 64 pixels, `columns` filters of a group.
  struct Part {
    int pixel, group, k;
    bool exists;  ///< behind the group's last filter there is none

    __device__ Part(const Params& params, const WideWorkItem& work, int warp, int number)
        : group(work.group) {
      const auto [first_pixel, filter] = warpgroup_corner<shape>(work, warp / 4);
      pixel = first_pixel + number / parts * 64, k = filter + number % parts * columns;
      exists = k < params.groups.filters;
    }
  };

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ bool leads() const { return warp_ % warps == 0 && lane() == 0; }
  /// Those that stage a box together.
  __device__ void meet_warps() const {
    if constexpr (warps == 1)
      __syncwarp();
    else
      meet<32 * warps>(1 + warp_ / warps);
  }
  __device__ char* box() const { return shared_.staged(warp_ / warps * warps, slot_); }
  /// Waits until the next box can be staged.
  __device__ void begin_box() const {
    if (leads()) wait_for_store_reads<wide_slots - 1>();
    meet_warps();
  }
  /// Has the box stored that is staged.
  template <WideFault fault>
  __device__ void end_box(const Part& part, int number) {
    order_shared_writes();
    meet_warps();
    if (leads() && !(fault == WideFault::lost_box && number == 0)) store(part);
    slot_ = (slot_ + 1) % wide_slots;
  }
  /// A part's sums of this lane.
  __device__ static Sum* sums_of(Sums& sums, int number) {
    return sums.of[number / parts] + number % parts * Fragments::count;
  }
  /// Whether one of this lane's sums of the tile is not finite.
  __device__ static bool has_non_finite(const Sums& sums) {
    Sum probe = 0;  // NaN then
#pragma unroll
    for (const auto& of_tile : sums.of)
#pragma unroll
      for (const Sum& sum : of_tile) probe = fma(sum, Sum{0}, probe);
    return probe != probe;
  }
  /// Likewise, and sums anew what is doubtful. This code is there once for some parts, which take
  /// their sums from registers that each has named: it is seldom run, and the instruction cache has
  /// room for few copies.
  template <WideFault fault>
  __device__ __forceinline__ void write_repaired(Sums& sums, const WideWorkItem& work) {
    constexpr int together = all_parts > 4 ? all_parts / 2 : all_parts;
#pragma unroll
    for (int first = 0; first < all_parts; first += together)
#pragma unroll 1
      for (int i = 0; i < together; ++i) {
        const Part part(params_, work, warp_, first + i);
        if (!part.exists) continue;
        begin_box();
        Sum of_part[Fragments::count];
        take_part<together>(sums, first, i, of_part);
        repair(find_doubtful(stage(of_part, part), part), part);
        end_box<fault>(part, first + i);
      }
  }
  /// Copies the sums of part `first` + `wanted`, which is below `count`. Inlined, as all that has
  /// sums, so that registers keep them.
  template <int count, int number = 0>
  __device__ __forceinline__ static void take_part(const WideSums<shape>& sums, int first,
                                                   int wanted, Sum (&to)[Fragments::count]) {
    if (wanted != number) {
      if constexpr (number + 1 < count) take_part<count, number + 1>(sums, first, wanted, to);
      return;
    }
    const int part = first + number;
#pragma unroll
    for (int i = 0; i < Fragments::count; ++i)
      to[i] = sums.of[part / parts][part % parts * Fragments::count + i];
  }
  /// The first pixel of this warp's, and of its box.
  __device__ int own_pixel(const Part& part) const { return part.pixel + warp_ % 4 * 16; }
  __device__ int box_pixel(const Part& part) const {
    return part.pixel + warp_ % 4 / warps * warps * 16;
  }

  __device__ void store(const Part& part) const {
    const int first = box_pixel(part);
    if constexpr (planes) {
      const WidePixel pixel = params_.pixel(first);
      store_tiled(params_.y_boxes, {pixel.at[0], part.k, pixel.n, 0, 0}, box());
    } else {
      store_tiled(params_.y_boxes, {part.k, part.group, first, 0, 0}, box());
    }
    commit_stores();
  }

  /// Where an output of this warp's pixels is staged.
  __device__ Stored* staged(int row, int column) const {
    const int of_box = warp_ % warps * wide_box_pixels + row;
    const int at = planes ? column * swizzle_row_bytes + bytes * of_box
                          : row * swizzle_row_bytes + bytes * column;
    return reinterpret_cast<Stored*>(box() + swizzle_128(at));
  }

  /// Makes outputs of this lane's sums, stages and returns them. Inlined, since registers have the
  /// sums.
  __device__ __forceinline__ Fragments stage(Sum* sums, const Part& part) const {
    const int first_filter = part.group * params_.groups.filters;
    const Fragments of(params_, sums, lane(), first_filter, part.k);
    of.add_bias();
    of.limit();
    if constexpr (bytes == 2)
      stage_halves(sums);
    else
      stage_sums(of);
    return of;
  }
  __device__ __forceinline__ void stage_halves(const Sum* sums) const {
    // Of four matrices the first two are of one n8 tile's filters, the others of the next one's.
    const int matrix = lane() / 8, tile = matrix / 2, half = matrix % 2, row = lane() % 8;
    char* const first = reinterpret_cast<char*>(planes ? staged(8 * half, 8 * tile + row)
                                                       : staged(8 * half + row, 8 * tile));
#pragma unroll
    for (int j = 0; j < columns / 8; j += 2) {
      std::uint32_t matrices[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Sum* const two = sums + 4 * j + 2 * i;
        const auto pair = WidePair<Stored>::round(two[0] + Sum{0}, two[1] + Sum{0});
        matrices[i] = *reinterpret_cast<const std::uint32_t*>(&pair);
      }
      if constexpr (planes)
        store_columns(first + 8 * j * swizzle_row_bytes, matrices);
      else
        store_rows(moved(first, 16 * j), matrices);
    }
  }
  __device__ __forceinline__ void stage_sums(const Fragments& of) const {
    char* const first = reinterpret_cast<char*>(staged(lane() / 4, lane() % 4 * 2));
    of.for_pairs([&](const Sum& one, const Sum& two, int j, int half) {
      if constexpr (planes) {
        char* const here = moved(first, 32 * half) + 8 * j * swizzle_row_bytes;
        *reinterpret_cast<Sum*>(here) = one + Sum{0};
        *reinterpret_cast<Sum*>(moved(here, 16) + swizzle_row_bytes) = two + Sum{0};
      } else {
        *reinterpret_cast<WidePair<Stored>*>(moved(first, 32 * j) + 8 * half * swizzle_row_bytes) =
            WidePair<Stored>::round(one + Sum{0}, two + Sum{0});
      }
    });
  }
  /// Where what lies so many bytes further in a row is: rows begin at multiples of their bytes, and
  /// the swizzle exchanges units of 16 bytes.
  __device__ static char* moved(char* at, int by) {
    const std::uintptr_t number = reinterpret_cast<std::uintptr_t>(at);
    return at + static_cast<std::ptrdiff_t>((number ^ static_cast<std::uintptr_t>(by)) - number);
  }

  /// Returns a bit for each sum that is doubtful, of filters that are there: behind a group's last
  /// one a tile has sums of anything.
  __device__ __forceinline__ unsigned find_doubtful(const Fragments& of, const Part& part) const {
    const int left = params_.groups.filters - part.k - lane() % 4 * 2;
    Sum probe = 0;  // NaN where a sum is not finite
    of.for_pairs([&](const Sum& one, const Sum& two, int j, int) {
      if (8 * j < left) probe = fma(one, Sum{0}, fma(two, Sum{0}, probe));
    });
    unsigned doubtful = 0;
    if (probe != probe)
      of.for_pairs([&](const Sum& one, const Sum& two, int j, int half) {
        if (8 * j < left)
          doubtful |= (is_doubtful<Arithmetic>(one) ? 1u : 0u) << (4 * j + 2 * half) |
                      (is_doubtful<Arithmetic>(two) ? 2u : 0u) << (4 * j + 2 * half);
      });
    return doubtful;
  }
  /// Sums anew what is doubtful among what the warp has staged: all lanes share the terms of each
  /// output.
  __device__ void repair(unsigned doubtful, const Part& part) const {
    if (!__any_sync(all_lanes, doubtful != 0)) return;
    __syncwarp();  // lanes write what others have staged
#pragma unroll 1
    for (int owner = 0; owner < 32; ++owner) {
#pragma unroll 1
      for (unsigned left = __shfl_sync(all_lanes, doubtful, owner); left != 0; left &= left - 1) {
        const int number = __ffs(static_cast<int>(left)) - 1;
        const int row = owner / 4 + number / 2 % 2 * 8;
        const int column = number / 4 * 8 + owner % 4 * 2 + number % 2;
        if (is_there(own_pixel(part) + row)) sum_anew(part, row, column);
      }
    }
  }
  __device__ bool is_there(int pixel) const {
    if (pixel >= params_.pixels) return false;
    return !planes || params_.pixel(pixel).at[0] < params_.image_pixels;
  }
  __device__ void sum_anew(const Part& part, int row, int column) const {
    const WidePixel pixel = params_.pixel(own_pixel(part) + row);
    const int filter = part.group * params_.groups.filters + part.k + column;
    const Sum sum = wide_sum_of_warp(params_, pixel, filter);
    if (lane() == 0) params_.epilogue.store(*staged(row, column), sum, filter);
  }

  const Params& params_;
  const WideShared<shape>& shared_;
  int warp_, slot_ = 0;
};

}  // namespace plumb::cuda
