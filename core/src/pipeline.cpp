// The pipeline from host memory to host memory.
//
// Three queues: one copies in, one computes, one copies out, and events pass a segment on from one
// to the next. A stream is a set of buffers that the segments take turns on, not a queue: a device
// has one engine for each direction, and on a queue of its own each engine takes the segments one
// after the other. If each stream were a queue, copies of several streams would be ready at once
// and share the link, and the first kernel would wait for all of them.
//
// With pinned memory the calling thread puts everything on the queues at once and waits at the end.
// With pageable memory it copies through pinned staging buffers. For each segment it first fills
// (as soon as the copy in of the segment before in that stream is done), then drains what that
// segment left behind; while it does so the other streams' segments are under way.
#include "plumb/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "overlap.hpp"
#include "parallel/parallel.hpp"
#include "pipeline_recorder.hpp"
#include "pipeline_segments.hpp"
#include "plumb/backend.hpp"
#include "plumb/error.hpp"
#include "plumb/problem_text.hpp"
#include "plumb/tensor.hpp"
#include "ranks.hpp"
#include "sizes.hpp"

namespace plumb {
namespace {

[[noreturn]] void refuse(const std::string& message) { refuse_argument("pipeline", message); }

/// Whether the dimensions from `first` on fill their memory, in whatever order they lie.
bool has_no_gaps(const Extents& extents, const Strides& strides, int first) {
  std::int64_t count = 1, reach = 0;
  for (int i = first; i < extents.rank(); ++i) {
    if (extents[i] > 1 && strides[i] <= 0) return false;
    count *= extents[i];
    reach += extents[i] > 1 ? (extents[i] - 1) * strides[i] : 0;
  }
  return reach + 1 == count;
}

/// The strides of a batch whose images lie dense behind each other, or an error.
Strides batch_strides(const char* name, const Extents& extents, Strides strides) {
  const std::int64_t image = elements_per_image(extents);
  if (!has_no_gaps(extents, strides, 1) || (extents[0] > 1 && strides[0] != image))
    refuse(
        fmt::format("{} {} has strides {}; expected images without gaps, {} elements from one "
                    "to the next",
                    name, to_string(extents), to_string(strides), image));
  strides[0] = image;  // with one image it may be anything
  return strides;
}

/// Checks the problem and what is asked of its strides.
ConvProblem checked(ConvProblem problem, const PipelineOptions& pipeline) {
  if (pipeline.streams < 1) refuse(fmt::format("{} streams; expected 1 or more", pipeline.streams));
  if (pipeline.images_per_segment < 0)
    refuse(fmt::format("{} images per segment; expected 1 or more, or 0",
                       pipeline.images_per_segment));
  problem = check(std::move(problem));
  if (problem.direction != Direction::forward)
    refuse(fmt::format("{} is {}; expected a forward convolution", to_string(problem),
                       to_string(problem.direction)));
  problem.x_strides = batch_strides("x", problem.x_extents(), problem.x_strides);
  problem.y_strides = batch_strides("y", problem.y_extents(), problem.y_strides);
  if (!has_no_gaps(problem.w_extents(), problem.w_strides, 0))
    refuse(fmt::format("w {} has strides {}; expected filters without gaps",
                       to_string(problem.w_extents()), to_string(problem.w_strides)));
  return problem;
}

/// The view in the problem's rank and with its strides, which differ from its own at most along
/// extents of one.
template <class View>
View checked_view(const View& given, const char* name, DType dtype, const Extents& extents,
                  const Strides& strides) {
  const ConstTensorView view = view_of_rank(given, extents);
  bool same = view.dtype() == dtype && view.extents() == extents;
  for (int i = 0; same && i < extents.rank(); ++i)
    same = extents[i] <= 1 || view.stride(i) == strides[i];
  if (!same)
    refuse(fmt::format("{} is {} {} with strides {}; the pipeline is for {} {} with strides {}",
                       name, to_string(view.dtype()), to_string(view.extents()),
                       to_string(view.strides()), to_string(dtype), to_string(extents),
                       to_string(strides)));
  if (view.device() != host)
    refuse(fmt::format("{} is on {}; expected host memory", name, to_string(view.device())));
  if (!view.data() && element_count(extents) > 0)
    refuse(fmt::format("{} has no data (a null pointer)", name));
  return View(given.data(), dtype, extents, host, strides);
}

ConvTensors checked_tensors(const ConvTensors& tensors, const ConvProblem& problem, bool bias) {
  if (!bias && !tensors.bias.empty())
    refuse("a bias is given; it was planned without (ConvOptions::bias)");
  return {.x = checked_view(tensors.x, "x", problem.dtype, problem.x_extents(), problem.x_strides),
          .w = checked_view(tensors.w, "w", problem.dtype, problem.w_extents(), problem.w_strides),
          .bias = bias ? checked_view(tensors.bias, "bias", problem.dtype, {problem.k}, {1})
                       : ConstTensorView(),
          .y = checked_view(tensors.y, "y", problem.dtype, problem.y_extents(), problem.y_strides)};
}

std::size_t bytes_of(const ConstTensorView& view) {
  return element_count(view.extents()) * size_in_bytes(view.dtype());
}

/// Of memory without gaps from end to end.
bool is_pinned(const Device& device, const ConstTensorView& view) {
  const auto* begin = static_cast<const std::byte*>(view.data());
  return device.backend().is_pinned(begin) &&
         device.backend().is_pinned(begin + bytes_of(view) - 1);
}

/// One core does not fill a link to a device; the threads are those that the caller lets OpenMP
/// have.
void copy_on_host(const ConstTensorView& from, const TensorView& to) {
  constexpr std::size_t part_bytes = 512 * 1024;
  const std::size_t bytes = bytes_of(from);
  const auto parts = static_cast<std::int64_t>((bytes + part_bytes - 1) / part_bytes);
  parallel_for(available_threads(), parts, [&](std::int64_t part) {
    const std::size_t begin = static_cast<std::size_t>(part) * part_bytes;
    std::memcpy(static_cast<std::byte*>(to.data()) + begin,
                static_cast<const std::byte*>(from.data()) + begin,
                std::min(part_bytes, bytes - begin));
  });
}

/// Buffers that segments take turns on.
struct Stream {
  Tensor x, y;
  Tensor staged_x, staged_y;  ///< pinned, made when they are first needed
};

/// The segment that a stream works on.
struct UnderWay {
  std::int64_t segment = 0;
  Event copied_in, copied_out;
};

/// Waits for queues before anything that their work uses is let go, whatever was thrown.
class WaitAtEnd {
 public:
  explicit WaitAtEnd(std::array<Queue, 3>& queues) : queues_(queues) {}
  ~WaitAtEnd() {
    for (Queue& queue : queues_) try {
        queue.synchronize();
      } catch (const std::exception&) {  // the run has thrown already, or its own wait did
      }
  }
  WaitAtEnd(const WaitAtEnd&) = delete;
  WaitAtEnd& operator=(const WaitAtEnd&) = delete;

 private:
  std::array<Queue, 3>& queues_;
};

}  // namespace

std::string_view to_string(PipelineStage stage) {
  switch (stage) {
    case PipelineStage::fill: return "fill";
    case PipelineStage::copy_in: return "copy in";
    case PipelineStage::kernel: return "kernel";
    case PipelineStage::copy_out: return "copy out";
    case PipelineStage::drain: return "drain";
  }
  return "unknown";
}

struct [[gnu::visibility("hidden")]] ConvPipeline::State {
  State(const Device& device_, const ConvProblem& checked_problem, const ConvOptions& options,
        const PipelineOptions& pipeline);

  void allocate();
  void allocate_staging(bool for_x, bool for_y);
  void run_in_place(const ConvTensors& tensors, std::vector<PipelineSpan>* timeline);
  void run_in_segments(const ConvTensors& tensors, std::vector<PipelineSpan>* timeline);
  UnderWay start(const ConvTensors& tensors, std::int64_t segment,
                 const std::optional<UnderWay>& before, bool stage_x, bool stage_y,
                 Recorder& recorder);
  void drain(const ConvTensors& tensors, const UnderWay& under_way, Recorder& recorder);
  PipelineSpan span(PipelineStage stage, std::int64_t segment) const;

  bool in_place() const { return device.id() == host; }
  bool accumulates() const { return segments.plan.options().accumulate; }
  int stream_of(std::int64_t segment) const { return static_cast<int>(segment % segments.streams); }

  Device device;
  ConvProblem problem;
  Segments segments;
  std::array<Queue, 3> queues;
  Queue &in, &compute, &out;
  std::vector<Stream> streams;
  Tensor w, bias, workspace;
};

namespace {

/// On the CPU there are no segments, and the budget bounds the workspace alone.
Segments whole_batch(const Device& device, const ConvProblem& problem, ConvOptions options,
                     const PipelineOptions& pipeline) {
  if (pipeline.memory_budget_bytes > 0)
    options.workspace_limit_bytes =
        std::min(options.workspace_limit_bytes, pipeline.memory_budget_bytes);
  return {.batch = problem.n,
          .images = problem.n,
          .count = problem.n > 0 ? 1 : 0,
          .plan = ConvPlan(device, problem, options),
          .last_plan = std::nullopt};
}

}  // namespace

ConvPipeline::State::State(const Device& device_, const ConvProblem& checked_problem,
                           const ConvOptions& options, const PipelineOptions& pipeline)
    : device(device_),
      problem(checked_problem),
      segments(device.id() == host || problem.n == 0
                   ? whole_batch(device, problem, options, pipeline)
                   : cut_into_segments(device, problem, options, pipeline)),
      queues{Queue(device), Queue(device), Queue(device)},
      in(queues[0]),
      compute(queues[1]),
      out(queues[2]) {
  if (!in_place() && problem.n > 0) allocate();
}

void ConvPipeline::State::allocate() {
  const ConvProblem one = with_batch(problem, segments.images);
  w = Tensor(device, problem.dtype, problem.w_extents(), problem.w_strides);
  if (segments.plan.options().bias) bias = Tensor(device, problem.dtype, {problem.k});
  if (segments.workspace_bytes > 0)
    workspace =
        Tensor(device, DType::f64, {static_cast<std::int64_t>((segments.workspace_bytes + 7) / 8)});
  for (int i = 0; i < segments.streams; ++i)
    streams.push_back({.x = Tensor(device, problem.dtype, one.x_extents(), problem.x_strides),
                       .y = Tensor(device, problem.dtype, one.y_extents(), problem.y_strides),
                       .staged_x = {},
                       .staged_y = {}});
}

void ConvPipeline::State::allocate_staging(bool for_x, bool for_y) {
  const ConvProblem one = with_batch(problem, segments.images);
  for (Stream& stream : streams) {
    if (for_x && !stream.staged_x.data())
      stream.staged_x =
          Tensor(device, problem.dtype, one.x_extents(), problem.x_strides, Memory::pinned_host);
    if (for_y && !stream.staged_y.data())
      stream.staged_y =
          Tensor(device, problem.dtype, one.y_extents(), problem.y_strides, Memory::pinned_host);
  }
}

PipelineSpan ConvPipeline::State::span(PipelineStage stage, std::int64_t segment) const {
  return {.stage = stage,
          .stream = stream_of(segment),
          .first_image = segments.first_image(segment),
          .images = segments.images_of(segment)};
}

void ConvPipeline::State::run_in_place(const ConvTensors& tensors,
                                       std::vector<PipelineSpan>* timeline) {
  Recorder recorder(compute, timeline);
  recorder.on_queue(compute, span(PipelineStage::kernel, 0),
                    [&] { segments.plan.execute(compute, tensors); });
  compute.synchronize();
  recorder.finish();
}

UnderWay ConvPipeline::State::start(const ConvTensors& tensors, std::int64_t segment,
                                    const std::optional<UnderWay>& before, bool stage_x,
                                    bool stage_y, Recorder& recorder) {
  const std::int64_t first = segments.first_image(segment), images = segments.images_of(segment);
  const Stream& stream = streams[static_cast<std::size_t>(stream_of(segment))];
  const TensorView x = slice(stream.x.view(), 0, 0, images);
  const TensorView y = slice(stream.y.view(), 0, 0, images);
  ConstTensorView from = slice(tensors.x, 0, first, images);
  if (stage_x) {
    const TensorView staged = slice(stream.staged_x.view(), 0, 0, images);
    if (before) before->copied_in.synchronize();
    recorder.on_host(span(PipelineStage::fill, segment), [&] { copy_on_host(from, staged); });
    from = staged;
  }
  if (before && stage_y) drain(tensors, *before, recorder);
  const TensorView to =
      slice(stage_y ? stream.staged_y.view() : tensors.y, 0, stage_y ? 0 : first, images);

  // What the convolution is added to goes in the way that the result comes out.
  if (accumulates() && stage_y)
    recorder.on_host(span(PipelineStage::fill, segment),
                     [&] { copy_on_host(slice(tensors.y, 0, first, images), to); });
  if (before) in.wait(before->copied_out);
  const Event copied_in = recorder.on_queue(in, span(PipelineStage::copy_in, segment), [&] {
    copy(in, from, x);
    if (accumulates()) copy(in, to, y);
  });
  compute.wait(copied_in);
  const Event computed = recorder.on_queue(compute, span(PipelineStage::kernel, segment), [&] {
    segments.plan_of(segment).execute(compute, {.x = x, .w = w, .bias = bias.view(), .y = y},
                                      workspace.data());
  });
  out.wait(computed);
  const Event copied_out =
      recorder.on_queue(out, span(PipelineStage::copy_out, segment), [&] { copy(out, y, to); });
  return {segment, copied_in, copied_out};
}

void ConvPipeline::State::drain(const ConvTensors& tensors, const UnderWay& under_way,
                                Recorder& recorder) {
  const std::int64_t segment = under_way.segment, images = segments.images_of(segment);
  const Stream& stream = streams[static_cast<std::size_t>(stream_of(segment))];
  under_way.copied_out.synchronize();
  recorder.on_host(span(PipelineStage::drain, segment), [&] {
    copy_on_host(slice(stream.staged_y.view(), 0, 0, images),
                 slice(tensors.y, 0, segments.first_image(segment), images));
  });
}

void ConvPipeline::State::run_in_segments(const ConvTensors& tensors,
                                          std::vector<PipelineSpan>* timeline) {
  const bool stage_x = !is_pinned(device, tensors.x), stage_y = !is_pinned(device, tensors.y);
  allocate_staging(stage_x, stage_y);
  const WaitAtEnd wait_at_end(queues);
  Recorder recorder(in, timeline);
  copy(in, tensors.w, w);
  if (!tensors.bias.empty()) copy(in, tensors.bias, bias);
  std::vector<std::optional<UnderWay>> under_way(streams.size());
  for (std::int64_t segment = 0; segment < segments.count; ++segment) {
    auto& mine = under_way[static_cast<std::size_t>(stream_of(segment))];
    mine = start(tensors, segment, mine, stage_x, stage_y, recorder);
  }
  if (stage_y)
    for (std::int64_t segment = segments.count - segments.streams; segment < segments.count;
         ++segment)
      drain(tensors, *under_way[static_cast<std::size_t>(stream_of(segment))], recorder);
  for (Queue& queue : queues) queue.synchronize();
  recorder.finish();
}

ConvPipeline::ConvPipeline(const Device& device, const ConvProblem& problem,
                           const ConvOptions& options, const PipelineOptions& pipeline)
    : state_(std::make_unique<State>(device, checked(problem, pipeline), options, pipeline)) {}
ConvPipeline::~ConvPipeline() = default;
ConvPipeline::ConvPipeline(ConvPipeline&&) noexcept = default;
ConvPipeline& ConvPipeline::operator=(ConvPipeline&&) noexcept = default;

const ConvProblem& ConvPipeline::problem() const { return state_->problem; }
const ConvPlan& ConvPipeline::plan() const { return state_->segments.plan; }
std::int64_t ConvPipeline::images_per_segment() const { return state_->segments.images; }
std::int64_t ConvPipeline::segments() const { return state_->segments.count; }
int ConvPipeline::streams() const { return state_->segments.streams; }
std::size_t ConvPipeline::device_bytes() const { return state_->segments.device_bytes; }

void ConvPipeline::run(const ConvTensors& tensors, std::vector<PipelineSpan>* timeline) {
  const ConvTensors mine =
      checked_tensors(tensors, state_->problem, state_->segments.plan.options().bias);
  refuse_overlaps("pipeline", state_->problem, mine);
  if (timeline) timeline->clear();
  if (state_->problem.n == 0) return;
  if (state_->in_place())
    state_->run_in_place(mine, timeline);
  else
    state_->run_in_segments(mine, timeline);
}

Device conv_host(const Device& device, const ConvTensors& tensors, const ConvGeometry& geometry,
                 ConvOptions options, const PipelineOptions& pipeline) {
  options.bias = !tensors.bias.empty();
  const ConvProblem problem = problem_of(tensors, geometry);
  if (options.bias)
    check_layout("convolution", "bias", tensors.bias.extents(), tensors.bias.strides());
  // What y overlaps would be lost with the device: the CPU could not do it again.
  refuse_overlaps("convolution", problem, tensors);
  bool begun = false;
  try {
    ConvPipeline planned(device, problem, options, pipeline);
    begun = true;
    planned.run(tensors);
    return device;
  } catch (const Error& failure) {
    // Part of what the convolution was to be added to may be gone.
    if (begun && options.accumulate) throw;
    const Device cpu = device.fall_back(failure);
    const auto candidates = explain(cpu, problem, options);
    const bool possible = std::any_of(candidates.begin(), candidates.end(),
                                      [](const ConvCandidate& one) { return one.chosen; });
    if (!possible) throw;
    ConvPipeline(cpu, problem, options, pipeline).run(tensors);
    return cpu;
  }
}

}  // namespace plumb
