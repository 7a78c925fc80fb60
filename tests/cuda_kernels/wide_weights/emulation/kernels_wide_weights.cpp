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
  if constexpr (Arithmetic::products == 3) {
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
      default: break;
    }
    if constexpr (Arithmetic::splits_in_memory) {
      if (run.mistake == WeightsMistake::wrong_stride)
        return with.template operator()<WideWeightsFault::wrong_stride>();
      if (run.mistake == WeightsMistake::low_twice)
        return with.template operator()<WideWeightsFault::low_twice>();
      if (run.mistake == WeightsMistake::lost_doubt)
        return with.template operator()<WideWeightsFault::lost_doubt>();
    } else {
      if (run.mistake == WeightsMistake::stale_fragment)
        return with.template operator()<WideWeightsFault::stale_fragment>();
      if (run.mistake == WeightsMistake::lost_low)
        return with.template operator()<WideWeightsFault::lost_low>();
      if (run.mistake == WeightsMistake::swapped_pixels)
        return with.template operator()<WideWeightsFault::swapped_pixels>();
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
    const int block = wide_weights_block(plan.of);
    const int row = static_cast<int>(i / columns % rows), column = static_cast<int>(i % columns),
              channel = column / block % plan.x.blocks * block + column % block;
    if (row < plan.groups().filters && channel < plan.groups().channels && sums[i] != sums[i])
      return true;
  }
  return false;
}

/// The most lanes that meet in a bank, where each lane reads `bytes` at its place: 128 bytes of the
/// lanes are read at once.
template <class Place>
int lanes_in_a_bank(int bytes, const Place& place) {
  constexpr int banks = 32;
  int most = 0;
  for (int first = 0; first < 32; first += 128 / bytes) {
    int lanes[banks] = {};
    for (int lane = first; lane < first + 128 / bytes; ++lane)
      for (int word = 0; word < bytes / 4; ++word)
        most = std::max(most, ++lanes[(place(lane) / 4 + word) % banks]);
  }
  return most;
}

template <bool across>
int most_in_a_bank() {
  int most = 0;
  for (int slice = 0; slice < 4; ++slice)
    for (int behind = 0; behind < 2; ++behind)
      for (int tile = 0; tile < 8; ++tile) {
        most = std::max(most, lanes_in_a_bank(across ? 4 : 8, [&](int lane) {
                          return WeightsElements<across>(lane).row(tile, 0, slice, behind);
                        }));
        most = std::max(most, lanes_in_a_bank(4, [&](int lane) {
                          return WeightsElements<across>(lane).column(tile, slice, behind);
                        }));
      }
  return most;
}

}  // namespace

int bank_conflicts(bool across) {
  return across ? most_in_a_bank<true>() : most_in_a_bank<false>();
}

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
  if (of.splits_in_registers())
    launch<WideTf32x3>(run, call, device);
  else if (weights_in_registers(of))
    launch<WideTf32>(run, call, device);
  else if (of.products == 3)
    launch<WideFp16x3>(run, call, device);
  else if (of.scales())
    launch<WideFp16Scaled>(run, call, device);
  else if (of.stored == DType::f16)
    launch<WideFp16>(run, call, device);
  else
    launch<WideBf16>(run, call, device);
  return !stores_directly(run.plan, call) && has_nan(run.plan, workspace.contents());
}

}  // namespace plumb_test::emulation
