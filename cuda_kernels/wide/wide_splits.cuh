// Where blocks have summed parts of the reduction, a second kernel adds the parts in their order.
#pragma once

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/primitives/dependent_launch.cuh"
#include "cuda_kernels/wide/wide_epilogue.cuh"

namespace plumb::cuda {

inline constexpr int wide_summing_threads = 256;

/// Eight neighbouring filters' sums of a pixel, and where their outputs lie.
template <class Params>
class WideEightSums {
 public:
  using Stored = typename Params::Stored;
  using Sum = ComputeType<Stored>;
  using Vector = WideVector<Stored>;

  /// `row` is that of the first filter, of packed filters.
  __device__ WideEightSums(const Params& params, int number, int row, int splits)
      : params_(params), pixel_(params.pixel(number)) {
    const int group = row / params.rows;
    of_group_ = row % params.rows, k_ = group * params.groups.filters + of_group_;
    y_ = params.y + params.y_of(pixel_);
    for (int split = 0; split < splits; ++split) {
      const Sum* const sums =
          params.sums + (std::int64_t{split} * params.pixels + number) * params.all_rows + row;
      if constexpr (std::is_same_v<Sum, double>) {
        const auto* const from = reinterpret_cast<const double2*>(sums);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const double2 two = from[j];
          sums_[2 * j] += two.x, sums_[2 * j + 1] += two.y;
        }
      } else {
        const auto* const from = reinterpret_cast<const float4*>(sums);
        const float4 low = from[0], high = from[1];
        sums_[0] += low.x, sums_[1] += low.y, sums_[2] += low.z, sums_[3] += low.w;
        sums_[4] += high.x, sums_[5] += high.y, sums_[6] += high.z, sums_[7] += high.w;
      }
    }
    if constexpr (Params::Arithmetic::splits_in_memory) {
      const WideScale of_image(params.scales.of_image[pixel_.n]);
#pragma unroll
      for (int j = 0; j < 8; ++j)
        if (of_group_ + j < params.groups.filters)
          sums_[j] = (of_image + WideScale(params.scales.of_filter[k_ + j]))
                         .undo(sums_[j], params.scales.least_sum);
    }
  }
  __device__ Sum of(int j) const { return sums_[j]; }
  __device__ static bool is_wrong(Sum sum) { return is_doubtful<typename Params::Arithmetic>(sum); }
  /// Writes all that is not to be summed anew, and returns a bit for each that is.
  __device__ unsigned write() {
    bool wrong = false;
#pragma unroll
    for (const Sum sum : sums_) wrong = wrong || is_wrong(sum);
    if (params_.access != WideAccess::filters || (params_.repairs && wrong))
      return write_elements();
    write_vectors();
    return 0;
  }
  __device__ int first_filter() const { return k_; }

 private:
  __device__ void write_vectors() {
    const Epilogue<Stored>& epilogue = params_.epilogue;
#pragma unroll
    for (int first = 0; first < 8; first += Vector::count) {
      if (of_group_ + first >= params_.groups.filters) return;
      Vector vector{};
      if (epilogue.accumulate) vector = Vector::load(y_ + k_ + first);
#pragma unroll
      for (int i = 0; i < Vector::pairs; ++i) {
        const int j = first + 2 * i;
        Sum made[2] = {sums_[j], sums_[j + 1]};
        if (epilogue.accumulate) {
          const auto old = vector.pair[i].floats();
          made[0] += old.x, made[1] += old.y;
        }
        vector.pair[i] = WidePair<Stored>::round(
            max_nan(made[0] + epilogue.template bias_of<Sum>(k_ + j), Sum{epilogue.least}),
            max_nan(made[1] + epilogue.template bias_of<Sum>(k_ + j + 1), Sum{epilogue.least}));
      }
      vector.store(y_ + k_ + first);
    }
  }
  __device__ unsigned write_elements() {
    unsigned left_out = 0;
#pragma unroll 1
    for (int j = 0; j < min(8, params_.groups.filters - of_group_); ++j) {
      const Sum sum = sums_[0];
#pragma unroll
      for (int i = 0; i < 7; ++i) sums_[i] = sums_[i + 1];
      if (params_.repairs && is_wrong(sum))
        left_out |= 1u << j;
      else
        params_.epilogue.store(y_[(k_ + j) * params_.y_k], sum, k_ + j);
    }
    return left_out;
  }

  const Params& params_;
  WidePixel pixel_;
  int of_group_, k_;  ///< the first filter, of its group and of all
  Stored* y_;
  Sum sums_[8] = {};
};

/// Sums anew what lanes of a warp have left out, of which `left_out` has a bit: outputs of filters
/// from k on or, of planes, of pixels from `number` on. All lanes call it, and share the terms.
template <class Params>
__device__ void repair_left_out(const Params& params, unsigned left_out, int number, int k,
                                bool planes) {
  constexpr unsigned all = 0xffffffff;
  if (!__any_sync(all, left_out != 0)) return;
#pragma unroll 1
  for (int owner = 0; owner < 32; ++owner) {
    const int first = __shfl_sync(all, number, owner), filter = __shfl_sync(all, k, owner);
    unsigned bits = __shfl_sync(all, left_out, owner);
#pragma unroll 1
    for (int i = 0; bits != 0; ++i, bits >>= 1) {
      if (bits % 2 == 0) continue;
      const WidePixel pixel = params.pixel(planes ? first + i : first);
      const int of_all = planes ? filter : filter + i;
      const auto sum = wide_sum_of_warp(params, pixel, of_all);
      if (threadIdx.x % 32 == 0)
        params.epilogue.store(params.y[params.y_of(pixel) + of_all * params.y_k], sum, of_all);
    }
  }
}

/// Sums of eight filters and 32 pixels, that a warp hands from lane to lane: a lane that has eight
/// filters of a pixel becomes one that has neighbouring pixels of a filter.
inline constexpr int wide_plane_pixels = 32;
template <class Sum>
struct WidePlaneSums {
  static constexpr int pitch = wide_plane_pixels + 1;  // each bank once, along both
  Sum of[8][pitch];
};

/// Writes neighbouring pixels of a filter, `bytes` of y. `from` has their sums. Returns a bit for
/// each that is left out, to be summed anew.
template <int bytes, class Params>
__device__ unsigned write_plane_vector(const Params& params,
                                       const ComputeType<typename Params::Stored>* from, int number,
                                       int k) {
  using Stored = typename Params::Stored;
  using Sum = ComputeType<Stored>;
  constexpr int count = bytes / static_cast<int>(sizeof(Stored));
  const Epilogue<Stored>& epilogue = params.epilogue;
  const auto is_wrong = [](Sum sum) { return is_doubtful<typename Params::Arithmetic>(sum); };
  bool wrong = false;
#pragma unroll
  for (int i = 0; i < count; ++i) wrong = wrong || is_wrong(from[i]);
  if (count == 1 || (params.repairs && wrong)) {
    unsigned left_out = 0;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      const Sum sum = from[i];
      if (params.repairs && is_wrong(sum))
        left_out |= 1u << i;
      else
        epilogue.store(params.y[params.y_of(params.pixel(number + i)) + k * params.y_k], sum, k);
    }
    return left_out;
  }
  if constexpr (count > 1) {
    using Vector = WideVector<Stored, bytes>;
    Stored* const y = params.y + params.y_of(params.pixel(number)) + k * params.y_k;
    Vector vector{};
    if (epilogue.accumulate) vector = Vector::load(y);
    const Sum bias = epilogue.template bias_of<Sum>(k);
#pragma unroll
    for (int i = 0; i < Vector::pairs; ++i) {
      Sum made[2] = {from[2 * i], from[2 * i + 1]};
      if (epilogue.accumulate) {
        const auto old = vector.pair[i].floats();
        made[0] += old.x, made[1] += old.y;
      }
      vector.pair[i] = WidePair<Stored>::round(max_nan(made[0] + bias, Sum{epilogue.least}),
                                               max_nan(made[1] + bias, Sum{epilogue.least}));
    }
    vector.store(y);
  }
  return 0;
}

/// Adds and writes a warp's sums where y has planes: eight filters of 32 pixels.
template <int bytes, class Params>
__device__ void write_plane_sums(const Params& params,
                                 WidePlaneSums<ComputeType<typename Params::Stored>>& staged,
                                 int first, int row, int splits) {
  constexpr int count = bytes / static_cast<int>(sizeof(typename Params::Stored)),
                of_filter = wide_plane_pixels / count;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (first + lane < params.pixels) {
    const WideEightSums<Params> sums(params, first + lane, row, splits);
#pragma unroll
    for (int j = 0; j < 8; ++j) staged.of[j][lane] = sums.of(j);
  }
  __syncwarp();
  const int group = row / params.rows, of_group = row % params.rows;
#pragma unroll(count == 1 ? 1 : 8 / count)
  for (int i = 0; i < 8 / count; ++i) {
    const int j = (lane + 32 * i) / of_filter, pixel = (lane + 32 * i) % of_filter * count;
    const int number = first + pixel, k = group * params.groups.filters + of_group + j;
    unsigned left_out = 0;
    if (of_group + j < params.groups.filters && number < params.pixels)
      left_out = write_plane_vector<bytes>(params, staged.of[j] + pixel, number, k);
    if (params.repairs) repair_left_out(params, left_out, number, k, true);
  }
  __syncwarp();
}

/// Adds the sums of splits. Threads go along what lies side by side in y: `fastest` counts groups
/// of eight of filters there, or 32 pixels of planes.
template <class Arithmetic, WideFault fault>
__global__ void __launch_bounds__(wide_summing_threads)
    sum_splits(const __grid_constant__ WideParams<Arithmetic> params, Divisor<int> fastest,
               int works) {
  constexpr int warps = wide_summing_threads / 32, element = sizeof(typename Arithmetic::Stored);
  __shared__ WidePlaneSums<ComputeType<typename Arithmetic::Stored>> staged[warps];
  wait_for_kernel_before();
  const int splits = params.splits - (fault == WideFault::lost_split ? 1 : 0);
  const int thread = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x),
            blocks = static_cast<int>(gridDim.x);
  if (!params.has_planes()) {
    const int lane = thread % 32;
    for (int first = block * wide_summing_threads + thread - lane; first < works;
         first += blocks * wide_summing_threads) {
      unsigned left_out = 0;
      int number = 0, k = 0;
      if (first + lane < works) {
        const auto [pixel, vector] = fastest.divide(first + lane);
        WideEightSums<WideParams<Arithmetic>> sums(params, pixel, 8 * vector, splits);
        left_out = sums.write(), number = pixel, k = sums.first_filter();
      }
      if (params.repairs) repair_left_out(params, left_out, number, k, false);
    }
    return;
  }
  const int warp = thread / 32;
  for (int i = block * warps + warp; i < works; i += blocks * warps) {
    const auto [vector, chunk] = fastest.divide(i);
    const int first = chunk * wide_plane_pixels, row = 8 * vector;
    switch (params.access) {
      case WideAccess::pixels:
        write_plane_sums<16>(params, staged[warp], first, row, splits);
        break;
      case WideAccess::half_pixels:  // of doubles none is half of 16 bytes
        write_plane_sums < element<8 ? 8 : element>(params, staged[warp], first, row, splits);
        break;
      default: write_plane_sums<element>(params, staged[warp], first, row, splits);
    }
  }
}

/// Starts the sum of the splits, behind the kernel that made them. Without `early`, it is a launch
/// that devices before sm_90 know.
template <class Arithmetic, WideFault fault>
void launch_sum_splits(const WideParams<Arithmetic>& params, void* stream, bool early = true) {
  const int row_vectors = params.all_rows / 8,
            chunks = static_cast<int>(ceil_div(params.pixels, wide_plane_pixels));
  const bool planes = params.has_planes();
  const int works = row_vectors * (planes ? chunks : params.pixels);
  const std::int64_t threads = std::int64_t{works} * (planes ? 32 : 1);
  Launch launch(stream, blocks_for(threads, wide_summing_threads), wide_summing_threads);
  if (early) launch.early();
  launch(sum_splits<Arithmetic, fault>, params, Divisor<int>(planes ? chunks : row_vectors), works);
}

}  // namespace plumb::cuda
