// The wide kernel's sources compiled for the host, in each arithmetic.
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "cuda_kernels/wide/wide_entry.cuh"
#include "guarded_memory.hpp"
#include "launch_of.hpp"
#include "wide_run.hpp"

namespace plumb_test::emulation {
namespace {

using namespace plumb;
using namespace plumb::cuda;

template <class Arithmetic, WideFault fault>
void convolve(const WideRun& run, const Memory& filters, const Memory& workspace) {
  DeviceInfo device;
  device.units = 3;  // blocks go through several tiles
  const ConvLaunch call = launch_of(run, device);
  const WideCall tensors{
      .x = run.x, .filters = filters.begin(), .y = run.y, .workspace = workspace.begin()};
  const Epilogue<typename Arithmetic::Stored> epilogue(call);
  const auto launch = [&]<class Of>(const WideParams<Of>& params, bool early) {
    bool found = false;
    const auto one = [&]<int shape>() {
      if constexpr (has_wide_shape(Of::host, Of::across, shape)) {
        if ((Of::across ? *run.plan.across : run.plan.tiles).shape != shape) return;
        found = true;
        launch_tiles<Of, shape, fault>(params, early, device, nullptr);
      }
    };
    one.template operator()<emulated_shapes[0]>();
    one.template operator()<emulated_shapes[1]>();
    one.template operator()<emulated_shapes[2]>();
    one.template operator()<emulated_shapes[3]>();
    if (!found) throw std::logic_error("tiles that are not emulated");
  };
  using Stored = typename Arithmetic::Stored;
  if constexpr (!Arithmetic::host.scales())
    if (launch_wide_across<WideArithmetic<Stored, Stored, Arithmetic::products, true>>(
            run.problem, run.plan, tensors, epilogue, launch))
      return;
  launch_wide<Arithmetic>(run.problem, run.plan, tensors, epilogue, nullptr, launch);
}

template <class Arithmetic, WideFault fault>
void run_with(const WideRun& run) {
  const Memory filters(run.plan.filters.bytes()), workspace(run.plan.workspace.bytes);
  pack_wide_filters<Arithmetic, fault>(run.problem, run.plan.filters, run.w, filters.begin(),
                                       nullptr);
  convolve<Arithmetic, fault>(run, filters, workspace);
  filters.contents(), workspace.contents();
}

/// Mistakes are compiled in the arithmetics where they show: those of three products.
template <class Arithmetic>
void run_in(const WideRun& run) {
  if constexpr (Arithmetic::splits_in_registers) switch (run.fault) {
      case EmulatedFault::wrong_swizzle: return run_with<Arithmetic, WideFault::wrong_swizzle>(run);
      case EmulatedFault::stale_stage: return run_with<Arithmetic, WideFault::stale_stage>(run);
      case EmulatedFault::stale_fragment:
        return run_with<Arithmetic, WideFault::stale_fragment>(run);
      case EmulatedFault::lost_low: return run_with<Arithmetic, WideFault::lost_low>(run);
      case EmulatedFault::swapped_terms: return run_with<Arithmetic, WideFault::swapped_terms>(run);
      case EmulatedFault::none: return run_with<Arithmetic, WideFault::none>(run);
      default: break;
    }
  if constexpr (Arithmetic::splits_in_memory) switch (run.fault) {
      case EmulatedFault::wrong_swizzle: return run_with<Arithmetic, WideFault::wrong_swizzle>(run);
      case EmulatedFault::stale_stage: return run_with<Arithmetic, WideFault::stale_stage>(run);
      case EmulatedFault::lost_split: return run_with<Arithmetic, WideFault::lost_split>(run);
      case EmulatedFault::low_twice: return run_with<Arithmetic, WideFault::low_twice>(run);
      case EmulatedFault::wrong_group: return run_with<Arithmetic, WideFault::wrong_group>(run);
      case EmulatedFault::wrong_term: return run_with<Arithmetic, WideFault::wrong_term>(run);
      case EmulatedFault::kept_small: return run_with<Arithmetic, WideFault::kept_small>(run);
      default: break;
    }
  if (run.fault != EmulatedFault::none) throw std::logic_error("a mistake that is not compiled");
  run_with<Arithmetic, WideFault::none>(run);
}

/// Calls `f.operator()<Arithmetic>()` for the plan's.
template <class F>
void with_arithmetic(const WideClass& of, const F& f) {
  if (of.splits_in_memory()) return f.template operator()<WideFp16x3>();
  if (of.splits_in_registers()) return f.template operator()<WideTf32x3>();
  switch (of.stored) {
    case DType::f16: return f.template operator()<WideFp16>();
    case DType::bf16: return f.template operator()<WideBf16>();
    case DType::f32: return f.template operator()<WideTf32>();
    case DType::f64: break;
  }
  throw std::logic_error("no arithmetic");
}

}  // namespace

void run_wide(const WideRun& run) {
  with_arithmetic(run.plan.filters.of, [&]<class Arithmetic>() { run_in<Arithmetic>(run); });
}

std::vector<char> packed_filters(const WideRun& run) {
  const Memory filters(run.plan.filters.bytes());
  with_arithmetic(run.plan.filters.of, [&]<class Arithmetic>() {
    pack_wide_filters<Arithmetic>(run.problem, run.plan.filters, run.w, filters.begin(), nullptr);
  });
  return filters.contents();
}

std::vector<char> repacked_input(const WideRun& run) {
  const Memory workspace(run.plan.workspace.bytes);
  with_arithmetic(run.plan.filters.of, [&]<class Arithmetic>() {
    DeviceInfo device;
    auto params = wide_params<Arithmetic>(
        run.problem, run.plan, run.plan.tiles,
        {.x = run.x, .filters = nullptr, .y = run.y, .workspace = workspace.begin()},
        Epilogue<typename Arithmetic::Stored>(launch_of(run, device)));
    repack(params, run.problem, run.plan, run.plan.tiles, workspace.begin(), nullptr);
  });
  return workspace.contents();
}

}  // namespace plumb_test::emulation
