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

template <DType dtype>
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
                  {machine.units, bytes_per_second / (machine.clock_hertz * machine.units)});
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
  const PlanResult planned = plan<dtype>(problem, device);
  if (!planned.support || sums_in_order(planned_value<FieldPlan>(planned.kernel.get()))) return {};
  return {
      Reason::not_reproducible,
      "the kernel for this field begins at the bias, or sums in another order; expected a filter "
      "of one row"};
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

}  // namespace

extern const ConvAlgorithm fields_fp32{
    .name = "cuda.conv.fields.fp32",
    .numerics = {.operand = Operand::fp32,
                 .accumulator = Accumulator::fp32_fma,
                 .reproducible = true},
    .takes_depth = true,
    .takes_boundaries = true,
    .accumulates = true,
    .reproduces = reproduces<DType::f32>,
    .plan = plan<DType::f32>,
    .launch = launch<launch_fields_f32>,
};

extern const ConvAlgorithm fields_fp64{
    .name = "cuda.conv.fields.fp64",
    .numerics = {.operand = Operand::fp64,
                 .accumulator = Accumulator::fp64_fma,
                 .reproducible = true},
    .takes_depth = true,
    .takes_boundaries = true,
    .accumulates = true,
    .reproduces = reproduces<DType::f64>,
    .plan = plan<DType::f64>,
    .launch = launch<launch_fields_f64>,
};

}  // namespace plumb::cuda
