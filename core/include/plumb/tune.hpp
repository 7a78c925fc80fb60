// Tuning times every algorithm that can run a problem, and keeps the times in a file, from which
// later plans choose.
//
// The file is PLUMB_TUNE_CACHE, or plumb/tune under XDG_CACHE_HOME or else ~/.cache. It is text,
// and ends in a checksum: what is damaged is ignored as a whole. Only tune() writes it; several
// processes may do so at once.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/conv.hpp"
#include "plumb/device.hpp"
#include "plumb/export.h"
#include "plumb/measure.hpp"

namespace plumb {

/// These options say what is timed, how, and whether it is kept.
struct TuneOptions {
  /// Only what may serve this arithmetic is timed; plans that allow other arithmetic are then
  /// chosen as if nothing had been tuned. If it is empty, everything is timed.
  std::optional<Math> math = {};
  MeasureOptions measure{.seconds_limit = 0.2, .give_up_factor = 4};  ///< of each problem
  bool write = true;  ///< keep the times in the cache
};

/// The result of tuning for one algorithm.
struct TunedAlgorithm {
  std::string_view algorithm;       ///< its name
  Support support;                  ///< why it was not timed, if it was not
  double estimate_seconds = 0;      ///< what plans went by before
  std::size_t workspace_bytes = 0;  ///< workspace that it takes
  Math error_class = Math::fp32;    ///< the strictest promise it keeps
  Measurement measurement;          ///< meaningless without support
};

/// The result of tuning one problem.
struct TuneResult {
  ConvProblem problem;                     ///< checked
  std::vector<TunedAlgorithm> algorithms;  ///< of the device, in its order
  Measurements measurements;               ///< of those that were timed, in the same order
  std::string cache_path;                  ///< where the steady times are now; empty: nowhere
  std::string cache_sentence;              ///< why nowhere, or what was found wrong there before
};

/// Times all algorithms that can run the problem, apart from those that run only when forced, and
/// writes their steady times to the cache; where one is unsteady or the memory is not there for it,
/// plans that may take that algorithm go on by estimates. Plans that this device and its copies
/// made for conv() before are forgotten; a ConvPlan that the caller keeps stays what it is. Without
/// a cache to write to, the times are in the result alone, with the reason. Throws Error as
/// ConvPlan and measure() do.
PLUMB_API TuneResult tune(const Device& device, const ConvProblem& problem,
                          const TuneOptions& options = {});

/// One algorithm's time in the cache; infinite where it failed when it was tuned.
struct TunedTime {
  std::string algorithm;                                                 ///< its name
  double seconds = 0;                                                    ///< the median
  friend bool operator==(const TunedTime&, const TunedTime&) = default;  ///< in both
};

/// The times that the cache holds for a problem on a device.
struct TunedTimes {
  std::vector<TunedTime> times;  ///< empty: `sentence` says why
  std::string sentence;          ///< for people
};
/// Looks times up. It never throws because of the file: what is stale, damaged or not there is a
/// sentence.
PLUMB_API TunedTimes tuned_times(const Device& device, const ConvProblem& problem);

/// The cache as a device sees it.
struct TuneCacheReport {
  std::string path;          ///< empty: nowhere, `sentence` says why
  std::size_t problems = 0;  ///< tuned on this device with this driver and version of Plumb
  std::size_t stale = 0;     ///< tuned on a device of this name with another driver or version
  std::string sentence;      ///< why the file is not used; empty where it is
};
/// Reports on the cache. It never throws because of the file.
PLUMB_API TuneCacheReport tune_cache_report(const Device& device);

}  // namespace plumb
