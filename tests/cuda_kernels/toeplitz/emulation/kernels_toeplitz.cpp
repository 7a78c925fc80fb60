// The Toeplitz kernel's sources compiled for the host, with three products and with one.
#include <stdexcept>
#include <vector>

#include "cuda_kernels/toeplitz/toeplitz_launch.cuh"
#include "toeplitz_run.hpp"

namespace plumb_test::emulation {
namespace {

using namespace plumb;
using namespace plumb::cuda;

template <int products, ToeplitzFault fault = ToeplitzFault::none>
void run_with(const ToeplitzRun& run) {
  constexpr std::size_t alignment = 256, guard = 64;
  std::vector<char> memory(run.plan.packed_bytes() + alignment + guard, static_cast<char>(0xff));
  char* filters = memory.data();
  while (reinterpret_cast<std::uintptr_t>(filters) % alignment != 0) ++filters;
  DeviceInfo device;
  device.units = run.blocks;
  const auto plan = planned(run.plan);
  pack_toeplitz_filters<products>({.problem = run.problem,
                                   .device = device,
                                   .w = run.w,
                                   .filters = filters,
                                   .native_queue = nullptr},
                                  plan.get());
  for (std::size_t i = 0; i < guard; ++i)
    if (filters[run.plan.packed_bytes() + i] != static_cast<char>(0xff))
      throw std::runtime_error("a write behind the packed filters");
  launch_toeplitz<products, fault>({.problem = run.problem,
                                    .device = device,
                                    .x = run.x,
                                    .w = nullptr,
                                    .filters = filters,
                                    .bias = run.bias,
                                    .y = run.y,
                                    .activation = run.relu ? Activation::relu : Activation::none,
                                    .accumulate = run.accumulate,
                                    .workspace = nullptr,
                                    .native_queue = nullptr},
                                   plan.get());
}

}  // namespace

void run_toeplitz(const ToeplitzRun& run) {
  if (run.plan.products() == 1) {
    if (run.fault != EmulatedFault::none) throw std::logic_error("a mistake that is not compiled");
    return run_with<1>(run);
  }
  switch (run.fault) {
    case EmulatedFault::none: return run_with<3>(run);
    case EmulatedFault::wrong_wrap: return run_with<3, ToeplitzFault::wrong_wrap>(run);
    case EmulatedFault::lost_low: return run_with<3, ToeplitzFault::lost_low>(run);
    case EmulatedFault::dropped_pass: return run_with<3, ToeplitzFault::dropped_pass>(run);
    case EmulatedFault::stale_scale: return run_with<3, ToeplitzFault::stale_scale>(run);
    case EmulatedFault::kept_small: return run_with<3, ToeplitzFault::kept_small>(run);
    case EmulatedFault::stale_plane: return run_with<3, ToeplitzFault::stale_plane>(run);
  }
}

}  // namespace plumb_test::emulation
