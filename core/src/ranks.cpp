#include "ranks.hpp"

#include <cstdint>

namespace plumb {
namespace {

/// Puts an extent of 1 in front of dimension `at`. Its stride, which has no say, is what a dense
/// tensor has there.
void insert(Extents& extents, Strides& strides, int at) {
  const Extents old_extents = extents;
  const Strides old_strides = strides;
  const int rank = old_extents.rank() + 1;
  std::int64_t new_extents[Dims::max_rank] = {}, new_strides[Dims::max_rank] = {};
  for (int i = 0; i < rank; ++i) {
    const int from = i < at ? i : i - 1;
    new_extents[i] = i == at ? 1 : old_extents[from];
    // A wrong product has no effect either: strides along extents of 1 are never used.
    new_strides[i] = i == at
                         ? static_cast<std::int64_t>(static_cast<std::uint64_t>(old_extents[at]) *
                                                     static_cast<std::uint64_t>(old_strides[at]))
                         : old_strides[from];
  }
  extents = Extents(new_extents, static_cast<std::size_t>(rank));
  strides = Strides(new_strides, static_cast<std::size_t>(rank));
}

Dims without(const Dims& dims, int at) {
  std::int64_t kept[Dims::max_rank] = {};
  for (int i = 0, to = 0; i < dims.rank(); ++i)
    if (i != at) kept[to++] = dims[i];
  return Dims(kept, static_cast<std::size_t>(dims.rank() - 1));
}

constexpr int first_axis = 2;  ///< behind N and C

template <class View>
View view_in(const View& view, int rank) {
  Extents extents = view.extents();
  Strides strides = view.strides();
  if (extents.rank() == 3) insert(extents, strides, first_axis);
  if (extents.rank() == 4 && rank == 5) insert(extents, strides, first_axis);
  if (extents.rank() == 5 && rank == 4 && extents[first_axis] == 1) {
    extents = without(extents, first_axis);
    strides = without(strides, first_axis);
  }
  return View(view.data(), view.dtype(), extents, view.device(), strides);
}

}  // namespace

Strides strides_of_rank(const Strides& strides, const Extents& extents) {
  if (extents.rank() != 4) return strides;
  if (strides.rank() == 5) return without(strides, first_axis);
  if (strides.rank() != 3 || extents[first_axis] != 1) return strides;
  Extents line = without(extents, first_axis);
  Strides converted = strides;
  insert(line, converted, first_axis);
  return converted;
}

ConstTensorView view_of_rank(const ConstTensorView& view, const Extents& extents) {
  if (view.rank() == extents.rank() || view.rank() < 3 || view.rank() > 5) return view;
  const ConstTensorView converted = view_in(view, extents.rank());
  return converted.extents() == extents ? converted : view;
}

ConstTensorView with_all_axes(const ConstTensorView& view) { return view_in(view, 5); }
TensorView with_all_axes(const TensorView& view) { return view_in(view, 5); }

}  // namespace plumb
