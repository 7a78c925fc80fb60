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

/// Where the pairs of a walk begin, in bytes from where a window does: lane 4 g + t has pair t of
/// its slots' first half and of their second.
__device__ inline void write_pair_table(const WindowShape& shape, int element_bytes, int* table) {
  const int pairs = shape.starts.value() * shape.channels.value() * shape.row_terms.value();
  const int abreast_all = (shape.walks + WindowWalks::ahead) * WindowWalks::pairs;
  for (int i = static_cast<int>(threadIdx.x); i < abreast_all; i += static_cast<int>(blockDim.x)) {
    const WalkedPair pair(shape, i);
    // What fills the last walk meets zeros, and what is read ahead of its use no product.
    const int at =
        i < pairs ? pair.channel * shape.plane + pair.row * shape.pitch + 2 * pair.column_pair : 0;
    const int walk = i / WindowWalks::pairs, abreast = i % WindowWalks::pairs;
    table[walk * WindowWalks::pairs + abreast % 4 * 2 + abreast / 4] = at * element_bytes;
  }
}

/// Counts the caller; whether it was the last of so many, which begins anew. What those before it
/// have done is done for it.
__device__ inline bool last_of(std::uint32_t* counted, int all) {
  std::uint32_t before = 0;
  asm volatile("atom.acq_rel.cta.shared.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(counted))), "r"(all - 1)
               : "memory");
  return before == static_cast<std::uint32_t>(all - 1);
}

/// The filters of one group as a block takes them, over and over: all at once where they have a
/// place, or a ring of slices. A place is filled again by the warp that is the last to leave it.
class FilterStream {
 public:
  __device__ FilterStream(const WindowShape& shape, WindowControl& control, int slot_bytes,
                          char* ring)
      : shape_(shape), control_(control), slot_bytes_(slot_bytes), ring_(ring) {}

  /// Of the slices at `packed`. By one thread, before a barrier of the block.
  __device__ void init(const char* packed) {
    control_.packed = packed;
    for (int i = 0; i < shape_.ring; ++i) {
      control_.filled[i].init();
      control_.left[i] = 0;
    }
  }
  /// Behind the barrier, by all.
  __device__ void begin() {
    if (threadIdx.x == 0)
      for (int i = 0; i < shape_.ring; ++i) fill(i, i);
  }
  /// Until the next slice is there; it.
  __device__ const char* take() {
    const int place = next_ >> 1;
    control_.filled[place].wait(next_ & 1);
    if (shape_.slices > 1) next_ = place + 1 == shape_.ring ? 1 - (next_ & 1) : next_ + 2;
    return ring_ + place * shape_.slice_slots * slot_bytes_;
  }
  /// By each warp, of the slice that it took last: behind its products with it.
  __device__ void release(int slice) {
    if (shape_.slices == 1) return;
    __syncwarp();
    int place = (next_ >> 1) - 1;
    if (place < 0) place += shape_.ring;
    if (threadIdx.x % 32 == 0 &&
        last_of(&control_.left[place], static_cast<int>(blockDim.x) / 32)) {
      const int next = slice + shape_.ring;
      fill(place, next < shape_.slices ? next : next - shape_.slices);
    }
  }
  /// Until nothing is under way any more, behind all releases, by the first thread.
  __device__ void end() {
    if (threadIdx.x != 0) return;
    for (int i = 0; i < shape_.ring; ++i) take();
  }

 private:
  __device__ void fill(int place, int slice) {
    const int slots = min(shape_.slice_slots, shape_.slots - slice * shape_.slice_slots);
    CopyBarrier& barrier = control_.filled[place];
    barrier.expect(slots * slot_bytes_);
    barrier.copy(ring_ + place * shape_.slice_slots * slot_bytes_,
                 control_.packed + slice * shape_.slice_slots * slot_bytes_, slots * slot_bytes_);
  }

  const WindowShape& shape_;
  WindowControl& control_;
  int slot_bytes_;
  char* ring_;
  int next_ = 0;  ///< twice the place to be taken, and the parity of its round
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
  constexpr WgmmaMatrix slot_sixteenths = sizeof(typename Scheme::Slot) * 32 * eights / 16;
  constexpr int ring = rows + 1;
  const auto settle = [&] {
#pragma unroll
    for (auto& of_row : sums)
#pragma unroll
      for (auto& sum : of_row) sum.settle();
  };
  const int row_step = shape.row_step * Scheme::element_bytes, length = shape.walk_length;
  // Tables are read a walk ahead, and two where walks are soon done.
  [[maybe_unused]] constexpr bool two_ahead = rows == 1;
  const int2* offsets = reinterpret_cast<const int2*>(table) + threadIdx.x % 4;
  int2 at = *offsets;
  [[maybe_unused]] int2 next_at = *(offsets + 4);
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
  const auto next_walk = [&] { at = *(offsets += 4); };
  Step steps[ring];
  read(steps[0], 0);
  settle();
#pragma unroll 1
  for (int slice = 0; slice < shape.slices; ++slice) {
    WgmmaMatrix w = wgmma_matrix(stream.take());
    int walks = min(shape.slice_walks, shape.walks - slice * shape.slice_walks);
    if (length == 1) {
      // Two fragments take turns, one read while the other is multiplied.
      constexpr int at_once = rows % 2 == 0 ? 1 : 2;
      const auto walk_once = [&](auto first_turn) {
        constexpr int turn = decltype(first_turn)::value;
#pragma unroll
        for (int i = 0; i < rows; ++i) {
          wgmma_begin();
          Scheme::template warpgroup<true>(sums[i], steps[(turn + i) % 2], w);
          go_on();
          if (i + 1 == rows) next_walk();
          read(steps[(turn + i + 1) % 2], (i + 1) % rows);
        }
        w += slot_sixteenths;
      };
#pragma unroll 1
      for (; walks >= at_once; walks -= at_once) {
        walk_once(std::integral_constant<int, 0>{});
        if constexpr (at_once == 2) walk_once(std::integral_constant<int, 1>{});
      }
      if constexpr (at_once == 2) {
        if (walks > 0) {  // the last of all: slices have an even number
          wgmma_begin();
          Scheme::template warpgroup<true>(sums[0], steps[0], w);
          go_on();
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
        next_walk();
        wgmma_end();
        read(steps[0], 0);
      }
    }
    wgmma_end();
    stream.release(slice);
  }
  settle();
}

}  // namespace plumb::cuda
