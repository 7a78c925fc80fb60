// Images are put side by side, a lane of a vector for each, by functions that are compiled once for
// each instruction set, with internal linkage (primitives/vectors.inl says why).
#pragma once

#include <type_traits>

#include "cpu_kernels/conv/images_kernels.hpp"
#include "cpu_kernels/primitives/rows.hpp"
#include "cpu_kernels/primitives/transpose.inl"
#include "cpu_kernels/primitives/vectors.inl"

namespace plumb {
namespace {

template <class Stored, class Real>
void interleave_stored(const ImagesRow& row, Real* to) {
  const Stored* const from = static_cast<const Stored*>(row.from);
  if (row.images < lanes<Real>)
    for (std::int64_t column = 0; column < row.columns; ++column)
      *reinterpret_cast<Vector<Real>*>(to + column * lanes<Real>) = Vector<Real>{};
  if constexpr (std::is_same_v<Stored, float> && std::is_same_v<Real, float>)
    if (row.column_step == 1)
      return transpose(from, row.image_step, row.images, row.columns, to, lanes<Real>);
  for (std::int64_t column = 0; column < row.columns; ++column, to += lanes<Real>)
    for (std::int64_t image = 0; image < row.images; ++image)
      to[image] =
          static_cast<Real>(widen(from[image * row.image_step + column * row.column_step]));
}

template <class Real>
void interleave(const ImagesRow& row, Real* to) {
  with_stored<Real>(row.dtype,
                    [&](auto stored) { interleave_stored<decltype(stored)>(row, to); });
}

template <class Real>
constexpr ImagesKernels<Real> images_kernels_for{.lanes = lanes<Real>,
                                                 .interleave = &interleave<Real>};

}  // namespace
}  // namespace plumb
