// Filters come to shared memory k tile by k tile, packed as products want them, and a strip's sums
// are made with them.
//
// A k step of the product is eight pairs of neighbours in a row of the filter. Pairs are counted
// through columns, parts of the filter's rows and channels, so that filters of any size fill k
// steps, and a table says where in the tile a pair lies. From k step to k step pairs go down the
// rows.
#pragma once

#include <cstdint>

#include "cuda_kernels/few_channels/window_input.cuh"
#include "cuda_kernels/few_channels/window_params.cuh"
#include "cuda_kernels/few_channels/window_products.cuh"
#include "cuda_kernels/primitives/async_copy.cuh"

namespace plumb::cuda {

/// Writes where the pairs of a filter strip begin, in bytes from where a window does. Lane 4 g + t
/// has pair t of its k steps' first half, and pair t of their second half.
__device__ inline void write_pair_table(const WindowKernelParams& params, int element_bytes,
                                        int* table) {
  const int pairs = params.starts.value() * params.product_channels * params.row_terms.value();
  const int abreast_all = (params.filter_strips + FilterStrips::ahead) * FilterStrips::pairs;
  for (int i = static_cast<int>(threadIdx.x); i < abreast_all; i += static_cast<int>(blockDim.x)) {
    const StripPair pair(params, i);
    // Pairs that fill up the last filter strip meet zeros, and pairs read ahead meet no product.
    const int at =
        i < pairs ? pair.channel * params.plane + pair.row * params.pitch + 2 * pair.column_pair
                  : 0;
    const int filter_strip = i / FilterStrips::pairs, abreast = i % FilterStrips::pairs;
    table[filter_strip * FilterStrips::pairs + abreast % 4 * 2 + abreast / 4] = at * element_bytes;
  }
}

/// Counts the caller, and returns whether it was the last of `all`, with which the count begins
/// anew. The last caller sees what those before it have done.
__device__ inline bool last_of(std::uint32_t* counted, int all) {
  std::uint32_t before = 0;
  asm volatile("atom.acq_rel.cta.shared.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(counted))), "r"(all - 1)
               : "memory");
  return before == static_cast<std::uint32_t>(all - 1);
}

/// Gives a block the filters of one group, over and over. They are all in one stage where there is
/// room, and otherwise pass through circular pipeline stages. The warp that is the last to leave a
/// stage has the copy engine fill it again; without it all threads fill it by cp.async, as soon as
/// all have left it.
template <class Terms>
class FilterStream {
 public:
  __device__ FilterStream(const WindowKernelParams& params, WindowControl& control,
                          int k_step_bytes, char* stages)
      : shape_(params), control_(control), k_step_bytes_(k_step_bytes), stages_(stages) {}

  /// Makes the stream that of the k tiles at `packed`. One thread calls it, before a barrier of the
  /// block.
  __device__ void init(const char* packed) {
    control_.packed = packed;
    for (int i = 0; i < shape_.filter_stages; ++i) {
      control_.filled[i].init();
      control_.left[i] = 0;
    }
  }
  /// Fills the first stages. All threads call it, after that barrier.
  __device__ void begin() {
    if (!bulk()) {
      // Whoever takes a k tile fills the stage before it.
      for (int i = 0; i < max(shape_.filter_stages - 1, 1); ++i) fill(i, i);
    } else if (threadIdx.x == 0) {
      for (int i = 0; i < shape_.filter_stages; ++i) fill(i, i);
    }
  }
  /// Waits until the k tile, which must be the next, is there, and returns it. All warps of the
  /// block call it abreast.
  __device__ const char* take(int k_tile) {
    const int stage = next_ >> 1;
    if (bulk())
      control_.filled[stage].wait(next_ & 1);
    else
      wait_abreast(stage, k_tile);
    if (shape_.k_tiles > 1) next_ = stage + 1 == shape_.filter_stages ? 1 - (next_ & 1) : next_ + 2;
    return stages_ + stage * shape_.k_tile_steps * k_step_bytes_;
  }
  /// Releases the k tile that the warp took last. Each warp calls it after its products with it.
  __device__ void release(int k_tile) {
    if (shape_.k_tiles == 1 || !bulk()) return;
    __syncwarp();
    int stage = (next_ >> 1) - 1;
    if (stage < 0) stage += shape_.filter_stages;
    if (threadIdx.x % 32 == 0 &&
        last_of(&control_.left[stage], static_cast<int>(blockDim.x) / 32)) {
      const int next = k_tile + shape_.filter_stages;
      fill(stage, next < shape_.k_tiles ? next : next - shape_.k_tiles);
    }
  }
  /// Waits until nothing is under way any more. It comes after all releases.
  __device__ void end() {
    if (!bulk()) return wait_for_copies();
    if (threadIdx.x != 0) return;
    for (int i = 0; i < shape_.filter_stages; ++i) take(i);
  }

 private:
  /// Whether the copy engine loads the k tiles.
  __device__ bool bulk() const { return Terms::warpgroups || (bulk_copies && shape_.bulk_filters); }

  /// Begins to fill a stage. One thread calls it where it has the copy engine, otherwise all do.
  __device__ void fill(int stage, int k_tile) {
    const int k_steps = min(shape_.k_tile_steps, shape_.k_steps - k_tile * shape_.k_tile_steps);
    char* const to = stages_ + stage * shape_.k_tile_steps * k_step_bytes_;
    const char* const from = control_.packed + k_tile * shape_.k_tile_steps * k_step_bytes_;
    if (bulk()) {
      CopyBarrier& barrier = control_.filled[stage];
      barrier.expect(k_steps * k_step_bytes_);
      barrier.copy(to, from, k_steps * k_step_bytes_);
      return;
    }
    for (int at = static_cast<int>(threadIdx.x) * 16; at < k_steps * k_step_bytes_;
         at += static_cast<int>(blockDim.x) * 16)
      copy_16_bytes_async(to + at, from + at);
    commit_copies();
  }

  /// Waits for a k tile that all threads copy. Copies end in the order in which they began, so this
  /// waits for all but those of the k tiles behind this one. After the barrier no warp is at the k
  /// tile before.
  __device__ void wait_abreast(int stage, int k_tile) {
    if (shape_.k_tiles == 1) {
      if (next_ == 1) return;
      next_ = 1;  // the only k tile stays
      wait_for_copies();
      return __syncthreads();
    }
    switch (shape_.filter_stages) {
      case 3: wait_for_copies<1>(); break;
      case 4: wait_for_copies<2>(); break;
      case 5: wait_for_copies<3>(); break;
      default: wait_for_copies<max_window_stages - 2>();
    }
    __syncthreads();
    const int next = k_tile + shape_.filter_stages - 1;
    fill(stage == 0 ? shape_.filter_stages - 1 : stage - 1,
         next < shape_.k_tiles ? next : next - shape_.k_tiles);
  }

  const WindowKernelParams& shape_;
  WindowControl& control_;
  int k_step_bytes_;
  char* stages_;
  int next_ = 0;  ///< twice the stage to be taken, plus the parity of its round
};

/// Reads the fragment of a lane's two windows, the second `second` bytes behind the first, at two
/// pairs.
template <class Scheme>
__device__ void read_fragment(typename Scheme::Step& step, const char* first, int second,
                              int2 pairs, Zeros zeros) {
  Scheme::take(step, 0, Scheme::row(first + pairs.x), Scheme::row(first + pairs.x + second), zeros);
  Scheme::take(step, 1, Scheme::row(first + pairs.y), Scheme::row(first + pairs.y + second), zeros);
}

/// Makes a strip's sums. Four warps multiply together, and all warps of a block call it abreast.
///
/// Fragments are numbered down the rows of x: in k step l of a filter strip, row i of the strip
/// takes number i + l. A circular buffer in registers holds the fragments of all rows and the next.
template <class Scheme, class Terms, int rows, int n8_tiles>
__device__ void sum_by_warpgroups(typename Scheme::Sum (&sums)[rows][n8_tiles],
                                  const WindowKernelParams& params, const char* x, int second,
                                  const int* table, FilterStream<Terms>& stream) {
  using Step = typename Scheme::Step;
  constexpr WgmmaMatrix slot_sixteenths = sizeof(typename Scheme::KStep) * 32 * n8_tiles / 16;
  constexpr int buffers = rows + 1;
  const auto settle = [&] {
#pragma unroll
    for (auto& of_row : sums)
#pragma unroll
      for (auto& sum : of_row) sum.settle();
  };
  const int row_step = params.row_step * Scheme::element_bytes, length = params.filter_strip_length;
  // The table is read a filter strip ahead, and two ahead where filter strips are soon done.
  [[maybe_unused]] constexpr bool two_ahead = rows == 1;
  const int2* offsets = reinterpret_cast<const int2*>(table) + threadIdx.x % 4;
  int2 at = *offsets;
  [[maybe_unused]] int2 next_at = *(offsets + 4);
  const auto read = [&](Step& step, int number) {
    read_fragment<Scheme>(step, x + number * row_step, second, at, params.zeros);
  };
  // After this the registers that the products before the last have read may be written again.
  const auto go_on = [] {
    wgmma_commit();
    wgmma_end<1>();
  };
  const auto next_filter_strip = [&] {
    offsets += 4;
    at = two_ahead ? next_at : *offsets;
    if (two_ahead) next_at = *(offsets + 4);
  };
  Step steps[buffers];
  read(steps[0], 0);
  settle();
#pragma unroll 1
  for (int k_tile = 0; k_tile < params.k_tiles; ++k_tile) {
    WgmmaMatrix w = wgmma_matrix(stream.take(k_tile));
    int filter_strips =
        min(params.k_tile_strips, params.filter_strips - k_tile * params.k_tile_strips);
    if (length == 1) {
      // Two fragments take turns: one is read while the other is multiplied.
      constexpr int at_once = rows % 2 == 0 ? 1 : 2;
      const auto filter_strip_once = [&](auto first_turn) {
        constexpr int turn = decltype(first_turn)::value;
#pragma unroll
        for (int i = 0; i < rows; ++i) {
          wgmma_begin();
          Scheme::template warpgroup<true>(sums[i], steps[(turn + i) % 2], w);
          go_on();
          if (i + 1 == rows) next_filter_strip();
          read(steps[(turn + i + 1) % 2], (i + 1) % rows);
        }
        w += slot_sixteenths;
      };
#pragma unroll 1
      for (; filter_strips >= at_once; filter_strips -= at_once) {
        filter_strip_once(std::integral_constant<int, 0>{});
        if constexpr (at_once == 2) filter_strip_once(std::integral_constant<int, 1>{});
      }
      if constexpr (at_once == 2) {
        if (filter_strips > 0) {  // the last of all, as k tiles have an even number
          wgmma_begin();
          Scheme::template warpgroup<true>(sums[0], steps[0], w);
          go_on();
        }
      }
    } else if constexpr (rows > 1) {
#pragma unroll 1
      for (; filter_strips > 0; --filter_strips) {
#pragma unroll
        for (int i = 1; i < rows; ++i) read(steps[i], i);
#pragma unroll 1
        for (int k_step = 0; k_step < length; k_step += buffers) {
#pragma unroll
          for (int turn = 0; turn < buffers; ++turn) {
            if (k_step + turn < length) {
              wgmma_begin();
#pragma unroll
              for (int i = 0; i < rows; ++i)
                Scheme::template warpgroup<true>(sums[i], steps[(turn + i) % buffers], w);
              go_on();
              w += slot_sixteenths;
              if (k_step + turn + 1 < length)
                read(steps[(turn + rows) % buffers], k_step + turn + rows);
            }
          }
        }
        next_filter_strip();
        wgmma_end();
        read(steps[0], 0);
      }
    }
    wgmma_end();
    stream.release(k_tile);
  }
  settle();
}

/// Makes a strip's sums, each warp for itself. Its lanes read a k step's filters for all rows at
/// once, and read a fragment anew as soon as the last row that wants it is multiplied.
template <class Scheme, class Terms, int rows, int n8_tiles>
__device__ void sum_by_warps(typename Scheme::Sum (&sums)[rows][n8_tiles],
                             const WindowKernelParams& params, const char* x, int second,
                             const int* table, FilterStream<Terms>& stream) {
  using KStep = typename Scheme::KStep;
  constexpr int held = Terms::template n8_tiles_held<Scheme, n8_tiles>;
  const int row_step = params.row_step * Scheme::element_bytes, length = params.filter_strip_length;
  const int2* offsets = reinterpret_cast<const int2*>(table) + threadIdx.x % 4;
  int2 at = *offsets;
  const auto read = [&](typename Scheme::Step& step, int number) {
    read_fragment<Scheme>(step, x + number * row_step, second, at, params.zeros);
  };
  typename Scheme::Step steps[rows];
  const KStep* w = nullptr;
  // Row i takes fragment number turn + i; `behind(i)` is called when it has done so for the last
  // time.
  const auto multiply = [&](int turn, auto&& behind) {
#pragma unroll
    for (int first = 0; first < n8_tiles; first += held) {
      KStep k_steps[held];
#pragma unroll
      for (int i = 0; i < held; ++i)
        if (first + i < n8_tiles) k_steps[i] = w[(first + i) * 32];
#pragma unroll
      for (int row = 0; row < rows; ++row) {
#pragma unroll
        for (int i = 0; i < held; ++i)
          if (first + i < n8_tiles)
            Scheme::two(sums[row][first + i], steps[(turn + row) % rows], k_steps[i]);
        if (first + held >= n8_tiles) behind(row);
      }
    }
    w += n8_tiles * 32;
  };
  const auto read_all = [&] {
#pragma unroll
    for (int i = 0; i < rows; ++i) read(steps[i], i);
  };
  const auto next_filter_strip = [&] { at = *(offsets += 4); };
  read_all();
#pragma unroll 1
  for (int k_tile = 0; k_tile < params.k_tiles; ++k_tile) {
    w = reinterpret_cast<const KStep*>(stream.take(k_tile)) + threadIdx.x % 32;
    int filter_strips =
        min(params.k_tile_strips, params.filter_strips - k_tile * params.k_tile_strips);
#pragma unroll 1
    for (; filter_strips > 0; --filter_strips) {
      if (length == 1) {
        next_filter_strip();
        multiply(0, [&](int row) { read(steps[row], row); });
        continue;
      }
#pragma unroll 1
      for (int k_step = 0; k_step < length; k_step += rows) {
#pragma unroll
        for (int turn = 0; turn < rows; ++turn) {
          if (k_step + turn < length)
            multiply(turn, [&](int row) {
              if (row == 0 && k_step + turn + 1 < length) read(steps[turn], k_step + turn + rows);
            });
        }
      }
      next_filter_strip();
      read_all();
    }
    stream.release(k_tile);
  }
}

/// Makes a strip's sums. `x` is where the lane's first window begins; its second one is `second`
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
