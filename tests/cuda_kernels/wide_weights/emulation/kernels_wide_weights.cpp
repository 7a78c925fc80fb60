// The sources of wide_weights/ compiled for the host, in each arithmetic.
#include <cstring>
#include <stdexcept>
#include <vector>

#include "cuda_kernels/wide/emulation/guarded_memory.hpp"
#include "cuda_kernels/wide_weights/wide_weights_entry.cuh"
#include "weights_run.hpp"

namespace plumb_test::emulation {
namespace {

using namespace plumb;
using namespace plumb::cuda;

template <class Arithmetic>
void launch(const WideWeightsRun& run, const WideWeightsCall& call, const DeviceInfo& device) {
  if (run.mistake == WeightsMistake::none)
    return launch_planned_weights<Arithmetic>(run.plan, call, device, nullptr);
  if constexpr (Arithmetic::splits_operands) {
    if (run.plan.cut.shape != mistaken_shape) throw std::logic_error("a tile without mistakes");
    const auto with = [&]<WideWeightsFault fault>() {
      launch_wide_weights<Arithmetic, mistaken_shape, fault>(run.plan, call, device, nullptr);
    };
    switch (run.mistake) {
      case WeightsMistake::none: return;
      case WeightsMistake::lost_split:
        return with.template operator()<WideWeightsFault::lost_split>();
      case WeightsMistake::wrong_tap:
        return with.template operator()<WideWeightsFault::wrong_tap>();
      case WeightsMistake::stale_stage:
        return with.template operator()<WideWeightsFault::stale_stage>();
      case WeightsMistake::wrong_stride:
        return with.template operator()<WideWeightsFault::wrong_stride>();
      case WeightsMistake::low_twice:
        return with.template operator()<WideWeightsFault::low_twice>();
    }
  }
  throw std::logic_error("a mistake that is not compiled");
}

/// Of the sums that belong to a weight.
bool has_nan(const WideWeightsPlan& plan, const std::vector<char>& workspace) {
  const auto* const sums = reinterpret_cast<const float*>(workspace.data() + plan.sums);
  for (std::size_t i = 0; i < plan.sums_bytes() / sizeof(float); ++i) {
    const auto columns = static_cast<std::size_t>(plan.columns()),
               rows = static_cast<std::size_t>(plan.rows());
    const int row = static_cast<int>(i / columns % rows),
              channel = static_cast<int>(i % columns) / wide_weights_block % plan.x.blocks *
                            wide_weights_block +
                        static_cast<int>(i % wide_weights_block);
    if (row < plan.groups().filters && channel < plan.groups().channels && sums[i] != sums[i])
      return true;
  }
  return false;
}

}  // namespace

bool run_wide_weights(const WideWeightsRun& run) {
  const Memory workspace(run.plan.workspace_bytes);
  const WideWeightsCall call{.x = run.x,
                             .dy = run.dy,
                             .dw = run.dw,
                             .workspace = workspace.begin(),
                             .accumulate = run.accumulate};
  DeviceInfo device;
  device.units = 3;  // blocks go through several tiles
  const WideClass& of = run.plan.of;
  if (of.products == 3)
    launch<WideFp16x3>(run, call, device);
  else if (of.scales())
    launch<WideFp16Scaled>(run, call, device);
  else if (of.stored == DType::f16)
    launch<WideFp16>(run, call, device);
  else
    launch<WideBf16>(run, call, device);
  return has_nan(run.plan, workspace.contents());
}

}  // namespace plumb_test::emulation
