// The model of time that families build on: a kernel takes the longest of what its bytes, its
// instructions and its reads of shared memory take the whole device, no less than the latency of
// one of its threads, and a launch.
#pragma once

#include <initializer_list>

#include "cuda_kernels/cost/machine.hpp"
#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// The time of a kernel that takes `seconds` where there is enough to do for the whole device: no
/// less than the latency of one of its threads, more where both are as long, and a launch.
double kernel_seconds(double seconds, const DeviceInfo& device, double thread_clocks);

/// The larger of the time to move the least bytes, and of the time for `issued_flop` (the
/// problem's, and whatever idle lanes and padding add) at `share` of the nominal rate.
double model_seconds(const ConvProblem& problem, const DeviceInfo& device, Accumulator accumulator,
                     double issued_flop, double share);

/// What a kernel makes its multiprocessors do.
struct IssuedWork {
  double instructions = 0;  ///< of all threads
  double shared_waves = 0;  ///< of shared memory: what it answers a warp in one clock
};

/// The model for kernels whose instructions have been counted: the largest of the times to move the
/// least bytes, to issue the instructions, and to answer from shared memory.
double model_seconds(const ConvProblem& problem, const DeviceInfo& device, const IssuedWork& work);

/// Of times that overlap as far as the norm says: 1 is one after the other.
double summed(std::initializer_list<double> times, double norm);

/// The least time to move the tensors, for kernels that store rows of y in vectors of as many
/// elements; what they write takes `written` times as long as that.
double moving_seconds(const ConvProblem& problem, const DeviceInfo& device, int y_vector,
                      double written = 1);

/// How a thread makes its output.
struct ThreadSum {
  double issued_flop, share;  ///< as of model_seconds()
  double term_clocks;         ///< from one term to the next, where nothing else holds a thread up
  Accumulator accumulator = Accumulator::fp32_fma;
};

/// The model for kernels that make an output a thread, which read, multiply and write in turn, and
/// read x for each filter of a group.
double output_a_thread_seconds(const ConvProblem& problem, const DeviceInfo& device,
                               const ThreadSum& sum);

/// Of times that overlap: a little more than the longest.
double max_of(std::initializer_list<double> times);

}  // namespace plumb::cuda
