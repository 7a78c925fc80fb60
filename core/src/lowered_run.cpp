#include "lowered_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "channel_values.hpp"
#include "plumb/problem_text.hpp"
#include "ranks.hpp"
#include "tap_copies.hpp"
#include "tensor_bytes.hpp"

namespace plumb {
namespace {

bool lies_innermost(const Extents& extents, const Strides& strides) {
  return extents[1] == 1 || strides[1] == 1;
}

/// Branches of a queue, or the queue alone. They are joined where an error ends the work, too.
class Forked {
 public:
  Forked(BackendQueue& queue, int branches) : queue_(queue), open_(branches > 1) {
    if (open_) queue_.fork(branches);
  }
  ~Forked() {
    try {
      join();
    } catch (...) {  // the error on its way is the first one
    }
  }
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;
  BackendQueue& branch(int number) { return open_ ? queue_.branch(number) : queue_; }
  void join() {
    if (std::exchange(open_, false)) queue_.join();
  }

 private:
  BackendQueue& queue_;
  bool open_;
};

std::int64_t taps_of(const LoweredConv& part) {
  return part.taps.taps[0] * part.taps.taps[1] * part.taps.taps[2];
}

}  // namespace

bool LoweredRun::may_copy(const ConvProblem& p) {
  if (p.direction != Direction::backward_data ||
      (lies_innermost(p.x_extents(), p.x_strides) && lies_innermost(p.y_extents(), p.y_strides)))
    return false;
  const ConvLowering lowering = lower(p);
  return !lowering.convolutions.empty() && lowering.convolutions.size() + lowering.zeros.size() > 1;
}

LoweredRun::LoweredRun(const ConvAlgorithm& algorithm, const ConvProblem& problem,
                       std::int64_t images, const DeviceInfo& device, const RunOptions& options,
                       bool copies)
    : whole_(problem), problem_(problem), images_(images), options_(options) {
  if (copies) {
    const Extents dx = problem.x_extents(), dy = problem.y_extents();
    const auto lay_out = [&](const Extents& extents, Strides& strides, std::size_t& bytes) {
      if (lies_innermost(extents, strides)) return;
      strides = strides_for(Layout::nhwc, extents);
      bytes = aligned(bytes_of(problem.dtype, extents) / static_cast<std::size_t>(problem.n) *
                      static_cast<std::size_t>(images));
    };
    lay_out(dy, problem_.y_strides, image_bytes_);
    lay_out(dx, problem_.x_strides, output_bytes_);
    problem_ = check(problem_);
  }
  plan(algorithm, device);
  whole_.n = problem_.n = images;
  if (!support_) return;
  count_copies(device);
  plan_branches(device);
}

void LoweredRun::plan(const ConvAlgorithm& algorithm, const DeviceInfo& device) {
  ConvLowering lowering = lower(problem_);
  // Those with the most taps first.
  std::stable_sort(
      lowering.convolutions.begin(), lowering.convolutions.end(),
      [](const LoweredConv& a, const LoweredConv& b) { return taps_of(a) > taps_of(b); });
  for (LoweredConv& part : lowering.convolutions) {
    if (of_data()) part.problem.n = images_;
    const auto same = std::find_if(parts_.begin(), parts_.end(), [&](const Part& other) {
      return other.convolution.problem == part.problem;
    });
    std::size_t run = runs_.size();
    if (same != parts_.end())
      run = same->run;
    else
      runs_.emplace_back(algorithm, part.problem, device,
                         RunOptions{.accumulate = options_.accumulate,
                                    .reproducible = options_.reproducible && of_data()});
    const ConvRun& how = runs_[run];
    if (!how.support()) {
      support_ = how.support();
      support_.sentence = fmt::format("as the forward convolution {}: {}", to_string(part.problem),
                                      support_.sentence);
      return;
    }
    estimate_seconds_ += how.estimate_seconds();
    own_bytes_ =
        std::max(own_bytes_, of_data() ? how.packed_workspace_bytes() : how.workspace_bytes());
    // The filters of backward weights are dy, which is packed on every launch from far apart.
    constexpr double of_packing = 8;
    if (!of_data() && device.nominal_bytes_per_second > 0)
      estimate_seconds_ +=
          of_packing * static_cast<double>(how.filter_bytes()) / device.nominal_bytes_per_second;
    const std::size_t copy =
        of_data() ? aligned(bytes_of(part.problem.dtype, part.problem.w_extents())) : 0;
    parts_.push_back({std::move(part), run, copy});
  }
  zeros_ = std::move(lowering.zeros);
  // A zero to be added to what no tap reaches.
  if (!zeros_.empty() && options_.reproducible && options_.accumulate)
    own_bytes_ = std::max(own_bytes_, aligned(1));
}

void LoweredRun::count_copies(const DeviceInfo& device) {
  if (device.nominal_bytes_per_second <= 0) return;
  // Each byte is read and written; a CPU's copies turn elements one by one.
  const double of_copy = device.id == host ? 16 : 2;
  double bytes = of_copy * static_cast<double>(image_bytes_ + output_bytes_);
  for (const LoweredZeros& zeros : zeros_)
    bytes += options_.accumulate ? 0 : static_cast<double>(bytes_of(problem_.dtype, zeros.extents));
  estimate_seconds_ += bytes / device.nominal_bytes_per_second;
}

/// Kernels and bits are the same with branches and without. The estimate is that of one phase after
/// the other.
void LoweredRun::plan_branches(const DeviceInfo& device) {
  // Shorter ones take no longer than the events around them.
  constexpr double min_seconds = 20e-6;
  constexpr std::size_t max_branches = 4, max_bytes = 256 << 20;
  const std::size_t count = std::min(parts_.size(), max_branches);
  if (!of_data() || device.id == host || count < 2 || images_ == 0 ||
      estimate_seconds_ < min_seconds)
    return;
  const std::size_t bytes = aligned(own_bytes_);
  if (count * bytes > max_bytes || image_bytes_ + output_bytes_ + count * bytes + filter_bytes() >
                                       options_.workspace_limit_bytes)
    return;
  branches_ = static_cast<int>(count);
  own_bytes_ = bytes;
}

Support LoweredRun::reproduces() const {
  for (const ConvRun& run : runs_)
    if (!run.reproduces()) return run.reproduces();
  return {};
}

std::size_t LoweredRun::filter_bytes() const {
  std::size_t bytes = 0;
  if (of_data())
    for (const Part& part : parts_)
      bytes += part.copy_bytes + aligned(runs_[part.run].filter_bytes());
  return bytes;
}

void LoweredRun::pack(BackendQueue& queue, const DeviceInfo& device, const void* w,
                      void* filters) const {
  auto* to = static_cast<std::byte*>(filters);
  for (const Part& part : parts_) {
    const LoweredConv& one = part.convolution;
    const std::int64_t group_step = element_count(one.problem.w_extents()) / problem_.groups;
    copy_taps(queue, device, problem_, one.taps, w,
              dense_taps(to, problem_.k / problem_.groups, one.taps.taps, group_step));
    const void* const copy = to;
    to += part.copy_bytes;
    const ConvRun& run = runs_[part.run];
    if (run.filter_bytes() > 0) run.pack(queue, device, copy, to);
    to += aligned(run.filter_bytes());
  }
}

void LoweredRun::launch(BackendQueue& queue, const ConvLaunch& launch) const {
  const DType dtype = problem_.dtype;
  const DeviceId& device = launch.device.id;
  auto* const image = static_cast<std::byte*>(launch.workspace);
  auto* const output = image + image_bytes_;
  const auto view = [&](const void* data, const ConvOperand& operand) {
    return with_all_axes(ConstTensorView(data, dtype, operand.extents, device, operand.strides));
  };
  const auto output_view = [&](void* data, const ConvOperand& operand) {
    return with_all_axes(TensorView(data, dtype, operand.extents, device, operand.strides));
  };
  if (images_ == 0) {
    const TensorView all = output_view(launch.y, output_of(whole_));
    return write_zeros(queue, launch, {all.extents(), all.strides()});
  }
  ConvLaunch parts = launch;
  parts.workspace = own_bytes_ > 0 ? output + output_bytes_ : nullptr;
  if (image_bytes_ > 0) {
    queue.pad({.x = view(launch.x, image_of(whole_)), .y = output_view(image, image_of(problem_))});
    parts.x = image;
  }
  if (output_bytes_ > 0) parts.y = output;
  launch_parts(queue, parts);
  if (output_bytes_ > 0)
    queue.pad(
        {.x = view(output, output_of(problem_)), .y = output_view(launch.y, output_of(whole_))});
}

void LoweredRun::launch_parts(BackendQueue& queue, const ConvLaunch& launch) const {
  const DType dtype = problem_.dtype;
  const ConvOperand output = output_of(problem_);
  const TensorView all =
      with_all_axes(TensorView(launch.y, dtype, output.extents, launch.device.id, output.strides));
  // Where zeros are every second column or fewer, whole rows take less time on a CPU, and the
  // convolutions write over them.
  const bool between = std::any_of(zeros_.begin(), zeros_.end(), [&](const LoweredZeros& zeros) {
    return zeros.strides[4] != all.strides()[4];
  });
  if (between && !launch.accumulate && launch.device.id == host)
    write_zeros(queue, launch, {all.extents(), all.strides()});
  else
    for (const LoweredZeros& zeros : zeros_) write_zeros(queue, launch, zeros);
  const auto* filters = static_cast<const std::byte*>(launch.filters);
  Forked forked(queue, branches_);
  int number = 0;
  for (const Part& part : parts_) {
    BackendQueue& branch = forked.branch(number);
    auto* const workspace =
        static_cast<std::byte*>(launch.workspace) + static_cast<std::size_t>(number) * own_bytes_;
    if (++number == branches_) number = 0;
    const LoweredConv& one = part.convolution;
    const ConvRun& run = runs_[part.run];
    const std::byte* const own = of_data() ? filters + part.copy_bytes : nullptr;
    const bool is_packed = of_data() && run.filter_bytes() > 0;
    run.launch(branch, {.problem = one.problem,
                        .device = launch.device,
                        .x = moved(launch.x, one.image, dtype),
                        .w = of_data() ? filters : moved(launch.w, one.filters, dtype),
                        .filters = is_packed ? own : nullptr,
                        .bias = launch.bias,
                        .y = moved(launch.y, one.output, dtype),
                        .activation = launch.activation,
                        .accumulate = launch.accumulate,
                        .reproducible = launch.reproducible,
                        .workspace = launch.workspace ? workspace : nullptr,
                        .native_queue = branch.native()});
    if (of_data()) filters = own + aligned(run.filter_bytes());
  }
  forked.join();
}

/// Of sums of nothing there is the bias, and what the output held.
void LoweredRun::write_zeros(BackendQueue& queue, const ConvLaunch& launch,
                             const LoweredZeros& zeros) const {
  const TensorView to(moved(launch.y, zeros.output, problem_.dtype), problem_.dtype, zeros.extents,
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

}  // namespace plumb
