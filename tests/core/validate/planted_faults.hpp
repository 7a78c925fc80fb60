// Faults planted in copies of kernels, to show that each is caught and by which tier.
#pragma once

#include <string_view>
#include <vector>

#include "plumb/plumb.hpp"

namespace plumb_test {

enum class Fault {
  none,
  dropped_tap,             ///< the last tap of the filter is left out
  padding_off_by_one,      ///< the left padding is one too large
  wrong_border_stride,     ///< the last column of outputs is taken one pixel too early
  swapped_groups,          ///< a group reads the channels of the next one
  transposed_filter,       ///< r and s change places
  missing_last_channel,    ///< the last channel of a group is left out
  missing_second_channel,  ///< one channel in the middle of a group is left out
  stale_tile,              ///< the filter tile is not loaded again for the last chunk of channels
  unwritten_corner,        ///< the last output of each image is not written
  lost_bias,               ///< the bias is not added to the last filter
  write_past_the_end,      ///< one element behind the output is written
  write_before_input,      ///< one element in front of x is written
  written_input,           ///< the first element of x is changed
  missing_barrier,         ///< threads use a shared tile before it is loaded
  tf32_operands,           ///< operands are rounded to TF32 where fp32 is claimed
  fp16_sums,               ///< sums are kept in fp16 where fp32 is claimed
  rounded_result,          ///< the sum is rounded to 16 bits before it is stored
  swallowed_nan,           ///< NaN is stored as zero
  unstable_order,          ///< the order of the sum changes from run to run
  wrong_wrap,              ///< beyond the image a periodic one is shown one pixel too early
  dropped_plane,           ///< the last plane of a filter of several is left out
  border_plane,            ///< the last plane of a volume is taken for padding
  planes_for_images,       ///< x is read for outputs numbered through images first, then planes
  wrong_claim,             ///< computes in TF32 and says fp16
};

struct PlantedFault {
  Fault fault;
  std::string_view name;
  plumb::Tier caught_by;  ///< must catch it; others may too
};

inline constexpr PlantedFault planted_faults[] = {
    {Fault::dropped_tap, "dropped_tap", plumb::Tier::exact},
    {Fault::padding_off_by_one, "padding_off_by_one", plumb::Tier::exact},
    {Fault::wrong_border_stride, "wrong_border_stride", plumb::Tier::exact},
    {Fault::swapped_groups, "swapped_groups", plumb::Tier::exact},
    {Fault::transposed_filter, "transposed_filter", plumb::Tier::exact},
    {Fault::missing_last_channel, "missing_last_channel", plumb::Tier::exact},
    {Fault::missing_second_channel, "missing_second_channel", plumb::Tier::exact},
    {Fault::stale_tile, "stale_tile", plumb::Tier::exact},
    {Fault::unwritten_corner, "unwritten_corner", plumb::Tier::exact},
    {Fault::lost_bias, "lost_bias", plumb::Tier::exact},
    {Fault::write_past_the_end, "write_past_the_end", plumb::Tier::exact},
    {Fault::write_before_input, "write_before_input", plumb::Tier::exact},
    {Fault::written_input, "written_input", plumb::Tier::exact},
    {Fault::missing_barrier, "missing_barrier", plumb::Tier::exact},
    {Fault::tf32_operands, "tf32_operands", plumb::Tier::attested},
    {Fault::fp16_sums, "fp16_sums", plumb::Tier::attested},
    {Fault::rounded_result, "rounded_result", plumb::Tier::bounded},
    {Fault::swallowed_nan, "swallowed_nan", plumb::Tier::bounded},
    {Fault::unstable_order, "unstable_order", plumb::Tier::repeatable},
    {Fault::wrong_wrap, "wrong_wrap", plumb::Tier::exact},
    {Fault::dropped_plane, "dropped_plane", plumb::Tier::exact},
    {Fault::border_plane, "border_plane", plumb::Tier::exact},
    {Fault::planes_for_images, "planes_for_images", plumb::Tier::exact},
    {Fault::wrong_claim, "wrong_claim", plumb::Tier::attested},
};

inline constexpr auto fault_count = static_cast<std::size_t>(Fault::wrong_claim) + 1;

/// The entry of a copy with a fault in it. It claims what the kernel without the fault does.
constexpr plumb::ConvAlgorithm copy_entry(std::string_view name, Fault fault,
                                          decltype(plumb::ConvAlgorithm::launch) launch) {
  return {
      .name = name,
      .numerics = {.operand =
                       fault == Fault::wrong_claim ? plumb::Operand::fp16 : plumb::Operand::fp32},
      .takes_depth = true,
      .takes_boundaries = true,
      .plan = [](const plumb::ConvProblem& problem, const plumb::DeviceInfo&) -> plumb::PlanResult {
        if (problem.dtype == plumb::DType::f32) return {.estimate_seconds = 1};
        return {{plumb::Reason::dtype, "the copy is for f32"}};
      },
      .launch = launch,
  };
}

/// A copy of a kernel of a backend with one fault in it.
const plumb::ConvAlgorithm* cpu_copy(Fault fault);
const plumb::ConvAlgorithm* cuda_copy(Fault fault);

}  // namespace plumb_test
