// The CPU convolves by im2col and Eigen's product, in blocks that threads take.
//
// The cut depends on the problem alone, never on the number of threads, so that results are the
// same bits for any number of them.
#include "cpu_reference/im2col/conv_im2col.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <type_traits>

#include "core/src/parallel/parallel.hpp"
#include "cpu_kernels/conv/blocks.hpp"
#include "cpu_kernels/conv/conv_launch.hpp"
#include "cpu_kernels/primitives/instruction_set.hpp"
#include "cpu_reference/im2col/im2col_block.hpp"
#include "plumb/conv.hpp"

namespace plumb {
namespace {

using std::int64_t;

/// Says whether the terms of a filter are in the order (r, s, c), as those of channels-last filters
/// are.
bool channels_innermost(const ConvProblem& p) {
  const Strides& w = p.w_strides;
  return p.c > p.groups && (p.s > 1 || p.r > 1) && std::abs(w[1]) < std::abs(w[p.s > 1 ? 3 : 2]);
}

/// Says whether the product can read the filters in place: they are in the type computed in, terms
/// side by side.
bool in_place(const ConvProblem& p, std::size_t computed_bytes) {
  const auto fits = [](int64_t extent, int64_t stride, int64_t expected) {
    return extent == 1 || stride == expected;
  };
  const DType computed = computed_bytes == sizeof(float) ? DType::f32 : DType::f64;
  const Strides& w = p.w_strides;
  const int64_t c = p.c / p.groups;
  const bool dense = channels_innermost(p)
                         ? w[1] == 1 && fits(p.s, w[3], c) && fits(p.r, w[2], p.s * c)
                         : fits(p.s, w[3], 1) && fits(p.r, w[2], p.s) && fits(c, w[1], p.r * p.s);
  return p.dtype == computed && dense && (p.k == 1 || w[0] >= p.terms());
}

/// The cut of a problem into blocks, and the memory that it takes.
struct Cut {
  int64_t depth, k_product;                 ///< terms and channels of one product
  int64_t columns, k_count, terms;          ///< of one block, at most
  int64_t column_blocks, k_blocks, pieces;  ///< pieces of the reduction
  int64_t groups;
  std::size_t runs_bytes, patches_bytes, filters_bytes, packed_filters_bytes, sums_bytes;

  /// Returns the number of blocks of outputs.
  int64_t outputs() const { return groups * k_blocks * column_blocks; }
  /// Returns the bytes of the sums of a reduction in pieces, which other threads add.
  std::size_t shared_bytes() const {
    return pieces == 1 ? 0 : static_cast<std::size_t>(outputs() * pieces) * sums_bytes;
  }
  std::size_t slot_bytes() const {
    return runs_bytes + 2 * patches_bytes + filters_bytes + packed_filters_bytes +
           (pieces == 1 ? sums_bytes : 0);
  }
  /// Returns how many of the `wanted` threads have work and room.
  int threads(int wanted) const {
    const int64_t busy = std::min<int64_t>(wanted, outputs() * pieces);
    return static_cast<int>(threads_with_room(busy, shared_bytes(), slot_bytes()));
  }
};

/// Sizes in bytes were chosen by measurement on a 2-core AVX-512 machine, where anything near
/// them does as well. Patches and filters of a product are at most `operand_bytes` each, so that
/// both, as Eigen packs them, fit into a level-2 cache.
template <class T>
Cut cut(const ConvProblem& p) {
  constexpr int64_t operand_bytes = 128 << 10, sums_bytes = 256 << 10;
  constexpr int64_t max_terms = 256, max_channels = 512, max_columns = 1024;
  constexpr int64_t enough_blocks = 64, few_columns = 128;

  Cut cut{};
  cut.groups = p.groups;
  const int64_t group_k = p.k / p.groups;
  cut.depth = ceil_div(p.terms(), ceil_div(p.terms(), max_terms));
  cut.k_product = std::min(group_k, operand_bytes / int64_t{sizeof(T)} / cut.depth);
  cut.k_count = ceil_div(group_k, ceil_div(group_k, max_channels));
  cut.k_blocks = ceil_div(group_k, cut.k_count);

  const int64_t pixels = std::max<int64_t>(1, p.n * p.p() * p.q());
  const int64_t in_cache =
      std::min(operand_bytes / cut.depth, sums_bytes / cut.k_count) / int64_t{sizeof(T)} / 16 * 16;
  const int64_t in_parallel = std::max(few_columns, round_up(ceil_div(pixels, enough_blocks), 16));
  cut.columns = std::min({pixels, in_cache, in_parallel, max_columns});
  cut.column_blocks = ceil_div(pixels, cut.columns);

  // Where few outputs have a long reduction, threads share the reduction (split-K).
  const int64_t products = ceil_div(p.terms(), cut.depth);
  const int64_t wanted = std::min(products, ceil_div(enough_blocks, cut.outputs()));
  cut.terms = ceil_div(products, wanted) * cut.depth;
  cut.pieces = ceil_div(p.terms(), cut.terms);

  cut.runs_bytes = padded(cut.columns * int64_t{sizeof(ColumnRun)});
  cut.patches_bytes = padded(cut.depth * cut.columns * int64_t{sizeof(T)});
  cut.sums_bytes = padded(cut.k_count * cut.columns * int64_t{sizeof(T)});
  cut.packed_filters_bytes = padded(cut.k_product * cut.depth * int64_t{sizeof(T)});
  cut.filters_bytes = in_place(p, sizeof(T)) ? 0 : cut.packed_filters_bytes;
  return cut;
}

/// Says whether the rows of an image are one: no tap meets a border, and rows are evenly spaced.
bool rows_join(const ConvProblem& p) {
  return p.r == 1 && p.s == 1 && p.stride == Pair{} && p.padding == Padding{} &&
         p.x_strides[2] == p.w * p.x_strides[3] && p.y_strides[2] == p.w * p.y_strides[3];
}

Im2colConv describe(const ConvLaunch& launch) {
  const ConvProblem& p = launch.problem;
  Im2colConv conv{shape_of(launch), p.stride.w * p.x_strides[3], channels_innermost(p)};
  if (p.k == 1) conv.w_k = p.terms();
  if (conv.p == 1 && conv.q == 1) {
    conv.q = p.n;
    conv.x_q = conv.x_n;
    conv.y_q = conv.y_n;
    conv.stride.w = 0;
  } else if (rows_join(p)) {
    conv.w *= conv.h;
    conv.q *= conv.p;
    conv.h = conv.p = 1;
  }
  return conv;
}

template <class T>
const Im2colKernels<T>& kernels_for(const DeviceInfo& device) {
  const Im2colKernelSet* set = &im2col_kernels_baseline;
#ifdef __x86_64__
  const InstructionSet chosen = instruction_set_of(device.instruction_set);
  if (chosen == InstructionSet::avx2) set = &im2col_kernels_avx2;
  if (chosen >= InstructionSet::avx512) set = &im2col_kernels_avx512;
#else
  (void)device;
#endif
  if constexpr (std::is_same_v<T, float>)
    return set->fp32;
  else
    return set->fp64;
}

template <class T>
std::size_t workspace_bytes(const ConvProblem& problem, const DeviceInfo& device) {
  if (problem.n == 0) return 0;
  const Cut c = cut<T>(problem);
  return c.shared_bytes() + static_cast<std::size_t>(c.threads(device.units)) * c.slot_bytes();
}

Im2colBlock block_of(const Cut& c, const ConvProblem& p, const Im2colConv& conv, int64_t output,
                     int64_t piece) {
  const int64_t column = output % c.column_blocks * c.columns;
  const int64_t k = output / c.column_blocks % c.k_blocks * c.k_count;
  const int64_t term = piece * c.terms;
  return {.group = output / (c.column_blocks * c.k_blocks),
          .k = k,
          .k_count = std::min(c.k_count, conv.group_k - k),
          .column = column,
          .columns = std::min(c.columns, p.n * p.p() * p.q() - column),
          .term = term,
          .term_count = std::min(c.terms, p.terms() - term)};
}

template <class T>
void launch(const ConvLaunch& launch) {
  const ConvProblem& p = launch.problem;
  if (p.n == 0) return;
  const Cut c = cut<T>(p);
  const Im2colConv conv = describe(launch);
  const Im2colKernels<T>& kernels = kernels_for<T>(launch.device);
  const int threads =
      std::min(c.threads(launch.device.units), worthwhile_threads(p, available_threads()));

  std::byte* const shared = static_cast<std::byte*>(launch.workspace);
  const auto shared_sums = [&](int64_t output, int64_t piece) {
    const auto index = static_cast<std::size_t>(output * c.pieces + piece);
    return reinterpret_cast<T*>(shared + index * c.sums_bytes);
  };
  const auto scratch_for = [&](int64_t output, int64_t piece, int thread) {
    std::byte* const runs =
        shared + c.shared_bytes() + static_cast<std::size_t>(thread) * c.slot_bytes();
    std::byte* const patches = runs + c.runs_bytes;
    std::byte* const packed_patches = patches + c.patches_bytes;
    std::byte* const filters = packed_patches + c.patches_bytes;
    std::byte* const packed_filters = filters + c.filters_bytes;
    std::byte* const sums = packed_filters + c.packed_filters_bytes;
    return Im2colScratch<T>{
        .depth = c.depth,
        .k_product = c.k_product,
        .runs = reinterpret_cast<ColumnRun*>(runs),
        .patches = reinterpret_cast<T*>(patches),
        .filters = c.filters_bytes ? reinterpret_cast<T*>(filters) : nullptr,
        .sums = c.pieces == 1 ? reinterpret_cast<T*>(sums) : shared_sums(output, piece),
        .packed_patches = reinterpret_cast<T*>(packed_patches),
        .packed_filters = reinterpret_cast<T*>(packed_filters)};
  };

  parallel_tasks(threads, c.outputs() * c.pieces, 1, [&](int64_t i, int thread) {
    const int64_t output = i / c.pieces, piece = i % c.pieces;
    const Im2colBlock block = block_of(c, p, conv, output, piece);
    const Im2colScratch<T> scratch = scratch_for(output, piece, thread);
    kernels.sum(conv, block, scratch);
    if (c.pieces == 1) kernels.store(conv, block, scratch);
  });
  if (c.pieces == 1) return;

  parallel_tasks(threads, c.outputs(), 1, [&](int64_t output, int thread) {
    const Im2colBlock block = block_of(c, p, conv, output, 0);
    const Im2colScratch<T> scratch = scratch_for(output, 0, thread);
    for (int64_t piece = 1; piece < c.pieces; ++piece) {
      const T* more = shared_sums(output, piece);
      for (int64_t j = 0; j < block.k_count * block.columns; ++j) scratch.sums[j] += more[j];
    }
    kernels.store(conv, block, scratch);
  });
}

template <class T>
Support supports(const ConvProblem& problem, const DeviceInfo&) {
  return forward_in<T>(problem);
}

/// The estimate has the products, and for each element of the im2col matrix the time of four more,
/// or of 60 where columns are no neighbours in memory, and for each of the filters, which Eigen
/// packs in every run, that of 60, at half the nominal rate, plus the time to move the tensors
/// once.
template <class T>
double estimate_seconds(const ConvProblem& problem, const DeviceInfo& device) {
  const double copy_of_an_element = problem.x_strides[3] == 1 || problem.q() == 1 ? 4 : 60;
  const double rate = device.nominal_fp32_flop_per_second * (sizeof(float) / double{sizeof(T)});
  const double filters = static_cast<double>(problem.k / problem.groups);
  const auto packed = 60.0 * static_cast<double>(element_count(problem.w_extents()));
  return (problem.flop() * (1 + copy_of_an_element / filters) + packed) / (0.5 * rate) +
         problem.bytes() / device.nominal_bytes_per_second;
}

}  // namespace

const ConvAlgorithm conv_im2col_fp32{
    .name = "cpu.conv.im2col.fp32",
    .numerics = {.operand = Operand::fp32, .accumulator = Accumulator::fp32_fma},
    .plan = plan_of_parts<supports<float>, estimate_seconds<float>, workspace_bytes<float>>,
    .launch = without_plan<launch<float>>,
};

const ConvAlgorithm conv_im2col_fp64{
    .name = "cpu.conv.im2col.fp64",
    .numerics = {.operand = Operand::fp64, .accumulator = Accumulator::fp64_fma},
    .plan = plan_of_parts<supports<double>, estimate_seconds<double>, workspace_bytes<double>>,
    .launch = without_plan<launch<double>>,
};

}  // namespace plumb
