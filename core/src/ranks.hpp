// Images have one to three axes; a problem's tensors have rank 4, or 5 where it has a depth. Axes
// of extent 1 come and go here, so that views are taken in the rank that they have.
#pragma once

#include "plumb/tensor.hpp"

namespace plumb {

/// The strides of a tensor of rank 3 to 5 in the rank of `extents`, 4 or 5: an H of extent 1 is put
/// before W, a D of extent 1 goes or comes before H. Unchanged where that does not fit.
Strides strides_of_rank(const Strides& strides, const Extents& extents);

/// The same view in the rank of `extents`, where its extents are those but for axes of extent 1;
/// otherwise unchanged.
ConstTensorView view_of_rank(const ConstTensorView& view, const Extents& extents);

/// A view of rank 3, 4 or 5 in rank 5, N C D H W.
ConstTensorView with_all_axes(const ConstTensorView& view);
TensorView with_all_axes(const TensorView& view);

}  // namespace plumb
