// What a pipeline asks of its problem and of its tensors, and how they take part in it.
#pragma once

#include <array>
#include <cstddef>

#include "plumb/pipeline.hpp"

namespace plumb {

/// Tensors of the whole batch on the host, by their parts in the pipeline. What has an N goes
/// through the device a segment at a time; all else lies there as a whole.
struct PipelineTensors {
  ConvTensors all = {};  ///< as a plan takes them
  /// Read a segment at a time: what is convolved, then dy in backward weights, then the mask. Those
  /// that are not there are empty.
  std::array<ConstTensorView, 3> inputs = {};
  TensorView output = {};  ///< written a segment at a time; empty in backward weights
};

/// Checks the problem, the options and what is asked of its strides. Errors as ConvPipeline's
/// constructor.
ConvProblem pipeline_problem(ConvProblem problem, const PipelineOptions& pipeline);

/// Checks the tensors of a run: Error (invalid_argument).
PipelineTensors pipeline_tensors(const ConvTensors& tensors, const ConvProblem& problem,
                                 const ConvOptions& options);

/// Bytes of the elements, which lie without gaps.
std::size_t bytes_of(const ConstTensorView& view);

}  // namespace plumb
