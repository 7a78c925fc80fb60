// The kernel computes the product of few_channels.cu for filters of any size. Filters are packed in
// global memory as tensor cores want them, and come to shared memory k tile by k tile while four
// warps at a time multiply (PTX wgmma, sm_90a). Pairs of neighbours in a filter's row are counted
// through columns and channels, so that 3, 5 or 9 columns fill the product nearly as well as 7, and
// go down the filter's rows together. Devices without wgmma, and products of a single n8 tile, are
// left to warps that multiply each for itself (mma.sync).
//
// Tiling: a block of 4 to 16 warps keeps the input under a tile in shared memory, with all
//   channels, and the sums of up to 64 filters in registers. Four warps make 64 windows of two
//   outputs (one at a stride of two) at 4 rows, at 2, or at 1 where sums are many; warps for
//   themselves keep to two rows or more, and take fewer filters. Filters that fit stay in shared
//   memory; others go through pipeline stages of 16 to 48 KB, which the copy engine fills, or
//   (sm80) all threads by cp.async. Outputs go to y in runs of 32.
// Bytes: y is written once. x is read once for each group of filters, and again in the rows and
//   columns where tiles overlap. w is read once for each block, or from L2 for each pass of its
//   warps.
// Wins: over few_channels.cu where filters are many, or their terms: few_channels.cu has to hold
//   all channels of a group's filters, which leave shared memory no room, and reads the input for
//   each group again.
// Measured: docs/kernels/streamed_filters.md.
#include "cuda_kernels/streamed_filters/streamed_launch.cuh"

namespace plumb::cuda {
namespace {

/// Returns the unit that serves a problem. Groups are of one size, as few as can be; where outputs
/// are pooled, and where warps multiply by themselves, a group leaves a warp two rows.
template <class Scheme>
WindowKernelConfig unit_of(const ConvProblem& problem, const DeviceInfo& device, Staging staging) {
  const std::int64_t filters = WindowTerms(problem).eight_filters();
  const std::int64_t needed = ceil_div(problem.k, filters);
  const auto of_group = [&](std::int64_t most) {
    return static_cast<int>(ceil_div(needed, ceil_div(needed, most)));
  };
  const std::int64_t most = ceil_div(max_group_filters, filters);
  const auto at_most = [&](int n8_tiles) { return std::min<std::int64_t>(most, n8_tiles); };
  const int together =
      of_group(problem.pool == Pool::none ? most : at_most(n8_tiles_of_two_rows<Scheme>));
  WindowKernelConfig unit;
  if (products_by_warpgroups(together, staging, device))
    TogetherN8Tiles::with(TogetherN8Tiles::at_least(together),
                          [&]<int n8_tiles>() { unit = streamed_unit<Scheme, true, n8_tiles>; });
  else
    AloneN8Tiles<Scheme>::with(
        AloneN8Tiles<Scheme>::at_least(of_group(at_most(max_alone<Scheme>))),
        [&]<int n8_tiles>() { unit = streamed_unit<Scheme, false, n8_tiles>; });
  return unit;
}

/// These units have the members of WindowKernelConfigs, for filters that stream.
template <class Scheme>
struct Units {
  static constexpr int products = Scheme::products;
  static double expected(const ConvProblem&, double predicted) {
    return streamed_filters_seconds(costs, predicted);
  }
  static constexpr int term_multiple = Scheme::terms;

  static constexpr WindowCosts costs = window_costs<Scheme>;

  static Support fit(const ConvProblem& problem, const DeviceInfo& device,
                     const PackedWindows& packed) {
    return streams_fit(problem, device, packed.groups);
  }
  static WindowKernelConfig choose(const ConvProblem& problem, const DeviceInfo& device,
                                   Staging staging) {
    return unit_of<Scheme>(problem, device, staging);
  }
  static WindowTiles tiles(const ConvProblem& problem, const DeviceInfo& device,
                           const WindowKernelConfig& unit, Staging staging) {
    return plan_windows(problem, device, unit, costs, staging);
  }

  template <class... Stored>
  static void pack(const FilterPacking& packing, const WindowPlan& plan) {
    pack_windows<Scheme, StripKSteps, Stored...>(packing, plan.packed);
  }

  template <class... Stored>
  static void launch(const ConvLaunch& whole, const WindowPlan& plan) {
    const PackedWindows& packed = plan.packed;
    for_each_slice(whole, plan.tiles, [&](const ConvLaunch& call, const WindowTiles& tile) {
      with_stored<Stored...>(call.problem.dtype, [&]<class S>(S) {
        if (!packed.warpgroups) return launch_streamed_alone<Scheme, S>(call, tile, packed);
        TogetherN8Tiles::with(packed.n8_tiles, [&]<int n8_tiles>() {
          launch_windows<Scheme, StreamedTerms<true>, streamed_rows<Scheme, n8_tiles>, n8_tiles, S>(
              call, tile, packed);
        });
      });
    });
  }
};

}  // namespace

extern const ConvAlgorithm streamed_filters_fp16x3 =
    window_entry<Units<SplitWindows>, Staging::bulk, float>("cuda.conv.streamed_filters.fp16x3",
                                                            Operand::fp16);
extern const ConvAlgorithm streamed_filters_tf32 =
    window_entry<Units<Tf32Windows>, Staging::bulk, float>("cuda.conv.streamed_filters.tf32",
                                                           Operand::tf32_rounded);
extern const ConvAlgorithm streamed_filters_fp16 =
    window_entry<Units<Fp16Windows>, Staging::bulk, float, __half>(
        "cuda.conv.streamed_filters.fp16", Operand::fp16);
extern const ConvAlgorithm streamed_filters_bf16 =
    window_entry<Units<Bf16Windows>, Staging::bulk, __nv_bfloat16>(
        "cuda.conv.streamed_filters.bf16", Operand::bf16);

extern const ConvAlgorithm streamed_filters_fp16x3_sm80 =
    window_entry<Units<SplitWindows>, Staging::async, float>(
        "cuda.conv.streamed_filters.fp16x3.sm80", Operand::fp16);
extern const ConvAlgorithm streamed_filters_tf32_sm80 =
    window_entry<Units<Tf32Windows>, Staging::async, float>("cuda.conv.streamed_filters.tf32.sm80",
                                                            Operand::tf32_rounded);
extern const ConvAlgorithm streamed_filters_fp16_sm80 =
    window_entry<Units<Fp16Windows>, Staging::async, float, __half>(
        "cuda.conv.streamed_filters.fp16.sm80", Operand::fp16);
extern const ConvAlgorithm streamed_filters_bf16_sm80 =
    window_entry<Units<Bf16Windows>, Staging::async, __nv_bfloat16>(
        "cuda.conv.streamed_filters.bf16.sm80", Operand::bf16);

}  // namespace plumb::cuda
