// The block of an im2col convolution is compiled once for each instruction set.
//
// A source that includes this has renamed Eigen's namespace, and everything here has internal
// linkage: the linker keeps one copy of each inline function, and must not take one that was
// compiled for a machine better than the one it runs on.
#include <algorithm>

#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_reference/im2col/im2col_block.hpp"

namespace plumb {
namespace {

inline std::int64_t clamp(std::int64_t value, std::int64_t low, std::int64_t high) {
  return value < low ? low : (value > high ? high : value);
}

/// Cuts the block's columns where rows of outputs end; returns how many runs there are.
inline std::int64_t cut_into_runs(const Im2colConv& conv, const Im2colBlock& block,
                                  ColumnRun* runs) {
  std::int64_t count = 0;
  const std::int64_t end = block.column + block.columns;
  for (std::int64_t column = block.column; column < end;) {
    const std::int64_t q = column % conv.q;
    const std::int64_t row = column / conv.q;
    const std::int64_t p = row % conv.p, n = row / conv.p;
    const std::int64_t length = lesser(end - column, conv.q - q);
    const std::int64_t h = p * conv.stride.h - conv.top;
    runs[count++] = {.q = q,
                     .count = length,
                     .h = h,
                     .x = n * conv.x_n + h * conv.x_h + q * conv.x_q - conv.left * conv.x_w,
                     .y = n * conv.y_n + p * conv.y_p + q * conv.y_q};
    column += length;
  }
  return count;
}

/// The outputs [begin, end) of a row for which a tap, `offset` columns right of the first output's
/// place, lies inside the image.
struct Inside {
  std::int64_t begin, end;
};
inline Inside inside(const Im2colConv& conv, std::int64_t offset) {
  if (conv.stride.w == 0) return {0, offset >= 0 && offset < conv.w ? conv.q : 0};
  return {ceil_quotient(-offset, conv.stride.w), ceil_quotient(conv.w - offset, conv.stride.w)};
}

/// An axis of a filter's terms: how many there are along it, and their step in w.
struct TermAxis {
  std::int64_t count, step;
};
struct TermAxes {
  TermAxis inner, middle, outer;
};
inline TermAxes term_axes(const Im2colConv& conv) {
  const TermAxis c{conv.group_c, conv.w_c}, r{conv.r, conv.w_r}, s{conv.s, conv.w_s};
  return conv.channels_innermost ? TermAxes{c, s, r} : TermAxes{s, r, c};
}

struct Term {
  std::int64_t c, r, s;
};
inline Term term_of(const Im2colConv& conv, std::int64_t t) {
  if (conv.channels_innermost)
    return {t % conv.group_c, t / (conv.group_c * conv.s), t / conv.group_c % conv.s};
  return {t / (conv.s * conv.r), t / conv.s % conv.r, t % conv.s};
}

/// Fills patches[t][column] for the terms [term, term + count).
template <class Stored, class T>
inline void gather(const Im2colConv& conv, const Im2colBlock& block, const ColumnRun* runs,
                   std::int64_t run_count, std::int64_t term, std::int64_t count, T* patches) {
  const Stored* x = static_cast<const Stored*>(conv.x) + block.group * conv.group_c * conv.x_c;
  for (std::int64_t t = term; t < term + count; ++t) {
    const auto [c, r, s] = term_of(conv, t);
    const std::int64_t down = r * conv.dilation.h, right = s * conv.dilation.w;
    const std::int64_t tap = c * conv.x_c + down * conv.x_h + right * conv.x_w;
    const Inside row = inside(conv, right - conv.left);
    for (std::int64_t i = 0; i < run_count; ++i) {
      const ColumnRun& run = runs[i];
      const bool in_image = run.h + down >= 0 && run.h + down < conv.h;
      const std::int64_t begin = in_image ? clamp(row.begin - run.q, 0, run.count) : run.count;
      const std::int64_t end = in_image ? clamp(row.end - run.q, begin, run.count) : run.count;
      for (std::int64_t j = 0; j < begin; ++j) patches[j] = 0;
      if (begin < end)
        load_row(x + (run.x + tap + begin * conv.x_q), conv.x_q, end - begin, patches + begin);
      for (std::int64_t j = end; j < run.count; ++j) patches[j] = 0;
      patches += run.count;
    }
  }
}

/// Fills filters[i][t] of the channels [k, k + k_count) and the terms [term, term + count).
template <class Stored, class T>
inline void load_filters(const Im2colConv& conv, std::int64_t k, std::int64_t k_count,
                         std::int64_t term, std::int64_t count, T* filters) {
  const Stored* w = static_cast<const Stored*>(conv.filters);
  const auto [inner, middle, outer] = term_axes(conv);
  // Evenly spaced terms are one row; otherwise those of the innermost axis are one.
  const bool even =
      middle.step == inner.count * inner.step && outer.step == middle.count * middle.step;
  const std::int64_t row_length = even ? outer.count * middle.count * inner.count : inner.count;
  for (std::int64_t i = k; i < k + k_count; ++i)
    for (std::int64_t t = term; t < term + count;) {
      const std::int64_t row = t / row_length, in_row = t % row_length;
      const std::int64_t length = lesser(row_length - in_row, term + count - t);
      const std::int64_t offset =
          row / middle.count * outer.step + row % middle.count * middle.step;
      load_row(w + (i * conv.w_k + offset + in_row * inner.step), inner.step, length, filters);
      filters += length;
      t += length;
    }
}

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
template <class T>
using MatrixMap = Eigen::Map<Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;
template <class T>
using ConstMatrixMap = Eigen::Map<const Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;

/// Where a product packs its operands, and in what pieces. By itself Eigen takes the stack or the
/// heap: a thread's stack may be small, and a launch takes nothing of the heap.
template <class T>
class PackedOperands : public Eigen::internal::level3_blocking<T, T> {
 public:
  PackedOperands(const Im2colScratch<T>& scratch, Eigen::Index rows, Eigen::Index columns,
                 Eigen::Index depth) {
    this->m_blockA = scratch.packed_patches;
    this->m_blockB = scratch.packed_filters;
    this->m_mc = rows, this->m_nc = columns, this->m_kc = depth;
    Eigen::internal::computeProductBlockingSizes<T, T, 1>(this->m_kc, this->m_mc, this->m_nc,
                                                          Eigen::Index{1});
  }
};

template <class T>
using MatrixProduct =
    Eigen::internal::general_matrix_matrix_product<Eigen::Index, T, Eigen::ColMajor, false, T,
                                                   Eigen::ColMajor, false, Eigen::ColMajor
#if EIGEN_VERSION_AT_LEAST(3, 3, 90)
                                                   ,
                                                   1
#endif
                                                   >;

/// Adds sums[k][column] += sum over t of patches[t][column] filters[k][t], for the columns of the
/// block.
template <class T>
inline void multiply(const Im2colScratch<T>& scratch, const T* filters, std::int64_t filter_step,
                     T* to, std::int64_t columns, std::int64_t depth, std::int64_t k_count) {
  MatrixMap<T> sums(to, columns, k_count, Eigen::OuterStride<>(columns));
  const ConstMatrixMap<T> a(scratch.patches, columns, depth, Eigen::OuterStride<>(columns));
  const ConstMatrixMap<T> b(filters, depth, k_count, Eigen::OuterStride<>(filter_step));
  // Products of vectors, and of few elements, pack nothing.
  if (columns == 1 || k_count == 1 || columns + k_count + depth < 20) {
    sums.noalias() += a * b;
    return;
  }
  PackedOperands<T> operands(scratch, columns, k_count, depth);
  Eigen::internal::gemm_functor<T, Eigen::Index, MatrixProduct<T>, ConstMatrixMap<T>,
                                ConstMatrixMap<T>, MatrixMap<T>, PackedOperands<T>>(
      a, b, sums, T(1), operands)(0, columns, 0, k_count);
}

template <class Stored, class T>
inline void sum_stored(const Im2colConv& conv, const Im2colBlock& block,
                       const Im2colScratch<T>& scratch) {
  const std::int64_t run_count = cut_into_runs(conv, block, scratch.runs);
  std::fill_n(scratch.sums, block.k_count * block.columns, T(0));
  const std::int64_t end = block.term + block.term_count;
  for (std::int64_t term = block.term; term < end; term += scratch.depth) {
    const std::int64_t depth = lesser(end - term, scratch.depth);
    gather<Stored>(conv, block, scratch.runs, run_count, term, depth, scratch.patches);
    for (std::int64_t i = 0; i < block.k_count; i += scratch.k_product) {
      const std::int64_t k = block.group * conv.group_k + block.k + i;
      const std::int64_t k_count = lesser(block.k_count - i, scratch.k_product);
      const T* filters = scratch.filters;
      if (filters)
        load_filters<Stored>(conv, k, k_count, term, depth, scratch.filters);
      else
        filters = static_cast<const T*>(conv.filters) + (k * conv.w_k + term);
      multiply(scratch, filters, scratch.filters ? depth : conv.w_k,
               scratch.sums + i * block.columns, block.columns, depth, k_count);
    }
  }
}

/// Computes output `j` of a run by the definition, without the taps outside the image.
template <class Stored, class T>
inline T sum_without_padding(const Im2colConv& conv, std::int64_t group, std::int64_t k,
                             const ColumnRun& run, std::int64_t j) {
  const Stored* x = static_cast<const Stored*>(conv.x) + group * conv.group_c * conv.x_c;
  const std::int64_t first_tap = run.x + j * conv.x_q;
  const Stored* w = static_cast<const Stored*>(conv.filters) + k * conv.w_k;
  const std::int64_t first_column = (run.q + j) * conv.stride.w - conv.left;
  T sum = 0;
  for (std::int64_t c = 0; c < conv.group_c; ++c)
    for (std::int64_t r = 0; r < conv.r; ++r)
      for (std::int64_t s = 0; s < conv.s; ++s) {
        const std::int64_t down = r * conv.dilation.h, right = s * conv.dilation.w;
        const std::int64_t h = run.h + down, column = first_column + right;
        if (h < 0 || h >= conv.h || column < 0 || column >= conv.w) continue;
        const auto pixel = widen(x[first_tap + c * conv.x_c + down * conv.x_h + right * conv.x_w]);
        const auto weight = widen(w[c * conv.w_c + r * conv.w_r + s * conv.w_s]);
        sum += static_cast<T>(pixel) * static_cast<T>(weight);
      }
  return sum;
}

/// Whether all weights of a filter are finite: zeros of the padding then made no NaN.
template <class Stored, class T>
inline bool is_finite_filter(const Im2colConv& conv, std::int64_t k) {
  const Stored* w = static_cast<const Stored*>(conv.filters) + k * conv.w_k;
  T zero = 0;
  for (std::int64_t c = 0; c < conv.group_c; ++c)
    for (std::int64_t r = 0; r < conv.r; ++r)
      for (std::int64_t s = 0; s < conv.s; ++s)
        zero += T(0) * static_cast<T>(widen(w[c * conv.w_c + r * conv.w_r + s * conv.w_s]));
  return zero == 0;
}

/// Computes the sums that are NaN once more, without the taps in the padding. In the product these
/// taps are zeros, and 0 * Inf is NaN, where they shall contribute nothing. A NaN stays in a sum,
/// so no other sum is wrong, and those of finite filters are what the definition says too.
template <class Stored, class T>
inline void sum_again_where_nan(const Im2colConv& conv, const Im2colBlock& block, std::int64_t k,
                                const ColumnRun* runs, std::int64_t run_count, T* sums) {
  bool any = false;
  for (std::int64_t j = 0; j < block.columns; ++j) any |= sums[j] != sums[j];
  if (!any || is_finite_filter<Stored, T>(conv, k)) return;
  for (const ColumnRun* run = runs; run < runs + run_count; ++run)
    for (std::int64_t j = 0; j < run->count; ++j, ++sums)
      if (*sums != *sums) *sums = sum_without_padding<Stored, T>(conv, block.group, k, *run, j);
}

template <class Stored, class T>
inline void store_stored(const Im2colConv& conv, const Im2colBlock& block,
                         const Im2colScratch<T>& scratch) {
  const std::int64_t run_count = cut_into_runs(conv, block, scratch.runs);
  const std::int64_t first_k = block.group * conv.group_k + block.k;
  T* sums = scratch.sums;
  for (std::int64_t k = first_k; k < first_k + block.k_count; ++k) {
    if (conv.padded) sum_again_where_nan<Stored>(conv, block, k, scratch.runs, run_count, sums);
    if (conv.bias) {
      const T bias = static_cast<T>(widen(static_cast<const Stored*>(conv.bias)[k]));
      for (std::int64_t j = 0; j < block.columns; ++j) sums[j] += bias;
    }
    if (conv.relu)
      for (std::int64_t j = 0; j < block.columns; ++j) sums[j] = sums[j] < 0 ? T(0) : sums[j];
    Stored* y = static_cast<Stored*>(conv.y) + k * conv.y_k;
    for (const ColumnRun* run = scratch.runs; run < scratch.runs + run_count; ++run) {
      store_row(sums, run->count, y + run->y, conv.y_q);
      sums += run->count;
    }
  }
}

template <class T>
void sum(const Im2colConv& conv, const Im2colBlock& block, const Im2colScratch<T>& scratch) {
  with_type(conv.dtype, [&](auto stored) { sum_stored<decltype(stored)>(conv, block, scratch); });
}

template <class T>
void store(const Im2colConv& conv, const Im2colBlock& block, const Im2colScratch<T>& scratch) {
  with_type(conv.dtype, [&](auto stored) { store_stored<decltype(stored)>(conv, block, scratch); });
}

constexpr Im2colKernelSet kernels_here{{&sum<float>, &store<float>},
                                       {&sum<double>, &store<double>}};

}  // namespace
}  // namespace plumb
