// The parts that the module is bound in.
#pragma once

#include <nanobind/nanobind.h>

namespace plumb::python {

void bind_convolutions(nanobind::module_& module);  ///< conv and its gradients
void bind_plans(nanobind::module_& module);         ///< Plan and PackedFilters
void bind_operators(nanobind::module_& module);     ///< the operators around convolution
void bind_filters(nanobind::module_& module);       ///< what plumb.ndimage calls
void bind_library(nanobind::module_& module);       ///< devices, validate, tune
void bind_jax(nanobind::module_& module);           ///< handlers for XLA, where they are built

}  // namespace plumb::python
