// The first kernel: a block sums a part of the units for some rows and columns of the product.
#pragma once

#include <climits>

#include "cuda_kernels/few_weights/few_weights_load.cuh"
#include "cuda_kernels/few_weights/few_weights_products.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda::few_weights {

/// A block's shared memory: magnitudes that its threads have found, of x and of dy, a unit as it is
/// stored, and its operands.
template <class Arithmetic>
struct Shared {
  using Stored = typename Arithmetic::Stored;
  static constexpr int begin = 64;  ///< bytes of magnitudes

  Extremes* extremes;  ///< zero but between two barriers
  int *finite, *left;
  Stored *x, *dy;
  std::uint16_t *x_operand, *dy_operand;
  int x_elements, dy_elements;

  __device__ Shared(const WeightsSizes& sizes, const FewWeightsCut& cut) {
    char* const memory = dynamic_shared();
    extremes = reinterpret_cast<Extremes*>(memory);
    finite = reinterpret_cast<int*>(extremes + 2), left = finite + 2;
    x_elements = cut.x_elements, dy_elements = cut.dy_elements();
    x = reinterpret_cast<Stored*>(memory + begin), dy = x + x_elements;
    x_operand = reinterpret_cast<std::uint16_t*>(dy + dy_elements);
    dy_operand = x_operand + 2 * Arithmetic::host.halves() * x_elements;
  }
  __device__ Operands operands() const {
    return {x_operand, dy_operand, 2 * x_elements, dy_elements};
  }
};

/// One block at its units.
template <class Arithmetic, int m, int n, FewWeightsFault fault>
class UnitSums {
 public:
  using Stored = typename Arithmetic::Stored;
  static constexpr bool splits = Arithmetic::host.splits();

  __device__ UnitSums(const Params& params, const BlockShare& share, const Stored* x,
                      const Stored* dy)
      : params_(params),
        share_(share),
        shared_(params.plan.sizes, params.plan.cut),
        thread_(static_cast<int>(threadIdx.x)),
        threads_(params.plan.cut.threads()),
        loader_{params, share, x, dy, thread_, threads_},
        next_(params.plan.cut, share.begin),
        sums_(params, share, thread_ / 32, thread_ % 32) {}

  __device__ void run() {
    if (share_.begin < share_.end) load();
    for (std::int64_t unit = share_.begin; unit < share_.end; ++unit) {
      more_ = unit + 1 < share_.end;
      wait_for_copies<fault == FewWeightsFault::stale_stage ? 1 : 0>();
      __syncthreads();
      if constexpr (Arithmetic::host.scales()) {
        sum_ranges();
      } else {
        write_x(NoRange{}), write_dy(NoRange{});
        __syncthreads();
        load_next();
        sums_.add(params_, shared_.operands(), 0);
      }
    }
    __syncthreads();
  }
  __device__ const WarpSums<Arithmetic, m, n, fault>& sums() const { return sums_; }

 private:
  __device__ void load() {
    loader_.load_x(next_, shared_.x), loader_.load_dy(next_, shared_.dy);
    commit_copies();
  }
  /// Begins to copy the next unit, once all operands of this one have been written.
  __device__ void load_next() {
    if (!more_) return;
    next_.advance(params_.plan.sizes, params_.plan.cut);
    load();
  }

  template <class OfRange>
  __device__ int write_x(const OfRange& range) {
    return write_operand<splits, true>(range, shared_.x, shared_.x_operand, shared_.x_elements,
                                       thread_, threads_);
  }
  template <class OfRange>
  __device__ int write_dy(const OfRange& range) {
    return write_operand<splits, false>(range, shared_.dy, shared_.dy_operand, shared_.dy_elements,
                                        thread_, threads_);
  }

  /// Shows the block the larger of its threads' numbers, which are rarely there.
  __device__ static void show(int* to, int left) {
    if (left > 0) atomicMax(to, left);
  }
  __device__ void find_extremes() {
    if (thread_ == 0)
      for (int i = 0; i < 2; ++i) shared_.finite[i] = shared_.left[i] = 0;
    const auto find = [&](const float* from, int elements, Extremes& to) {
      const Extremes found = extremes(from, elements, thread_, threads_);
      const int largest = largest_of_warp(found.largest),
                smallest = largest_of_warp(found.smallest);
      if (thread_ % 32 == 0) atomicMax(&to.largest, largest), atomicMax(&to.smallest, smallest);
    };
    find(shared_.x, shared_.x_elements, shared_.extremes[0]);
    find(shared_.dy, shared_.dy_elements, shared_.extremes[1]);
    __syncthreads();
  }
  /// Where there are infinite values or NaN, the largest of the others.
  __device__ void find_finite(Extremes& x, Extremes& dy) {
    if (max(x.largest, dy.largest) < infinity_bits) return;
    show(shared_.finite, largest_finite(shared_.x, shared_.x_elements, thread_, threads_));
    show(shared_.finite + 1, largest_finite(shared_.dy, shared_.dy_elements, thread_, threads_));
    __syncthreads();
    if (x.largest >= infinity_bits) x = {shared_.finite[0], INT_MAX};
    if (dy.largest >= infinity_bits) dy = {shared_.finite[1], INT_MAX};
  }

  /// What a pass multiplies of a tensor: the first range under its largest magnitude, or the last
  /// under what that left.
  struct Pass {
    Range range;
    bool whole;

    __device__ Pass(bool last, const Extremes& of, int left)
        : range(of.largest, infinity_bits, false), whole(!last && of.fit(range)) {
      if (last) range = Range(left, range.least(), true);
    }
    /// Calls `write` with the range, and returns what it left.
    template <class Write>
    __device__ int with_range(const Write& write) const {
      return whole ? write(WholeRange{range.scales[0] * range.scales[1]}) : write(range);
    }
  };
  /// Sums a unit for each range of x with each of dy. There is one of each, but where magnitudes
  /// lie further apart than the halves hold.
  __device__ void sum_ranges() {
    find_extremes();
    Extremes of_x = shared_.extremes[0], of_dy = shared_.extremes[1];
    find_finite(of_x, of_dy);
    int passes = 1, left_x = 0, left_dy = 0;
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
      if (pass > 0) __syncthreads();
      const Pass x((pass & 1) != 0, of_x, left_x), dy((pass & 2) != 0, of_dy, left_dy);
      const int more_x = x.with_range([&](const auto&range) { return write_x(range); }),
                more_dy = dy.with_range([&](const auto&range) { return write_dy(range); });
      if (pass == 0) show(shared_.left, more_x), show(shared_.left + 1, more_dy);
      __syncthreads();
      if (pass == 0) {
        left_x = shared_.left[0], left_dy = shared_.left[1];
        if (thread_ == 0) shared_.extremes[0] = shared_.extremes[1] = {};
        if (fault != FewWeightsFault::lost_range && (left_x > 0 || left_dy > 0))
          passes = few_weights_range_passes;
      }
      if (pass == passes - 1) load_next();
      sums_.add(params_, shared_.operands(), x.range.exponent + dy.range.exponent);
    }
  }

  const Params& params_;
  const BlockShare& share_;
  Shared<Arithmetic> shared_;
  int thread_, threads_;
  UnitLoader<Stored> loader_;
  Unit next_;
  bool more_ = false;
  WarpSums<Arithmetic, m, n, fault> sums_;
};

/// Adds the sums of the warps that share terms, and writes the part.
template <FewWeightsFault fault>
__device__ void write_part(const Params& params, const BlockShare& share, const float* sums,
                           float* parts) {
  const WeightsSizes& sizes = params.plan.sizes;
  const FewWeightsCut& cut = params.plan.cut;
  const int columns = cut.n(), all = cut.m() * columns;
  const int warps = cut.warps_k - (fault == FewWeightsFault::lost_warp ? 1 : 0);
  float* const part = parts + share.part * sizes.weights();
  for (int at = static_cast<int>(threadIdx.x); at < all; at += cut.threads()) {
    const Row row(cut, at / columns);
    const Column column(params, share, at % columns);
    const int filter = share.k + row.k, channel = share.c + column.c;
    const int r = column.i + row.j * cut.inner;
    if (!row.valid || !column.valid || filter >= sizes.group_k || channel >= sizes.group_c ||
        r >= sizes.h.taps)
      continue;
    float sum = 0;
    for (int warp = 0; warp < warps; ++warp) sum += sums[warp * all + at];
    const std::int64_t taps = (std::int64_t{channel} * sizes.d.taps + column.t) * sizes.h.taps + r;
    part[(share.group * sizes.group_k + filter) * sizes.terms() + taps * sizes.w.taps + column.s] =
        sum;
  }
}

template <class Arithmetic, int m, int n, FewWeightsFault fault>
__global__ void __launch_bounds__(32 * few_weights_warps,
                                  few_weights_blocks_at_once({m, n}, Arithmetic::host))
    sum_few_weights(const __grid_constant__ Params params, const typename Arithmetic::Stored* x,
                    const typename Arithmetic::Stored* dy, float* parts) {
  const FewWeightsCut& cut = params.plan.cut;
  const BlockShare share(params, blockIdx.x);
  // What no copy writes is zero: between rows, and behind them.
  auto* const words = reinterpret_cast<std::uint32_t*>(dynamic_shared());
  for (int i = static_cast<int>(threadIdx.x); i < static_cast<int>(cut.shared_bytes / 4);
       i += cut.threads())
    words[i] = 0;
  __syncthreads();
  UnitSums<Arithmetic, m, n, fault> units(params, share, x, dy);
  units.run();
  auto* const sums = reinterpret_cast<float*>(dynamic_shared());
  const auto& own = units.sums();
  own.write(sums + own.term * cut.m() * cut.n(), cut.n(), static_cast<int>(threadIdx.x) % 32);
  __syncthreads();
  write_part<fault>(params, share, sums, parts);
}

}  // namespace plumb::cuda::few_weights
