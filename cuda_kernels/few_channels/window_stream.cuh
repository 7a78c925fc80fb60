// Filters that come to shared memory slice by slice, packed as products want them, and a strip's
// sums with them.
//
// A slot of the product is eight pairs: neighbours in a row of the filter. Pairs are counted
// through columns, parts of the filter's rows and channels, so that filters of any size fill slots,
// and where in the tile a pair lies is read from a table. From slot to slot they walk down the
// rows.
#pragma once

#include <cstdint>

#include "cuda_kernels/few_channels/window_input.cuh"
#include "cuda_kernels/few_channels/window_params.cuh"
#include "cuda_kernels/few_channels/window_products.cuh"
#include "cuda_kernels/primitives/async_copy.cuh"

namespace plumb::cuda {

/// Where the pairs of a walk begin, in bytes from where a window does: lane 4 g + t has pair t of
/// its slots' first half and of their second.
__device__ inline void write_pair_table(const WindowKernelParams& params, int element_bytes,
                                        int* table) {
  const int pairs = params.starts.value() * params.channels.value() * params.row_terms.value();
  const int abreast_all = (params.walks + WindowWalks::ahead) * WindowWalks::pairs;
  for (int i = static_cast<int>(threadIdx.x); i < abreast_all; i += static_cast<int>(blockDim.x)) {
    const WalkedPair pair(params, i);
    // What fills the last walk meets zeros, and what is read ahead of its use no product.
    const int at =
        i < pairs ? pair.channel * params.plane + pair.row * params.pitch + 2 * pair.column_pair
                  : 0;
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
/// place, or a ring of slices. A place is filled again by the warp that is the last to leave it, by
/// the copy engine; or by all threads, by cp.async, as soon as all have left it.
template <class Terms>
class FilterStream {
 public:
  __device__ FilterStream(const WindowKernelParams& params, WindowControl& control, int slot_bytes,
                          char* ring)
      : shape_(params), control_(control), slot_bytes_(slot_bytes), ring_(ring) {}

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
    if (!bulk()) {
      // Whoever takes a slice fills the place before.
      for (int i = 0; i < max(shape_.ring - 1, 1); ++i) fill(i, i);
    } else if (threadIdx.x == 0) {
      for (int i = 0; i < shape_.ring; ++i) fill(i, i);
    }
  }
  /// Until the slice is there, which is the next; it. By all warps of the block abreast.
  __device__ const char* take(int slice) {
    const int place = next_ >> 1;
    if (bulk())
      control_.filled[place].wait(next_ & 1);
    else
      wait_abreast(place, slice);
    if (shape_.slices > 1) next_ = place + 1 == shape_.ring ? 1 - (next_ & 1) : next_ + 2;
    return ring_ + place * shape_.slice_slots * slot_bytes_;
  }
  /// By each warp, of the slice that it took last: behind its products with it.
  __device__ void release(int slice) {
    if (shape_.slices == 1 || !bulk()) return;
    __syncwarp();
    int place = (next_ >> 1) - 1;
    if (place < 0) place += shape_.ring;
    if (threadIdx.x % 32 == 0 &&
        last_of(&control_.left[place], static_cast<int>(blockDim.x) / 32)) {
      const int next = slice + shape_.ring;
      fill(place, next < shape_.slices ? next : next - shape_.slices);
    }
  }
  /// Until nothing is under way any more, behind all releases.
  __device__ void end() {
    if (!bulk()) return wait_for_copies();
    if (threadIdx.x != 0) return;
    for (int i = 0; i < shape_.ring; ++i) take(i);
  }

 private:
  /// By the copy engine.
  __device__ bool bulk() const { return Terms::warpgroups || (bulk_copies && shape_.bulk_filters); }

  /// By one thread that has the copy engine, or by all.
  __device__ void fill(int place, int slice) {
    const int slots = min(shape_.slice_slots, shape_.slots - slice * shape_.slice_slots);
    char* const to = ring_ + place * shape_.slice_slots * slot_bytes_;
    const char* const from = control_.packed + slice * shape_.slice_slots * slot_bytes_;
    if (bulk()) {
      CopyBarrier& barrier = control_.filled[place];
      barrier.expect(slots * slot_bytes_);
      barrier.copy(to, from, slots * slot_bytes_);
      return;
    }
    for (int at = static_cast<int>(threadIdx.x) * 16; at < slots * slot_bytes_;
         at += static_cast<int>(blockDim.x) * 16)
      copy_16_bytes_async(to + at, from + at);
    commit_copies();
  }

  /// Copies end in the order in which they began: all but those of the slices behind this one are
  /// waited for. Behind the barrier no warp is at the slice before.
  __device__ void wait_abreast(int place, int slice) {
    if (shape_.slices == 1) {
      if (next_ == 1) return;
      next_ = 1;  // it stays
      wait_for_copies();
      return __syncthreads();
    }
    switch (shape_.ring) {
      case 3: wait_for_copies<1>(); break;
      case 4: wait_for_copies<2>(); break;
      case 5: wait_for_copies<3>(); break;
      default: wait_for_copies<max_ring - 2>();
    }
    __syncthreads();
    const int next = slice + shape_.ring - 1;
    fill(place == 0 ? shape_.ring - 1 : place - 1,
         next < shape_.slices ? next : next - shape_.slices);
  }

  const WindowKernelParams& shape_;
  WindowControl& control_;
  int slot_bytes_;
  char* ring_;
  int next_ = 0;  ///< twice the place to be taken, and the parity of its round
};

/// The fragment of a lane's two windows, the second so many bytes behind the first, at two pairs.
template <class Scheme>
__device__ void read_fragment(typename Scheme::Step& step, const char* first, int second,
                              int2 pairs, Zeros zeros) {
  Scheme::take(step, 0, Scheme::row(first + pairs.x), Scheme::row(first + pairs.x + second), zeros);
  Scheme::take(step, 1, Scheme::row(first + pairs.y), Scheme::row(first + pairs.y + second), zeros);
}

/// Makes a strip's sums, by four warps together and by all of a block abreast.
///
/// Fragments are numbered down the rows of x: in slot l of a walk, row i of the strip takes number
/// i + l. A ring in registers holds those of all rows and the next.
template <class Scheme, class Terms, int rows, int n8_tiles>
__device__ void sum_by_warpgroups(typename Scheme::Sum (&sums)[rows][n8_tiles],
                                  const WindowKernelParams& params, const char* x, int second,
                                  const int* table, FilterStream<Terms>& stream) {
  using Step = typename Scheme::Step;
  constexpr WgmmaMatrix slot_sixteenths = sizeof(typename Scheme::Slot) * 32 * n8_tiles / 16;
  constexpr int ring = rows + 1;
  const auto settle = [&] {
#pragma unroll
    for (auto& of_row : sums)
#pragma unroll
      for (auto& sum : of_row) sum.settle();
  };
  const int row_step = params.row_step * Scheme::element_bytes, length = params.walk_length;
  // Tables are read a walk ahead, and two where walks are soon done.
  [[maybe_unused]] constexpr bool two_ahead = rows == 1;
  const int2* offsets = reinterpret_cast<const int2*>(table) + threadIdx.x % 4;
  int2 at = *offsets;
  [[maybe_unused]] int2 next_at = *(offsets + 4);
  const auto read = [&](Step& step, int number) {
    read_fragment<Scheme>(step, x + number * row_step, second, at, params.zeros);
  };
  // What the products before the last have read may be read anew behind it.
  const auto go_on = [] {
    wgmma_commit();
    wgmma_end<1>();
  };
  const auto next_walk = [&] {
    offsets += 4;
    at = two_ahead ? next_at : *offsets;
    if (two_ahead) next_at = *(offsets + 4);
  };
  Step steps[ring];
  read(steps[0], 0);
  settle();
#pragma unroll 1
  for (int slice = 0; slice < params.slices; ++slice) {
    WgmmaMatrix w = wgmma_matrix(stream.take(slice));
    int walks = min(params.slice_walks, params.walks - slice * params.slice_walks);
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

/// The same by each warp for itself. Its lanes read a slot's filters, for all rows at once, and a
/// fragment anew as soon as the last row that wants it is multiplied.
template <class Scheme, class Terms, int rows, int n8_tiles>
__device__ void sum_by_warps(typename Scheme::Sum (&sums)[rows][n8_tiles],
                             const WindowKernelParams& params, const char* x, int second,
                             const int* table, FilterStream<Terms>& stream) {
  using Slot = typename Scheme::Slot;
  constexpr int held = Terms::template n8_tiles_held<Scheme, n8_tiles>;
  const int row_step = params.row_step * Scheme::element_bytes, length = params.walk_length;
  const int2* offsets = reinterpret_cast<const int2*>(table) + threadIdx.x % 4;
  int2 at = *offsets;
  const auto read = [&](typename Scheme::Step& step, int number) {
    read_fragment<Scheme>(step, x + number * row_step, second, at, params.zeros);
  };
  typename Scheme::Step steps[rows];
  const Slot* w = nullptr;
  // Row i takes fragment number turn + i; calls `behind(i)` when it has for the last time.
  const auto multiply = [&](int turn, auto&& behind) {
#pragma unroll
    for (int first = 0; first < n8_tiles; first += held) {
      Slot slots[held];
#pragma unroll
      for (int i = 0; i < held; ++i)
        if (first + i < n8_tiles) slots[i] = w[(first + i) * 32];
#pragma unroll
      for (int row = 0; row < rows; ++row) {
#pragma unroll
        for (int i = 0; i < held; ++i)
          if (first + i < n8_tiles)
            Scheme::two(sums[row][first + i], steps[(turn + row) % rows], slots[i]);
        if (first + held >= n8_tiles) behind(row);
      }
    }
    w += n8_tiles * 32;
  };
  const auto read_all = [&] {
#pragma unroll
    for (int i = 0; i < rows; ++i) read(steps[i], i);
  };
  const auto next_walk = [&] { at = *(offsets += 4); };
  read_all();
#pragma unroll 1
  for (int slice = 0; slice < params.slices; ++slice) {
    w = reinterpret_cast<const Slot*>(stream.take(slice)) + threadIdx.x % 32;
    int walks = min(params.slice_walks, params.walks - slice * params.slice_walks);
#pragma unroll 1
    for (; walks > 0; --walks) {
      if (length == 1) {
        next_walk();
        multiply(0, [&](int row) { read(steps[row], row); });
        continue;
      }
#pragma unroll 1
      for (int slot = 0; slot < length; slot += rows) {
#pragma unroll
        for (int turn = 0; turn < rows; ++turn) {
          if (slot + turn < length)
            multiply(turn, [&](int row) {
              if (row == 0 && slot + turn + 1 < length) read(steps[turn], slot + turn + rows);
            });
        }
      }
      next_walk();
      read_all();
    }
    stream.release(slice);
  }
}

/// Makes a strip's sums. `x` is where the lane's first window begins, its second one is `second`
/// bytes further on.
template <class Scheme, class Terms, int rows, int n8_tiles>
__device__ void sum_streamed(typename Scheme::Sum (&sums)[rows][n8_tiles],
                             const WindowKernelParams& params, const char* x, int second,
                             const int* table, FilterStream<Terms>& stream) {
  if constexpr (Terms::warpgroups)
    sum_by_warpgroups<Scheme>(sums, params, x, second, table, stream);
  else if constexpr (Terms::launched)
    sum_by_warps<Scheme>(sums, params, x, second, table, stream);
}

}  // namespace plumb::cuda
