#include "joined_run.hpp"

#include "ranks.hpp"
#include "tap_copies.hpp"
#include "tensor_bytes.hpp"

namespace plumb {

JoinedRun::JoinedRun(const ConvAlgorithm& algorithm, const ConvProblem& whole,
                     const JoinedLowering& joined, const DeviceInfo& device)
    : whole_(whole),
      joined_(joined),
      convolution_(algorithm, joined.problem, device),
      estimate_seconds_(convolution_.estimate_seconds()),
      copy_bytes_(aligned(bytes_of(whole.dtype, joined.problem.w_extents()))),
      sums_bytes_(aligned(bytes_of(whole.dtype, joined.problem.y_extents()))) {
  const std::size_t dx = bytes_of(whole.dtype, whole.x_extents());
  if (device.nominal_bytes_per_second > 0)
    estimate_seconds_ += static_cast<double>(sums_bytes_ + dx) / device.nominal_bytes_per_second;
}

void JoinedRun::pack(BackendQueue& queue, const DeviceInfo& device, const void* w,
                     void* filters) const {
  const ConvProblem& p = joined_.problem;
  const std::int64_t taps[] = {p.t, p.r, p.s};
  const std::int64_t phases = joined_.phase_count();
  const std::int64_t of_phase =
      whole_.c / whole_.groups * (whole_.k / whole_.groups) * p.t * p.r * p.s;
  // Zeros beside an image of one element, which is not read.
  const std::int64_t elements = whole_.groups * phases * of_phase;
  queue.pad({.x = ConstTensorView(filters, p.dtype, {1, 1, 1, 1, 1}, device.id),
             .y = TensorView(filters, p.dtype, {1, 1, 1, 1, elements}, device.id),
             .begin = {0, 0, 1}});
  std::int64_t number = 0;
  const auto copy = [&](const std::int64_t(&phase)[3]) {
    const LoweredTaps some = joined_.taps_of(whole_, phase);
    const std::int64_t first =
        ((taps[0] - some.taps[0]) * taps[1] + taps[1] - some.taps[1]) * taps[2] + taps[2] -
        some.taps[2];
    copy_taps(queue, device, whole_, some, w,
              {.filters = moved(filters, number++ * of_phase + first, p.dtype),
               .taps = {taps[0], taps[1], taps[2]},
               .group_step = phases * of_phase});
  };
  for (std::int64_t d = 0; d < joined_.phases[0]; ++d)
    for (std::int64_t h = 0; h < joined_.phases[1]; ++h)
      for (std::int64_t v = 0; v < joined_.phases[2]; ++v) copy({d, h, v});
  if (convolution_.filter_bytes() > 0)
    convolution_.pack(queue, device, filters, static_cast<std::byte*>(filters) + copy_bytes_);
}

void JoinedRun::launch(BackendQueue& queue, const ConvLaunch& launch) const {
  const ConvProblem& p = joined_.problem;
  const DeviceId& device = launch.device.id;
  auto* const sums = static_cast<std::byte*>(launch.workspace);
  const auto* const filters = static_cast<const std::byte*>(launch.filters);
  const void* const image = moved(launch.x, joined_.image, p.dtype);
  convolution_.launch(queue,
                      {.problem = p,
                       .device = launch.device,
                       .x = image,
                       .w = filters,
                       .filters = convolution_.filter_bytes() > 0 ? filters + copy_bytes_ : nullptr,
                       .bias = nullptr,
                       .y = sums,
                       .activation = Activation::none,
                       .workspace = sums + sums_bytes_,
                       .native_queue = launch.native_queue});
  const ConvOperand dx = output_of(whole_);
  PhasesLaunch join{
      .x = with_all_axes(ConstTensorView(sums, p.dtype, p.y_extents(), device, p.y_strides)),
      .y = with_all_axes(TensorView(launch.y, p.dtype, dx.extents, device, dx.strides)),
      .problem = p,
      .image = with_all_axes(ConstTensorView(image, p.dtype, p.x_extents(), device, p.x_strides)),
      .filters = filters,
      .taps = {whole_.t, whole_.r, whole_.s},
      .bias = launch.bias,
      .activation = launch.activation};
  for (int i = 0; i < 3; ++i) {
    join.phases[i] = joined_.phases[i];
    join.offset[i] = joined_.offset[i];
  }
  queue.join_phases(join);
}

}  // namespace plumb
