// The sources of grouped/ compiled for the host, for all stored types.
#include <stdexcept>
#include <vector>

#include "cuda_kernels/grouped/grouped_entry.cuh"
#include "cuda_kernels/wide/emulation/guarded_memory.hpp"
#include "grouped_run.hpp"

namespace plumb_test::emulation {
namespace {

using namespace plumb;
using namespace plumb::cuda;

template <class Stored, GroupedFault fault>
void run_with(const GroupedRun& run) {
  const Memory filters(static_cast<std::size_t>(run.plan.filters.bytes()));
  pack_grouped_filters<Stored>(run.problem, run.plan.filters, run.w, filters.begin(), nullptr);
  const DeviceInfo device;
  launch_grouped<Stored, fault>(run.plan,
                                {.problem = run.problem,
                                 .device = device,
                                 .x = run.x,
                                 .w = nullptr,
                                 .filters = filters.begin(),
                                 .bias = run.bias,
                                 .y = run.y,
                                 .activation = run.relu ? Activation::relu : Activation::none,
                                 .accumulate = run.accumulate,
                                 .workspace = nullptr,
                                 .native_queue = nullptr});
  filters.contents();
}

}  // namespace

std::vector<char> packed_grouped(const ConvProblem& problem, const GroupedPlan& plan,
                                 const void* w) {
  const Memory filters(static_cast<std::size_t>(plan.filters.bytes()));
  pack_grouped_filters<__half>(problem, plan.filters, w, filters.begin(), nullptr);
  return filters.contents();
}

void run_grouped(const GroupedRun& run) {
  using enum GroupedFault;
  if (run.problem.dtype == DType::f32 && run.fault == unrounded)
    return run_with<float, unrounded>(run);
  if (run.problem.dtype != DType::f16) {
    if (run.fault != none) throw std::logic_error("a mistake that is not compiled");
    return run.problem.dtype == DType::f32 ? run_with<float, none>(run)
                                           : run_with<__nv_bfloat16, none>(run);
  }
  switch (run.fault) {
    case none: return run_with<__half, none>(run);
    case stale_patch: return run_with<__half, stale_patch>(run);
    case wrong_tap: return run_with<__half, wrong_tap>(run);
    case wrong_unit: return run_with<__half, wrong_unit>(run);
    case padding_of_ones: return run_with<__half, padding_of_ones>(run);
    case wrong_row: return run_with<__half, wrong_row>(run);
    case lost_strip: return run_with<__half, lost_strip>(run);
    case exchanged_terms: return run_with<__half, exchanged_terms>(run);
    case unmasked: return run_with<__half, unmasked>(run);
    case unrounded: throw std::logic_error("a mistake of f32");
  }
}

}  // namespace plumb_test::emulation
