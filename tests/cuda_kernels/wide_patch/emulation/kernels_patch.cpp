// The patch kernel's sources compiled for the host, in each arithmetic.
#include <stdexcept>

#include "cuda_kernels/wide/emulation/guarded_memory.hpp"
#include "cuda_kernels/wide/emulation/launch_of.hpp"
#include "cuda_kernels/wide_patch/wide_patch_entry.cuh"
#include "patch_run.hpp"

namespace plumb_test::emulation {
namespace {

using namespace plumb;
using namespace plumb::cuda;

template <class Arithmetic, PatchFault fault>
void run_with(const PatchRun& run) {
  const Memory filters(run.plan.filters.bytes()), workspace(run.plan.workspace_bytes());
  pack_wide_filters<Arithmetic>(run.problem, run.plan.filters, run.w, filters.begin(), nullptr);
  DeviceInfo device;
  device.units = 3;  // blocks go through several tiles
  const ConvLaunch call = launch_of(run, device);
  // Planes of f32 are no operands.
  using Across = std::conditional_t<
      sizeof(typename Arithmetic::Operand) == 2,
      WideArithmetic<typename Arithmetic::Stored, typename Arithmetic::Operand, 1, true>,
      Arithmetic>;
  launch_planned_patches<Arithmetic, Across, fault>(
      run.problem, run.plan,
      {.x = run.x, .filters = filters.begin(), .y = run.y, .workspace = workspace.begin()},
      Epilogue<typename Arithmetic::Stored>(call), device, nullptr);
  filters.contents(), workspace.contents();
}

/// Mistakes are compiled in one arithmetic.
template <class Arithmetic>
void run_in(const PatchRun& run) {
  if constexpr (std::is_same_v<Arithmetic, WideFp16>) switch (run.fault) {
      case EmulatedPatchFault::wrong_shift:
        return run_with<Arithmetic, PatchFault::wrong_shift>(run);
      case EmulatedPatchFault::stale_patch:
        return run_with<Arithmetic, PatchFault::stale_patch>(run);
      case EmulatedPatchFault::lost_stage: return run_with<Arithmetic, PatchFault::lost_stage>(run);
      case EmulatedPatchFault::missed_column:
        return run_with<Arithmetic, PatchFault::missed_column>(run);
      case EmulatedPatchFault::no_zeros: return run_with<Arithmetic, PatchFault::no_zeros>(run);
      case EmulatedPatchFault::lost_phase: return run_with<Arithmetic, PatchFault::lost_phase>(run);
      case EmulatedPatchFault::other_phase:
        return run_with<Arithmetic, PatchFault::other_phase>(run);
      case EmulatedPatchFault::wrong_begin:
        return run_with<Arithmetic, PatchFault::wrong_begin>(run);
      case EmulatedPatchFault::none: break;
    }
  if (run.fault != EmulatedPatchFault::none)
    throw std::logic_error("a mistake that is not compiled");
  run_with<Arithmetic, PatchFault::none>(run);
}

}  // namespace

void run_patch(const PatchRun& run) {
  switch (run.plan.filters.of.stored) {
    case DType::f16: return run_in<WideFp16>(run);
    case DType::bf16: return run_in<WideBf16>(run);
    case DType::f32: return run_in<WideTf32>(run);
    case DType::f64: break;
  }
  throw std::logic_error("no arithmetic");
}

}  // namespace plumb_test::emulation
