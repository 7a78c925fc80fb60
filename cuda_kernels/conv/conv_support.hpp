// What convolution algorithms say about themselves: refusals, workspace, and the model of time.
#pragma once

#include <cstddef>

#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// Yes where a block of the device may have as much. In double, because it cannot overflow.
Support fits_shared_memory(double bytes, const DeviceInfo& device);

/// Clocks of a multiprocessor in a second: of what the device says of itself, or an H200's.
double clock_hertz(const DeviceInfo& device);

/// The time of a kernel that takes `seconds` where there is enough to do for the whole device: no
/// less than what one of its threads does by itself, and what starting it takes.
double kernel_seconds(double seconds, const DeviceInfo& device, double thread_clocks);

/// The model: the larger of the time to move the least bytes, and of the time for `issued_flop`
/// (the problem's, and whatever idle lanes and padding add) at `share` of the nominal rate.
double model_seconds(const ConvProblem& problem, const DeviceInfo& device, Accumulator accumulator,
                     double issued_flop, double share);

/// The widest vectors, of 4, 2 or 1 elements, that each row of a tensor of four dimensions can be
/// divided in so that they are aligned; 1 where a row's elements do not lie side by side.
int row_vector(const void* data, const Extents& extents, const Strides& strides,
               std::int64_t element_bytes);

/// The least time to move the tensors, for kernels that store rows of y in vectors of as many
/// elements: reads, and writes of whole and of begun sectors, reach so much of the nominal rate.
double moving_seconds(const ConvProblem& problem, const DeviceInfo& device, int y_vector);

/// How a thread makes its output.
struct ThreadSum {
  double issued_flop, share;  ///< as of model_seconds()
  double term_clocks;         ///< from one term to the next, where nothing else holds a thread up
  Accumulator accumulator = Accumulator::fp32_fma;
};

/// The model for kernels that make an output a thread, which read, multiply and write in turn, and
/// read x for each filter. What comes before and after a sum takes as long as sixteen terms of it
/// (direct_unrolled.cu on one H200).
double output_a_thread_seconds(const ConvProblem& problem, const DeviceInfo& device,
                               const ThreadSum& sum);

/// What a kernel makes its multiprocessors do.
struct IssuedWork {
  double instructions = 0;  ///< of all threads
  double shared_waves = 0;  ///< of shared memory: what it answers a warp in one clock
};

/// The model for kernels whose instructions have been counted: the largest of the times to move the
/// least bytes, to issue the instructions, and to answer from shared memory. Fitted on an H200: of
/// the rates of the data sheet such kernels reach two thirds and 0.45.
double model_seconds(const ConvProblem& problem, const DeviceInfo& device, const IssuedWork& work);

}  // namespace plumb::cuda
