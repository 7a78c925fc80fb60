// The head of a report, and the judgement of a measurement.
#include "measured.hpp"

#include <fmt/format.h>

#include "errors.hpp"

namespace plumb::app {

void print_device(const Device& device, const DeviceCeilings& ceilings) {
  fmt::print("{}  {}: copy {:.4g} GB/s, fp32 {:.4g} GFLOP/s\n\n", to_string(device.id()),
             device.info().name, ceilings.bytes_per_second * 1e-9,
             ceilings.fp32_flop_per_second * 1e-9);
}

void require_right(const ConvProblem& problem, const Measurement& seen) {
  const auto wrong = [&](const std::string& what) {
    throw ValidationFailure(fmt::format("{} on {}: {}", seen.algorithm, to_string(problem), what));
  };
  if (!seen.failure.empty()) wrong(seen.failure);
  if (seen.bounded && !(seen.max_error_over_bound <= 1))
    wrong(fmt::format("an output is off by {:.3g} times its bound", seen.max_error_over_bound));
}

}  // namespace plumb::app
