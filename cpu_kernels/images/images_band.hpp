// A thread's work on a band of outputs of several images: its input is copied to a slab, a lane of
// a vector for each image, runs of filters are summed over it, and stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu_kernels/images/images_plan.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// What all threads of a launch share.
template <class Real>
struct ImagesLaunch {
  const ConvLaunch& launch;
  const ConvProblem& problem;
  const ImagesPlan& plan;
  const ImagesKernels<Real>& kernels;
  const ChannelsKernels<Real>& copies;  ///< whose loads and stores put images side by side
};

/// Computes tasks one after another, in a thread's own part of the workspace.
template <class Real>
class ImagesBand {
 public:
  ImagesBand(const ImagesLaunch<Real>& shared, std::byte* slot);
  void run(std::int64_t task);

 private:
  /// Rows [p, p + rows) of images [n, n + images) and the filters of a group.
  struct Task {
    std::int64_t n, images, group, p, rows;
  };
  Task task_of(std::int64_t index) const;
  void load_slab(const Task& task, std::int64_t c, std::int64_t channels);
  void sum_run(const Task& task, std::int64_t k, std::int64_t filters, std::int64_t c,
               std::int64_t channels, Real* sums);
  void sum_classes(const Task& task, ImagesRun<Real> run);
  std::int64_t fill_taps(TapRange r, TapRange s);
  void store(const Task& task, std::int64_t k, std::int64_t filters, const Real* sums) const;

  const ImagesLaunch<Real>& shared_;
  Real* slab_;
  Real* bias_;
  Real* sums_;
  std::vector<ChannelsTap> taps_;  ///< of the class at hand
  /// Places [begin, end) that the slab has under the task, counted from that under the first
  /// output's first tap.
  TapRange slab_rows_{}, slab_columns_{};
};

}  // namespace plumb
