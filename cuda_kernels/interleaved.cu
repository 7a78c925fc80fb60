// Filters by windows of the input, as accurate as fp32 by three products in FP16
// (few_channels_split.cu), with both operands in shared memory: a tile's input lies there in
// records of eight elements, channels of a pixel side by side, so that a tap further on is so many
// records further on, and tensor cores read the windows themselves (PTX wgmma, sm_90a). Nothing is
// unrolled, and nothing of the input passes through the registers of those who multiply.
//
// Tiling: a block has a tile of one or several images, all channels of it, two of them in turn, and
//   64 filters (fewer several times, for rows of outputs below each other). Two warpgroups make
//   64 x 128 sums each; four warps bring the next tile's input and round it meanwhile, and four
//   write the sums to y. Filters stay in shared memory, or go round a ring of slices of 8 KB, which
//   one thread has the copy engine fill. Where there are more filters than 64, blocks share them
//   out.
// Bytes: y once; x once for each group of filters, and the rows and columns where tiles overlap; w
//   once for each block, or from L2 for each 256 places of outputs.
// Wins: over streamed_filters.cu, whose warps wait for the windows that they read to registers,
//   where products or outputs are most of the work, by up to half. Loses where filters are few, and
//   where reading is most of the work.
// Measured: docs/few_channels.md.
#include <algorithm>
#include <string>

#include "cuda_kernels/common/batch_slices.hpp"
#include "cuda_kernels/common/compile_time.hpp"
#include "cuda_kernels/common/conv_support.hpp"
#include "cuda_kernels/common/interleaved_bring.cuh"
#include "cuda_kernels/common/interleaved_multiply.cuh"
#include "cuda_kernels/common/interleaved_write.cuh"
#include "cuda_kernels/common/launch.cuh"
#include "cuda_kernels/common/window_filters.cuh"
#include "cuda_kernels/common/windows.hpp"

namespace plumb::cuda {
namespace {

using OutputRows = CompileTime<1, 2, 4, most_output_rows>;

/// What a block's warps need before they part. By the whole block; ends behind a barrier.
__device__ void prepare(const InterleavedShape& shape, InterleavedControl& control) {
  const InterleavedTeam team(shape);
  const auto& header =
      *reinterpret_cast<const PackedHeader*>(shape.packed + team.number * shape.group_bytes);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    for (int i = 0; i < 2; ++i) {
      control.full[i].init(bringers(shape));
      control.empty[i].init(interleaved_warpgroups * 128);
    }
    for (auto& of_stage : control.staged)
      for (Meeting& of_warp : of_stage) of_warp.init(32);
    for (auto& of_warpgroup : control.granted)
      for (auto& of_stage : of_warpgroup)
        for (Meeting& of_warp : of_stage) of_warp.init(32);
    for (int i = 0; i < shape.places; ++i) {
      control.filled[i].init();
      control.left[i].init(interleaved_warpgroups);
    }
    for (int& met : control.met) met = 0;
    clear_header(control);
  }
  __syncthreads();
  write_lines(shape);
  take_header(header, shape.group_filters, team.number * shape.group_filters, shape.conv.k.value(),
              shape.epilogue.bias, control);
  __syncthreads();
}

// Registers of each role (PTX setmaxnreg): 512 threads begin with 128.
#define PLUMB_REGISTERS(change, count) \
  asm volatile("setmaxnreg." change ".sync.aligned.u32 " count ";")

template <int rows>
__global__ void __launch_bounds__(interleaved_threads, 1)
    interleaved([[maybe_unused]] const __grid_constant__ InterleavedShape shape) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  auto& control = *reinterpret_cast<InterleavedControl*>(dynamic_shared());
  prepare(shape, control);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= first_bringer) {
    PLUMB_REGISTERS("dec", "120");
    if (bringer() < bringers(shape)) return bring<rows>(shape, control);
    if (thread % 32 == 0) feed(shape, control);
  } else if (thread >= first_writer) {
    PLUMB_REGISTERS("dec", "72");
    if (shape.places == 1 && thread == first_writer) feed(shape, control);
    __syncwarp();
    write<rows>(shape, control);
  } else {
    PLUMB_REGISTERS("inc", "160");
    multiply(shape, control);
  }
#endif
}
#undef PLUMB_REGISTERS

struct InterleavedPacking {
  int rows, row_stride, group_filters, slots, record_count;
  std::int64_t group_bytes, dense_at;
  struct {
    std::uint8_t first_c, channels, taps_w, count;
  } planes[most_planes];
  struct {
    std::uint8_t plane, r, s;
  } records[2 * most_interleaved_slots];

  explicit InterleavedPacking(const InterleavedLayout& layout)
      : rows(layout.rows),
        row_stride(layout.row_stride),
        group_filters(layout.group_filters),
        slots(layout.slots + layout.slots % 2),
        record_count(static_cast<int>(layout.records.size())),
        group_bytes(static_cast<std::int64_t>(layout.group_bytes())),
        dense_at(static_cast<std::int64_t>(layout.dense_at())) {
    const auto byte = [](int value) { return static_cast<std::uint8_t>(value); };
    for (std::size_t i = 0; i < layout.planes.size(); ++i) {
      const RecordPlane& of = layout.planes[i];
      planes[i] = {byte(of.first_c), byte(of.channels), byte(of.taps_w),
                   byte(of.channels * of.taps_h * of.taps_w)};
    }
    for (std::size_t i = 0; i < layout.records.size(); ++i) {
      const Record& of = layout.records[i];
      records[i] = {byte(layout.sheets[of.sheet].plane), byte(of.r), byte(of.s)};
    }
  }
};

constexpr int packing_threads = 256;

/// A block packs a filter: its rows of each slot's high and low parts.
__global__ void __launch_bounds__(packing_threads)
    pack_interleaved(const __grid_constant__ InterleavedPacking shape,
                     const __grid_constant__ FilterTaps<float> taps, char* packed) {
  __shared__ float shared_scale;
  const int k = static_cast<int>(blockIdx.x), of_group = k % shape.group_filters;
  char* const group = packed + k / shape.group_filters * shape.group_bytes;
  if (threadIdx.x < 32) {
    const float scale = describe_filter<true>(*reinterpret_cast<PackedHeader*>(group), of_group,
                                              taps, k, packed + shape.dense_at);
    if (threadIdx.x == 0) shared_scale = scale;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < shape.slots * 16; i += packing_threads) {
    const int number = i / 8, element = i % 8;
    for (int below = 0; below < shape.rows; ++below) {
      float value = 0;
      if (number < shape.record_count) {
        const auto& record = shape.records[number];
        const auto& plane = shape.planes[record.plane];
        const int of_tap = element / plane.channels;
        if (element < plane.count)
          value = taps(k, plane.first_c + element % plane.channels,
                       record.r + of_tap / plane.taps_w - below * shape.row_stride,
                       record.s + of_tap % plane.taps_w);
      }
      const SplitHalves halves(value * shared_scale, 0);
      // Eights of rows, 16 bytes each, and behind all of them the slot's second record.
      char* const at = group + packed_header_bytes + number / 2 * interleaved_slot_bytes +
                       number % 2 * (interleaved_part_bytes / 2) +
                       (of_group * shape.rows + below) * 16 + element * 2;
      *reinterpret_cast<std::uint16_t*>(at) = static_cast<std::uint16_t>(halves.high);
      *reinterpret_cast<std::uint16_t*>(at + interleaved_part_bytes) =
          static_cast<std::uint16_t>(halves.low);
    }
  }
}

Support refuse(const std::string& sentence) { return {Reason::geometry, sentence}; }

Support supports(const ConvProblem& problem, const DeviceInfo& device) {
  constexpr int most_stride = 4, most_taps = 64;
  if (Support usual = forward_in_slices({DType::f32}, problem); !usual) return usual;
  if (!products_by_warpgroups(interleaved_columns / 8, Staging::bulk, device))
    return {Reason::device_limit, "no wgmma; expected a device and a build of sm_90a"};
  const auto text = [](auto value) { return std::to_string(value); };
  if (problem.groups != 1) return refuse(text(problem.groups) + " groups; expected 1");
  if (problem.pool != Pool::none) return refuse("pools; expected none");
  if ((problem.r > 1 && problem.dilation.h != 1) || (problem.s > 1 && problem.dilation.w != 1))
    return refuse("dilation " + text(problem.dilation.h) + "x" + text(problem.dilation.w) +
                  "; expected none");
  if (problem.c > 8 * most_planes)
    return refuse(text(problem.c) + " channels; expected at most " + text(8 * most_planes));
  if (problem.stride.h > most_stride || problem.stride.w > most_stride)
    return refuse("stride " + text(problem.stride.h) + "x" + text(problem.stride.w) +
                  "; expected at most " + text(most_stride));
  if (problem.r > most_taps || problem.s > most_taps)
    return refuse("filters of " + text(problem.r) + "x" + text(problem.s) + "; expected at most " +
                  text(most_taps) + " rows and columns");
  const auto [layout, tile] = plan_interleaved(problem, device);
  if (layout.slots > most_interleaved_slots)
    return refuse(text(16 * layout.slots) + " terms as they are packed; expected at most " +
                  text(16 * most_interleaved_slots));
  if (layout.sheets.size() > most_sheets)
    return refuse(text(layout.sheets.size()) + " sheets; expected at most " + text(most_sheets));
  if (layout.groups > device.units)
    return refuse(text(layout.groups) + " groups of filters; expected at most " +
                  text(device.units));
  if (tile.seconds == 0) return {Reason::device_limit, "no tile fits a block's shared memory"};
  return {};
}

/// Predicted, and what that may err by, so that this is chosen only where it wins: more where
/// filters stream, and most outside of the family of few200, where no tiles have been measured. And
/// what comes before a block's first tile, of which kernels of half a millisecond say little.
double estimate_seconds(const ConvProblem& problem, const DeviceInfo& device) {
  const bool of_family = problem.c <= 16 && problem.k <= interleaved_rows && problem.r <= 11 &&
                         problem.s <= 11 && problem.stride.h <= 2 && problem.stride.w <= 2;
  const InterleavedTiles tile = plan_interleaved(problem, device).tile;
  const double margin = !of_family ? 1.5 : tile.streams() ? 1.15 : 1.06;
  constexpr double before = 10e-6;
  return before + tile.seconds * margin;
}

void launch(const ConvLaunch& whole) {
  for_each_slice(whole, [](const ConvLaunch& call) {
    const auto plan = plan_interleaved(call.problem, call.device);
    ConvProblem dense = call.problem;
    dense.w_strides = dense_strides(call.problem.w_extents());
    const InterleavedShape shape(call, dense, plan.layout, plan.tile);
    OutputRows::with(plan.layout.rows, [&]<int rows>() {
      Launch(call.native_queue, blocks_for(std::int64_t{shape.items} * shape.groups, 1),
             interleaved_threads, static_cast<std::size_t>(plan.tile.bytes()))
          .resident(interleaved<rows>, call.device)(interleaved<rows>, shape);
    });
  });
}

void pack(const FilterPacking& packing) {
  const InterleavedLayout layout(packing.problem);
  Launch(packing.native_queue, static_cast<unsigned>(layout.groups * layout.group_filters),
         packing_threads)(pack_interleaved, InterleavedPacking(layout),
                          FilterTaps<float>(packing.problem, packing.w),
                          static_cast<char*>(packing.filters));
}

}  // namespace

extern const ConvAlgorithm interleaved_fp16x3{
    .name = "cuda.conv.interleaved.fp16x3",
    .numerics = {.operand = Operand::fp16,
                 .accumulator = Accumulator::tensor_core_fp32,
                 .products = 3,
                 .term_multiple = 16},
    .supports = supports,
    .workspace_bytes = no_workspace,
    .estimate_seconds = estimate_seconds,
    .filter_bytes =
        [](const ConvProblem& problem, const DeviceInfo&) {
          return InterleavedLayout(problem).dense_at() +
                 static_cast<std::size_t>(element_count(problem.w_extents())) * sizeof(float);
        },
    .pack_filters = pack,
    .launch = launch,
};

}  // namespace plumb::cuda
