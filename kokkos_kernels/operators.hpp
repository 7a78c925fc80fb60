// The operators around convolution, in Kokkos: put on an instance of an execution space, views with
// any strides, arguments checked by core.
#pragma once

#include "kokkos_kernels/spaces.hpp"
#include "plumb/backend.hpp"
#include "plumb/tensor.hpp"

namespace plumb::kokkos {

void pad(const PadLaunch& call, const Instance& instance);
void join_phases(const PhasesLaunch& call, const Instance& instance);
void add(const AddLaunch& call, const Instance& instance);
void sum_channels(const SumLaunch& call, const Instance& instance);
void relu_backward(const ConstTensorView& y, const ConstTensorView& dy, const TensorView& dx,
                   const Instance& instance);
void pool(const PoolLaunch& call, const Instance& instance);
void relu(const ConstTensorView& x, const TensorView& y, const Instance& instance);
void softmax(const ConstTensorView& x, const TensorView& y, const Instance& instance);
void resize_bilinear(const ConstTensorView& x, const TensorView& y, const Instance& instance);
void pool_backward(const PoolBackwardLaunch& call, const Instance& instance);
void resize_bilinear_backward(const ConstTensorView& dy, const TensorView& dx,
                              const Instance& instance);
void softmax_cross_entropy(const CrossEntropyLaunch& call, const Instance& instance);
void sgd_step(const SgdLaunch& call, const Instance& instance);

/// Runs for a second or so. Host memory and device memory are what the space makes its own of.
DeviceCeilings measure_ceilings(const Instance& instance, std::size_t free_bytes);

/// What operators of an element a work item go over.
template <class Space>
Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>> all_elements(const Space& space,
                                                                         const Extents& extents) {
  return {space, 0, element_count(extents)};
}

}  // namespace plumb::kokkos
