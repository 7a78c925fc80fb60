#include "cuda_kernels/cost/depthwise.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {

double depthwise_seconds(const ConvProblem& problem, const DeviceInfo& device,
                         const DepthwiseWork& work) {
  const DepthwiseTable& costs = cost_tables().depthwise;
  const Machine machine(device);
  const double issued =
      work.fmas * (work.is_double && machine.fp64_share > 0 ? 1 / machine.fp64_share : 1) +
      work.instructions + costs.step * work.steps + costs.tap_row * work.tap_rows +
      costs.converted * work.converted;
  const double latency = costs.begin + costs.memory_wait * work.memory_waits +
                         costs.filter_wait * work.filter_waits +
                         (work.staged ? costs.staged_latency : costs.latency) * issued;
  const double of_warp = std::max(issued / (4 * costs.issued), work.lines * costs.line);
  // So many blocks at a time on a multiprocessor take as long as one alone where they are few, and
  // as their work where they are many.
  const auto clocks_of = [&](double blocks) {
    return (work.in_turn ? costs.in_turn : 1) * std::hypot(latency, blocks * work.warps * of_warp);
  };
  // What is left for the last wave is spread over all multiprocessors.
  const double at_once = work.resident * machine.units;
  const double waves = std::floor(work.blocks / at_once);
  const double left = std::ceil((work.blocks - waves * at_once) / machine.units);
  const double clocks = waves * clocks_of(work.resident) + (left > 0 ? clocks_of(left) : 0);
  // Rows of long pieces stream. Shorter ones than 128 bytes are requests that L2 answers in parts.
  const double pieces =
      work.staged ? 1 + costs.short_piece * std::max(64 / work.piece_bytes - 0.5, 0.0) : 1;
  const double moving = machine.moving_seconds(problem.bytes() * pieces,
                                               work.staged ? costs.staged_moved : costs.moved) +
                        machine.moving_seconds(work.written_again, costs.written_again);
  return kernel_seconds(std::hypot(clocks / machine.clock_hertz, moving), device, 0);
}

}  // namespace plumb::cuda
