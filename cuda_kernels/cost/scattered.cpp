#include "cuda_kernels/cost/scattered.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "cuda_kernels/cost/tables.hpp"

namespace plumb::cuda {

double scattered_seconds(const ConvProblem& problem, const Machine& machine,
                         double filters_of_store) {
  const Strides& strides = problem.y_strides;
  const auto apart = static_cast<double>(std::abs(strides[strides.rank() - 1]));
  if (problem.q() == 1 || apart <= 1) return 0;
  const double sector =
      static_cast<double>(memory_sector_bytes) / static_cast<double>(size_in_bytes(problem.dtype));
  const double filters = problem.k > 1 && strides[1] == 1 ? filters_of_store : 1;
  const double together = std::min(std::max(std::floor(sector / apart), 1.0) * filters, sector);
  const auto outputs = static_cast<double>(element_count(problem.y_extents()));
  const double parts = outputs / together - outputs / sector;
  return parts * cost_tables().kernel.sector_clocks / (machine.units * machine.clock_hertz);
}

double gathered_seconds(const ConvProblem& problem, const Machine& machine, double elements) {
  const Strides& strides = problem.x_strides;
  const auto step = static_cast<double>(std::abs(strides[strides.rank() - 1]));
  if (problem.w == 1 || step <= 1) return 0;
  const auto size = static_cast<double>(size_in_bytes(problem.dtype));
  const auto sector = static_cast<double>(memory_sector_bytes);
  // Elements side by side share a sector, of which each has its part; these have more of one.
  const double parts = elements * (std::min(step * size, sector) - size) / sector;
  return parts * cost_tables().kernel.gather_clocks / (machine.units * machine.clock_hertz);
}

}  // namespace plumb::cuda
