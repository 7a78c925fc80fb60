// Convolution from C: plans, what they say for themselves, and their proof.
#include <fmt/format.h>

#include <algorithm>

#include "convert.hpp"
#include "handles.hpp"
#include "plumb/pipeline.hpp"
#include "validated.hpp"

using namespace plumb;
using plumb::c::at;
using plumb::c::geometry_of;
using plumb::c::made_at;
using plumb::c::options_of;
using plumb::c::refuse;
using plumb::c::run;
using plumb::c::tensors_of;
using plumb::c::to_c;

namespace {

/// The caller's pointers as the plan's tensors.
ConvTensors tensors_for(const ConvPlan& plan, const void* x, const void* bias, void* y) {
  const DType dtype = plan.problem().dtype;
  const DeviceId device = plan.device().id();
  const ConvOperand image = image_of(plan.problem()), output = output_of(plan.problem());
  const std::int64_t biases = bias_elements(plan.problem());
  return {.x = {x, dtype, image.extents, device, image.strides},
          .bias = bias ? ConstTensorView(bias, dtype, {biases}, device) : ConstTensorView(),
          .y = {y, dtype, output.extents, device, output.strides}};
}

ConstTensorView filters_for(const ConvPlan& plan, const void* w) {
  const ConvOperand filters = filters_of(plan.problem());
  return {w, plan.problem().dtype, filters.extents, plan.device().id(), filters.strides};
}

}  // namespace

plumb_status plumb_conv_output_extents(const plumb_conv_problem* problem, std::int64_t extents[4]) {
  return run(__func__, [&] {
    at(extents, "extents");
    const Extents y = check(c::problem_of(problem)).y_extents();
    std::copy(y.begin(), y.end(), extents);
  });
}

plumb_status plumb_plan_create(const plumb_device* device, const plumb_conv_problem* problem,
                               const plumb_conv_options* options, plumb_plan** plan) {
  return run(__func__, [&] {
    plumb_plan*& made = made_at(plan, "plan");
    made = new plumb_plan{
        ConvPlan(at(device, "device").device, c::problem_of(problem), options_of(options))};
  });
}

void plumb_plan_destroy(plumb_plan* plan) { delete plan; }

// Names of algorithms are literals, which end in a NUL.
plumb_status plumb_plan_algorithm(const plumb_plan* plan, const char** algorithm) {
  return run(__func__, [&] {
    at(algorithm, "algorithm") = nullptr;
    *algorithm = at(plan, "plan").plan.algorithm().name.data();
  });
}

plumb_status plumb_plan_workspace_bytes(const plumb_plan* plan, std::size_t* bytes) {
  return run(__func__, [&] {
    at(bytes, "bytes") = 0;
    *bytes = at(plan, "plan").plan.workspace_bytes();
  });
}

plumb_status plumb_plan_packed_workspace_bytes(const plumb_plan* plan, std::size_t* bytes) {
  return run(__func__, [&] {
    at(bytes, "bytes") = 0;
    *bytes = at(plan, "plan").plan.packed_workspace_bytes();
  });
}

plumb_status plumb_plan_execute(const plumb_plan* plan, plumb_queue* queue, const void* x,
                                const void* w, const void* bias, void* y, void* workspace) {
  return run(__func__, [&] {
    const ConvPlan& planned = at(plan, "plan").plan;
    ConvTensors tensors = tensors_for(planned, x, bias, y);
    tensors.w = filters_for(planned, w);
    planned.execute(at(queue, "queue").queue, tensors, workspace);
  });
}

plumb_status plumb_plan_execute_gradient(const plumb_plan* plan, plumb_queue* queue,
                                         const void* image, const void* filters, const void* bias,
                                         const void* mask, void* output, void* db,
                                         void* workspace) {
  return run(__func__, [&] {
    const ConvPlan& planned = at(plan, "plan").plan;
    const ConvProblem& problem = planned.problem();
    const DeviceId device = planned.device().id();
    ConvTensors tensors = tensors_for(planned, image, bias, output);
    tensors.w = filters_for(planned, filters);
    if (mask) tensors.mask = ConstTensorView(mask, problem.dtype, problem.y_extents(), device);
    if (db) tensors.db = TensorView(db, problem.dtype, {problem.k}, device);
    planned.execute(at(queue, "queue").queue, tensors, workspace);
  });
}

plumb_status plumb_plan_pack(const plumb_plan* plan, plumb_queue* queue, const void* w,
                             plumb_packed_filters** filters) {
  return run(__func__, [&] {
    plumb_packed_filters*& made = made_at(filters, "filters");
    const ConvPlan& planned = at(plan, "plan").plan;
    made =
        new plumb_packed_filters{planned.pack(at(queue, "queue").queue, filters_for(planned, w))};
  });
}

void plumb_packed_filters_destroy(plumb_packed_filters* filters) { delete filters; }

plumb_status plumb_plan_execute_packed(const plumb_plan* plan, plumb_queue* queue, const void* x,
                                       const plumb_packed_filters* filters, const void* bias,
                                       void* y, void* workspace) {
  return run(__func__, [&] {
    const ConvPlan& planned = at(plan, "plan").plan;
    planned.execute(at(queue, "queue").queue, at(filters, "filters").filters,
                    tensors_for(planned, x, bias, y), workspace);
  });
}

plumb_status plumb_explain(const plumb_device* device, const plumb_conv_problem* problem,
                           const plumb_conv_options* options, plumb_explanation** explanation) {
  return run(__func__, [&] {
    plumb_explanation*& made = made_at(explanation, "explanation");
    made = new plumb_explanation{
        explain(at(device, "device").device, c::problem_of(problem), options_of(options))};
  });
}

plumb_status plumb_plan_explain(const plumb_plan* plan, plumb_explanation** explanation) {
  return run(__func__, [&] {
    plumb_explanation*& made = made_at(explanation, "explanation");
    made = new plumb_explanation{at(plan, "plan").plan.explain()};
  });
}

plumb_status plumb_explanation_size(const plumb_explanation* explanation, std::size_t* size) {
  return run(__func__, [&] {
    at(size, "size") = 0;
    *size = at(explanation, "explanation").candidates.size();
  });
}

plumb_status plumb_explanation_entry(const plumb_explanation* explanation, std::size_t index,
                                     plumb_candidate* candidate) {
  return run(__func__, [&] {
    at(candidate, "candidate") = {};
    const auto& all = at(explanation, "explanation").candidates;
    if (index >= all.size())
      refuse(fmt::format("index {}; there are {} entries", index, all.size()));
    const ConvCandidate& of = all[index];
    *candidate = {.algorithm = of.algorithm.data(),
                  .reason = to_string(of.support.reason).data(),
                  .sentence = of.support.sentence.c_str(),
                  .remedy = of.support ? "" : remedy(of.support.reason).data(),
                  .estimate_seconds = of.estimate_seconds,
                  .measured_seconds = of.measured_seconds.value_or(-1),
                  .workspace_bytes = of.workspace_bytes,
                  .error_class = to_c(of.error_class),
                  .deterministic = of.deterministic ? 1 : 0,
                  .pool_fused = of.pool_fused ? 1 : 0,
                  .chosen = of.chosen ? 1 : 0};
  });
}

void plumb_explanation_destroy(plumb_explanation* explanation) { delete explanation; }

plumb_status plumb_validate(const plumb_device* device, const plumb_conv_problem* problem,
                            const char* algorithm, plumb_validation* validation) {
  return run(__func__, [&] {
    at(validation, "validation") = {};
    const Device& on = at(device, "device").device;
    *validation = c::validated(on, c::problem_of(problem), algorithm);
  });
}

plumb_status plumb_conv(plumb_queue* queue, const plumb_tensor* x, const plumb_tensor* w,
                        const plumb_tensor* bias, const plumb_tensor* y,
                        const plumb_conv_geometry* geometry, const plumb_conv_options* options) {
  return run(__func__, [&] {
    conv(at(queue, "queue").queue, tensors_of(x, w, bias, y), geometry_of(geometry),
         options_of(options));
  });
}

plumb_status plumb_conv_host(const plumb_device* device, const plumb_tensor* x,
                             const plumb_tensor* w, const plumb_tensor* bias, const plumb_tensor* y,
                             const plumb_conv_geometry* geometry,
                             const plumb_conv_options* options) {
  return run(__func__, [&] {
    conv_host(at(device, "device").device, tensors_of(x, w, bias, y), geometry_of(geometry),
              options_of(options));
  });
}
