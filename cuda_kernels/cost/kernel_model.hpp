// Families build on this model of time: a kernel takes the longest of what its bytes, its
// instructions and its reads of shared memory take on the whole device, no less than the latency of
// one of its threads, and a launch.
#pragma once

#include <initializer_list>

#include "cuda_kernels/cost/machine.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// Returns the time of a kernel that takes `seconds` where there is enough work for the whole
/// device. The time is no less than the latency of one of its threads, more where both are as long,
/// and includes a launch.
double kernel_seconds(double seconds, const DeviceInfo& device, double thread_clocks);

/// Returns the larger of the time to move the least bytes, and of the time for `issued_flop` at
/// `share` of the nominal rate. `issued_flop` are the problem's operations plus those of idle lanes
/// and padding.
double model_seconds(const ConvProblem& problem, const DeviceInfo& device, Accumulator accumulator,
                     double issued_flop, double share);

/// The work that a kernel gives to multiprocessors.
struct IssuedWork {
  double instructions = 0;  ///< of all threads
  double shared_waves = 0;  ///< wavefronts of shared memory, one a clock
};

/// Models kernels whose instructions have been counted: the result is the largest of the times to
/// move the least bytes, to issue the instructions, and to answer from shared memory.
double model_seconds(const ConvProblem& problem, const DeviceInfo& device, const IssuedWork& work);

/// Combines times that overlap as far as the norm says; with a norm of 1 they add up.
double summed(std::initializer_list<double> times, double norm);

/// Returns the least time to move the tensors, for kernels that store rows of y in vectors of
/// `y_vector` elements. Writing takes `written` times as long as its bytes do.
double moving_seconds(const ConvProblem& problem, const DeviceInfo& device, int y_vector,
                      double written = 1);

/// The way that a thread makes its output.
struct ThreadSum {
  double issued_flop, share;  ///< arguments of model_seconds()
  double term_clocks;         ///< latency of a term, where nothing else holds a thread up
  Accumulator accumulator = Accumulator::fp32_fma;
};

/// Models kernels that make an output a thread, which read, multiply and write in turn, and read x
/// for each filter of a group.
double output_a_thread_seconds(const ConvProblem& problem, const DeviceInfo& device,
                               const ThreadSum& sum);

/// Returns the bytes of a tensor of that problem, and those read of x, without the rows that a
/// stride passes over.
double bytes_of(const ConvProblem& problem, const Extents& extents);
double bytes_read(const ConvProblem& problem);

/// Combines times that overlap: the result is a little more than the longest.
double max_of(std::initializer_list<double> times);

}  // namespace plumb::cuda
