// Refusals with their reasons, and the model of time.
#include "cuda_kernels/conv/conv_support.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plumb/support.hpp"

namespace plumb::cuda {
namespace {

/// Of what a multiprocessor does in fp32, by compute capability: half on the chips for computing
/// (8.0, 9.0, 10.0), 1/64 on the others.
double fp64_share(const DeviceInfo& device) {
  const bool for_computing = device.compute_minor == 0 && device.compute_major <= 10;
  return for_computing ? 1.0 / 2 : 1.0 / 64;
}

/// A device that keeps a rate to itself is held to be limited by the other.
double seconds(double work, double per_second) { return per_second > 0 ? work / per_second : 0; }

double bytes_of(const ConvProblem& problem, const Extents& extents) {
  return static_cast<double>(element_count(extents)) *
         static_cast<double>(size_in_bytes(problem.dtype));
}

/// Of x, without the rows that a stride passes over.
double bytes_read(const ConvProblem& problem) {
  return bytes_of(problem, problem.x_extents()) /
         static_cast<double>(std::max(problem.stride.h / problem.r, std::int64_t{1}));
}

}  // namespace

Support fits_shared_memory(double bytes, const DeviceInfo& device) {
  if (bytes <= static_cast<double>(device.shared_memory_bytes)) return {};
  return {Reason::device_limit,
          fmt::format("needs {:.0f} bytes of shared memory; a block of the device may have {}",
                      bytes, device.shared_memory_bytes)};
}

double clock_hertz(const DeviceInfo& device) {
  constexpr double flop_per_clock = 256, usual = 1.98e9;
  if (device.nominal_fp32_flop_per_second <= 0 || device.units <= 0) return usual;
  return device.nominal_fp32_flop_per_second / flop_per_clock / device.units;
}

double kernel_seconds(double seconds, const DeviceInfo& device, double thread_clocks) {
  constexpr double seconds_to_start = 3.5e-6;  // measured on one H200
  return seconds_to_start + std::max(seconds, thread_clocks / clock_hertz(device));
}

double model_seconds(const ConvProblem& problem, const DeviceInfo& device, Accumulator accumulator,
                     double issued_flop, double share) {
  double rate = device.nominal_fp32_flop_per_second;
  if (accumulator == Accumulator::fp64_fma) rate *= fp64_share(device);
  return std::max(seconds(problem.bytes(), device.nominal_bytes_per_second),
                  seconds(issued_flop, rate * share));
}

int row_vector(const void* data, const Extents& extents, const Strides& strides,
               std::int64_t element_bytes) {
  for (const std::int64_t width : {4, 2}) {
    bool aligned = reinterpret_cast<std::uintptr_t>(data) % (width * element_bytes) == 0 &&
                   (extents[3] == 1 || strides[3] == 1);
    for (int i = 0; i < 3; ++i) aligned = aligned && (extents[i] == 1 || strides[i] % width == 0);
    if (aligned) return static_cast<int>(width);
  }
  return 1;
}

double moving_seconds(const ConvProblem& problem, const DeviceInfo& device, int y_vector) {
  // Measured on one H200, filters of 1x1 over few channels.
  constexpr double read_share = 0.85;
  const double write_share = y_vector >= 4 ? 0.7 : y_vector == 2 ? 0.5 : 0.37;
  return seconds(
      bytes_read(problem) / read_share + bytes_of(problem, problem.y_extents()) / write_share,
      device.nominal_bytes_per_second);
}

double output_a_thread_seconds(const ConvProblem& problem, const DeviceInfo& device,
                               const ThreadSum& sum) {
  const double terms = static_cast<double>(problem.terms()), around_sums = 1 + 16 / terms;
  // Threads of other filters read x again, from L2: at so much of the nominal rate of memory, by
  // filters of 3x1 on one H200.
  constexpr double l2_share = 1.3;
  const auto element_bytes = static_cast<std::int64_t>(size_in_bytes(problem.dtype));
  const double full =
      model_seconds(problem, device, sum.accumulator, sum.issued_flop * around_sums, sum.share) +
      moving_seconds(problem, device,
                     row_vector(nullptr, problem.y_extents(), problem.y_strides, element_bytes)) +
      seconds(static_cast<double>(problem.k - 1) * bytes_read(problem) / l2_share,
              device.nominal_bytes_per_second);
  return kernel_seconds(full, device, terms * sum.term_clocks);
}

double model_seconds(const ConvProblem& problem, const DeviceInfo& device, const IssuedWork& work) {
  constexpr double issue_share = 2.0 / 3, shared_share = 0.45;
  // A multiprocessor issues as many instructions as it has lanes for FMA, 128 here, which count two
  // operations each, and shared memory answers one of its warps in a clock.
  const double instructions_per_second = device.nominal_fp32_flop_per_second / 2;
  return std::max({seconds(problem.bytes(), device.nominal_bytes_per_second),
                   seconds(work.instructions, instructions_per_second * issue_share),
                   seconds(work.shared_waves, instructions_per_second / 128 * shared_share)});
}

}  // namespace plumb::cuda
