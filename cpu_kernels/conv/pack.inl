// Filters are packed as [term][filter], the order in which the micro-kernel reads a run's filters.
#pragma once

#include <type_traits>

#include "cpu_kernels/conv/conv_block.hpp"
#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_kernels/primitives/transpose.inl"

namespace plumb {
namespace {

template <class Stored, class Real>
void pack_stored(const ConvShape& conv, std::int64_t group, FilterRange range, Real* packed) {
  const auto* const filters =
      static_cast<const Stored*>(conv.filters) + (group * conv.group_k + range.k) * conv.w_k;
  const bool dense = conv.w_s == 1 && conv.w_r == conv.s && conv.w_c == conv.r * conv.s;
  if constexpr (std::is_same_v<Stored, float> && std::is_same_v<Real, float>)
    if (dense) return transpose(filters, conv.w_k, range.count, conv.terms(), packed, range.count);
  for (std::int64_t term = 0; term < conv.terms(); ++term) {
    const std::int64_t s = term % conv.s, r = term / conv.s % conv.r, c = term / conv.s / conv.r;
    const Stored* const from = filters + c * conv.w_c + r * conv.w_r + s * conv.w_s;
    for (std::int64_t i = 0; i < range.count; ++i)
      packed[term * range.count + i] = static_cast<Real>(widen(from[i * conv.w_k]));
  }
}

}  // namespace
}  // namespace plumb
