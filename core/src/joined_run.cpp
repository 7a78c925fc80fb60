#include "joined_run.hpp"

#include <algorithm>

#include "ranks.hpp"
#include "tap_copies.hpp"
#include "tensor_bytes.hpp"

namespace plumb {

namespace {

/// What is kept of outputs at a time: the L2 of a GPU has room for it, and all cores have enough to
/// do.
constexpr std::size_t max_outputs_bytes = 32 << 20;

ConvProblem with_images(ConvProblem problem, std::int64_t images) {
  problem.n = images;
  return problem;
}

std::int64_t images_at_a_time(const ConvProblem& problem) {
  const std::size_t image = bytes_of(problem.dtype, with_images(problem, 1).y_extents());
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(max_outputs_bytes / image), 1,
                                  problem.n);
}

}  // namespace

JoinedRun::JoinedRun(const ConvAlgorithm& algorithm, const ConvProblem& whole,
                     const JoinedLowering& joined, const DeviceInfo& device)
    : whole_(whole),
      joined_(joined),
      images_(images_at_a_time(joined.problem)),
      convolution_(algorithm, with_images(joined.problem, images_), device),
      copy_bytes_(aligned(bytes_of(whole.dtype, joined.problem.w_extents()))),
      outputs_bytes_(
          aligned(bytes_of(whole.dtype, with_images(joined.problem, images_).y_extents()))),
      bias_bytes_(
          aligned(static_cast<std::size_t>(joined.problem.k) * size_in_bytes(whole.dtype))) {
  const std::int64_t n = joined.problem.n;
  estimate_seconds_ = static_cast<double>(n / images_) * convolution_.estimate_seconds();
  if (n % images_ > 0) {
    rest_.emplace(algorithm, with_images(joined.problem, n % images_), device);
    estimate_seconds_ += rest_->estimate_seconds();
  }
  const std::size_t dx = bytes_of(whole.dtype, whole.x_extents());
  if (device.nominal_bytes_per_second > 0)
    estimate_seconds_ += static_cast<double>(dx) / device.nominal_bytes_per_second;
}

std::size_t JoinedRun::workspace_bytes() const {
  const std::size_t rest = rest_ ? rest_->packed_workspace_bytes() : 0;
  return outputs_bytes_ + bias_bytes_ + std::max(convolution_.packed_workspace_bytes(), rest);
}

void JoinedRun::pack(BackendQueue& queue, const DeviceInfo& device, const void* w,
                     void* filters) const {
  if (joined_.has_single_taps())
    copy_single_taps(queue, device, w, filters);
  else
    copy_phases(queue, device, w, filters);
  if (convolution_.filter_bytes() > 0)
    convolution_.pack(queue, device, filters, static_cast<std::byte*>(filters) + copy_bytes_);
}

/// One phase after the other, between zeros.
void JoinedRun::copy_phases(BackendQueue& queue, const DeviceInfo& device, const void* w,
                            void* filters) const {
  const ConvProblem& p = joined_.problem;
  const std::int64_t taps[] = {p.t, p.r, p.s};
  const std::int64_t phases = joined_.phase_count(), of_phase = elements_of_phase();
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
              dense_taps(moved(filters, number++ * of_phase + first, p.dtype),
                         whole_.k / whole_.groups, taps, phases * of_phase));
  };
  for (std::int64_t d = 0; d < joined_.phases[0]; ++d)
    for (std::int64_t h = 0; h < joined_.phases[1]; ++h)
      for (std::int64_t v = 0; v < joined_.phases[2]; ++v) copy({d, h, v});
}

/// All phases at once: a copy for each of them would read all of w for one tap. Where an axis has
/// phases, a step along w's is one to the next phase.
void JoinedRun::copy_single_taps(BackendQueue& queue, const DeviceInfo& device, const void* w,
                                 void* filters) const {
  const ConvProblem& p = joined_.problem;
  const std::int64_t taps[] = {p.t, p.r, p.s}, of_phase = elements_of_phase();
  LoweredTaps all = joined_.taps_of(whole_, {0, 0, 0});
  TapsTo to = dense_taps(filters, whole_.k / whole_.groups, taps, joined_.phase_count() * of_phase);
  std::int64_t phase_step = of_phase;
  for (int i = 2; i >= 0; --i) {
    if (joined_.phases[i] == 1) continue;
    all.taps[i] = joined_.phases[i];
    all.steps[i] = 1;
    to.steps[i] = phase_step;
    phase_step *= joined_.phases[i];
  }
  copy_taps(queue, device, whole_, all, w, to);
}

/// A channel's for each of its phases. The convolution adds it, which rounds a sum once.
void JoinedRun::spread_bias(BackendQueue& queue, const ConvLaunch& launch, void* to) const {
  const DeviceId& device = launch.device.id;
  const std::int64_t channels = whole_.c / whole_.groups, phases = joined_.phase_count();
  queue.pad({.x = ConstTensorView(launch.bias, whole_.dtype, {whole_.groups, channels, 1, 1, 1},
                                  device, {channels, 1, 1, 1, 1}),
             .y = TensorView(to, whole_.dtype, {whole_.groups, channels, 1, 1, phases}, device,
                             {phases * channels, 1, 1, 1, channels}),
             .boundary = Boundary::clamp});
}

void JoinedRun::launch(BackendQueue& queue, const ConvLaunch& launch) const {
  if (launch.bias)
    spread_bias(queue, launch, static_cast<std::byte*>(launch.workspace) + outputs_bytes_);
  const std::int64_t n = joined_.problem.n, whole_times = n - n % images_;
  for (std::int64_t first = 0; first < whole_times; first += images_)
    launch_images(queue, launch, convolution_, first, images_);
  if (rest_) launch_images(queue, launch, *rest_, whole_times, n - whole_times);
}

void JoinedRun::launch_images(BackendQueue& queue, const ConvLaunch& launch, const ConvRun& run,
                              std::int64_t first, std::int64_t images) const {
  const ConvProblem p = with_images(joined_.problem, images);
  const DeviceId& device = launch.device.id;
  auto* const outputs = static_cast<std::byte*>(launch.workspace);
  const auto* const filters = static_cast<const std::byte*>(launch.filters);
  const void* const image = moved(launch.x, joined_.image + first * p.x_strides[0], p.dtype);
  run.launch(queue, {.problem = p,
                     .device = launch.device,
                     .x = image,
                     .w = filters,
                     .filters = run.filter_bytes() > 0 ? filters + copy_bytes_ : nullptr,
                     .bias = launch.bias ? outputs + outputs_bytes_ : nullptr,
                     .y = outputs,
                     .activation = launch.activation,
                     .workspace = outputs + outputs_bytes_ + bias_bytes_,
                     .native_queue = launch.native_queue});
  const ConvOperand dx = output_of(with_images(whole_, images));
  PhasesLaunch join{
      .x = with_all_axes(ConstTensorView(outputs, p.dtype, p.y_extents(), device, p.y_strides)),
      .y = with_all_axes(TensorView(moved(launch.y, first * dx.strides[0], p.dtype), p.dtype,
                                    dx.extents, device, dx.strides)),
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
