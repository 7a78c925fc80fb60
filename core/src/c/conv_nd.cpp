// Convolution from C in one to three dimensions: what plumb_nd.h adds to plumb.h.
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

plumb_status plumb_conv_output_extents_nd(const plumb_conv_problem_nd* problem,
                                          std::int64_t extents[5]) {
  return run(__func__, [&] {
    at(extents, "extents");
    const ConvProblem checked = check(c::problem_of(problem));
    const Extents y = checked.y_extents();
    const Extents all = checked.has_depth() ? y : Extents{y[0], y[1], 1, y[2], y[3]};
    std::copy(all.begin(), all.end(), extents);
  });
}

plumb_status plumb_plan_create_nd(const plumb_device* device, const plumb_conv_problem_nd* problem,
                                  const plumb_conv_options_nd* options, plumb_plan** plan) {
  return run(__func__, [&] {
    plumb_plan*& made = made_at(plan, "plan");
    made = new plumb_plan{
        ConvPlan(at(device, "device").device, c::problem_of(problem), options_of(options))};
  });
}

plumb_status plumb_explain_nd(const plumb_device* device, const plumb_conv_problem_nd* problem,
                              const plumb_conv_options_nd* options,
                              plumb_explanation** explanation) {
  return run(__func__, [&] {
    plumb_explanation*& made = made_at(explanation, "explanation");
    made = new plumb_explanation{
        explain(at(device, "device").device, c::problem_of(problem), options_of(options))};
  });
}

plumb_status plumb_explanation_stages(const plumb_explanation* explanation, std::size_t index,
                                      std::int32_t* copies_input, std::int32_t* accumulate_fused) {
  return run(__func__, [&] {
    at(copies_input, "copies_input") = 0;
    at(accumulate_fused, "accumulate_fused") = 0;
    const auto& all = at(explanation, "explanation").candidates;
    if (index >= all.size())
      refuse(fmt::format("index {}; there are {} entries", index, all.size()));
    *copies_input = all[index].copies_input ? 1 : 0;
    *accumulate_fused = all[index].accumulate_fused ? 1 : 0;
  });
}

plumb_status plumb_explanation_promises(const plumb_explanation* explanation, std::size_t index,
                                        std::int32_t* reproducible, std::int32_t* invariant) {
  return run(__func__, [&] {
    at(reproducible, "reproducible") = 0;
    at(invariant, "invariant") = 0;
    const auto& all = at(explanation, "explanation").candidates;
    if (index >= all.size())
      refuse(fmt::format("index {}; there are {} entries", index, all.size()));
    *reproducible = all[index].reproducible ? 1 : 0;
    *invariant = all[index].invariant ? 1 : 0;
  });
}

plumb_status plumb_validate_nd(const plumb_device* device, const plumb_conv_problem_nd* problem,
                               const char* algorithm, plumb_validation* validation) {
  return run(__func__, [&] {
    at(validation, "validation") = {};
    const Device& on = at(device, "device").device;
    *validation = c::validated(on, c::problem_of(problem), algorithm);
  });
}

plumb_status plumb_copy_tensor(plumb_queue* queue, const plumb_tensor* to,
                               const plumb_tensor* from) {
  return run(__func__, [&] {
    copy(at(queue, "queue").queue, c::view_of(from, "from"), c::view_of(to, "to"));
  });
}

plumb_status plumb_conv_nd(plumb_queue* queue, const plumb_tensor* x, const plumb_tensor* w,
                           const plumb_tensor* bias, const plumb_tensor* y,
                           const plumb_conv_geometry_nd* geometry,
                           const plumb_conv_options_nd* options) {
  return run(__func__, [&] {
    conv(at(queue, "queue").queue, tensors_of(x, w, bias, y), geometry_of(geometry),
         options_of(options));
  });
}

plumb_status plumb_conv_host_nd(const plumb_device* device, const plumb_tensor* x,
                                const plumb_tensor* w, const plumb_tensor* bias,
                                const plumb_tensor* y, const plumb_conv_geometry_nd* geometry,
                                const plumb_conv_options_nd* options) {
  return run(__func__, [&] {
    conv_host(at(device, "device").device, tensors_of(x, w, bias, y), geometry_of(geometry),
              options_of(options));
  });
}
