// Filters that come to shared memory slice by slice, packed as products want them, and a strip's
// sums with them.
//
// A slot of the product is eight pairs: neighbours in a row of the filter. Pairs are counted
// through columns, parts of the filter's rows and channels, so that filters of any size fill slots,
// and where in the tile a pair lies is read from a table. From slot to slot they walk down the
// rows.
#pragma once

#include <cstdint>

#include "cuda_kernels/common/window_input.cuh"
#include "cuda_kernels/common/window_products.cuh"
#include "cuda_kernels/common/window_shape.cuh"

namespace plumb::cuda {

inline constexpr int most_group_filters = 64;

/// In front of a group's packed filters.
struct PackedHeader {
  float scales[most_group_filters];   ///< what sums are multiplied with to undo them
  int exponents[most_group_filters];  ///< of the scales; of a filter without a value, no_exponent
  int flags[most_group_filters];      ///< WindowFlags
};
inline constexpr int no_exponent = 1 << 20;
inline constexpr int packed_header_bytes = 1024;
static_assert(sizeof(PackedHeader) <= packed_header_bytes);

/// Where the pairs of a walk begin, in bytes from where a window does: lane 4 g + t has pair t of
/// its slots' first half and of their second.
__device__ inline void write_pair_table(const WindowShape& shape, int element_bytes, int* table) {
  const int pairs = shape.starts.value() * shape.channels.value() * shape.row_terms.value();
  for (int i = static_cast<int>(threadIdx.x); i < shape.walks * WindowWalks::pairs;
       i += static_cast<int>(blockDim.x)) {
    const WalkedPair pair(shape, i);
    // What fills the last walk meets zeros.
    const int at =
        i < pairs ? pair.channel * shape.plane + pair.row * shape.pitch + 2 * pair.column_pair : 0;
    const int walk = i / WindowWalks::pairs, abreast = i % WindowWalks::pairs;
    table[walk * WindowWalks::pairs + abreast % 4 * 2 + abreast / 4] = at * element_bytes;
  }
}

/// The filters of one group as a block takes them, over and over: all at once where they have a
/// place, or a ring of slices that one thread keeps filled.
class FilterStream {
 public:
  __device__ FilterStream(const WindowShape& shape, WindowControl& control, const char* packed,
                          int slot_bytes, char* ring)
      : shape_(shape), control_(control), packed_(packed), slot_bytes_(slot_bytes), ring_(ring) {}

  /// By one thread, before a barrier of the block.
  __device__ void init() {
    for (int i = 0; i < shape_.ring; ++i) {
      control_.filled[i].init();
      control_.emptied[i].init(static_cast<int>(blockDim.x) / 32);
    }
  }
  /// Behind the barrier, by all.
  __device__ void begin() {
    if (threadIdx.x == 0)
      for (int i = 0; i < shape_.ring; ++i) fill(i);
  }
  /// Until the next slice is there; it.
  __device__ const char* take() {
    control_.filled[place_].wait(turn_);
    return ring_ + place_ * shape_.slice_slots * slot_bytes_;
  }
  /// By each warp, behind its products with the slice.
  __device__ void release() {
    if (shape_.slices == 1) return;
    __syncwarp();
    if (threadIdx.x % 32 == 0) control_.emptied[place_].arrive();
    // Others may still be at this slice, but hardly at the one before.
    if (threadIdx.x == 0 && taken_) {
      const int before = place_ == 0 ? shape_.ring - 1 : place_ - 1;
      control_.emptied[before].wait(place_ == 0 ? 1 - turn_ : turn_);
      fill(before);
    }
    taken_ = true;
    if (++place_ == shape_.ring) place_ = 0, turn_ = 1 - turn_;
  }
  /// Until nothing is under way any more, by the thread that fills.
  __device__ void end() {
    if (threadIdx.x != 0) return;
    if (shape_.slices == 1) return control_.filled[0].wait(0);
    for (int i = taken_ ? 1 : 0; i < shape_.ring; ++i) {
      control_.filled[place_].wait(turn_);
      if (++place_ == shape_.ring) place_ = 0, turn_ = 1 - turn_;
    }
  }

 private:
  __device__ void fill(int place) {
    const int slots = min(shape_.slice_slots, shape_.slots - slice_ * shape_.slice_slots);
    CopyBarrier& barrier = control_.filled[place];
    barrier.expect(slots * slot_bytes_);
    barrier.copy(ring_ + place * shape_.slice_slots * slot_bytes_,
                 packed_ + slice_ * shape_.slice_slots * slot_bytes_, slots * slot_bytes_);
    if (++slice_ == shape_.slices) slice_ = 0;
  }

  const WindowShape& shape_;
  WindowControl& control_;
  const char* packed_;
  int slot_bytes_;
  char* ring_;
  int slice_ = 0;             ///< the next to be copied
  int place_ = 0, turn_ = 0;  ///< the next to be taken, and the parity of its round
  bool taken_ = false;        ///< whether one was
};

/// Makes a strip's sums, by four warps together and by all of a block abreast. `x` is where the
/// lane's first window begins, its second one is `second` bytes further on.
///
/// Fragments are numbered down the rows of x: in slot l of a walk, row i of the strip takes number
/// i + l. A ring in registers holds those of all rows and the next.
template <class Scheme, int rows, int eights>
__device__ void sum_streamed(typename Scheme::Sum (&sums)[rows][eights], const WindowShape& shape,
                             const char* x, int second, const int* table, FilterStream& stream) {
  using Step = typename Scheme::Step;
  constexpr std::uint64_t slot_sixteenths = sizeof(typename Scheme::Slot) * 32 * eights / 16;
  constexpr int ring = rows + 1;
  const auto settle = [&] {
#pragma unroll
    for (auto& of_row : sums)
#pragma unroll
      for (auto& sum : of_row) sum.settle();
  };
  const int row_step = shape.row_step * Scheme::element_bytes, length = shape.walk_length;
  // Tables are read a walk ahead.
  const int2* offsets = reinterpret_cast<const int2*>(table) + threadIdx.x % 4;
  int2 at = *offsets;
  const auto read = [&](Step& step, int number) {
    const char* const first = x + number * row_step;
    Scheme::take(step, 0, Scheme::row(first + at.x), Scheme::row(first + at.x + second),
                 shape.zeros);
    Scheme::take(step, 1, Scheme::row(first + at.y), Scheme::row(first + at.y + second),
                 shape.zeros);
  };
  // What the products before the last have read may be read anew behind it.
  const auto go_on = [] {
    wgmma_commit();
    wgmma_end<1>();
  };
  int left = shape.walks;
  const auto next_walk = [&](int walks) {
    if (walks > 1 || left > 0) offsets += 4;  // not beyond the table's end
    at = *offsets;
  };
  Step steps[ring];
  read(steps[0], 0);
  settle();
#pragma unroll 1
  for (int slice = 0; slice < shape.slices; ++slice) {
    std::uint64_t w = wgmma_matrix(stream.take());
    int walks = min(shape.slice_walks, left);
    left -= walks;
    if (length == 1) {
      // Two fragments take turns, one read while the other is multiplied.
      constexpr int at_once = rows % 2 == 0 ? 1 : 2;
      const auto walk_once = [&](auto first_turn, int still) {
        constexpr int turn = decltype(first_turn)::value;
#pragma unroll
        for (int i = 0; i < rows; ++i) {
          wgmma_begin();
          Scheme::template warpgroup<true>(sums[i], steps[(turn + i) % 2], w);
          go_on();
          if (i + 1 == rows) next_walk(still);
          read(steps[(turn + i + 1) % 2], (i + 1) % rows);
        }
        w += slot_sixteenths;
      };
#pragma unroll 1
      for (; walks >= at_once; walks -= at_once) {
        walk_once(std::integral_constant<int, 0>{}, walks);
        if constexpr (at_once == 2) walk_once(std::integral_constant<int, 1>{}, walks - 1);
      }
      if constexpr (at_once == 2) {
        if (walks > 0) {  // the last of all: slices have an even number
          wgmma_begin();
          Scheme::template warpgroup<true>(sums[0], steps[0], w);
          wgmma_commit();
        }
      }
    } else if constexpr (rows > 1) {
#pragma unroll 1
      for (; walks > 0; --walks) {
#pragma unroll
        for (int i = 1; i < rows; ++i) read(steps[i], i);
#pragma unroll 1
        for (int slot = 0; slot < length; slot += ring) {
#pragma unroll
          for (int turn = 0; turn < ring; ++turn) {
            if (slot + turn < length) {
              wgmma_begin();
#pragma unroll
              for (int i = 0; i < rows; ++i)
                Scheme::template warpgroup<true>(sums[i], steps[(turn + i) % ring], w);
              go_on();
              w += slot_sixteenths;
              if (slot + turn + 1 < length) read(steps[(turn + rows) % ring], slot + turn + rows);
            }
          }
        }
        next_walk(walks);
        wgmma_end();
        read(steps[0], 0);
      }
    }
    wgmma_end();
    stream.release();
  }
  settle();
}

}  // namespace plumb::cuda
