// The product of few_channels.cu for filters of any size: they are packed in global memory as
// tensor cores want them, and come to shared memory slice by slice while four warps at a time
// multiply (PTX wgmma, sm_90a). Pairs of neighbours in a filter's row are counted through columns
// and channels, so that 3, 5 or 9 columns fill the product nearly as well as 7, and walk down the
// filter's rows together.
//
// Tiling: a block of 4 to 16 warps keeps the input under a tile in shared memory, of all channels,
//   and the sums of up to 64 filters in registers. Four warps make 64 windows of two outputs (one
//   at a stride of two) at 4 rows, at 2, or at 1 where sums are many. Filters that fit stay in
//   shared memory; others go round a ring of slices of 16 KB, which the copy engine fills. Outputs
//   go to y in runs of 32.
// Bytes: y once; x once, and the rows and columns where tiles overlap; w once for each block, or
//   from L2 for each pass of its warps.
// Wins: over few_channels.cu where filters are many, or their terms: those it has to hold, all
//   channels of a group, leave shared memory no room, and it reads the input for each group again.
// Measured: docs/few_channels.md.
#include "cuda_kernels/common/compile_time.hpp"
#include "cuda_kernels/common/window_kernel.cuh"

namespace plumb::cuda {
namespace {

/// Sums that a lane has of one row where it has two.
constexpr std::size_t most_of_two_rows = 48;
/// Rows of outputs for which registers hold the sums, and the unit of so many eights.
template <class Scheme, int eights>
constexpr int streamed_rows = [] {
  constexpr std::size_t sums = sizeof(typename Scheme::Sum) / sizeof(float) * eights;
  return sums <= 16 ? 4 : sums <= most_of_two_rows ? 2 : 1;
}();
template <class Scheme, int eights>
constexpr WindowUnit streamed_unit =
    window_unit<Scheme, StreamedTerms, streamed_rows<Scheme, eights>, eights>;

/// Eights of columns that there are kernels for, up to those of most_group_filters.
using Eights = CompileTime<1, 2, 3, 4, 6, 8, 10, 12, 14, 16>;

/// Of a group: the first that holds all filters, or the most; of those that are pooled as many as
/// leave a warp two rows.
template <class Scheme>
int eights_of(const ConvProblem& problem) {
  const std::int64_t filters = WindowTerms(problem).eight_filters();
  const int enough = Eights::at_least(
      std::min(tiles_of(problem.k, filters), tiles_of(most_group_filters, filters)));
  constexpr int two_rows = most_of_two_rows * sizeof(float) / sizeof(typename Scheme::Sum);
  return problem.pool == Pool::none ? enough : std::min(enough, two_rows);
}

template <class Scheme>
struct Units {
  static WindowTiles plan(const ConvProblem& problem, const DeviceInfo& device) {
    WindowTiles tile;
    Eights::with(eights_of<Scheme>(problem), [&]<int eights>() {
      tile = plan_windows(problem, device, streamed_unit<Scheme, eights>, window_costs<Scheme>,
                          Staging::bulk);
    });
    return tile;
  }
  static PackedWindows packed(const ConvProblem& problem) {
    const int eights = eights_of<Scheme>(problem);
    WindowUnit unit;
    Eights::with(eights, [&]<int some>() { unit = streamed_unit<Scheme, some>; });
    return {problem, unit, window_costs<Scheme>};
  }

  template <class... Stored>
  static void pack(const FilterPacking& packing) {
    pack_windows<Scheme, WalkedSlots, Stored...>(packing, packed(packing.problem));
  }

  template <class... Stored>
  static void launch(const ConvLaunch& whole) {
    const PackedWindows packed = Units::packed(whole.problem);
    for_each_slice(whole, [&](const ConvLaunch& call) {
      const WindowTiles tile = plan(call.problem, call.device);
      with_stored<Stored...>(call.problem.dtype, [&]<class S>(S) {
        Eights::with(packed.eights, [&]<int eights>() {
          launch_windows<Scheme, StreamedTerms, streamed_rows<Scheme, eights>, eights, S>(
              call, tile, packed);
        });
      });
    });
  }
};

using Fp16Windows = HalfWindows<__half>;
using Bf16Windows = HalfWindows<__nv_bfloat16>;

/// The algorithm for tensors stored as one of `Stored`.
template <class Scheme, class... Stored>
constexpr ConvAlgorithm streamed_entry(std::string_view name, Operand operand) {
  return {
      .name = name,
      .numerics = {.operand = operand,
                   .accumulator = Accumulator::tensor_core_fp32,
                   .products = Scheme::scaled ? 3 : 1,
                   .term_multiple = Scheme::terms},
      .fuses_pool = true,
      .supports = [](const ConvProblem& problem, const DeviceInfo& device) -> Support {
        if (Support usual = forward_in_slices({dtype_of_stored<Stored>...}, problem); !usual)
          return usual;
        if (Support geometry = windows_fit(problem); !geometry) return geometry;
        if (Support streams = streams_fit(problem, device, Units<Scheme>::packed(problem).groups);
            !streams)
          return streams;
        return fits_shared_memory(static_cast<double>(Units<Scheme>::plan(problem, device).bytes()),
                                  device);
      },
      .workspace_bytes = no_workspace,
      .estimate_seconds =
          [](const ConvProblem& problem, const DeviceInfo& device) {
            return Units<Scheme>::plan(problem, device).seconds;
          },
      .filter_bytes = [](const ConvProblem& problem,
                         const DeviceInfo&) { return Units<Scheme>::packed(problem).bytes; },
      .pack_filters = Units<Scheme>::template pack<Stored...>,
      .launch = Units<Scheme>::template launch<Stored...>};
}

}  // namespace

extern const ConvAlgorithm streamed_filters_fp16x3 =
    streamed_entry<SplitWindows, float>("cuda.conv.streamed_filters.fp16x3", Operand::fp16);
extern const ConvAlgorithm streamed_filters_tf32 =
    streamed_entry<Tf32Windows, float>("cuda.conv.streamed_filters.tf32", Operand::tf32_rounded);
extern const ConvAlgorithm streamed_filters_fp16 =
    streamed_entry<Fp16Windows, float, __half>("cuda.conv.streamed_filters.fp16", Operand::fp16);
extern const ConvAlgorithm streamed_filters_bf16 =
    streamed_entry<Bf16Windows, __nv_bfloat16>("cuda.conv.streamed_filters.bf16", Operand::bf16);

}  // namespace plumb::cuda
