// Filters that come to shared memory slice by slice, packed as products want them, and a strip's
// sums with them.
//
// A slot of the product is eight pairs: neighbours in a row of the filter. Pairs are counted
// through columns, rows and channels, so that filters of any size fill slots, and where in the tile
// a pair lies is read from a table.
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

/// Where the pairs of a slot lie, in bytes from where a window begins: lane 4 g + t has pair t of
/// the slot's first half and of its second.
__device__ inline void write_pair_table(const WindowShape& shape, int element_bytes, int* table) {
  const int pairs = shape.conv.r.value() * shape.channels.value() * shape.row_terms.value();
  for (int i = static_cast<int>(threadIdx.x); i < shape.slots * slot_pairs;
       i += static_cast<int>(blockDim.x)) {
    const auto [rows, column_pair] = shape.row_terms.divide(i);
    const auto [channel, row] = shape.conv.r.divide(rows);
    // What fills the last slot meets zeros.
    const int at = i < pairs ? channel * shape.plane + row * shape.pitch + 2 * column_pair : 0;
    const int slot = i / slot_pairs, pair = i % slot_pairs;
    table[slot * slot_pairs + pair % 4 * 2 + pair / 4] = at * element_bytes;
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
/// lane's window begins.
template <class Scheme, int row_pairs, int eights>
__device__ void sum_streamed(typename Scheme::Sum (&sums)[row_pairs][eights],
                             const WindowShape& shape, const char* x, const int* table,
                             FilterStream& stream) {
  using Step = typename Scheme::Step;
  constexpr std::uint64_t slot_sixteenths = sizeof(typename Scheme::Slot) * 32 * eights / 16;
  static_assert(row_pairs <= 2);
  const auto settle = [&] {
#pragma unroll
    for (auto& of_pair : sums)
#pragma unroll
      for (auto& sum : of_pair) sum.settle();
  };
  const int row = shape.row_step * Scheme::element_bytes;
  const int2* offsets = reinterpret_cast<const int2*>(table) + threadIdx.x % 4;
  int2 at = offsets[0];
  const auto read = [&](Step& step, int pair) {
    const char* const low = x + 2 * pair * row;
    const char* const high = low + row;
    Scheme::take(step, 0, Scheme::row(low + at.x), Scheme::row(high + at.x), shape.zeros);
    Scheme::take(step, 1, Scheme::row(low + at.y), Scheme::row(high + at.y), shape.zeros);
  };
  // While one step is multiplied the next one's rows are read to the other's registers.
  Step first, second;
  const auto multiply = [&](int pair, const Step& step, std::uint64_t w) {
    wgmma_begin();
    Scheme::template warpgroup<true>(sums[pair], step, w);
    wgmma_commit();
    wgmma_end<1>();
  };
  read(first, 0);
  settle();
  int left = shape.slots;
#pragma unroll 1
  for (int slice = 0; slice < shape.slices; ++slice) {
    std::uint64_t w = wgmma_matrix(stream.take());
    int slots = min(shape.slice_slots, left);
    left -= slots;
    // The table is read a slot ahead, but not beyond its end.
    const int2* const last = offsets + 4 * (slots - (left > 0 ? 0 : 1));
    const auto next = [&] {
      if (offsets < last) offsets += 4;
      at = *offsets;
    };
    if constexpr (row_pairs == 2) {
#pragma unroll 1
      for (; slots > 0; --slots, w += slot_sixteenths) {
        multiply(0, first, w);
        read(second, 1);
        next();
        multiply(1, second, w);
        read(first, 0);
      }
    } else {
#pragma unroll 1
      for (; slots > 1; slots -= 2, w += 2 * slot_sixteenths) {
        multiply(0, first, w);
        next();
        read(second, 0);
        multiply(0, second, w + slot_sixteenths);
        next();
        read(first, 0);
      }
      if (slots > 0) multiply(0, first, w);
    }
    wgmma_end();
    stream.release();
  }
  settle();
}

}  // namespace plumb::cuda
