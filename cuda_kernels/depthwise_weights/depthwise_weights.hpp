// Backward weights of depthwise convolutions: how a problem is cut, what its kernels are told, and
// their launches. Host code, but for where an axis begins and ends; README.md draws the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cuda_kernels/primitives/ceil_div.hpp"
#include "cuda_kernels/primitives/host_device.hpp"
#include "cuda_kernels/weights/weights.hpp"
#include "plumb/conv.hpp"

namespace plumb::cuda {

/// `channels` has lanes along the channels and reads through L1; `planes` has lanes along a row, of
/// planes in shared memory.
enum class DepthwiseWeightsKernel { channels, planes };

/// The taps whose sums a thread has, and the stride that its reads are compiled for.
struct DepthwiseWeightsForm {
  int rows = 3, columns = 3, stride = 1;
  bool operator==(const DepthwiseWeightsForm&) const = default;
};
inline constexpr DepthwiseWeightsForm depthwise_weights_forms[] = {{1, 4, 1}, {1, 8, 1}, {3, 3, 1},
                                                                   {5, 5, 1}, {7, 7, 1}, {8, 8, 1},
                                                                   {3, 3, 2}, {5, 5, 2}, {7, 7, 2}};
/// Doubles have half the registers.
constexpr bool is_compiled(const DepthwiseWeightsForm& form, int real_bytes) {
  return real_bytes == 4 || form.rows < 8;
}

inline constexpr int depthwise_weights_threads = 128;
/// Of dw, in a block of the kernel that adds up the parts; and the threads that each of them has.
inline constexpr int depthwise_finish_elements = 32;
inline constexpr int depthwise_finish_rows =
    finish_elements * finish_rows / depthwise_finish_elements;
/// So many blocks a multiprocessor's registers have room for.
PLUMB_HOST_DEVICE constexpr int depthwise_weights_blocks(DepthwiseWeightsKernel kernel, int rows,
                                                         int real_bytes) {
  if (real_bytes == 8) return 2;
  return kernel == DepthwiseWeightsKernel::channels && rows > 3 ? 3 : 4;
}

/// What a thread does in one step: `lines` rows of input (with a stride of two, pairs of them)
/// under `outputs` neighbouring columns of dy.
struct DepthwiseWeightsStep {
  int lines = 1, outputs = 4;
};
PLUMB_HOST_DEVICE constexpr DepthwiseWeightsStep depthwise_weights_step(
    DepthwiseWeightsKernel kernel, const DepthwiseWeightsForm& form, int real_bytes) {
  const bool channels = kernel == DepthwiseWeightsKernel::channels;
  const int outputs = channels && real_bytes == 4 ? 7 : 4;
  const int doubled = real_bytes == 8 || form.stride == 2 ? 2 : 1;
  if (form.rows <= 3) return {channels && form.stride == 2 ? 1 : 4 / doubled, outputs};
  if (form.rows == 8 && channels) return {1, outputs};
  return {2 / doubled, outputs};
}

/// One axis of the image. A dilation of d parts its outputs into d phases, each of which is a
/// convolution without one: within a phase output i reads element stride i + tap, which lies at
/// coordinate step (stride i + tap) + start().
struct DepthwiseWeightsAxis {
  int outputs = 1, extent = 1, before = 0;
  int unit = 1, step = 1, dilation = 1, stride = 1, taps = 1;
  int phases = 1;

  PLUMB_HOST_DEVICE int start(int phase, int first_tap) const {
    return unit * phase - before + step * first_tap;
  }
  PLUMB_HOST_DEVICE int of_phase(int phase) const {
    return (outputs - phase + dilation - 1) / dilation;
  }
};

/// From `begin` up to `end`, and the coordinate that element zero lies at.
struct DepthwiseWeightsSpan {
  int start = 0, begin = 0, end = 0;

  /// Steps of so many.
  PLUMB_HOST_DEVICE int steps(int of) const {
    return end > begin ? (end - begin + of - 1) / of : 0;
  }
};

/// Rounded down, of negative numbers too.
PLUMB_HOST_DEVICE constexpr int floor_div(int number, int by) {
  return number >= 0 ? number / by : -((by - 1 - number) / by);
}

/// The lines of a phase that have input and gradients for the taps of a tile: line a has elements
/// stride a, ..., stride a + stride - 1.
PLUMB_HOST_DEVICE inline DepthwiseWeightsSpan lines_of(const DepthwiseWeightsAxis& axis, int phase,
                                                       int first_tap, int taps) {
  const int left = axis.taps - first_tap < taps ? axis.taps - first_tap : taps;
  DepthwiseWeightsSpan span{axis.start(phase, first_tap)};
  span.begin = floor_div(floor_div(axis.step - 1 - span.start, axis.step), axis.stride);
  if (span.begin < 0) span.begin = 0;
  span.end = floor_div(floor_div(axis.extent - 1 - span.start, axis.step), axis.stride) + 1;
  const int last = axis.of_phase(phase) + (left + axis.stride - 1) / axis.stride - 1;
  if (last < span.end) span.end = last;
  return span;
}

/// The outputs of a phase that read input by the taps of a tile.
PLUMB_HOST_DEVICE inline DepthwiseWeightsSpan outputs_of(const DepthwiseWeightsAxis& axis,
                                                         int phase, int first_tap, int taps) {
  const int left = axis.taps - first_tap < taps ? axis.taps - first_tap : taps;
  DepthwiseWeightsSpan span{axis.start(phase, first_tap)};
  const int first = floor_div(axis.step - 1 - span.start, axis.step) - (left - 1);
  span.begin = first <= 0 ? 0 : (first + axis.stride - 1) / axis.stride;
  span.end = floor_div(floor_div(axis.extent - 1 - span.start, axis.step), axis.stride) + 1;
  const int last = axis.of_phase(phase);
  if (last < span.end) span.end = last;
  return span;
}

/// How a problem is cut, from its sizes and layout alone. A block has some channels of a tile of
/// taps and a part of the units; a unit is a box of lines and columns of an image or some.
struct DepthwiseWeightsCut {
  DepthwiseWeightsKernel kernel{};
  DepthwiseWeightsForm form{};
  int real_bytes = 4;                   ///< of a sum
  int block_k = 1;                      ///< filters of a block
  int members = 1;                      ///< threads that share a filter
  int tiles_r = 1, tiles_s = 1;         ///< of taps
  int box_n = 1;                        ///< images of a unit
  int bands = 1, strips = 1;            ///< of a phase's lines and columns
  int band_steps = 1, strip_steps = 1;  ///< in each, at most
  int x_rows = 0, x_pitch = 0;          ///< of planes: in shared memory
  int y_rows = 0, y_pitch = 0;
  std::int64_t blocks_k = 1, units = 0, parts = 1;
  std::size_t shared_bytes = 0;
  double clocks = 0;  ///< of a multiprocessor, for all

  PLUMB_HOST_DEVICE int x_elements() const { return box_n * block_k * x_rows * x_pitch; }
  PLUMB_HOST_DEVICE int y_elements() const { return box_n * block_k * y_rows * y_pitch; }
};

struct DepthwiseWeightsPlan {
  WeightsPlan weights;  ///< sizes, strides and parts, as the kernel that adds the parts reads them
  /// Where images have one row, the images are the rows: `images` is 1, and N that of `h`.
  DepthwiseWeightsAxis h, w;
  bool rows_are_images = false;
  std::int64_t images = 0;
  DepthwiseWeightsCut cut;
  int filters = 1;  ///< of all channels
};

/// Tests ask for a form.
struct DepthwiseWeightsChoice {
  const DepthwiseWeightsForm* form = nullptr;
};
/// Nothing where a stride or dilation is not compiled, or a tensor is too large for 32 bits.
std::optional<DepthwiseWeightsPlan> plan_depthwise_weights(
    const ConvProblem& problem, const DepthwiseWeightsChoice& choice = {});
/// The most additions on the way of a product to its sum.
double depthwise_weights_chain(const DepthwiseWeightsPlan& plan);

void launch_depthwise_weights_f32(const DepthwiseWeightsPlan& plan, const WeightsCall& call,
                                  void* stream);
void launch_depthwise_weights_f64(const DepthwiseWeightsPlan& plan, const WeightsCall& call,
                                  void* stream);
void launch_depthwise_weights_f16(const DepthwiseWeightsPlan& plan, const WeightsCall& call,
                                  void* stream);
void launch_depthwise_weights_bf16(const DepthwiseWeightsPlan& plan, const WeightsCall& call,
                                   void* stream);

}  // namespace plumb::cuda
