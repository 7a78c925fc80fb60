// Producers load the input of a pass to shared memory as it is, and scale it, split it and lay it
// out as B there: a line's fp32 elements give way to their high and low halves, which take as many
// bytes.
#pragma once

#include <cuda_fp16.h>

#include <type_traits>

#include "cuda_kernels/conv/packed_header.hpp"
#include "cuda_kernels/primitives/scaling.cuh"
#include "cuda_kernels/primitives/split.hpp"
#include "cuda_kernels/primitives/thread_anew.cuh"
#include "cuda_kernels/toeplitz/toeplitz_load.cuh"

namespace plumb::cuda {

template <ToeplitzMode mode, int products, ToeplitzFault fault>
class ToeplitzProducer {
 public:
  __device__ explicit ToeplitzProducer(const ToeplitzParams& params)
      : params_(params),
        shared_(params),
        thread_(static_cast<int>(threadIdx.x) - 128 * toeplitz_consumers),
        loader_(params, thread_) {}

  /// Fills the stages of all of the block's items. Where there are more than two, one is on its way
  /// from memory while the one before is split.
  __device__ void produce() {
    // One call of begin() and one of finish(), since compilers copy both to each call: with two
    // stages an item is finished before the next is begun, otherwise after.
    int begun = 0;  // items that are not finished
    const int ahead = params_.stages > 2 ? 1 : 0;
#pragma unroll 1
    for (bool more = true;;) {
      if (more) more = begin(), begun += more ? 1 : 0;
      if (more && begun <= ahead) continue;
      if (begun == 0) break;
      finish(more && ahead);
      --begun;
    }
  }

 private:
  __device__ static void sync() { meet<toeplitz_loaders>(1); }
  __device__ int warp() const { return thread_ / 32; }
  __device__ int lane() const { return thread_ % 32; }

  /// Begins to load the next item; says whether there is one.
  __device__ bool begin() {
    const int stage = loading_.stage;
    shared_.control->planned[stage].wait(loading_.parity);
    const ToeplitzLoad& load = shared_.control->loads[stage];
    if (!load.is_there) return false;
    char* const tile = shared_.tiles + stage * params_.tile_bytes;
    if (ToeplitzLeads(load.leads).are_even())
      loader_.load_even(load, tile);
    else
      loader_.load_lines(shared_.tables[stage], tile);
    commit_copies();
    loading_.advance(params_.stages);
    return true;
  }

  /// Waits for an item's input, makes B of it and hands it over. `ahead` says that the next item is
  /// being loaded.
  __device__ void finish(bool ahead) {
    if (ahead)
      wait_for_copies<1>();
    else
      wait_for_copies<0>();
    const int stage = splitting_.stage;
    char* const tile = shared_.tiles + stage * params_.tile_bytes;
    ToeplitzControl& control = *shared_.control;
    const ToeplitzLoad& load = control.loads[stage];
    const int half = ToeplitzItem<mode>::shares ? 0 : load.half;
    int exponent = load.first_pass ? no_exponent : half == 0 ? exponent_first_ : exponent_second_;
    const ToeplitzLeads leads(load.leads);
    const int flags = leads.are_none() ? make_halves<true>(tile, leads, exponent)
                                       : make_halves<false>(tile, leads, exponent);
    if (half == 0)
      exponent_first_ = exponent;
    else
      exponent_second_ = exponent;
    if (thread_ == 0) control.stages[stage] = {exponent, flags};
    order_shared_writes();
    control.full[stage].arrive();
    splitting_.advance(params_.stages);
  }
  /// Chooses the scale and makes halves of the elements; returns flags.
  template <bool aligned>
  __device__ int make_halves(char* tile, const ToeplitzLeads& leads, int& exponent) const {
    if constexpr (mode == ToeplitzMode::planes) {
      return split_held<aligned>(tile, leads, exponent);
    } else {
      // Threads look at what they loaded themselves, or otherwise wait.
      if (!decltype(loader_)::by_vectors && !leads.are_even()) sync();
      const int flags = choose_scale(tile, exponent);
      const float scale = scale_of(exponent);
      if constexpr (mode == ToeplitzMode::rows)
        convert_rows<aligned>(tile, leads, scale);
      else
        convert_lines<aligned>(tile, leads, scale);
      return flags;
    }
  }
  __device__ static float scale_of(int exponent) {
    return power_of_two(exponent == no_exponent ? 0 : exponent);
  }

  /// Finds the largest and the least of the pass, and its scale.
  __device__ int choose_scale(const char* tile, int& exponent) const {
    unsigned most = 0, least = 0xffffffff;  // of bits less one, by which zero is the largest
    const int all = params_.lines * params_.vectors.value();
#pragma unroll 4
    for (int i = thread_; i < all; i += toeplitz_loaders) {
      const int4 four = reinterpret_cast<const int4*>(tile)[i];
      look_at(four.x, most, least), look_at(four.y, most, least);
      look_at(four.z, most, least), look_at(four.w, most, least);
    }
    return agree(most, least, exponent);
  }
  /// Finds the scale that makes the largest of all threads' elements nearly fp16's largest. Sums
  /// take a change of the scale without rounding as long as it is not too far. A barrier of the
  /// loaders.
  __device__ int agree(unsigned most, unsigned least, int& exponent) const {
    constexpr int farthest = 60;
    most = __reduce_max_sync(0xffffffff, most), least = __reduce_min_sync(0xffffffff, least);
    ToeplitzControl& control = *shared_.control;
    unsigned* const mosts = control.most[splitting_.stage];
    unsigned* const leasts = control.least[splitting_.stage];
    const int thread = thread_anew() - 128 * toeplitz_consumers;
    if (thread % 32 == 0) mosts[thread / 32] = most, leasts[thread / 32] = least;
    sync();
#pragma unroll
    for (int i = 0; i < toeplitz_loader_warps; ++i)
      most = max(most, mosts[i]), least = min(least, leasts[i]);
    if (most == 0) return 0;
    if (most >= infinity_bits) return toeplitz_met_range;
    int flags = 0, wanted = scale_exponent(static_cast<int>(most));
    if (exponent != no_exponent) {
      wanted = min(wanted, exponent + farthest);
      if (wanted < exponent - farthest) flags = toeplitz_met_range;
    }
    exponent = wanted;
    const float smallest = split_least * power_of_two(-exponent);
    if (least < static_cast<unsigned>(magnitude_bits(smallest)) - 1) flags |= toeplitz_met_small;
    return flags;
  }

  __device__ static void look_at(int value, unsigned& most, unsigned& least) {
    const unsigned bits = value & 0x7fffffff;
    if (bits < infinity_bits) most = max(most, bits);
    least = min(least, bits - 1);
  }

  /// Eight elements that are scaled and split.
  struct Halves {
    uint4 high, low;
  };
  __device__ static Halves split(const float (&x)[8], float scale) {
    Halves to{};
    unsigned* const high = &to.high.x;
    unsigned* const low = &to.low.x;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float a = x[2 * i] * scale, b = x[2 * i + 1] * scale;
      const __half2 rounded = __floats2half2_rn(a, b);
      high[i] = *reinterpret_cast<const unsigned*>(&rounded);
      if constexpr (products == 3) {
        const float2 of = __half22float2(rounded);
        const __half2 rest = __floats2half2_rn((a - of.x) * split_raise, (b - of.y) * split_raise);
        low[i] = *reinterpret_cast<const unsigned*>(&rest);
      }
    }
    return to;
  }
  /// Reads the eight elements from `lead`, below four, behind `from` on.
  template <bool aligned>
  __device__ static void read(const char* from, int lead, float (&to)[8]) {
    const auto* const vectors = reinterpret_cast<const float4*>(from);
    const float4 a = vectors[0], b = vectors[1], c = aligned ? b : vectors[2];
    const float all[11] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z};
    float by_two[9];
#pragma unroll
    for (int i = 0; i < 9; ++i) by_two[i] = !aligned && (lead & 2) != 0 ? all[i + 2] : all[i];
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = !aligned && (lead & 1) != 0 ? by_two[i + 1] : by_two[i];
  }
  __device__ void write(char* line, int place, const Halves& halves) const {
    *reinterpret_cast<uint4*>(line + 16 * place) = halves.high;
    if constexpr (products == 3)
      *reinterpret_cast<uint4*>(line + 2 * params_.line + 16 * place) = halves.low;
  }

  /// Loaders hold all elements of a pass in registers, between looking for its scale and splitting,
  /// which are read once so.
  template <bool aligned>
  __device__ int split_held(char* tile, const ToeplitzLeads& leads, int& exponent) const {
    const signed char* const table = shared_.tables[splitting_.stage].leads;
    const int all = params_.lines * params_.chunks.value();
    float x[toeplitz_held][8];
    float most = 0;
    unsigned least = 0xffffffff;  // of twice the bits less one, which have no sign
    sync();                       // elements were loaded by other threads
#pragma unroll
    for (int i = 0; i < toeplitz_held; ++i) {
      const int at = thread_ + i * toeplitz_loaders;
      if (at >= all) continue;
      const auto [line, chunk] = params_.chunks.divide(at);
      read<aligned>(tile + line * params_.line_bytes + 32 * chunk,
                    leads.of(line, table, loader_.is_second(line)), x[i]);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const unsigned bits = static_cast<unsigned>(__float_as_int(x[i][j]));
        most = fmaxf(most, fabsf(x[i][j]));  // of a number and a NaN the number
        least = min(least, bits + bits - 1);
      }
    }
    const int flags = agree(static_cast<unsigned>(magnitude_bits(most)), least / 2, exponent);
    const float scale = scale_of(exponent);
#pragma unroll
    for (int i = 0; i < toeplitz_held; ++i) {
      const int at = thread_ + i * toeplitz_loaders;
      if (at >= all) continue;
      const auto [line, chunk] = params_.chunks.divide(at);
      write(tile + line * params_.line_bytes, chunk, split(x[i], scale));
    }
    return flags;
  }

  /// A warp converts as many lines at once as it has lanes for their chunks of eight elements.
  template <bool aligned>
  __device__ void convert_rows(char* tile, const ToeplitzLeads& leads, float scale) const {
    const signed char* const table = shared_.tables[splitting_.stage].leads;
    const int chunks = params_.line / 8, at_once = 32 / chunks;
    const int line_of = lane() / chunks, chunk = lane() - line_of * chunks;
    constexpr int turns = 2;  // lines whose instructions hide each other's latency
    const int step = toeplitz_loader_warps * at_once;
#pragma unroll 1
    for (int first = warp() * at_once; first < params_.lines; first += turns * step) {
      float x[turns][8];
      char* const from = tile + (first + line_of) * params_.line_bytes;
#pragma unroll
      for (int i = 0; i < turns; ++i) {
        const int line = first + i * step + line_of;
        if (line_of < at_once && line < params_.lines)
          read<aligned>(from + i * step * params_.line_bytes + 32 * chunk, leads.of(line, table),
                        x[i]);
      }
      __syncwarp();
#pragma unroll
      for (int i = 0; i < turns; ++i)
        if (line_of < at_once && first + i * step + line_of < params_.lines)
          write(from + i * step * params_.line_bytes, chunk, split(x[i], scale));
    }
  }
  /// Three warps convert a line. Its chunks are laid out by their number modulo 8, so that those 64
  /// elements apart, the columns of B, are neighbours.
  template <bool aligned>
  __device__ void convert_lines(char* tile, const ToeplitzLeads& leads, float scale) const {
    constexpr int threads = 96, groups = toeplitz_loaders / threads;
    constexpr int most = toeplitz_max_line / 8 / threads;
    static_assert(most * threads * 8 == toeplitz_max_line);
    const signed char* const table = shared_.tables[splitting_.stage].leads;
    const int chunks = params_.line / 8, apart = params_.line / 64;
    const int group = thread_ / threads, thread = thread_ % threads;
    if (group >= groups) return;
#pragma unroll 1
    for (int line = group; line < params_.lines; line += groups) {
      char* const from = tile + line * params_.line_bytes;
      const int lead = leads.of(line, table);
      float x[most][8];
#pragma unroll
      for (int i = 0; i < most; ++i)
        if (threads * i + thread < chunks)
          read<aligned>(from + 32 * (threads * i + thread), lead, x[i]);
      meet<threads>(2 + group);
#pragma unroll
      for (int i = 0; i < most; ++i) {
        const int chunk = threads * i + thread;
        if (chunk < chunks) write(from, chunk % 8 * apart + chunk / 8, split(x[i], scale));
      }
    }
  }

  const ToeplitzParams& params_;
  const ToeplitzShared shared_;
  const int thread_;
  const ToeplitzLoader<mode, fault> loader_;
  ToeplitzRing loading_, splitting_;
  int exponent_first_ = 0, exponent_second_ = 0;  ///< of the two tiles' passes before
};

}  // namespace plumb::cuda
