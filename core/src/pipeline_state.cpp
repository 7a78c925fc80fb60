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
//
// In backward weights nothing leaves with a segment: their gradients are summed on the queue that
// computes them (partial_sums.hpp), and the sum is copied out at the end.
#include "pipeline_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "parallel/parallel.hpp"
#include "plumb/backend.hpp"
#include "plumb/error.hpp"
#include "plumb/problem_text.hpp"

namespace plumb {
namespace {

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

/// The first images of a buffer, which lie as `like` does: a mask's strides come with each run.
template <class View>
TensorView buffer_like(const Tensor& buffer, const View& like, std::int64_t images) {
  const TensorView all = buffer.view();
  return slice(TensorView(all.data(), all.dtype(), all.extents(), all.device(), like.strides()), 0,
               0, images);
}

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

/// Weights' gradient of no images.
void write_zeros(const TensorView& view) {
  if (!view.empty()) std::memset(view.data(), 0, bytes_of(view));
}

}  // namespace

ConvPipeline::State::State(const Device& device_, const ConvProblem& checked_problem,
                           const ConvOptions& options_, const PipelineOptions& pipeline)
    : device(device_),
      problem(checked_problem),
      options(options_),
      segments(device.id() == host || problem.n == 0
                   ? whole_batch(device, problem, options, pipeline)
                   : cut_into_segments(device, problem, options, pipeline)),
      queues{Queue(device), Queue(device), Queue(device)},
      in(queues[0]),
      compute(queues[1]),
      out(queues[2]) {
  if (options.reproducible && sums() && segments.count > 1)
    throw Error(ErrorCode::unsupported,
                fmt::format("pipeline: reproducible backward weights of {} would be cut into {} "
                            "segments, whose sums are in another order; expected memory for the "
                            "whole batch",
                            to_string(problem), segments.count));
  if (!in_place() && problem.n > 0) allocate();
}

void ConvPipeline::State::allocate() {
  const ConvProblem one = with_batch(problem, segments.images);
  const DType dtype = problem.dtype;
  const Tensor none;
  if (sums()) {
    const std::int64_t bias_gradient = options.bias ? problem.k : 0;
    partial = PartialSums(device, dtype, problem.w_extents(), problem.w_strides, bias_gradient,
                          segments.count);
    if (options.accumulate)
      before = {.dw = Tensor(device, dtype, problem.w_extents(), problem.w_strides),
                .db = bias_gradient > 0 ? Tensor(device, dtype, {bias_gradient}) : none};
  } else {
    w = Tensor(device, dtype, problem.w_extents(), problem.w_strides);
    if (options.bias) bias = Tensor(device, dtype, {bias_elements(problem)});
  }
  if (segments.workspace_bytes > 0)
    workspace =
        Tensor(device, DType::f64, {static_cast<std::int64_t>((segments.workspace_bytes + 7) / 8)});
  for (int i = 0; i < segments.streams; ++i) {
    const auto buffer = [&](const ConvOperand& part) {
      return Tensor(device, dtype, part.extents, part.strides);
    };
    streams.push_back(
        {.inputs = {buffer(image_of(one)), sums() ? buffer(filters_of(one)) : none,
                    options.relu_mask ? Tensor(device, dtype, one.y_extents()) : none},
         .output = sums() ? none : buffer(output_of(one)),
         .staged_inputs = {},
         .staged_output = {}});
  }
}

void ConvPipeline::State::allocate_staging(const Staging& staging) {
  const auto stage = [&](Tensor& staged, const Tensor& buffer) {
    if (!staged.data())
      staged = Tensor(device, buffer.dtype(), buffer.extents(), buffer.view().strides(),
                      Memory::pinned_host);
  };
  for (PipelineStream& stream : streams) {
    for (std::size_t i = 0; i < staging.inputs.size(); ++i)
      if (staging.inputs[i]) stage(stream.staged_inputs[i], stream.inputs[i]);
    if (staging.output) stage(stream.staged_output, stream.output);
  }
}

PipelineSpan ConvPipeline::State::span(PipelineStage stage, std::int64_t segment) const {
  return {.stage = stage,
          .stream = static_cast<int>(segment % segments.streams),
          .first_image = segments.first_image(segment),
          .images = segments.images_of(segment)};
}

void ConvPipeline::State::run(const PipelineTensors& tensors, std::vector<PipelineSpan>* timeline) {
  if (timeline) timeline->clear();
  if (problem.n > 0) {
    if (in_place()) return run_in_place(tensors.all, timeline);
    return run_in_segments(tensors, timeline);
  }
  if (!sums() || options.accumulate) return;
  write_zeros(tensors.all.y);
  write_zeros(tensors.all.db);
}

void ConvPipeline::State::run_in_place(const ConvTensors& tensors,
                                       std::vector<PipelineSpan>* timeline) {
  Recorder recorder(compute, timeline);
  recorder.on_queue(compute, span(PipelineStage::kernel, 0),
                    [&] { segments.plan.execute(compute, tensors); });
  compute.synchronize();
  recorder.finish();
}

/// What is there for all segments.
void ConvPipeline::State::copy_resident(const ConvTensors& tensors) {
  if (!sums()) {
    copy(in, tensors.w, w);
    if (!tensors.bias.empty()) copy(in, tensors.bias, bias);
  } else if (options.accumulate) {
    copy(in, tensors.y, before.dw);
    if (!tensors.db.empty()) copy(in, tensors.db, before.db);
  }
}

/// The calling thread's part in a segment's way in, once the one before has left the buffers.
void ConvPipeline::State::fill(const PipelineTensors& tensors, std::int64_t segment,
                               const Staging& staging, const std::optional<UnderWay>& last,
                               Recorder& recorder) {
  const std::int64_t first = segments.first_image(segment), images = segments.images_of(segment);
  const PipelineStream& stream = stream_of(segment);
  const auto stages = std::count(staging.inputs.begin(), staging.inputs.end(), true);
  if (stages > 0) {
    if (last) last->copied_in.synchronize();
    recorder.on_host(span(PipelineStage::fill, segment), [&] {
      for (std::size_t i = 0; i < staging.inputs.size(); ++i)
        if (staging.inputs[i])
          copy_on_host(slice(tensors.inputs[i], 0, first, images),
                       buffer_like(stream.staged_inputs[i], tensors.inputs[i], images));
    });
  }
  if (!staging.output) return;
  if (last) drain(tensors, *last, recorder);
  // What the convolution is added to goes in the way that the result comes out.
  if (options.accumulate)
    recorder.on_host(span(PipelineStage::fill, segment), [&] {
      copy_on_host(slice(tensors.output, 0, first, images),
                   slice(stream.staged_output.view(), 0, 0, images));
    });
}

UnderWay ConvPipeline::State::start(const PipelineTensors& tensors, std::int64_t segment,
                                    const std::optional<UnderWay>& last, const Staging& staging,
                                    Recorder& recorder) {
  fill(tensors, segment, staging, last, recorder);
  const std::int64_t first = segments.first_image(segment), images = segments.images_of(segment);
  const PipelineStream& stream = stream_of(segment);
  TensorView y, to;
  if (!sums()) {
    y = slice(stream.output.view(), 0, 0, images);
    to = staging.output ? slice(stream.staged_output.view(), 0, 0, images)
                        : slice(tensors.output, 0, first, images);
  }
  if (last) in.wait(last->done);
  const Event copied_in = recorder.on_queue(in, span(PipelineStage::copy_in, segment), [&] {
    for (std::size_t i = 0; i < tensors.inputs.size(); ++i) {
      const ConstTensorView& input = tensors.inputs[i];
      if (input.empty()) continue;
      const ConstTensorView from = staging.inputs[i]
                                       ? buffer_like(stream.staged_inputs[i], input, images)
                                       : slice(input, 0, first, images);
      copy(in, from, buffer_like(stream.inputs[i], input, images));
    }
    if (options.accumulate && !sums()) copy(in, to, y);
  });
  compute.wait(copied_in);
  const Event computed = recorder.on_queue(compute, span(PipelineStage::kernel, segment),
                                           [&] { compute_segment(tensors, segment); });
  if (sums()) return {segment, copied_in, computed};
  out.wait(computed);
  const Event copied_out =
      recorder.on_queue(out, span(PipelineStage::copy_out, segment), [&] { copy(out, y, to); });
  return {segment, copied_in, copied_out};
}

void ConvPipeline::State::compute_segment(const PipelineTensors& tensors, std::int64_t segment) {
  const std::int64_t images = segments.images_of(segment);
  const PipelineStream& stream = stream_of(segment);
  const auto input = [&](std::size_t i) -> ConstTensorView {
    if (tensors.inputs[i].empty()) return {};
    return buffer_like(stream.inputs[i], tensors.inputs[i], images);
  };
  ConvTensors of_segment{.x = input(0), .mask = input(2)};
  if (sums()) {
    of_segment.w = input(1);
    of_segment.y = partial.next().dw;
    of_segment.db = partial.next().db;
  } else {
    of_segment.w = w;
    of_segment.bias = bias;
    of_segment.y = slice(stream.output.view(), 0, 0, images);
  }
  segments.plan_of(segment).execute(compute, of_segment, workspace.data());
  if (sums()) partial.take(compute);
}

void ConvPipeline::State::drain(const PipelineTensors& tensors, const UnderWay& under_way,
                                Recorder& recorder) {
  const std::int64_t segment = under_way.segment, images = segments.images_of(segment);
  under_way.done.synchronize();
  recorder.on_host(span(PipelineStage::drain, segment), [&] {
    copy_on_host(slice(stream_of(segment).staged_output.view(), 0, 0, images),
                 slice(tensors.output, 0, segments.first_image(segment), images));
  });
}

/// The gradient of all segments goes out with the last one.
void ConvPipeline::State::deliver_sum(const ConvTensors& tensors, Recorder& recorder) {
  const PartialGradient* sum = &partial.finish(compute);
  if (options.accumulate) {
    add(compute, *sum, before);
    sum = &before;
  }
  out.wait(compute.record());
  recorder.on_queue(out, span(PipelineStage::copy_out, segments.count - 1), [&] {
    copy(out, sum->dw, tensors.y);
    if (!tensors.db.empty()) copy(out, sum->db, tensors.db);
  });
}

void ConvPipeline::State::run_in_segments(const PipelineTensors& tensors,
                                          std::vector<PipelineSpan>* timeline) {
  const auto is_staged = [&](const ConstTensorView& view) {
    return !view.empty() && !is_pinned(device, view);
  };
  Staging staging{.inputs = {}, .output = is_staged(tensors.output)};
  std::transform(tensors.inputs.begin(), tensors.inputs.end(), staging.inputs.begin(), is_staged);
  allocate_staging(staging);
  const WaitAtEnd wait_at_end(queues);
  partial.restart();
  Recorder recorder(in, timeline);
  copy_resident(tensors.all);
  std::vector<std::optional<UnderWay>> under_way(streams.size());
  for (std::int64_t segment = 0; segment < segments.count; ++segment) {
    auto& mine = under_way[static_cast<std::size_t>(segment % segments.streams)];
    mine = start(tensors, segment, mine, staging, recorder);
  }
  if (sums()) deliver_sum(tensors.all, recorder);
  if (staging.output)
    for (std::int64_t segment = segments.count - segments.streams; segment < segments.count;
         ++segment)
      drain(tensors, *under_way[static_cast<std::size_t>(segment % segments.streams)], recorder);
  for (Queue& queue : queues) queue.synchronize();
  recorder.finish();
}

}  // namespace plumb
