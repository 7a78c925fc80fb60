// Packs filters as window_stream.cuh takes them. For each group: a header, and slots of all its
// columns; behind the groups the filters as they are, dense.
#pragma once

#include "cuda_kernels/common/conv_shape.cuh"
#include "cuda_kernels/common/launch.cuh"
#include "cuda_kernels/common/window_filters.cuh"
#include "cuda_kernels/common/window_stream.cuh"

namespace plumb::cuda {

/// What packed filters depend on, and where their parts lie in bytes.
struct PackedWindows {
  WindowWalks walks;
  int shifts, eights, groups, row_terms;
  std::size_t group_bytes, dense_at, bytes;

  PackedWindows(const ConvProblem& problem, const WindowUnit& unit, const WindowCosts& costs)
      : walks(problem, unit, costs), eights(unit.filter_eights) {
    const WindowTerms terms = WindowTerms::in_pairs(problem);
    shifts = terms.shifts;
    groups = static_cast<int>(tiles_of(problem.k, terms.eight_filters() * eights));
    row_terms = terms.columns / 2;
    group_bytes = packed_header_bytes +
                  static_cast<std::size_t>(walks.slots()) * eights * 32 * costs.slot_bytes;
    dense_at = group_bytes * groups;
    bytes = dense_at + static_cast<std::size_t>(element_count(problem.w_extents())) *
                           size_in_bytes(problem.dtype);
  }
};

struct PackShape {
  FilterSteps<int> step;
  int k, c, shifts, eights, slots, walk_length, walk_step;
  std::int64_t group_bytes, dense_at;
  Divisor<int> r, s, row_terms, starts, parities, lengths;

  PackShape(const ConvProblem& problem, const PackedWindows& packed)
      : step(problem.w_extents(), problem.w_strides),
        k(static_cast<int>(problem.k)),
        c(static_cast<int>(problem.c)),
        shifts(packed.shifts),
        eights(packed.eights),
        slots(packed.walks.slots()),
        walk_length(packed.walks.length),
        walk_step(packed.walks.step),
        group_bytes(static_cast<std::int64_t>(packed.group_bytes)),
        dense_at(static_cast<std::int64_t>(packed.dense_at)),
        r(problem.r),
        s(problem.s),
        row_terms(packed.row_terms),
        starts(packed.walks.starts),
        parities(packed.walks.parities),
        lengths(packed.walks.length) {}
};

inline constexpr int pack_threads = 256;

/// A block packs the filters of eight columns.
template <class Scheme, class Stored>
__global__ void __launch_bounds__(pack_threads)
    pack_windows(const __grid_constant__ PackShape shape, const Stored* w, char* packed) {
  using Slot = typename Scheme::Slot;
  __shared__ float scales[8];
  const int eight = static_cast<int>(blockIdx.x) % shape.eights;
  const int group = static_cast<int>(blockIdx.x) / shape.eights;
  const int filters = 8 / shape.shifts, terms = shape.c * shape.r.value() * shape.s.value();
  const int first_of_group = eight * filters;
  const int first_k = group * filters * shape.eights + first_of_group;
  char* const of_group = packed + group * shape.group_bytes;
  PackedHeader& header = *reinterpret_cast<PackedHeader*>(of_group);
  const auto tap = [&](int filter, int c, int r, int s) -> float {
    if (filter >= shape.k || c >= shape.c || r >= shape.r.value() || s < 0 || s >= shape.s.value())
      return 0;
    return convert<float>(
        w[filter * shape.step.k + c * shape.step.c + r * shape.step.r + s * shape.step.s]);
  };
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (warp < filters) {
    const int k = first_k + warp;
    Stored* const dense =
        reinterpret_cast<Stored*>(packed + shape.dense_at) + static_cast<std::int64_t>(k) * terms;
    const auto each = [&](auto&& use) {
      for (int term = lane; k < shape.k && term < terms; term += 32) {
        const auto [rows, s] = shape.s.divide(term);
        const auto [c, r] = shape.r.divide(rows);
        use(term, tap(k, c, r, s));
      }
    };
    int most = 0;
    each([&](int term, float value) {
      most = max(most, magnitude_bits(value));
      dense[term] = convert<Stored>(value);
    });
    most = __reduce_max_sync(0xffffffff, most);
    const bool finite = most < infinity_bits;
    const int exponent = Scheme::scaled ? scale_exponent(finite ? most : 0) : 0;
    bool small = false;
    if constexpr (Scheme::scaled) {
      const float scale = power_of_two(exponent);
      each([&](int, float value) {
        small = small || (value != 0 && fabsf(value * scale) < split_least);
      });
    }
    small = __any_sync(0xffffffff, small);
    if (lane == 0) {
      scales[warp] = power_of_two(exponent);
      header.scales[first_of_group + warp] = power_of_two(-exponent);
      header.exponents[first_of_group + warp] = most > 0 ? exponent : no_exponent;
      header.flags[first_of_group + warp] = (finite ? 0 : met_non_finite) | (small ? met_range : 0);
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < shape.slots * 32; i += pack_threads) {
    const int of_lane = i % 32, slot = i / 32;
    const int filter = of_lane / 4 / shape.shifts, shift = of_lane / 4 % shape.shifts;
    const auto [walk, row] = shape.lengths.divide(slot);
    float values[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const WalkedPair pair(shape, walk * WindowWalks::pairs + j / 2 * 4 + of_lane % 4);
      values[j] = tap(first_k + filter, pair.channel, pair.row + row * shape.walk_step,
                      2 * pair.column_pair + j % 2 - shift) *
                  scales[filter];
    }
    write_slot<Scheme>(Scheme::slot(values), of_group + packed_header_bytes, slot, eight,
                       shape.eights, of_lane);
  }
}

}  // namespace plumb::cuda
