// A device with its own memory convolves tensors that live on the host: the batch goes through in
// segments, so that copying in, computing and copying out overlap, and so that a batch may be
// larger than the device's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "plumb/conv.hpp"
#include "plumb/device.hpp"
#include "plumb/export.h"

namespace plumb {

/// These options say how a batch is cut, and what memory it may take.
struct PipelineOptions {
  /// Segments that are under way at once, each with buffers of its own; fewer where the memory
  /// budget asks for it. With 1 nothing overlaps.
  int streams = 4;
  /// The most device memory that is taken, workspace included; pinned staging memory on the host
  /// takes no more than that again. 0 means half of what is free on the device; of all that it has
  /// in backward weights with ConvOptions::deterministic.
  std::size_t memory_budget_bytes = 0;
  /// 0 lets the bytes of the batch decide, and cuts smaller where the memory budget asks for it.
  std::int64_t images_per_segment = 0;
};

/// The stages that a segment goes through, in this order. `fill` and `drain` are the calling
/// thread's copies to and from pinned staging memory, where the caller's is not pinned. In backward
/// weights the last segment alone is copied out, which is the whole gradient.
enum class PipelineStage : std::uint8_t { fill, copy_in, kernel, copy_out, drain };
PLUMB_API std::string_view to_string(PipelineStage);  ///< "copy_in"

/// One segment in one stage, in seconds since the run began: the device's events tell them, and the
/// host's clock for `fill` and `drain`.
struct PipelineSpan {
  PipelineStage stage = PipelineStage::kernel;  ///< what is done
  int stream = 0;                               ///< the set of buffers that it is done in
  std::int64_t first_image = 0;                 ///< of the batch
  std::int64_t images = 0;                      ///< of the segment
  double begin_seconds = 0;                     ///< when it begins
  double end_seconds = 0;                       ///< when it has ended
};

/// A convolution or a gradient planned for tensors on the host, with its queues and buffers. One
/// thread at a time may use it. Tensors are those of ConvTensors in the problem's direction, pinned
/// or pageable, with one axis or three of rank 3 or 5. Those that have an N have no gaps in an
/// image (NCHW and NHWC both), and each image follows the one before at once; w and dw have no
/// gaps.
///
/// Backward data goes through as a forward convolution does: dy goes in, and the mask, dx comes
/// out. In backward weights x and dy go in, and the gradients of the segments are summed on the
/// device in pairs, sums of pairs, and so on, in an order that the number of segments alone fixes:
/// an element of dw, and of db, goes through sum_depth() additions that are each rounded to the
/// stored type (segments_error_bound() says what they may cost). The bits are the same whenever the
/// batch is cut the same way: with ConvOptions::deterministic it is, for the same options on the
/// same device; without it and without `images_per_segment` the memory that is free may have a say.
///
/// On the CPU nothing is copied: the convolution runs in place, in one segment.
class PLUMB_API ConvPipeline {
 public:
  /// Plans the segments and allocates the device's buffers. Throws Error as ConvPlan does;
  /// invalid_argument also where the strides have gaps that this class does not take or an option
  /// makes no sense; out_of_memory where the budget (or the device) does not hold one image, or not
  /// `images_per_segment`.
  ConvPipeline(const Device& device, const ConvProblem& problem, const ConvOptions& options = {},
               const PipelineOptions& pipeline = {});
  ~ConvPipeline();
  ConvPipeline(ConvPipeline&&) noexcept;             ///< leaves the other one empty
  ConvPipeline& operator=(ConvPipeline&&) noexcept;  ///< leaves the other one empty

  const ConvProblem& problem() const;       ///< of the whole batch
  const ConvPlan& plan() const;             ///< plan of one segment
  std::int64_t images_per_segment() const;  ///< the last one may have fewer
  std::int64_t segments() const;            ///< segments that the batch is cut into
  int streams() const;                      ///< as options, budget and batch allow
  std::size_t device_bytes() const;         ///< allocated on the device
  /// Returns how many additions an element of dw goes through when the segments are summed:
  /// ceil(log2(segments())), one more where the options accumulate on a device that copies. 0 in
  /// other directions.
  int sum_depth() const;

  /// Convolves from host memory to host memory; the output is complete when it returns. The first
  /// run with pageable tensors allocates the staging memory. `timeline` is filled where it is
  /// given, in no certain order. Throws Error: invalid_argument where a tensor is not what the
  /// problem says or not on the host, or an output overlaps another tensor; and what the device
  /// reports. No copy is under way any more when it throws, and what the output holds then is
  /// unspecified.
  void run(const ConvTensors& tensors, std::vector<PipelineSpan>* timeline = nullptr);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Runs one convolution of tensors on the host. A ConvPipeline serves several of the same problem
/// better: it allocates its buffers once.
///
/// Where `auto` chose the device and it fails on the way (out of memory, an error of its own), the
/// CPU does the whole convolution again: x and w are still the caller's. The function returns the
/// device that has done it, whose passed_over() then says what failed. Where the device was asked
/// for by name or no algorithm of the CPU may run, it throws Error as ConvPipeline does instead; so
/// it does where the options accumulate and the device had begun, since what y held may be gone. It
/// throws Error (invalid_argument) where y overlaps x, w or bias.
PLUMB_API Device conv_host(const Device& device, const ConvTensors& tensors,
                           const ConvGeometry& geometry = {}, ConvOptions options = {},
                           const PipelineOptions& pipeline = {});
/// Runs backward data of tensors on the host, as conv_host() runs a forward convolution.
PLUMB_API Device conv_backward_data_host(const Device& device, const BackwardDataTensors& tensors,
                                         const ConvGeometry& geometry = {},
                                         ConvOptions options = {},
                                         const PipelineOptions& pipeline = {});
/// Runs backward weights, likewise; ConvPipeline says how the gradients of segments are summed.
PLUMB_API Device conv_backward_weights_host(const Device& device,
                                            const BackwardWeightsTensors& tensors,
                                            const ConvGeometry& geometry = {},
                                            ConvOptions options = {},
                                            const PipelineOptions& pipeline = {});
/// Runs a transposed convolution, likewise.
PLUMB_API Device conv_transpose_host(const Device& device, const TransposedTensors& tensors,
                                     const ConvGeometry& geometry = {}, ConvOptions options = {},
                                     const PipelineOptions& pipeline = {});

}  // namespace plumb
