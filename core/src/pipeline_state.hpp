// How a pipeline runs: its queues and buffers, and what it does with them.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "partial_sums.hpp"
#include "pipeline_recorder.hpp"
#include "pipeline_segments.hpp"
#include "pipeline_tensors.hpp"
#include "plumb/pipeline.hpp"
#include "plumb/tensor.hpp"

namespace plumb {

/// Buffers that segments take turns on: those of PipelineTensors' inputs and of its output.
struct PipelineStream {
  std::array<Tensor, 3> inputs;
  Tensor output;
  std::array<Tensor, 3> staged_inputs;  ///< pinned, made when they are first needed
  Tensor staged_output;                 ///< likewise
};

/// Which tensors of a run are in pageable memory, and so go through pinned buffers.
struct Staging {
  std::array<bool, 3> inputs = {};
  bool output = false;
};

/// The segment that a stream works on.
struct UnderWay {
  std::int64_t segment = 0;
  Event copied_in;
  Event done;  ///< copied out; in backward weights computed
};

struct [[gnu::visibility("hidden")]] ConvPipeline::State {
  State(const Device& device_, const ConvProblem& checked_problem, const ConvOptions& options_,
        const PipelineOptions& pipeline);

  void run(const PipelineTensors& tensors, std::vector<PipelineSpan>* timeline);
  bool in_place() const { return device.id() == host; }
  bool sums() const { return problem.direction == Direction::backward_weights; }

  Device device;
  ConvProblem problem;
  ConvOptions options;
  Segments segments;

 private:
  void allocate();
  void allocate_staging(const Staging& staging);
  void run_in_place(const ConvTensors& tensors, std::vector<PipelineSpan>* timeline);
  void run_in_segments(const PipelineTensors& tensors, std::vector<PipelineSpan>* timeline);
  void copy_resident(const ConvTensors& tensors);
  void fill(const PipelineTensors& tensors, std::int64_t segment, const Staging& staging,
            const std::optional<UnderWay>& last, Recorder& recorder);
  UnderWay start(const PipelineTensors& tensors, std::int64_t segment,
                 const std::optional<UnderWay>& last, const Staging& staging, Recorder& recorder);
  void compute_segment(const PipelineTensors& tensors, std::int64_t segment);
  void drain(const PipelineTensors& tensors, const UnderWay& under_way, Recorder& recorder);
  void deliver_sum(const ConvTensors& tensors, Recorder& recorder);
  PipelineSpan span(PipelineStage stage, std::int64_t segment) const;
  PipelineStream& stream_of(std::int64_t segment) {
    return streams[static_cast<std::size_t>(segment % segments.streams)];
  }

  std::array<Queue, 3> queues;
  Queue &in, &compute, &out;
  std::vector<PipelineStream> streams;
  Tensor w, bias, workspace;
  PartialSums partial;     ///< of backward weights
  PartialGradient before;  ///< what their sum is added to, where the options accumulate
};

}  // namespace plumb
