// Convolutions and gradients of tensors on the host, each in one call.
#include <algorithm>

#include "overlap.hpp"
#include "plumb/error.hpp"
#include "plumb/pipeline.hpp"
#include "refuse_convolution.hpp"
#include "sizes.hpp"

namespace plumb {
namespace {

/// Runs a pipeline on the device, and where that may be and it fails another one on the CPU.
Device run_on_host(const Device& device, const ConvProblem& problem, const ConvTensors& tensors,
                   ConvOptions options, const PipelineOptions& pipeline) {
  options.bias = !tensors.bias.empty() || !tensors.db.empty();
  options.relu_mask = !tensors.mask.empty();
  for (const auto& [name, vector] :
       {std::pair("bias", tensors.bias), std::pair("db", ConstTensorView(tensors.db))})
    if (!vector.empty())
      check_layout(convolution_operation, name, vector.extents(), vector.strides());
  if (options.relu_mask)
    check_layout(convolution_operation, "mask", tensors.mask.extents(), tensors.mask.strides());
  // What an output overlaps would be lost with the device: the CPU could not do it again.
  refuse_overlaps(convolution_operation, problem, tensors);
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

}  // namespace

Device conv_host(const Device& device, const ConvTensors& tensors, const ConvGeometry& geometry,
                 ConvOptions options, const PipelineOptions& pipeline) {
  return run_on_host(device, problem_of(tensors, geometry), tensors, std::move(options), pipeline);
}

Device conv_backward_data_host(const Device& device, const BackwardDataTensors& tensors,
                               const ConvGeometry& geometry, ConvOptions options,
                               const PipelineOptions& pipeline) {
  return run_on_host(device, backward_data_problem(tensors, geometry), tensors, std::move(options),
                     pipeline);
}

Device conv_backward_weights_host(const Device& device, const BackwardWeightsTensors& tensors,
                                  const ConvGeometry& geometry, ConvOptions options,
                                  const PipelineOptions& pipeline) {
  return run_on_host(device, backward_weights_problem(tensors, geometry), tensors,
                     std::move(options), pipeline);
}

Device conv_transpose_host(const Device& device, const TransposedTensors& tensors,
                           const ConvGeometry& geometry, ConvOptions options,
                           const PipelineOptions& pipeline) {
  return run_on_host(device, transposed_problem(tensors, geometry), tensors, std::move(options),
                     pipeline);
}

}  // namespace plumb
