#include "cuda_kernels/cost/kernel_model.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "cuda_kernels/conv/conv_support.hpp"
#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {

double bytes_of(const ConvProblem& problem, const Extents& extents) {
  return static_cast<double>(element_count(extents)) *
         static_cast<double>(size_in_bytes(problem.dtype));
}

double bytes_read(const ConvProblem& problem) {
  return bytes_of(problem, problem.x_extents()) /
         static_cast<double>(std::max(problem.stride.h / problem.r, std::int64_t{1}));
}

double summed(std::initializer_list<double> times, double norm) {
  norm = std::max(norm, 1.0);
  double sum = 0;
  for (const double time : times) sum += std::pow(time, norm);
  return std::pow(sum, 1 / norm);
}

double kernel_seconds(double seconds, const DeviceInfo& device, double thread_clocks) {
  const KernelTable& costs = cost_tables().kernel;
  const double latency = thread_clocks / Machine(device).clock_hertz;
  return costs.launch_seconds + summed({seconds, latency}, costs.latency_norm);
}

double model_seconds(const ConvProblem& problem, const DeviceInfo& device, Accumulator accumulator,
                     double issued_flop, double share) {
  const Machine machine(device);
  const double of_fp32 = accumulator == Accumulator::fp64_fma ? machine.fp64_share : 1;
  return std::max(machine.moving_seconds(problem.bytes()),
                  machine.fp32_seconds(issued_flop, share * of_fp32));
}

double model_seconds(const ConvProblem& problem, const DeviceInfo& device, const IssuedWork& work) {
  const KernelTable& costs = cost_tables().kernel;
  const Machine machine(device);
  return std::max({machine.moving_seconds(problem.bytes()),
                   work.instructions / (machine.instructions_per_second() * costs.issue_share),
                   work.shared_waves / (machine.shared_waves_per_second() * costs.shared_share)});
}

double moving_seconds(const ConvProblem& problem, const DeviceInfo& device, int y_vector,
                      double written) {
  const KernelTable& costs = cost_tables().kernel;
  const double write_share = y_vector >= 4   ? costs.write_share_4
                             : y_vector == 2 ? costs.write_share_2
                                             : costs.write_share_1;
  return Machine(device).moving_seconds(bytes_read(problem) / costs.read_share +
                                        bytes_of(problem, problem.y_extents()) * written /
                                            write_share);
}

double output_a_thread_seconds(const ConvProblem& problem, const DeviceInfo& device,
                               const ThreadSum& sum) {
  const KernelTable& costs = cost_tables().kernel;
  const double terms = static_cast<double>(problem.terms());
  const double around_sums = 1 + costs.terms_around_sum / terms;
  const auto element_bytes = static_cast<std::int64_t>(size_in_bytes(problem.dtype));
  const double read_again =
      static_cast<double>(problem.k / problem.groups - 1) * bytes_read(problem);
  const double full = summed(
      {model_seconds(problem, device, sum.accumulator, sum.issued_flop * around_sums, sum.share),
       moving_seconds(problem, device,
                      row_vector(nullptr, problem.y_extents(), problem.y_strides, element_bytes)),
       Machine(device).moving_seconds(read_again, costs.l2_share)},
      costs.turn_norm);
  return kernel_seconds(full, device, terms * sum.term_clocks);
}

double max_of(std::initializer_list<double> times) {
  double sum = 0;
  for (const double time : times) sum += time * time * time * time;
  return std::sqrt(std::sqrt(sum));
}

}  // namespace plumb::cuda
