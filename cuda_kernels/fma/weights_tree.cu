// Backward weights in the order that is specified for reproducible sums (GradientTree): sixteen
// chains of fused multiply-adds for each segment of the positions, and a binary tree of segments.
//
// Tiling: a thread has an element of dw and a part of the segments, whose number is a power of two,
//   so that parts are subtrees; a second kernel adds the parts. Neighbouring threads are
//   neighbouring elements in the order K C T R S: a warp reads the same dy, and neighbours in x.
// Bytes: x and dy once for each element, from caches beyond the first; the parts, written and read.
// Wins: where the specified bits are asked for; it is chosen for nothing else. No warp works
//   together on an element, so that few filters of few taps leave most of a device idle.
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/cost/kernel_model.hpp"
#include "cuda_kernels/primitives/scalar.cuh"
#include "plumb/support.hpp"
//
#include "cuda_kernels/fma/weights_tree.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 128;

template <class Sum, class Stored>
__global__ void __launch_bounds__(block_threads)
    sum_parts(const __grid_constant__ weights_tree::Shape shape, const Stored* x, const Stored* dy,
              Sum* parts) {
  const std::int64_t count = shape.elements * shape.parts;
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_threads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * block_threads) {
    const weights_tree::Element at(shape, i % shape.elements);
    parts[i] = weights_tree::part_sum<Sum>(shape, at, x, dy, i / shape.elements);
  }
}

template <class Sum, class Stored>
__global__ void __launch_bounds__(block_threads)
    add_parts(const __grid_constant__ weights_tree::Shape shape, Sum* parts, Stored* dw) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_threads + threadIdx.x; i < shape.elements;
       i += std::int64_t{gridDim.x} * block_threads) {
    Sum sum = weights_tree::tree_sum(parts + i, shape.parts, shape.elements);
    Stored& to = dw[weights_tree::Element(shape, i).offset(shape)];
    sum += Sum{0};
    if (shape.accumulate) sum += convert<Sum>(to);
    // A zero has no sign.
    to = convert<Stored>(convert<ComputeType<Stored>>(convert<Stored>(sum)) +
                         ComputeType<Stored>{0});
  }
}

/// Enough threads for a device, and no more parts than that takes.
std::int64_t segments_of_part(const ConvProblem& problem, const GradientTree& tree) {
  constexpr std::int64_t enough_threads = 1 << 18;
  const std::int64_t elements = element_count(problem.w_extents());
  return tree.segments_of_part(std::max<std::int64_t>(enough_threads / elements, 1));
}

template <class Sum, class... Stored>
void launch(const ConvLaunch& call) {
  const ConvProblem& problem = call.problem;
  const GradientTree tree(problem);
  const weights_tree::Shape shape(problem, tree, segments_of_part(problem, tree), call.accumulate);
  with_stored<Stored...>(problem.dtype, [&]<class S>(S) {
    auto* const parts = static_cast<Sum*>(call.workspace);
    if (shape.parts > 0)
      Launch(call.native_queue, blocks_for(shape.elements * shape.parts, block_threads),
             block_threads)(sum_parts<Sum, S>, shape, static_cast<const S*>(call.x),
                            static_cast<const S*>(call.w), parts);
    Launch(call.native_queue, blocks_for(shape.elements, block_threads), block_threads)(
        add_parts<Sum, S>, shape, parts, static_cast<S*>(call.y));
  });
}

Support backward_weights_of(std::initializer_list<DType> dtypes, const ConvProblem& problem) {
  if (problem.direction != Direction::backward_weights)
    return {Reason::direction,
            std::string(to_string(problem.direction)) + "; expected backward weights"};
  ConvProblem forward = problem;
  forward.direction = Direction::forward;
  return supports_dtypes(dtypes, forward);
}
Support single(const ConvProblem& problem, const DeviceInfo&) {
  return backward_weights_of({DType::f32, DType::f16, DType::bf16}, problem);
}
Support wide(const ConvProblem& problem, const DeviceInfo&) {
  return backward_weights_of({DType::f64, DType::f32}, problem);
}

template <class Sum>
std::size_t workspace(const ConvProblem& problem, const DeviceInfo&) {
  const GradientTree tree(problem);
  const std::int64_t of_part = segments_of_part(problem, tree);
  const std::int64_t parts = std::max<std::int64_t>((tree.segments + of_part - 1) / of_part, 1);
  return static_cast<std::size_t>(element_count(problem.w_extents()) * parts) * sizeof(Sum);
}

/// Each term is two loads, of which neighbours share few. Not measured.
template <Accumulator accumulator>
double estimate(const ConvProblem& problem, const DeviceInfo& device) {
  constexpr double share = 1.0 / 64;
  return kernel_seconds(model_seconds(problem, device, accumulator, problem.flop(), share), device,
                        0);
}

/// The most additions on the way of a product to its sum.
double chain(const ConvProblem& problem) {
  if (problem.direction != Direction::backward_weights || problem.n == 0)
    return static_cast<double>(problem.terms());
  return GradientTree(problem).chain(problem.q());
}

}  // namespace

extern const ConvAlgorithm weights_tree_fp32{
    .name = "cuda.conv.weights_tree.fp32",
    .numerics = {.operand = Operand::fp32,
                 .accumulator = Accumulator::fp32_fma,
                 .reproducible = true,
                 .chain = chain},
    .forced_only = true,
    .takes_depth = true,
    .accumulates = true,
    .takes_backward_weights = true,
    .plan = plan_of_parts<single, estimate<Accumulator::fp32_fma>, workspace<float>>,
    .launch = without_plan<launch<float, float, __half, __nv_bfloat16>>,
};

extern const ConvAlgorithm weights_tree_fp64{
    .name = "cuda.conv.weights_tree.fp64",
    .numerics = {.operand = Operand::fp64,
                 .accumulator = Accumulator::fp64_fma,
                 .reproducible = true,
                 .chain = chain},
    .forced_only = true,
    .takes_depth = true,
    .accumulates = true,
    .takes_backward_weights = true,
    .plan = plan_of_parts<wide, estimate<Accumulator::fp64_fma>, workspace<double>>,
    .launch = without_plan<launch<double, double, float>>,
};

}  // namespace plumb::cuda
