// The sources of wide_mma/ compiled for the host, in each arithmetic.
#include <stdexcept>

#include "cuda_kernels/wide/emulation/guarded_memory.hpp"
#include "cuda_kernels/wide/emulation/launch_of.hpp"
#include "cuda_kernels/wide_mma/wide_mma_entry.cuh"
#include "wide_mma_run.hpp"

namespace plumb_test::emulation {
namespace {

using namespace plumb;
using namespace plumb::cuda;

template <class Arithmetic, WideMmaFault fault>
void run_with(const WideMmaRun& run) {
  const Memory filters(run.plan.filters.bytes()), workspace(run.plan.workspace_bytes);
  pack_wide_filters<Arithmetic>(run.problem, run.plan.filters, run.w, filters.begin(), nullptr);
  const DeviceInfo device;
  const ConvLaunch call = launch_of(run, device);
  launch_wide_mma<Arithmetic, fault>(
      run.problem, run.plan,
      {.x = run.x, .filters = filters.begin(), .y = run.y, .workspace = workspace.begin()},
      Epilogue<typename Arithmetic::Stored>(call), nullptr);
  filters.contents(), workspace.contents();
}

template <class Arithmetic>
void run_with_fault(const WideMmaRun& run) {
  using enum WideMmaFault;
  switch (run.fault) {
    case none: return run_with<Arithmetic, none>(run);
    case stale_stage: return run_with<Arithmetic, stale_stage>(run);
    case early: return run_with<Arithmetic, early>(run);
    case wrong_swizzle: return run_with<Arithmetic, wrong_swizzle>(run);
    case wrong_tap: return run_with<Arithmetic, wrong_tap>(run);
    case lost_pixel: return run_with<Arithmetic, lost_pixel>(run);
    case lost_split: return run_with<Arithmetic, lost_split>(run);
    case unmasked: return run_with<Arithmetic, unmasked>(run);
  }
}

}  // namespace

void run_wide_mma(const WideMmaRun& run) {
  const WideClass& of = run.plan.filters.of;
  if (of == wide_class_fp16) return run_with_fault<WideFp16>(run);
  if (of == wide_class_fp64) return run_with_fault<WideFp64>(run);
  if (run.fault != WideMmaFault::none) throw std::logic_error("a mistake that is not compiled");
  if (of == wide_class_bf16) return run_with<WideBf16, WideMmaFault::none>(run);
  run_with<WideTf32, WideMmaFault::none>(run);
}

}  // namespace plumb_test::emulation
