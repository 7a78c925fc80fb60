// What callers see of pipelines.
#include "plumb/pipeline.hpp"

#include "pipeline_state.hpp"

namespace plumb {

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

ConvPipeline::ConvPipeline(const Device& device, const ConvProblem& problem,
                           const ConvOptions& options, const PipelineOptions& pipeline)
    : state_(std::make_unique<State>(device, pipeline_problem(problem, pipeline), options,
                                     pipeline)) {}
ConvPipeline::~ConvPipeline() = default;
ConvPipeline::ConvPipeline(ConvPipeline&&) noexcept = default;
ConvPipeline& ConvPipeline::operator=(ConvPipeline&&) noexcept = default;

const ConvProblem& ConvPipeline::problem() const { return state_->problem; }
const ConvPlan& ConvPipeline::plan() const { return state_->segments.plan; }
std::int64_t ConvPipeline::images_per_segment() const { return state_->segments.images; }
std::int64_t ConvPipeline::segments() const { return state_->segments.count; }
int ConvPipeline::streams() const { return state_->segments.streams; }
std::size_t ConvPipeline::device_bytes() const { return state_->segments.device_bytes; }

int ConvPipeline::sum_depth() const {
  const State& state = *state_;
  if (state.in_place() || state.segments.count == 0 || !state.sums()) return 0;
  return PartialSums::depth(state.segments.count) + (state.options.accumulate ? 1 : 0);
}

void ConvPipeline::run(const ConvTensors& tensors, std::vector<PipelineSpan>* timeline) {
  state_->run(pipeline_tensors(tensors, state_->problem, state_->options), timeline);
}

}  // namespace plumb
