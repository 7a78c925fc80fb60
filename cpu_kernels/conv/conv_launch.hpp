// A ConvLaunch becomes what the kernels see: the shape, the functions of the device's instruction
// set, packed filters, the bias.
#pragma once

#include <string_view>

#include "cpu_kernels/conv/conv_block.hpp"
#include "plumb/conv.hpp"

namespace plumb {

ConvShape shape_of(const ConvLaunch& launch);

/// Returns the functions that were compiled for the device's instruction set.
template <class Real>
const ConvKernels<Real>& conv_kernels(const DeviceInfo& device);
template <class Real>
const FieldKernels<Real>& field_kernels(const DeviceInfo& device);
template <class Real>
const WeightsKernels<Real>& weights_kernels(const DeviceInfo& device);

template <class Real>
const ChannelsKernels<Real>& channels_kernels(const DeviceInfo& device);
template <class Real>
const ImagesKernels<Real>& images_kernels(const DeviceInfo& device);

/// Says whether the device's instruction set has fused multiply-adds (ConvAlgorithm::reproduces).
Support multiplies_and_adds_at_once(const ConvProblem& problem, const DeviceInfo& device);

/// Returns the range from the lowest to the highest element of a tensor without gaps, whatever the
/// order and signs of its strides. A tensor with gaps has an empty range: somebody else may be
/// writing what lies in them, or no memory may be there.
ReadableRange readable_range(const Extents& extents, const Strides& strides);

/// Says whether y can hold the sums while they grow: its elements are Reals, and those of a row are
/// neighbours.
template <class Real>
bool sums_fit_y(const ConvShape& conv);

/// Says whether Real holds what is stored without rounding, and the direction is forward.
template <class Real>
Support forward_in(const ConvProblem& problem);

/// Returns the refusal of a problem whose `parts` take more than a workspace has.
PlanResult exceeds_workspace(std::string_view parts);

/// Returns all filters as Reals in the order in which runs read them: [group][run of
/// filters][term][filter].
template <class Real>
std::size_t packed_bytes(const ConvProblem& problem, const DeviceInfo& device);
template <class Real>
void pack_filters(const FilterPacking& packing);

/// Writes the bias of all `count` filters to `bias`, as Reals.
template <class Real>
void widen_bias(const ConvShape& conv, std::int64_t count, Real* bias);

}  // namespace plumb
