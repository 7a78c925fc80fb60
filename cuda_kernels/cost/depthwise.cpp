#include "cuda_kernels/cost/depthwise.hpp"

#include <algorithm>

#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {

double depthwise_seconds(const ConvProblem& problem, const DeviceInfo& device,
                         const DepthwiseWork& work) {
  const DepthwiseTable& costs = cost_tables().depthwise;
  const Machine machine(device);
  // Of an image that is read again most comes from L2.
  const double x_bytes = static_cast<double>(element_count(problem.x_extents())) *
                         static_cast<double>(size_in_bytes(problem.dtype));
  const double moving =
      machine.moving_seconds(work.bytes + (work.reread - 1) * x_bytes / 2, costs.moved);
  const double fmas =
      work.fmas * (work.is_double && machine.fp64_share > 0 ? 1 / machine.fp64_share : 1);
  double issuing =
      work.outputs * (fmas + work.others) / (machine.instructions_per_second() * costs.issued);
  // Few threads leave the device's schedulers without work.
  const double enough = costs.unit_threads * machine.units;
  issuing *= std::clamp(enough / std::max(work.threads, 1.0), 1.0, 4.0);
  return kernel_seconds(std::max(moving, issuing), device, work.thread_clocks);
}

}  // namespace plumb::cuda
