// What core does around an algorithm that computes less than the problem asks for.
//
// x may be copied to workspace: with the padding of its boundaries, or, for an algorithm without a
// depth, so that the planes under the filter are channels of an image for each plane of the output.
// Planes that follow each other are copied once, with their channels together: images overlap then,
// and the channels are (t, c). Planes between which others lie, and groups, take an image each, of
// channels (c, t). y may be written to workspace, and pooled or added from there. Either way the
// work is cut into slices whose copies stay small.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plumb/backend.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// What an algorithm is to be spared.
struct StagesWanted {
  bool depth = false;       ///< the problem's depth
  bool boundaries = false;  ///< its boundaries other than zeros
  bool pool = false;        ///< its pooling
  bool accumulate = false;  ///< the addition to y
  bool in_order = false;    ///< where planes are channels, they are (c, t)
};

/// Immutable; a copy of it is in every run.
class ConvStages {
 public:
  ConvStages() = default;
  ConvStages(const ConvProblem& problem, StagesWanted wanted, const DeviceInfo& device);

  /// Whether the algorithm computes the problem in one launch, with nothing around it.
  bool none() const { return !wanted_.pool && !wanted_.accumulate && !copies_input_ && !planes_; }
  bool copies_input() const { return copies_input_; }
  /// What the algorithm launches: a slice, and what is left after the last whole one, N = 0 where
  /// nothing is.
  const ConvProblem& slice() const { return slice_; }
  const ConvProblem& last_slice() const { return last_slice_; }
  /// How many launches there are of each.
  std::int64_t slices() const;
  std::int64_t last_slices() const;

  /// Of a slice, at the workspace's beginning: x, then y.
  std::size_t bytes() const { return input_bytes_ + output_bytes_; }
  /// Of filters whose channels and planes are no channels as they lie: a dense copy. 0 otherwise.
  std::size_t filter_bytes() const { return filter_bytes_; }
  /// What the copies, the pooling and the addition take.
  double seconds(const DeviceInfo& device) const;

  /// Puts the dense copy of the filters on the queue.
  void copy_filters(BackendQueue& queue, const DeviceInfo& device, const void* w,
                    void* filters) const;
  /// Puts the problem's launches on the queue. Of `launch`, w and filters are for the slices.
  /// `launch_slice(slice, is_last)` launches one, which has no workspace of its own yet.
  template <class LaunchSlice>
  void run(BackendQueue& queue, const ConvLaunch& launch, const LaunchSlice& launch_slice) const {
    const std::int64_t outer = planes_ ? problem_.n : 1, all = planes_ ? problem_.z() : problem_.n;
    for (std::int64_t n = 0; n < outer; ++n)
      for (std::int64_t first = 0; first < all; first += slice_.n) {
        const bool is_last = all - first < slice_.n;
        const ConvProblem& slice = is_last ? last_slice_ : slice_;
        const std::int64_t image = planes_ ? n : first, plane = planes_ ? first : 0;
        const void* const x = input(queue, launch, slice, image, plane);
        ConvLaunch one{.problem = slice,
                       .device = launch.device,
                       .x = x,
                       .w = launch.w,
                       .filters = launch.filters,
                       .bias = launch.bias,
                       .y = output(launch, image, plane),
                       .activation = activation_of(launch),
                       .accumulate = launch.accumulate && !wanted_.accumulate,
                       .reproducible = launch.reproducible,
                       .workspace = nullptr,
                       .native_queue = launch.native_queue};
        launch_slice(one, is_last);
        finish(queue, launch, slice, image, plane);
      }
  }

 private:
  void take_planes_as_images();
  void take_filters();
  void copy_planes(BackendQueue& queue, const ConvLaunch& launch, const ConvProblem& slice,
                   PadLaunch pad, std::int64_t plane) const;
  void take_padding_from_copy();
  void plan_slices(const DeviceInfo& device);
  std::int64_t copied_elements(const ConvProblem& slice) const;
  std::int64_t images_per_slice(const DeviceInfo& device) const;
  Activation activation_of(const ConvLaunch& launch) const;
  bool stages_output() const { return wanted_.pool || wanted_.accumulate; }
  const void* input(BackendQueue& queue, const ConvLaunch& launch, const ConvProblem& slice,
                    std::int64_t image, std::int64_t plane) const;
  void* output(const ConvLaunch& launch, std::int64_t image, std::int64_t plane) const;
  /// Where the problem's own y has what a launch computes.
  void* y_of(const ConvLaunch& launch, std::int64_t image, std::int64_t plane) const;
  void finish(BackendQueue& queue, const ConvLaunch& launch, const ConvProblem& slice,
              std::int64_t image, std::int64_t plane) const;

  ConvProblem problem_;
  StagesWanted wanted_;
  bool planes_ = false;           ///< the planes of the output are images
  bool copies_input_ = false;     ///< x goes through workspace
  bool planes_together_ = false;  ///< in the copy each plane has its channels together
  ConvProblem slice_, last_slice_;
  std::size_t input_bytes_ = 0, output_bytes_ = 0, filter_bytes_ = 0;
};

}  // namespace plumb
