// Convolutions are timed in one place, which tuning, the bench and the ladder use.
//
// Contestants for one problem run on the same buffers of random normal data and take turns, a
// sample each, so that what drifts (clocks, neighbours) drifts for all of them. Time is the
// device's, between two events around a sample; a sample of runs that are shorter than 20 us is
// several of them back to back, because the events themselves cost about a microsecond. Where a run
// is under 200 us, each works on another of several sets of buffers, 256 MiB in all, so that no
// contestant finds its tensors in a cache. On request time is the host's instead, of runs that it
// waits for one by one. Medians are taken over the samples.
//
// A neighbour that keeps the processor or the device busy can make short runs a hundred times
// slower. Where the samples of a contestant scatter, or lie far above what its estimate says, they
// are taken again, and where they still do, the measurement says that it is not steady. Such times
// are shown and never kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/conv.hpp"
#include "plumb/device.hpp"
#include "plumb/export.h"

namespace plumb {

/// These options say how long and how carefully contestants are measured.
struct MeasureOptions {
  int min_samples = 20;   ///< of each contestant, however long they take
  int max_samples = 100;  ///< of each contestant
  /// The limit is for the samples of one contestant: past it no more than `min_samples` are taken.
  double seconds_limit = 0.5;
  /// A contestant whose runs take more than this times the best one's is given up: it gets at most
  /// 3 samples. With 0 nothing is given up.
  double give_up_factor = 0;
  /// All contestants run in turn for at least this long before the first sample.
  double warm_up_seconds = 0.05;
  /// The bytes of the buffers that runs of less than 200 us go round: more than the caches hold.
  /// With 0 all runs are on the same buffers, and may find them in a cache.
  std::size_t cold_bytes = std::size_t{1} << 28;
  /// One more run of each contestant is held against the oracle.
  bool check = true;
  /// Filters are packed before the samples (ConvPlan::pack()), for all contestants. Otherwise those
  /// that pack do so in each run.
  bool packed_filters = false;
  /// Time is the host's, of one run at a time, from the call of execute() until the host has waited
  /// for the device: launches count, and so does what a caller who waits sees of them. Otherwise it
  /// is the device's.
  bool host_time = false;
  std::uint64_t seed = 1;  ///< of the data, and of the outputs that are checked
  /// A median that lies above the minimum by more than this share of it is unsteady. Of 1,498 times
  /// recorded on quiet machines (docs/results/) the furthest lies 0.47 above.
  double scatter_limit = 0.5;
  /// A median is also unsteady if it is more than this times the algorithm's estimate and 5 us,
  /// which the estimates of very short runs leave out. Of 152 tuned on an H200 the furthest is 1.7
  /// times its estimate. A third of it applies to what was given up after few samples. The limit is
  /// not asked of what runs when forced.
  double estimate_limit = 10;
  int tries = 3;  ///< the samples of an unsteady contestant are taken so often at most
  /// It takes the place of the clock in tests: it gets an algorithm and the device's seconds for
  /// one run, and returns those to go by. If it is empty, the device's own seconds count.
  std::function<double(std::string_view algorithm, double seconds)> clock = {};
};

/// Where the time that packing filters takes is counted.
enum class PackingTime : std::uint8_t {
  none,     ///< there is none: the algorithm reads filters as they lie
  counted,  ///< each run packs, as part of its time
  before,   ///< the filters were packed before the samples
};
PLUMB_API std::string_view to_string(PackingTime);  ///< "counted"

/// The result for one contestant.
struct Measurement {
  std::string_view algorithm;               ///< of its plan
  PackingTime packing = PackingTime::none;  ///< of the filters
  int samples = 0;                          ///< that were taken
  int runs_per_sample = 1;                  ///< back to back; the seconds below are of one
  double median_seconds = 0;                ///< of the device, or of the host
  double min_seconds = 0;                   ///< likewise
  bool given_up = false;                    ///< hopelessly slower than the best: few samples
  int tries = 1;                            ///< the samples are those of the last one
  /// Why the seconds are not to be relied on, after all tries: how far the samples scatter, or how
  /// far they lie above the estimate. It is empty where they are steady.
  std::string unsteady = {};
  /// The largest error over its bound among the outputs checked, which are those of the first, the
  /// last and a few images between. It is infinite where one was not written or is no number, and 0
  /// if unchecked.
  double max_error_over_bound = 0;
  /// Whether the bound is the algorithm's own promise. If it gives none, the bound is that of a
  /// chain of fp32 FMAs.
  bool bounded = true;
  std::string failure;  ///< what it threw, and then nothing else here has a meaning
};

/// The results for all contestants.
struct Measurements {
  std::vector<Measurement> contestants;  ///< in the order they were given in
  /// Buffers that the runs go round, each of its own x, w, bias and y; with 1 all runs are on the
  /// same.
  int buffer_sets = 1;
  double clock_hertz = 0;  ///< of the device's multiprocessors right after; 0 where unknown
};

/// Says whether the memory is there to measure the problem with `workspace_bytes`: yes, or
/// Reason::too_large with the bytes needed and those free, on the device or on the host.
PLUMB_API Support fits_in_memory(const Device& device, const ConvProblem& problem,
                                 std::size_t workspace_bytes = 0);

/// Times plans of one problem and device against each other. Their bias, activation and whether
/// they accumulate are those of the plans, the workspace is the queue's. What a contestant throws
/// is its `failure`. Throws Error (invalid_argument) where the plans differ in any of these, where
/// the batch is empty, or strides are negative; and Error (out_of_memory, with Reason::too_large)
/// where fits_in_memory() says no.
PLUMB_API Measurements measure(std::span<const ConvPlan> contestants,
                               const MeasureOptions& options = {});

/// Returns the least time that the device's ceilings leave for the problem in arithmetic of class
/// `math`: its bytes at the speed of a copy, or its operations at the speed of the fastest
/// arithmetic that keeps the promise, whichever takes longer. FMAs keep the promise of fp32, and so
/// does, at a third of its speed, fp16 in three products.
PLUMB_API double roofline_seconds(const DeviceCeilings& ceilings, const ConvProblem& problem,
                                  Math math);

/// Returns the problem with as much of its batch as the device has memory for now, with a fifth of
/// it left for workspace, and the host for what is checked there, or `on_host_too` for all tensors.
/// Throws Error (out_of_memory, with Reason::too_large) where not one image fits.
PLUMB_API ConvProblem fit_to_memory(const Device& device, ConvProblem problem,
                                    bool on_host_too = false);

}  // namespace plumb
