// Runs algorithms, packs filters for those that want them so, and pools behind those that do not.
#include "conv_run.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "parallel/floating_point.hpp"

namespace plumb {
namespace {

constexpr PoolGeometry pool_2x2{.kind = PoolKind::max, .window = {2, 2}, .stride = {2, 2}};

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

std::size_t y_bytes(const ConvProblem& problem) {
  return static_cast<std::size_t>(element_count(problem.y_extents())) *
         size_in_bytes(problem.dtype);
}

/// What a slice's convolution may take of the workspace: on a GPU so much that writing it takes
/// many times longer than a launch, on the host about what its last cache holds.
double intermediate_limit_bytes(const DeviceInfo& device) {
  return device.id == host ? 32.0 * (1 << 20) : 256.0 * (1 << 20);
}

/// One image or more. Slices begin at multiples of 16 bytes where the batch does, as kernels with
/// wide loads want it.
std::int64_t images_per_slice(const ConvProblem& convolution, const DeviceInfo& device) {
  ConvProblem image = convolution;
  image.n = 1;
  const double limit = intermediate_limit_bytes(device);
  const auto fitting = static_cast<std::int64_t>(
      std::min(limit / static_cast<double>(y_bytes(image)), static_cast<double>(convolution.n)));
  const auto element = static_cast<std::int64_t>(size_in_bytes(convolution.dtype));
  const std::int64_t step = 16 / std::gcd(std::abs(convolution.x_strides[0]) * element, 16);
  return std::min(convolution.n, std::max(step, fitting / step * step));
}

}  // namespace

ConvRun::ConvRun(const ConvAlgorithm& algorithm, const ConvProblem& problem,
                 const DeviceInfo& device)
    : algorithm_(&algorithm), slice_(problem) {
  const DefaultFloatingPoint mode;  // or what is planned might not be what is launched
  const bool pools = problem.pool != Pool::none;
  if (!pools || algorithm.fuses_pool) plan_ = algorithm.plan(problem, device);
  fuses_pool_ = pools && algorithm.fuses_pool && plan_.support;
  if (pools && !fuses_pool_) plan_slices(problem, device);
}

void ConvRun::plan_slices(const ConvProblem& problem, const DeviceInfo& device) {
  in_slices_ = true;
  slice_ = last_slice_ = problem.unpooled();
  slice_.n = images_per_slice(slice_, device);
  last_slice_.n = slice_.n > 0 ? problem.n % slice_.n : 0;
  plan_ = algorithm_->plan(slice_, device);
  if (!plan_.support) return;
  plan_.estimate_seconds *= static_cast<double>(slice_.n > 0 ? problem.n / slice_.n : 1);
  if (last_slice_.n > 0) {
    const PlanResult last = algorithm_->plan(last_slice_, device);
    if (!last.support) {
      plan_ = last;
      return;
    }
    last_kernel_ = last.kernel;
    plan_.workspace_bytes = std::max(plan_.workspace_bytes, last.workspace_bytes);
    plan_.estimate_seconds += last.estimate_seconds;
  }
  intermediate_bytes_ = aligned(y_bytes(slice_));
  // The convolution's own estimate has the intermediate written; the pooling reads it.
  if (device.nominal_bytes_per_second > 0)
    plan_.estimate_seconds += static_cast<double>(y_bytes(problem.unpooled()) + y_bytes(problem)) /
                              device.nominal_bytes_per_second;
}

std::size_t ConvRun::workspace_bytes() const {
  const std::size_t without = packed_workspace_bytes();
  return filter_bytes() > 0 ? aligned(without) + filter_bytes() : without;
}

void ConvRun::pack(BackendQueue& queue, const DeviceInfo& device, const void* w,
                   void* filters) const {
  const DefaultFloatingPoint mode;
  queue.pack_filters(*algorithm_,
                     {.problem = launched(),
                      .device = device,
                      .w = w,
                      .filters = filters,
                      .native_queue = queue.native()},
                     plan_.kernel.get());
}

void ConvRun::launch(BackendQueue& queue, const ConvLaunch& launch) const {
  const DefaultFloatingPoint mode;
  if (filter_bytes() == 0 || launch.filters) return launch_packed(queue, launch);
  void* const filters =
      static_cast<std::byte*>(launch.workspace) + aligned(packed_workspace_bytes());
  pack(queue, launch.device, launch.w, filters);
  ConvLaunch packed = launch;
  packed.w = nullptr;
  packed.filters = filters;
  launch_packed(queue, packed);
}

void ConvRun::launch_packed(BackendQueue& queue, const ConvLaunch& launch) const {
  if (!in_slices_) return queue.conv(*algorithm_, launch, plan_.kernel.get());
  const std::int64_t n = launch.problem.n;
  for (std::int64_t first = 0; first < n; first += slice_.n)
    if (n - first >= slice_.n)
      launch_slice(queue, launch, slice_, plan_.kernel.get(), first);
    else
      launch_slice(queue, launch, last_slice_, last_kernel_.get(), first);
}

void ConvRun::launch_slice(BackendQueue& queue, const ConvLaunch& launch, const ConvProblem& slice,
                           const KernelPlan* plan, std::int64_t first) const {
  const ConvProblem& problem = launch.problem;
  const auto element = static_cast<std::int64_t>(size_in_bytes(problem.dtype));
  auto* const workspace = static_cast<std::byte*>(launch.workspace);
  ConvLaunch convolution{
      .problem = slice,
      .device = launch.device,
      .x = static_cast<const std::byte*>(launch.x) + first * problem.x_strides[0] * element,
      .w = launch.w,
      .filters = launch.filters,
      .bias = launch.bias,
      .y = workspace,
      .activation = launch.activation,
      .workspace = plan_.workspace_bytes > 0 ? workspace + intermediate_bytes_ : nullptr,
      .native_queue = launch.native_queue};
  queue.conv(*algorithm_, convolution, plan);
  Extents pooled = problem.y_extents();
  pooled[0] = slice.n;
  auto* const y = static_cast<std::byte*>(launch.y) + first * problem.y_strides[0] * element;
  queue.pool({.x = ConstTensorView(workspace, slice.dtype, slice.y_extents(), launch.device.id,
                                   slice.y_strides),
              .y = TensorView(y, problem.dtype, pooled, launch.device.id, problem.y_strides),
              .geometry = pool_2x2});
}

}  // namespace plumb
