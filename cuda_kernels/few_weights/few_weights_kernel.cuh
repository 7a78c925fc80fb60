// The first kernel: a block sums a part of the units for some rows and columns of the product.
#pragma once

#include <climits>

#include "cuda_kernels/few_weights/few_weights_load.cuh"
#include "cuda_kernels/few_weights/few_weights_products.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda::few_weights {

/// What a block has of a unit as it is stored, in shared memory: magnitudes that its threads have
/// found, of x and of dy, and both.
template <class Stored>
struct StoredUnit {
  static constexpr int begin = 64;  ///< bytes of magnitudes

  Extremes* extremes;  ///< zero but between two barriers
  int *finite, *left;
  Stored *x, *dy;
  int x_elements, dy_elements;

  __device__ explicit StoredUnit(const FewWeightsCut& cut) {
    char* const memory = dynamic_shared();
    extremes = reinterpret_cast<Extremes*>(memory);
    finite = reinterpret_cast<int*>(extremes + 2), left = finite + 2;
    x_elements = cut.x_elements, dy_elements = cut.dy_elements();
    x = reinterpret_cast<Stored*>(memory + begin), dy = x + x_elements;
  }
  /// Behind it are the operands.
  __device__ std::uint16_t* operands() const {
    return reinterpret_cast<std::uint16_t*>(dy + dy_elements);
  }
};

/// A block's operands and sums, by fragments.
template <class OfArithmetic, int m, int n, FewWeightsFault planted>
class FragmentWork {
 public:
  using Arithmetic = OfArithmetic;
  static constexpr FewWeightsFault fault = planted;

  StoredUnit<typename Arithmetic::Stored> unit;
  WarpSums<Arithmetic, m, n, fault> sums;

  __device__ FragmentWork(const Params& params, const BlockShare& share, int thread)
      : unit(params.plan.cut),
        sums(params, share, thread / 32, thread % 32),
        params_(params),
        x_(unit.operands()),
        dy_(x_ + 2 * Arithmetic::host.halves() * unit.x_elements),
        thread_(thread),
        threads_(params.plan.cut.threads()) {}

  /// Write operands of what a range has; return the largest magnitude that it left.
  template <class OfRange>
  __device__ int write_x(const OfRange& range) {
    return write_operand<Arithmetic::host.splits(), true>(range, unit.x, x_, unit.x_elements,
                                                          thread_, threads_);
  }
  template <class OfRange>
  __device__ int write_dy(const OfRange& range) {
    return write_operand<Arithmetic::host.splits(), false>(range, unit.dy, dy_, unit.dy_elements,
                                                           thread_, threads_);
  }
  /// Adds the products of operands that were scaled by 2^exponent together.
  __device__ void add(int exponent) {
    sums.add(params_, {x_, dy_, 2 * unit.x_elements, unit.dy_elements}, exponent);
  }

 private:
  const Params& params_;
  std::uint16_t *x_, *dy_;
  int thread_, threads_;
};

/// One block at its units. `Work` has the operands and sums.
template <class Work>
class UnitSums {
 public:
  using Arithmetic = typename Work::Arithmetic;
  using Stored = typename Arithmetic::Stored;

  __device__ UnitSums(const Params& params, const BlockShare& share, const Stored* x,
                      const Stored* dy, Work& work)
      : params_(params),
        share_(share),
        work_(work),
        shared_(work.unit),
        thread_(static_cast<int>(threadIdx.x)),
        threads_(params.plan.cut.threads()),
        loader_{params, share, x, dy, thread_, threads_},
        next_(params.plan.cut, share.begin) {}

  __device__ __forceinline__ void run() {
    if (share_.begin < share_.end) load();
    for (std::int64_t unit = share_.begin; unit < share_.end; ++unit) {
      more_ = unit + 1 < share_.end;
      wait_for_copies<Work::fault == FewWeightsFault::stale_stage ? 1 : 0>();
      __syncthreads();
      if constexpr (Arithmetic::host.scales()) {
        sum_ranges();
      } else {
        work_.write_x(NoRange{}), work_.write_dy(NoRange{});
        __syncthreads();
        load_next();
        work_.add(0);
      }
    }
    __syncthreads();
  }

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
  __device__ __forceinline__ void sum_ranges() {
    find_extremes();
    Extremes of_x = shared_.extremes[0], of_dy = shared_.extremes[1];
    find_finite(of_x, of_dy);
    int passes = 1, left_x = 0, left_dy = 0;
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
      if (pass > 0) __syncthreads();
      const Pass x((pass & 1) != 0, of_x, left_x), dy((pass & 2) != 0, of_dy, left_dy);
      const int more_x = x.with_range([&](const auto&range) { return work_.write_x(range); }),
                more_dy = dy.with_range([&](const auto&range) { return work_.write_dy(range); });
      if (pass == 0) show(shared_.left, more_x), show(shared_.left + 1, more_dy);
      __syncthreads();
      if (pass == 0) {
        // The same for all lanes, and for the compiler too.
        left_x = largest_of_warp(shared_.left[0]), left_dy = largest_of_warp(shared_.left[1]);
        if (thread_ == 0) shared_.extremes[0] = shared_.extremes[1] = {};
        if (Work::fault != FewWeightsFault::lost_range && (left_x > 0 || left_dy > 0))
          passes = few_weights_range_passes;
      }
      if (pass == passes - 1) load_next();
      work_.add(x.range.exponent + dy.range.exponent);
    }
  }

  const Params& params_;
  const BlockShare& share_;
  Work& work_;
  const StoredUnit<Stored>& shared_;
  int thread_, threads_;
  UnitLoader<Stored> loader_;
  Unit next_;
  bool more_ = false;
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

/// What no copy writes is zero: between rows, and behind them.
__device__ inline void clear_shared(const FewWeightsCut& cut) {
  auto* const words = reinterpret_cast<std::uint32_t*>(dynamic_shared());
  for (int i = static_cast<int>(threadIdx.x); i < static_cast<int>(cut.shared_bytes / 4);
       i += cut.threads())
    words[i] = 0;
  __syncthreads();
}

template <class Arithmetic, int m, int n, FewWeightsFault fault>
__global__ void __launch_bounds__(32 * few_weights_warps,
                                  few_weights_blocks_at_once({m, n}, Arithmetic::host))
    sum_few_weights(const __grid_constant__ Params params, const typename Arithmetic::Stored* x,
                    const typename Arithmetic::Stored* dy, float* parts) {
  const FewWeightsCut& cut = params.plan.cut;
  const BlockShare share(params, blockIdx.x);
  clear_shared(cut);
  FragmentWork<Arithmetic, m, n, fault> work(params, share, static_cast<int>(threadIdx.x));
  UnitSums(params, share, x, dy, work).run();
  auto* const sums = reinterpret_cast<float*>(dynamic_shared());
  const auto& own = work.sums;
  own.write(sums + own.term * cut.m() * cut.n(), cut.n(), static_cast<int>(threadIdx.x) % 32);
  __syncthreads();
  write_part<fault>(params, share, sums, parts);
}

}  // namespace plumb::cuda::few_weights
