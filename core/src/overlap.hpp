// Which memory tensors share: an output with itself, and an output with what is read beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "plumb/conv.hpp"
#include "plumb/tensor.hpp"
#include "plumb/types.hpp"

namespace plumb {

/// True where two indices may share memory. Stricter than need be for interleaved strides that no
/// layout uses. The strides have passed check_layout().
bool overlaps_itself(const Extents& extents, const Strides& strides);

/// The bytes that elements reach over, counted from the element of index zero; empty for none.
struct ByteRange {
  std::int64_t begin = 0, end = 0;
};
/// Of strides that have passed check_layout(): within 2^62 of zero.
ByteRange byte_range(DType dtype, const Extents& extents, const Strides& strides);

/// Whether ranges of memory meet. Addresses are compared as numbers, which those of one device are.
inline bool meet(const void* a, const ByteRange& of_a, const void* b, const ByteRange& of_b) {
  const auto at = [](const void* data,
                     std::int64_t offset) {  // wraps, where addresses are no one's
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data) +
                                     static_cast<std::uintptr_t>(offset));
  };
  return of_a.begin != of_a.end && of_b.begin != of_b.end && at(a, of_a.begin) < at(b, of_b.end) &&
         at(b, of_b.begin) < at(a, of_a.end);
}
inline bool meet(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  return meet(a, {0, static_cast<std::int64_t>(a_bytes)}, b,
              {0, static_cast<std::int64_t>(b_bytes)});
}

/// Whether an element of one shares a byte with an element of the other. Views whose ranges meet
/// and that interleave are told apart, unless that would take long: then they count as overlapping.
/// The strides of both have passed check_layout().
bool overlap(const ConstTensorView& a, const ConstTensorView& b);

/// Whether the two address the same elements in the same order.
bool same_memory(const ConstTensorView& a, const ConstTensorView& b);

/// Error (invalid_argument) where an output overlaps an input. `input` is its name.
void refuse_overlap(std::string_view operation, std::string_view input, const ConstTensorView& x,
                    const ConstTensorView& y, std::string_view output = "y");

/// The ranges of a convolution's tensors by their parts, so that a launch compares numbers and no
/// more. A mask's come with it, and a gradient of the bias has the bias's.
struct ConvRanges {
  ByteRange x, w, bias, y;
};
/// Of a problem that has passed check().
ConvRanges ranges_of(const ConvProblem& problem);

/// The range of a mask; empty for none.
inline ByteRange range_of_mask(const ConstTensorView& mask) {
  return mask.empty() ? ByteRange{} : byte_range(mask.dtype(), mask.extents(), mask.strides());
}

/// Whether the range of y, or of the bias's gradient, meets one that it must not, and whether the
/// workspace's meets any. An empty tensor lies at null, where nothing else does.
inline bool output_meets_input(const ConvTensors& tensors, const ConvRanges& ranges) {
  const ByteRange mask = range_of_mask(tensors.mask);
  const auto meets_input = [&](const void* output, const ByteRange& range) {
    return meet(tensors.x.data(), ranges.x, output, range) ||
           meet(tensors.w.data(), ranges.w, output, range) ||
           meet(tensors.bias.data(), ranges.bias, output, range) ||
           meet(tensors.mask.data(), mask, output, range);
  };
  const void *const y = tensors.y.data(), *const db = tensors.db.data();
  if (meets_input(y, ranges.y)) return true;
  return db && (meets_input(db, ranges.bias) || meet(db, ranges.bias, y, ranges.y));
}
inline bool workspace_meets_tensor(const ConvTensors& tensors, const ConvRanges& ranges,
                                   const void* workspace, std::size_t bytes) {
  const ByteRange all{.begin = 0, .end = static_cast<std::int64_t>(bytes)};
  return meet(tensors.x.data(), ranges.x, workspace, all) ||
         meet(tensors.w.data(), ranges.w, workspace, all) ||
         meet(tensors.bias.data(), ranges.bias, workspace, all) ||
         meet(tensors.y.data(), ranges.y, workspace, all) ||
         meet(tensors.mask.data(), range_of_mask(tensors.mask), workspace, all) ||
         meet(tensors.db.data(), ranges.bias, workspace, all);
}

/// Error (invalid_argument) where y overlaps x, w or bias; an empty one is passed over.
void refuse_overlaps(std::string_view operation, const ConvProblem& problem,
                     const ConvTensors& tensors);
/// Error (invalid_argument) where the workspace overlaps one of the tensors; likewise.
void refuse_workspace_overlaps(std::string_view operation, const ConvProblem& problem,
                               const ConvTensors& tensors, const void* workspace,
                               std::size_t bytes);

}  // namespace plumb
