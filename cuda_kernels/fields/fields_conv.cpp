// The entries of the family: which convolutions are fields, and what a launch tells their kernels.
#include <string>

#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/cost/kernel_model.hpp"
#include "cuda_kernels/fields/fields.hpp"
#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

constexpr double h200_bytes_per_second = 4.9e12;

Support refuse(std::string sentence) { return {Reason::geometry, std::move(sentence)}; }

/// In fp32 other families have tensor cores for more channels.
template <DType dtype>
constexpr FieldLimits limits = dtype == DType::f64 ? FieldLimits{16, 64} : FieldLimits{4, 4};

/// `in_order` with kernels that sum as is specified for reproducible results alone.
template <DType dtype, bool in_order>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  PlanResult result{.support = supports_fields(problem, dtype, limits<dtype>)};
  if (!result.support || problem.n == 0) return result;
  const int element_bytes = static_cast<int>(size_in_bytes(dtype));
  const Machine machine(device);
  // Where a device does not say how fast its memory is, it is taken for an H200's.
  const double bytes_per_second =
      machine.bytes_per_second > 0 ? machine.bytes_per_second : h200_bytes_per_second;
  const auto fields =
      plan_fields(field_problem(problem), element_bytes,
                  {machine.units, bytes_per_second / (machine.clock_hertz * machine.units)},
                  {.in_order = in_order});
  if (!fields) {
    result.support =
        refuse("filters of " + std::to_string(problem.t) + "x" + std::to_string(problem.r) + "x" +
               std::to_string(problem.s) + "; expected the input of a tile to fit shared memory");
    return result;
  }
  result.estimate_seconds = kernel_seconds(fields->clocks / machine.clock_hertz, device, 0);
  result.kernel = planned(*fields);
  return result;
}

/// The kernel that is planned decides.
template <DType dtype>
Support reproduces(const ConvProblem& problem, const DeviceInfo& device) {
  if (problem.n == 0) return {};
  const PlanResult planned = plan<dtype, false>(problem, device);
  if (!planned.support || sums_in_order(planned_value<FieldPlan>(planned.kernel.get()))) return {};
  return {Reason::not_reproducible,
          "the kernel for this field sums in another order; fields_spec has the one that is "
          "specified"};
}

template <auto launch_fields>
void launch(const ConvLaunch& call, const KernelPlan* plan) {
  launch_fields(planned_value<FieldPlan>(plan),
                {.x = call.x,
                 .w = call.w,
                 .bias = call.bias,
                 .y = call.y,
                 .relu = call.activation == Activation::relu,
                 .accumulate = call.accumulate},
                call.native_queue);
}

/// The entries in order run where their bits are asked for, or by name.
template <DType dtype, bool in_order>
constexpr ConvAlgorithm algorithm(std::string_view name) {
  constexpr bool doubles = dtype == DType::f64;
  return {
      .name = name,
      .numerics = {.operand = doubles ? Operand::fp64 : Operand::fp32,
                   .accumulator = doubles ? Accumulator::fp64_fma : Accumulator::fp32_fma,
                   .reproducible = true,
                   .invariant = in_order},
      .forced_only = in_order,
      .takes_depth = true,
      .takes_boundaries = true,
      .accumulates = true,
      .reproduces = in_order ? nullptr : reproduces<dtype>,
      .plan = plan<dtype, in_order>,
      .launch = launch<(doubles ? launch_fields_f64 : launch_fields_f32)>,
  };
}

}  // namespace

extern const ConvAlgorithm fields_fp32 = algorithm<DType::f32, false>("cuda.conv.fields.fp32");
extern const ConvAlgorithm fields_fp64 = algorithm<DType::f64, false>("cuda.conv.fields.fp64");
extern const ConvAlgorithm fields_spec_fp32 =
    algorithm<DType::f32, true>("cuda.conv.fields_spec.fp32");
extern const ConvAlgorithm fields_spec_fp64 =
    algorithm<DType::f64, true>("cuda.conv.fields_spec.fp64");

}  // namespace plumb::cuda
