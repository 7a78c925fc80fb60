#include "backward_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "boundary_padding.hpp"
#include "fold.hpp"
#include "forward_only.hpp"
#include "plumb/problem_text.hpp"
#include "ranks.hpp"
#include "tap_copies.hpp"
#include "tensor_bytes.hpp"

namespace plumb {
namespace {

/// One value for each channel, or zeros, as images of these extents would have them.
ConstTensorView broadcast(const void* bias, DType dtype, const Extents& extents,
                          const DeviceId& device) {
  return ConstTensorView(bias, dtype, extents, device, {0, 1, 0, 0, 0});
}

/// `to` becomes the bias of its channels, or zero.
void fill(BackendQueue& queue, const TensorView& to, const void* bias) {
  const Extents pixel{to.extent(0), to.extent(1), 1, 1, 1};
  PadLaunch pad{.y = to};
  if (bias) {
    pad.x = broadcast(bias, to.dtype(), pixel, to.device());
    pad.boundary = Boundary::clamp;
  } else {
    // Beside an image of one pixel, which is not read: with channels side by side, as y may have
    // them.
    pad.x = ConstTensorView(to.data(), to.dtype(), pixel, to.device(), {0, 1, 0, 0, 0});
    pad.begin.w = 1;
  }
  queue.pad(pad);
}

/// Images behind each other that do not overlap, in a layout that may have been of one.
void spread_images(const Extents& extents, Strides& strides) {
  std::int64_t reach = 0;
  for (int i = 1; i < extents.rank(); ++i) reach += (extents[i] - 1) * std::abs(strides[i]);
  if (std::abs(strides[0]) <= reach) strides[0] = reach + 1;
}

/// Another number of images of the same layout.
ConvProblem with_images(ConvProblem problem, std::int64_t images) {
  problem.n = images;
  spread_images(problem.x_extents(), problem.x_strides);
  spread_images(problem.y_extents(), problem.y_strides);
  return problem;
}

/// Whether phases write single elements of rows, with others between them.
bool writes_apart(const ConvProblem& problem, const JoinedLowering& joined) {
  return joined.phases[2] > 1 && !(problem.c > 1 && output_of(problem).strides[1] == 1);
}

/// What that takes on a GPU, where each phase writes parts of all sectors: two layers took 7 and 18
/// times their bytes on one H100 (docs/experiments/gradients.md).
double seconds_of_elements_apart(const ConvProblem& problem, const DeviceInfo& device) {
  constexpr double times_its_bytes = 6;
  if (device.id == host || device.nominal_bytes_per_second <= 0) return 0;
  return times_its_bytes * static_cast<double>(bytes_of(problem.dtype, problem.x_extents())) /
         device.nominal_bytes_per_second;
}

}  // namespace

BackwardRun::BackwardRun(const ConvAlgorithm& algorithm, const ConvProblem& problem,
                         const DeviceInfo& device, const RunOptions& options)
    : algorithm_(&algorithm), problem_(problem), options_(options) {
  const bool takes = of_data() ? algorithm.takes_backward_data : algorithm.takes_backward_weights;
  if (!takes && algorithm.forward_alone) {
    support_ = forward_only(problem);
    return;
  }
  // What it takes and then refuses is made of forward convolutions.
  if (!takes || !plan_by_itself(device)) {
    if (algorithm.forward_alone) return;
    plan_forward(device);
  }
  if (!support_) return;
  // A zero to be added to what no tap reaches.
  if (!zeros_.empty() && options_.reproducible && options_.accumulate)
    own_workspace_bytes_ = std::max(own_workspace_bytes_, aligned(1));
  fuses_accumulate_ = options_.accumulate && !stages_output_;
  count_staging(device);
}

Support BackwardRun::reproduces() const {
  if (!itself_ && !of_data())
    return {Reason::not_reproducible,
            "makes dw of forward convolutions, each sum a chain of all terms; expected the tree of "
            "docs/numerics.md"};
  for (const ConvRun& run : runs_)
    if (!run.reproduces()) return run.reproduces();
  if (joined_) return joined_->convolution().reproduces();
  if (!itself_) return {};
  const DType own =
      algorithm_->numerics.accumulator == Accumulator::fp64_fma ? DType::f64 : DType::f32;
  if (options_.accumulate && stages_output_ && !pads() && problem_.dtype != own)
    return {Reason::not_reproducible,
            fmt::format("rounds to {} before it adds what {} holds; expected one rounding",
                        to_string(problem_.dtype), output_of(problem_).name)};
  return bits_of_itself_;
}

/// What is computed inside of the copies.
void BackwardRun::set_inner(bool stages_output) {
  stages_output_ = stages_output;
  inner_ = problem_;
  if (pads()) {
    take_padding(inner_);
    inner_.x_strides = {};
  }
  if (options_.relu_mask) inner_.y_strides = {};
  if (stages_output_) (of_data() ? inner_.x_strides : inner_.w_strides) = {};
  inner_ = check(inner_);
}

bool BackwardRun::plan_by_itself(const DeviceInfo& device) {
  set_inner((pads() && of_data()) || (options_.accumulate && !algorithm_->accumulates));
  PlanResult plan = algorithm_->plan(inner_, device);
  support_ = plan.support;
  if (!plan.support) return false;
  estimate_seconds_ = plan.estimate_seconds;
  own_workspace_bytes_ = plan.workspace_bytes;
  if (algorithm_->reproduces) bits_of_itself_ = algorithm_->reproduces(inner_, device);
  itself_ = std::move(plan);
  return true;
}

void BackwardRun::plan_forward(const DeviceInfo& device) {
  set_inner(pads() && of_data());
  ConvProblem one = inner_;
  one.n = std::max<std::int64_t>(one.n, 1);  // the gradient of no images is a sum of nothing
  if (of_data() && plan_joined(one, device)) return;
  Phases phases = phases_of(one, inner_.n, device);
  support_ = phases.support;
  if (!support_) return;
  runs_ = std::move(phases.runs);
  parts_ = std::move(phases.parts);
  zeros_ = std::move(phases.zeros);
  estimate_seconds_ += phases.estimate_seconds;
  own_workspace_bytes_ = std::max(own_workspace_bytes_, phases.workspace_bytes);
}

BackwardRun::Phases BackwardRun::phases_of(const ConvProblem& problem, std::int64_t images,
                                           const DeviceInfo& device) const {
  Phases all;
  ConvLowering lowering = lower(problem);
  for (LoweredConv& part : lowering.convolutions) {
    if (of_data()) part.problem.n = images;
    const auto same = std::find_if(all.parts.begin(), all.parts.end(), [&](const Part& other) {
      return other.convolution.problem == part.problem;
    });
    std::size_t run = all.runs.size();
    if (same != all.parts.end())
      run = same->run;
    else
      all.runs.emplace_back(*algorithm_, part.problem, device,
                            RunOptions{.accumulate = options_.accumulate && !stages_output_,
                                       .reproducible = options_.reproducible && of_data()});
    const ConvRun& how = all.runs[run];
    if (!how.support()) {
      all.support = how.support();
      all.support.sentence = fmt::format("as the forward convolution {}: {}",
                                         to_string(part.problem), all.support.sentence);
      return all;
    }
    all.estimate_seconds += how.estimate_seconds();
    all.workspace_bytes = std::max(
        all.workspace_bytes, of_data() ? how.packed_workspace_bytes() : how.workspace_bytes());
    // The filters of backward weights are dy, which is packed on every launch from far apart.
    constexpr double of_packing = 8;
    if (!of_data() && device.nominal_bytes_per_second > 0)
      all.estimate_seconds +=
          of_packing * static_cast<double>(how.filter_bytes()) / device.nominal_bytes_per_second;
    const std::size_t copy =
        of_data() ? aligned(bytes_of(part.problem.dtype, part.problem.w_extents())) : 0;
    all.parts.push_back({std::move(part), run, copy});
  }
  all.zeros = std::move(lowering.zeros);
  return all;
}

/// Whether all phases are one convolution's. Many images decide, however many there are: an image
/// has the same bits in every batch.
bool BackwardRun::plan_joined(const ConvProblem& one, const DeviceInfo& device) {
  if (options_.reproducible || (options_.accumulate && !stages_output_)) return false;
  const ConvProblem many = with_images(one, 64);
  const std::optional<JoinedLowering> joined = lower_joined(many);
  // As many filters fill tiles by themselves, and zeros for taps take longer than dy.
  constexpr std::int64_t max_filters = 256;
  if (!joined || joined->problem.k / one.groups > max_filters) return false;
  const JoinedRun run_of_many(*algorithm_, many, *joined, device);
  if (!run_of_many.support()) return false;
  const Phases phases = phases_of(many, many.n, device);
  const double apart = writes_apart(many, *joined) ? seconds_of_elements_apart(many, device) : 0;
  if (phases.support && phases.estimate_seconds + apart <= run_of_many.estimate_seconds())
    return false;
  JoinedRun run(*algorithm_, one, *lower_joined(one), device);
  support_ = run.support();
  if (!support_ || run.filter_bytes() + run.workspace_bytes() > options_.workspace_limit_bytes)
    return false;
  estimate_seconds_ += run.estimate_seconds();
  own_workspace_bytes_ = std::max(own_workspace_bytes_, run.workspace_bytes());
  joined_.emplace(std::move(run));
  return true;
}

void BackwardRun::count_staging(const DeviceInfo& device) {
  const ConvOperand output = output_of(inner_);
  if (stages_output_) staged_bytes_ = aligned(bytes_of(inner_.dtype, output.extents));
  if (copies_input()) padded_bytes_ = aligned(bytes_of(inner_.dtype, inner_.x_extents()));
  if (options_.relu_mask) masked_bytes_ = aligned(bytes_of(inner_.dtype, inner_.y_extents()));
  double bytes = 2 * static_cast<double>(staged_bytes_ + padded_bytes_) +
                 3 * static_cast<double>(masked_bytes_);
  for (const LoweredZeros& zeros : zeros_)
    bytes += options_.accumulate ? 0 : static_cast<double>(bytes_of(inner_.dtype, zeros.extents));
  if (device.nominal_bytes_per_second > 0)
    estimate_seconds_ += bytes / device.nominal_bytes_per_second;
}

std::size_t BackwardRun::filter_bytes() const {
  if (itself_) return itself_->filter_bytes;
  if (joined_) return joined_->filter_bytes();
  std::size_t bytes = 0;
  if (of_data())
    for (const Part& part : parts_)
      bytes += part.copy_bytes + aligned(runs_[part.run].filter_bytes());
  return bytes;
}

void BackwardRun::pack(BackendQueue& queue, const DeviceInfo& device, const void* w,
                       void* filters) const {
  if (itself_) {
    queue.pack_filters(*algorithm_,
                       {.problem = inner_,
                        .device = device,
                        .w = w,
                        .filters = filters,
                        .native_queue = queue.native()},
                       itself_->kernel.get());
    return;
  }
  if (joined_) return joined_->pack(queue, device, w, filters);
  auto* to = static_cast<std::byte*>(filters);
  for (const Part& part : parts_) {
    const LoweredConv& one = part.convolution;
    const std::int64_t(&taps)[3] = one.taps.taps;
    const std::int64_t group_step = element_count(one.problem.w_extents()) / problem_.groups;
    copy_taps(queue, device, problem_, one.taps, w,
              {.filters = to, .taps = {taps[0], taps[1], taps[2]}, .group_step = group_step});
    const void* const copy = to;
    to += part.copy_bytes;
    const ConvRun& run = runs_[part.run];
    if (run.filter_bytes() > 0) run.pack(queue, device, copy, to);
    to += aligned(run.filter_bytes());
  }
}

void BackwardRun::launch(BackendQueue& queue, const ConvLaunch& launch) const {
  auto* const masked = static_cast<std::byte*>(launch.workspace);
  auto* const padded = masked + masked_bytes_;
  auto* const staged = padded + padded_bytes_;
  ConvLaunch inner{.problem = inner_,
                   .device = launch.device,
                   .x = launch.x,
                   .w = launch.w,
                   .filters = launch.filters,
                   .bias = stages_output_ ? nullptr : launch.bias,
                   .y = stages_output_ ? staged : launch.y,
                   .activation = stages_output_ ? Activation::none : launch.activation,
                   .accumulate = launch.accumulate && !stages_output_,
                   .reproducible = launch.reproducible,
                   .workspace = own_workspace_bytes_ > 0 ? staged + staged_bytes_ : nullptr,
                   .native_queue = launch.native_queue};
  if (options_.relu_mask) {
    mask(queue, launch, masked);
    (of_data() ? inner.x : inner.w) = masked;
  }
  if (launch.db) sum_bias_gradient(queue, launch, inner.w);
  if (copies_input()) {
    pad_input(queue, launch, padded);
    inner.x = padded;
  }
  if (itself_)
    queue.conv(*algorithm_, inner, itself_->kernel.get());
  else
    launch_parts(queue, inner);
  if (stages_output_) deliver(queue, launch, staged);
}

/// A dense copy of dy with zeros where the ReLU's output is not above 0.
void BackwardRun::mask(BackendQueue& queue, const ConvLaunch& launch, void* to) const {
  const ConvProblem& p = problem_;
  const Extents extents = p.y_extents();
  const DeviceId& device = launch.device.id;
  queue.relu_backward(
      with_all_axes(ConstTensorView(launch.mask, p.dtype, extents, device, launch.mask_strides)),
      with_all_axes(
          ConstTensorView(of_data() ? launch.x : launch.w, p.dtype, extents, device, p.y_strides)),
      with_all_axes(TensorView(to, p.dtype, extents, device)));
}

/// Of dy as the convolution has it.
void BackwardRun::sum_bias_gradient(BackendQueue& queue, const ConvLaunch& launch,
                                    const void* dy) const {
  const ConvProblem& p = inner_;
  const DeviceId& device = launch.device.id;
  queue.sum_channels(
      {.x = with_all_axes(ConstTensorView(dy, p.dtype, p.y_extents(), device, p.y_strides)),
       .y = TensorView(launch.db, p.dtype, {p.k}, device),
       .accumulate = launch.accumulate});
}

/// A copy of x with its padding.
void BackwardRun::pad_input(BackendQueue& queue, const ConvLaunch& launch, void* to) const {
  const ConvProblem& p = problem_;
  const DeviceId& device = launch.device.id;
  const Triple before = padding_taken(p);
  queue.pad(
      {.x = with_all_axes(ConstTensorView(launch.x, p.dtype, p.x_extents(), device, p.x_strides)),
       .y = with_all_axes(TensorView(to, p.dtype, inner_.x_extents(), device)),
       .begin = {-before.d, -before.h, -before.w},
       .boundary = p.boundary});
}

void BackwardRun::launch_parts(BackendQueue& queue, const ConvLaunch& launch) const {
  const DType dtype = inner_.dtype;
  const ConvOperand output = output_of(inner_);
  const TensorView all =
      with_all_axes(TensorView(launch.y, dtype, output.extents, launch.device.id, output.strides));
  const LoweredZeros everything{all.extents(), all.strides()};
  if (inner_.n == 0) return write_zeros(queue, launch, everything);
  if (joined_) return joined_->launch(queue, launch);
  // Where zeros are every second column or fewer, whole rows take less time on a CPU, and the
  // convolutions write over them.
  const bool between = std::any_of(zeros_.begin(), zeros_.end(), [&](const LoweredZeros& zeros) {
    return zeros.strides[4] != all.strides()[4];
  });
  if (between && !launch.accumulate && launch.device.id == host)
    write_zeros(queue, launch, everything);
  else
    for (const LoweredZeros& zeros : zeros_) write_zeros(queue, launch, zeros);
  const auto* filters = static_cast<const std::byte*>(launch.filters);
  for (const Part& part : parts_) {
    const LoweredConv& one = part.convolution;
    const ConvRun& run = runs_[part.run];
    const std::byte* const own = of_data() ? filters + part.copy_bytes : nullptr;
    const bool is_packed = of_data() && run.filter_bytes() > 0;
    run.launch(queue, {.problem = one.problem,
                       .device = launch.device,
                       .x = moved(launch.x, one.image, dtype),
                       .w = of_data() ? filters : moved(launch.w, one.filters, dtype),
                       .filters = is_packed ? own : nullptr,
                       .bias = launch.bias,
                       .y = moved(launch.y, one.output, dtype),
                       .activation = launch.activation,
                       .accumulate = launch.accumulate,
                       .reproducible = launch.reproducible,
                       .workspace = launch.workspace,
                       .native_queue = launch.native_queue});
    if (of_data()) filters = own + aligned(run.filter_bytes());
  }
}

/// Of sums of nothing there is the bias, and what the output held.
void BackwardRun::write_zeros(BackendQueue& queue, const ConvLaunch& launch,
                              const LoweredZeros& zeros) const {
  const TensorView to(moved(launch.y, zeros.output, inner_.dtype), inner_.dtype, zeros.extents,
                      launch.device.id, zeros.strides);
  const auto add = [&](const ConstTensorView& value, Activation activation) {
    queue.add({.x = value, .y = to, .activation = activation});
  };
  // A bias of -0, or what it held, is 0 then, as it is behind a sum.
  const bool adds = launch.accumulate || launch.reproducible;
  if (!launch.accumulate) fill(queue, to, adds ? nullptr : launch.bias);
  if (launch.accumulate && launch.reproducible) {
    fill(queue, TensorView(launch.workspace, to.dtype(), {1, 1, 1, 1, 1}, to.device()), nullptr);
    add(ConstTensorView(launch.workspace, to.dtype(), to.extents(), to.device(), {0, 0, 0, 0, 0}),
        launch.bias ? Activation::none : launch.activation);
  }
  if (adds && launch.bias)
    add(broadcast(launch.bias, to.dtype(), to.extents(), to.device()), launch.activation);
  else if (launch.activation == Activation::relu)
    queue.relu(to, to);
}

/// What was staged becomes the output, with what else is asked for.
void BackwardRun::deliver(BackendQueue& queue, const ConvLaunch& launch, void* from) const {
  const ConvOperand whole = output_of(problem_), inner = output_of(inner_);
  const DeviceId& device = launch.device.id;
  const TensorView output =
      with_all_axes(TensorView(launch.y, problem_.dtype, whole.extents, device, whole.strides));
  TensorView staged =
      with_all_axes(TensorView(from, problem_.dtype, inner.extents, device, inner.strides));
  if (of_data() && pads()) {
    const Triple before = padding_taken(problem_);
    fold(queue, staged, output.extents(), before, problem_.boundary);
    const std::int64_t begin[] = {before.d, before.h, before.w};
    for (int axis = 2; axis < 5; ++axis)
      staged = slice(staged, axis, begin[axis - 2], output.extent(axis));
  }
  if (!launch.accumulate && !launch.bias) {
    queue.pad({.x = staged, .y = output});
    if (launch.activation == Activation::relu) queue.relu(output, output);
    return;
  }
  // The bias first, and what the output held last, as in a kernel that adds by itself.
  if (!launch.accumulate)
    fill(queue, output, launch.bias);
  else if (launch.bias)
    queue.add({.x = broadcast(launch.bias, output.dtype(), output.extents(), device), .y = staged});
  queue.add({.x = staged, .y = output, .activation = launch.activation});
}

}  // namespace plumb
