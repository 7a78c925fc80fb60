// cuDNN's convolutions as algorithms, to be judged and timed like ours.
//
// Through the graph interface, which is what cuDNN 9 tunes: every engine configuration that its
// heuristics A and B and its fallback list name for the problem, and at their default settings the
// FFT and Winograd engines, and for gradients the deterministic ones, which the lists leave out,
// are built and timed on the device, once, when the algorithm is first asked whether it supports
// the problem. Of those whose numerical notes allow the class asked for, the fastest is kept; a
// launch runs it and nothing else. PLUMB_VERBOSE prints which it is.
//
// cudnn.conv.best.fp64, .fp32 and .tf32 may be FFT or Winograd, for which no bound is derived here.
// cudnn.conv.deterministic.* are the same search among engines that give the same bits every time.
// cudnn.conv.sum.* are it among engines that form plain sums and are deterministic: only these
// state a bound, and may be chosen by a measured time. sum.tf32 is of tensor cores alone; who
// allows TF32 allows sum.fp32 too.
//
// Gradients are cuDNN's own backward operations.
//
// A plain convolution is timed as cuDNN runs it. Bias and ReLU are not fused into it: bias is a
// pass of its own over what is written, before the convolution where that is narrow (so that the
// sum is rounded once) and after it where it is f32, and ReLU is one after it. Compare plain
// convolutions.
#include <fmt/format.h>

#include <algorithm>

#include "peers/cudnn/epilogue.hpp"
#include "peers/cudnn/search.hpp"
#include "plumb/error.hpp"

namespace plumb::cuda {
namespace cudnn {
namespace {

constexpr bool rounds_to_tf32(Accuracy accuracy) {
  return accuracy == Accuracy::tf32 || accuracy == Accuracy::tf32_deterministic ||
         accuracy == Accuracy::tf32_sum;
}

template <Accuracy accuracy, bool wide>
Support supports(const ConvProblem& problem, const DeviceInfo& device) {
  const auto refuse = [](Reason reason, std::string sentence) {
    return Support{reason, std::move(sentence)};
  };
  if (wide != (problem.dtype == DType::f64))
    return refuse(Reason::dtype,
                  fmt::format("tensors are stored as {}; expected {}", to_string(problem.dtype),
                              wide ? "f64" : "f32, f16 or bf16"));
  if (rounds_to_tf32(accuracy) && problem.dtype != DType::f32)
    return refuse(Reason::dtype,
                  fmt::format("tensors are stored as {}, which TF32 would not round; "
                              "expected f32",
                              to_string(problem.dtype)));
  if (accuracy == Accuracy::fp32_sum && problem.dtype == DType::bf16)
    return refuse(Reason::dtype,
                  "tensors are stored as bf16, which cuDNN has rounded on the way (3 units in the "
                  "last place); expected f32 or f16");
  if (!layout_of(problem))
    return refuse(Reason::layout, "x, w and y are not all dense NCHW or all dense NHWC");
  const LibraryReport& found = library().report;
  if (found.reason != Reason::none) return refuse(found.reason, found.sentence);
  if (problem.n == 0) return {};
  const auto searched = search(problem, device);
  if (!searched->support) return searched->support;
  const Choice& choice = (*searched)[accuracy];
  if (!choice.plain || (adds_to_bias(problem) && !choice.onto_bias))
    return refuse(Reason::geometry,
                  fmt::format("{} offers no engine of this class{}", found.version,
                              choice.plain ? " that adds to a bias" : ""));
  return {};
}

template <Accuracy accuracy>
std::size_t workspace_bytes(const ConvProblem& problem, const DeviceInfo& device) {
  if (problem.n == 0) return 0;
  const auto found = search(problem, device);
  std::size_t bytes = 0;
  for (const auto* engine : {(*found)[accuracy].plain.get(), (*found)[accuracy].onto_bias.get()})
    if (engine) bytes = std::max(bytes, engine->workspace_bytes());
  return bytes;
}

/// Half of the nominal rate, and the tensors moved once. Nothing is chosen by it.
double estimate_seconds(const ConvProblem& problem, const DeviceInfo& device) {
  return problem.flop() / (0.5 * device.nominal_fp32_flop_per_second) +
         problem.bytes() / device.nominal_bytes_per_second;
}

void require_aligned(const void* pointer, std::string_view name) {
  if (reinterpret_cast<std::uintptr_t>(pointer) % Graph::pointer_alignment != 0)
    throw Error(ErrorCode::unsupported,
                fmt::format("cudnn: {} lies at {}; expected a multiple of {} bytes", name, pointer,
                            Graph::pointer_alignment));
}

template <Accuracy accuracy>
void launch(const ConvLaunch& launch) {
  const ConvProblem& problem = launch.problem;
  if (problem.n == 0) {
    if (problem.direction == Direction::backward_weights)
      clear(problem, launch.y, launch.native_queue);
    return;
  }
  require_aligned(launch.x, image_of(problem).name);
  require_aligned(launch.w, filters_of(problem).name);
  require_aligned(launch.y, output_of(problem).name);
  const auto found = search(problem, launch.device);
  const bool bias_first = launch.bias && adds_to_bias(problem);
  const Choice& choice = (*found)[accuracy];
  if (bias_first) spread_bias(problem, found->layout, launch.bias, launch.y, launch.native_queue);
  run(bias_first ? *choice.onto_bias : *choice.plain, launch.device, launch.x, launch.w, launch.y,
      launch.workspace, launch.native_queue);
  const void* bias_left = bias_first ? nullptr : launch.bias;
  if (bias_left || launch.activation != Activation::none)
    finish(problem, found->layout, bias_left, launch.activation, launch.y, launch.native_queue);
}

template <Accuracy accuracy, bool wide = false>
constexpr ConvAlgorithm algorithm(std::string_view name, const Numerics& numerics) {
  return {
      .name = name,
      .numerics = numerics,
      .forced_only = !numerics.bounded,
      .takes_depth = true,
      .provider = &provider,
      .takes_backward_data = true,
      .takes_backward_weights = true,
      .forward_alone = true,
      .plan = plan_of_parts<supports<accuracy, wide>, estimate_seconds, workspace_bytes<accuracy>>,
      .launch = without_plan<launch<accuracy>>,
  };
}

/// A class by its name alone, of which no bound is stated.
constexpr Numerics unbounded(Operand operand, bool deterministic,
                             Accumulator accumulator = Accumulator::tensor_core_fp32) {
  return {.operand = operand,
          .accumulator = accumulator,
          .deterministic = deterministic,
          .bounded = false,
          .keeps_non_finite = false};
}

/// Narrow tensors go through tensor cores, whose bound also holds for chains of fp32 FMAs. cuDNN
/// does not say what becomes of NaN and Inf.
constexpr Numerics sums(Operand operand, Accumulator accumulator = Accumulator::tensor_core_fp32) {
  return {.operand = operand, .accumulator = accumulator, .keeps_non_finite = false};
}

}  // namespace
}  // namespace cudnn

using cudnn::Accuracy;
using cudnn::algorithm;
using cudnn::sums;
using cudnn::unbounded;

extern const ConvAlgorithm cudnn_best_fp64, cudnn_best_fp32, cudnn_best_tf32,
    cudnn_deterministic_fp64, cudnn_deterministic_fp32, cudnn_deterministic_tf32, cudnn_sum_fp64,
    cudnn_sum_fp32, cudnn_sum_tf32;

const ConvAlgorithm cudnn_best_fp64 = algorithm<Accuracy::fp32, true>(
    "cudnn.conv.best.fp64", unbounded(Operand::fp64, false, Accumulator::fp64_fma));
const ConvAlgorithm cudnn_best_fp32 =
    algorithm<Accuracy::fp32>("cudnn.conv.best.fp32", unbounded(Operand::fp32, false));
const ConvAlgorithm cudnn_best_tf32 =
    algorithm<Accuracy::tf32>("cudnn.conv.best.tf32", unbounded(Operand::tf32_rounded, false));
const ConvAlgorithm cudnn_deterministic_fp64 = algorithm<Accuracy::fp32_deterministic, true>(
    "cudnn.conv.deterministic.fp64", unbounded(Operand::fp64, true, Accumulator::fp64_fma));
const ConvAlgorithm cudnn_deterministic_fp32 = algorithm<Accuracy::fp32_deterministic>(
    "cudnn.conv.deterministic.fp32", unbounded(Operand::fp32, true));
const ConvAlgorithm cudnn_deterministic_tf32 = algorithm<Accuracy::tf32_deterministic>(
    "cudnn.conv.deterministic.tf32", unbounded(Operand::tf32_rounded, true));
const ConvAlgorithm cudnn_sum_fp64 = algorithm<Accuracy::fp32_sum, true>(
    "cudnn.conv.sum.fp64", sums(Operand::fp64, Accumulator::fp64_fma));
const ConvAlgorithm cudnn_sum_fp32 =
    algorithm<Accuracy::fp32_sum>("cudnn.conv.sum.fp32", sums(Operand::fp32));
const ConvAlgorithm cudnn_sum_tf32 =
    algorithm<Accuracy::tf32_sum>("cudnn.conv.sum.tf32", sums(Operand::tf32_rounded));

}  // namespace plumb::cuda
