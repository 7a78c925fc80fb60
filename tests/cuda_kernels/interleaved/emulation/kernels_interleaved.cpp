// The interleaved kernels' sources compiled for the host.
#include <vector>

#include "cuda_kernels/conv/batch_slices.cu"
#include "cuda_kernels/interleaved/interleaved_kernel.cuh"
#include "interleaved_run.hpp"
#include "support/absent_device.hpp"

namespace plumb_test::emulation {
namespace {

using namespace plumb;
using namespace plumb::cuda;

template <class Scheme>
bool run_with(const InterleavedRun& run) {
  constexpr std::size_t alignment = 256;
  const InterleavedLayout& layout = run.layout;
  const auto dense_bytes = static_cast<std::size_t>(element_count(run.problem.w_extents())) *
                           sizeof(typename Scheme::Stored);
  std::vector<char> memory(layout.dense_at() + dense_bytes + alignment, static_cast<char>(0xff));
  char* filters = memory.data();
  while (reinterpret_cast<std::uintptr_t>(filters) % alignment != 0) ++filters;
  DeviceInfo device = hopper(), planned = device;
  device.units = run.blocks, planned.units = run.units;
  const InterleavedConv conv(run.problem);
  const InterleavedPlan plan(
      conv.problem, layout,
      SlicePlans<InterleavedTiles>(conv.problem, [&](const ConvProblem& slice) {
        return tile_interleaved(slice, planned, layout, Scheme::elements);
      }));
  pack_interleaved_filters<Scheme>({.problem = run.problem,
                                    .device = device,
                                    .w = run.w,
                                    .filters = filters,
                                    .native_queue = nullptr},
                                   &plan);
  const ConvLaunch launch{.problem = run.problem,
                          .device = device,
                          .x = run.x,
                          .w = nullptr,
                          .filters = filters,
                          .bias = run.bias,
                          .y = run.y,
                          .activation = run.relu ? Activation::relu : Activation::none,
                          .accumulate = false,
                          .workspace = nullptr,
                          .native_queue = nullptr};
  launch_interleaved<Scheme>(launch, &plan);
  return InterleavedParams<Scheme>(slice(launch, plan.problem, 0), plan.problem, layout,
                                   plan.tiles.full)
      .pixel_vectors;
}

template <class Stored, int rows>
int conflicts() {
  using Vectors = PixelVectors<Stored, rows>;
  int most = 0;
  for (int step = 0; step < Vectors::steps; ++step)
    for (int four = 0; four < Vectors::fours; ++four)
      for (int half = 0; half < 2; ++half) {
        int met[32] = {};
        for (int lane = 16 * half; lane < 16 * half + 16; ++lane)
          for (int word = 0; word < 2; ++word)
            most = std::max(
                most, ++met[(Vectors::staged(Vectors::vector(step, lane), four) * stage_pitch +
                             lane / 4 * 2 + word) %
                            32]);
      }
  return most;
}

}  // namespace

int bank_conflicts(int element_bytes, int rows) {
  if (element_bytes == 4)
    return rows == 1   ? conflicts<float, 1>()
           : rows == 2 ? conflicts<float, 2>()
                       : conflicts<float, 4>();
  return rows == 1   ? conflicts<__half, 1>()
         : rows == 2 ? conflicts<__half, 2>()
                     : conflicts<__half, 4>();
}

bool run_interleaved(const InterleavedRun& run) {
  switch (run.kind) {
    case InterleavedKind::fp16x3: return run_with<SplitCoreRows>(run);
    case InterleavedKind::fp16: return run_with<HalfCoreRows<__half>>(run);
    case InterleavedKind::bf16: return run_with<HalfCoreRows<__nv_bfloat16>>(run);
    case InterleavedKind::fp16_scaled: return run_with<ScaledCoreRows>(run);
  }
  return false;
}

}  // namespace plumb_test::emulation
