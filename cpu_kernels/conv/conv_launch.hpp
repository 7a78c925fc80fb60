// A launch as the pieces of the CPU's convolutions see it.
#pragma once

#include "cpu_kernels/conv/conv_block.hpp"
#include "plumb/conv.hpp"

namespace plumb {

ConvShape shape_of(const ConvLaunch& launch);

/// What was compiled for the device's instruction set.
template <class Real>
const ConvKernels<Real>& conv_kernels(const DeviceInfo& device);

/// Whether the sums of a row can be formed in y itself: its elements are Reals, side by side.
template <class Real>
bool sums_fit_y(const ConvShape& conv);

/// Whether Real holds what is stored without rounding, and the direction is forward.
template <class Real>
Support forward_in(const ConvProblem& problem);

/// All filters as Reals in the order in which runs read them: [group][run of
/// filters][term][filter].
template <class Real>
std::size_t packed_bytes(const ConvProblem& problem, const DeviceInfo& device);
template <class Real>
void pack_filters(const FilterPacking& packing);

/// The bias of all `count` filters, as Reals.
template <class Real>
void widen_bias(const ConvShape& conv, std::int64_t count, Real* bias);

}  // namespace plumb
