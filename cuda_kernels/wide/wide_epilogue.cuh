// Sums become outputs: each consumer warp stages 16 pixels by 128 bytes of filters of its own, so
// that y is written in whole runs, of filters or of pixels.
#pragma once

#include "cuda_kernels/wide/wide_code.cuh"
#include "cuda_kernels/wide/wide_consumer.cuh"
#include "cuda_kernels/wide/wide_fragments.cuh"
#include "cuda_kernels/wide/wide_outputs.cuh"
#include "cuda_kernels/wide/wide_repair.cuh"

namespace plumb::cuda {

/// Writes a warp's outputs of 16 pixels. Where zeros may have met Inf, a lane whose outputs of
/// a part's `columns` filters have a NaN leaves them out, and repair() sums them by their
/// definition.
template <class Params, WideAccess access>
class WideRows {
 public:
  using Stored = typename Params::Stored;
  using Sum = ComputeType<Stored>;
  static constexpr int bytes = sizeof(Stored), columns = WideFragments<Params>::columns;

  /// `first` is the first pixel's number.
  __device__ WideRows(const Params& params, char* staged, int first, int group)
      : params_(params),
        staged_(staged),
        first_(first),
        // Before the loop over tiles there are registers for what one access needs, not for all.
        lane_(access == WideAccess::filters ? static_cast<int>(threadIdx.x) % 32
                                            : number_anew(static_cast<int>(threadIdx.x) % 32)),
        first_filter_(group * params.groups.filters) {
    const WidePixel pixel = params.pixel(min(first + lane_ % 16, params.pixels - 1));
    at_ = params.y_of(pixel) + first_filter_ * params.y_k;
    // The 16 lie in one image's tile.
    if constexpr (Params::Arithmetic::across)
      there_ = params.image_pixels - params.pixel(first).at[0];
    if constexpr (scales) {
      const int scale = params.scales.of_image[pixel.n];
      scales_[0] = __shfl_sync(0xffffffff, scale, lane_ / 4);
      scales_[1] = __shfl_sync(0xffffffff, scale, lane_ / 4 + 8);
    }
  }

  // A tile's outputs go in parts of `columns` filters: begin(), stage(), finish() of each, with the
  // group's first of them.

  /// Has the old outputs staged, where they are added to.
  __device__ void begin(int k) const {
    if (!params_.epilogue.accumulate) return;
    for_each(k, [](const auto& y, auto& here) { copy(y, here); });
    __syncwarp();
  }
  /// Stages the outputs, of which sums has fragments of eight from `first_sum` on, and which it
  /// changes. Returns whether one of this lane's is to be summed anew, where it looks for it.
  template <int count>
  __device__ bool stage(Sum (&sums)[count], int first_sum, int k) const {
    const Fragments of(params_, sums + first_sum, lane_, first_filter_, k);
    if constexpr (scales) of.undo_scales(scales_);
    if (params_.epilogue.accumulate) add_old(of);
    of.add_bias();
    of.limit();
    bool wrong = false;
    if constexpr (looks_early)
      of.for_each([&](const Sum& sum) { wrong = wrong | is_doubtful<Arithmetic>(sum); });
    const int first = first_staged();
    of.for_pairs([&](const Sum& one, const Sum& two, int j, int half) {
      put(staged_fragment(first, j, half), WidePair<Stored>::round(one + Sum{0}, two + Sum{0}));
    });
    __syncwarp();
    return wrong;
  }
  /// Writes what is staged, of which stage() has found some wrong, or not. Returns whether this
  /// lane has left its share out.
  __device__ bool finish(int k, [[maybe_unused]] bool wrong) const {
    bool left_out = false, looks = params_.repairs;
    if constexpr (looks_early) looks = __any_sync(0xffffffff, wrong);
    if (looks)
      for_each(k, [&](const auto&, const auto& here) { left_out = left_out || is_wrong(here); });
    for_each(k, [left_out](auto& y, const auto& here) {
      if (!left_out) copy(here, y);
    });
    __syncwarp();
    return left_out;
  }

  /// Sums what lanes have left out of the filters from `k` on. All lanes call it, and share the
  /// terms of each output: seldom have many left out something.
  __device__ void repair(int k, bool left_out) const {
    const Epilogue<Stored>& epilogue = params_.epilogue;
    const unsigned lane = threadIdx.x % 32;
#pragma unroll 1
    for (int owner = 0; owner < 32; ++owner) {
      if (__shfl_sync(0xffffffff, left_out ? 1 : 0, owner) == 0) continue;
#pragma unroll 1
      for (int i = 0; i < elements; ++i) {
        const auto [row, column] = place(owner, i);
        const int filter = k + column;
        if (!is_there(row, filter)) continue;
        const WidePixel pixel = params_.pixel(first_ + row);
        const int of_all = first_filter_ + filter;
        const Sum sum = wide_sum_of_warp(params_, pixel, of_all);
        if (lane == 0)
          epilogue.store(params_.y[params_.y_of(pixel) + of_all * params_.y_k], sum, of_all);
      }
    }
  }

 private:
  using Arithmetic = typename Params::Arithmetic;
  using Fragments = WideFragments<Params>;
  static constexpr bool scales = Arithmetic::splits_in_memory;
  /// Where every launch looks for outputs that are wrong, it does so while registers have them.
  static constexpr bool looks_early = Arithmetic::splits_operands;
  static constexpr int elements = 16 * columns / 32;  ///< of a lane

  /// Where this lane's first outputs are staged.
  __device__ int first_staged() const { return offset(lane_ / 4, lane_ % 4 * 2); }
  __device__ void add_old(const Fragments& of) const {
    const int first = first_staged();
    of.for_pairs([&](Sum& one, Sum& two, int j, int half) {
      const auto old = staged_pair(staged_fragment(first, j, half)).floats();
      one += old.x, two += old.y;
    });
  }
  struct Place {
    int row, column;
  };
  /// What this lane moves at once.
  using Type = std::conditional_t<access == WideAccess::elements, Stored,
                                  WideVector<Stored, access == WideAccess::half_pixels ? 8 : 16>>;
  static constexpr int count = static_cast<int>(sizeof(Type)) / bytes, moves = elements / count;
  static constexpr bool along_pixels =
      access == WideAccess::pixels || access == WideAccess::half_pixels;
  /// Where the `i`th of what a lane moves lies. Lanes go along what lies side by side.
  __device__ Place move(int lane, int i) const {
    constexpr int of_row = columns / (along_pixels ? 1 : count), of_filter = 16 / count;
    const int number = lane + 32 * i;
    if (along_pixels || (access == WideAccess::elements && !params_.lays_out_filters))
      return {number % of_filter * count, number / of_filter};
    return {number / of_row, number % of_row * count};
  }
  /// Where the `i`th of all of its outputs lies.
  __device__ Place place(int lane, int i) const {
    Place at = move(lane, i / count);
    (along_pixels ? at.row : at.column) += i % count;
    return at;
  }
  __device__ bool is_there(int row, int filter) const {
    if constexpr (Params::Arithmetic::across)
      return row < there_ && filter < params_.groups.filters;
    return first_ + row < params_.pixels && filter < params_.groups.filters;
  }
  /// Where an output is staged, swizzled so that fragments and vectors meet no bank more often than
  /// they must: rows of 128 bytes of a pixel's filters, or 16 pixels of filter after filter.
  __device__ static int offset(int row, int column) {
    if constexpr (!along_pixels) return swizzle_128(row * swizzle_row_bytes + bytes * column);
    const int unit = bytes == 2 ? column / 4 % 2 : bytes == 4 ? column / 2 % 4 : column / 2 % 4 * 2;
    return bytes * (16 * column + row) ^ 16 * unit;
  }
  __device__ Stored* staged(int row, int column) const {
    return reinterpret_cast<Stored*>(staged_ + offset(row, column));
  }
  /// Where this lane's outputs of eight filters' fragment `j` are staged, of row lane / 4 or the
  /// eighth below it. All follow by constants from the first one's offset.
  __device__ Stored* staged_fragment(int first, int j, int half) const {
    const int at = along_pixels ? (first ^ 8 * bytes * half) + 128 * bytes * j
                                : (first ^ 8 * bytes * j) + 8 * swizzle_row_bytes * half;
    return reinterpret_cast<Stored*>(staged_ + at);
  }
  /// The outputs of a pixel and two neighbouring filters.
  __device__ static WidePair<Stored> staged_pair(const Stored* here) {
    if constexpr (along_pixels)
      return WidePair<Stored>::of_two(here[0], here[16]);
    else
      return *reinterpret_cast<const WidePair<Stored>*>(here);
  }
  __device__ static void put(Stored* here, const WidePair<Stored>& pair) {
    if constexpr (along_pixels)
      here[0] = pair.of.x, here[16] = pair.of.y;
    else
      *reinterpret_cast<WidePair<Stored>*>(here) = pair;
  }
  /// Returns where the outputs of one of the pixels begin. All lanes call it.
  __device__ Stored* y_row(int row) const {
    constexpr unsigned all = 0xffffffff;
    const int low = __shfl_sync(all, static_cast<int>(at_), row);
    const int high = __shfl_sync(all, static_cast<int>(at_ >> 32), row);
    return params_.y + (static_cast<std::int64_t>(high) << 32 | static_cast<std::uint32_t>(low));
  }

  /// Calls `f(y, staged)` for this lane's outputs that are there, as vectors or one by one.
  template <class F>
  __device__ void for_each(int k, const F& f) const {
#pragma unroll(count == 1 ? 2 : moves)
    for (int i = 0; i < moves; ++i) {
      const Place at = move(lane_, i);
      Stored* const y = y_row(at.row) + (k + at.column) * params_.y_k;
      if (is_there(at.row, k + at.column))
        f(*reinterpret_cast<Type*>(y), *reinterpret_cast<Type*>(staged(at.row, at.column)));
    }
  }
  template <int size>
  __device__ static void copy(const WideVector<Stored, size>& from, WideVector<Stored, size>& to) {
    WideVector<Stored, size>::load(&from).store(&to);
  }
  __device__ static void copy(const Stored& from, Stored& to) { to = from; }
  template <int size>
  __device__ static bool is_wrong(const WideVector<Stored, size>& of) {
    const auto vector = WideVector<Stored, size>::load(&of);
    if constexpr (!Arithmetic::splits_in_registers) return vector.has_nan();
    bool found = false;
#pragma unroll
    for (const WidePair<Stored>& pair : vector.pair) {
      const auto two = pair.floats();
      found = found || is_doubtful<Arithmetic>(two.x) || is_doubtful<Arithmetic>(two.y);
    }
    return found;
  }
  __device__ static bool is_wrong(const Stored& of) {
    return is_doubtful<Arithmetic>(convert<Sum>(of));
  }

  const Params& params_;
  char* staged_;
  int first_, lane_, first_filter_;
  int there_ = 0;       ///< across: how many of the pixels are the image's
  int scales_[2] = {};  ///< of the images of this lane's rows of sums
  std::int64_t at_;     ///< where the outputs of pixel lane % 16 begin
};

/// Writes a split's sums to workspace, where sum_splits() finds them.
template <WideShape shape, class Params>
__device__ void write_sums(const Params& params, const WideSums<shape>& sums,
                           const WideWorkItem& work, int pixel, int filter) {
  const int lane = static_cast<int>(threadIdx.x) % 32,
            warp = static_cast<int>(threadIdx.x) / 32 % 4;
#pragma unroll
  for (int i = 0; i < WideSums<shape>::m64_tiles; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = pixel + 64 * i + 16 * warp + 8 * half + lane / 4;
      if (row >= params.pixels) continue;
      float* const to = params.sums +
                        (std::int64_t{work.split} * params.pixels + row) * params.all_rows +
                        work.group * params.rows;
#pragma unroll
      for (int j = 0; j < WideSums<shape>::n8_tiles; ++j)
        if (filter + 8 * j < params.rows)
          *reinterpret_cast<float2*>(to + filter + 8 * j + lane % 4 * 2) = {
              sums.of[i][4 * j + 2 * half], sums.of[i][4 * j + 2 * half + 1]};
    }
}

/// Writes a warp's sums of `tiles` times 16 pixels, which begin with `pixel` and lie `apart`, of
/// the group's filters from `filter` on. `staged` are 2 KB of the warp's own.
template <WideAccess access, int apart, class Params, class Sum, int tiles, int sums_of_tile>
__device__ __forceinline__ void write_outputs(const Params& params, char* staged,
                                              Sum (&sums)[tiles][sums_of_tile], int group,
                                              int pixel, int filter) {
  using Rows = WideRows<Params, access>;
  constexpr int columns = Rows::columns, parts = sums_of_tile / 4 * 8 / columns;
  // Along filters the parts' code fits the instruction cache. Along pixels it is so long that only
  // what reads sums, which registers have, is there once for each part.
  constexpr bool unrolls = access == WideAccess::filters;
#pragma unroll(unrolls ? tiles : 1)
  for (int i = 0; i < tiles; ++i) {
    const Rows rows(params, staged, pixel + apart * i, group);
    unsigned left_out = 0;  // a bit for each part
#pragma unroll(unrolls ? parts : 1)
    for (int part = 0; part < parts; ++part) {
      const int k = filter + part * columns;
      if (k >= params.groups.filters) continue;
      rows.begin(k);
      bool wrong = false;
      with_number<tiles * parts>(i * parts + part, [&]<int number>() {
        wrong = rows.stage(sums[number / parts], number % parts * columns / 2, k);
      });
      if (rows.finish(k, wrong)) left_out |= 1u << part;
    }
#pragma unroll 1
    for (int k = filter; __any_sync(0xffffffff, left_out != 0); left_out >>= 1, k += columns)
      rows.repair(k, left_out % 2 != 0);
    __syncwarp();
  }
}

/// Writes a warpgroup's sums of a tile. Inlined, as all that has sums: around a call products do
/// not overlap. Each access has code of its own: of one for all, what a tile takes would not fit
/// the instruction cache.
template <WideShape shape, class Params>
__device__ __forceinline__ void write_tile(const Params& params, const WideShared<shape>& shared,
                                           WideSums<shape>& sums, const WideWorkItem& work) {
  const auto [pixel, filter] = warpgroup_corner<shape>(work, consumer_warpgroup());
  if (params.splits > 1) return write_sums<shape>(params, sums, work, pixel, filter);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const auto write = [&]<WideAccess access>() {
    write_outputs<access, 64>(params, shared.staged(warp), sums.of, work.group,
                              pixel + 16 * (warp % 4), filter);
  };
  switch (params.access) {
    case WideAccess::filters: return write.template operator()<WideAccess::filters>();
    case WideAccess::pixels: return write.template operator()<WideAccess::pixels>();
    case WideAccess::half_pixels: return write.template operator()<WideAccess::half_pixels>();
    case WideAccess::elements: return write.template operator()<WideAccess::elements>();
  }
}

}  // namespace plumb::cuda
