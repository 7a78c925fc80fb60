// A thread's work on a band of outputs: its input is copied to a slab, runs of filters are summed
// over it, and stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cpu_kernels/channels/channels_plan.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// What all threads of a launch share.
template <class Real>
struct ChannelsLaunch {
  ChannelsLaunch(const ConvLaunch& call, const ChannelsPlan& cut,
                 const ChannelsKernels<Real>& functions);

  const ConvLaunch& launch;
  const ConvProblem& problem;
  const ChannelsPlan& plan;
  const ChannelsKernels<Real>& kernels;
  const Real* filters;
  bool in_y;          ///< whether sums grow in y
  bool tile_by_tile;  ///< whether all filters of a tile come before the next tile
  bool corrects;      ///< whether zeros of the padding meet weights that are not finite
};

/// Computes tasks one after another, in a thread's own part of the workspace. A task is a band and
/// a chunk of filters.
template <class Real>
class ChannelsBand {
 public:
  ChannelsBand(const ChannelsLaunch<Real>& shared, std::byte* slot);
  void run(std::int64_t task);

 private:
  /// Outputs [q, q + columns) of rows [p, p + rows) of plane z, and filters [k, k + filters) of a
  /// set.
  struct Task {
    std::int64_t n, z, p, rows, q, columns, set, k, filters;
  };
  Task task_of(std::int64_t index) const;
  bool same_band(const Task& task) const;
  const std::vector<bool>& find_planes(const Task& task);
  void place(const Task& task);
  const ChannelsTap* taps_of(TapRange t, TapRange r, TapRange s, TapRange outputs);
  void load_slab(const Task& task, std::int64_t c, std::int64_t channels);
  void load_row(const Task& task, std::int64_t channels, const char* x, Real* to);
  void sum_run(const Task& task, std::int64_t k, std::int64_t filters, std::int64_t c,
               std::int64_t channels);
  void prefetch_filters(const Task& task, std::int64_t k, std::int64_t c,
                        ChannelsRun<Real>& run) const;
  void sum_classes(const Task& task, ChannelsRun<Real> run);
  void correct(const Task& task, std::int64_t k, std::int64_t filters, Real* sums, std::int64_t row,
               std::int64_t step) const;
  Real sum_inside(const Task& task, std::int64_t k, std::int64_t p, std::int64_t q) const;
  void store(const Task& task, std::int64_t k, std::int64_t filters, const Real* sums) const;

  const ChannelsLaunch<Real>& shared_;
  Real* slab_;
  Real* staged_;
  Real* bias_;
  Real* sums_;
  Task loaded_{};  ///< whose slab is there
  bool is_loaded_ = false;
  /// No depth of an image: whatever a boundary shows is less than its extent away.
  static constexpr std::int64_t no_plane = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> held_;   ///< the depth in x, or around it, of each plane of the slab
  std::vector<std::int64_t> slots_;  ///< planes of the slab that planes of taps have
  std::vector<bool> loads_;          ///< whether these are to be loaded
  std::vector<ChannelsTap> taps_;    ///< of the class at hand
  TapRange taps_t_{}, taps_r_{}, taps_s_{}, taps_outputs_{};
  /// What the slab has of the axes under the task at hand: elements [begin, end) of each, counted
  /// from that under the first output's first tap.
  TapRange planes_{}, slab_rows_{}, slab_columns_{};
};

}  // namespace plumb
