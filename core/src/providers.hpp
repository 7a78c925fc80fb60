// Other libraries' algorithms: which a device lists, and what their times are kept under.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/algorithm.hpp"
#include "plumb/tune.hpp"

namespace plumb {

/// Returns the libraries that DeviceOptions::providers names; empty means PLUMB_PROVIDERS. Throws
/// Error (invalid_argument) for a name that is no library's.
std::vector<std::string> provider_names(std::string_view providers);

/// Of a backend's list, Plumb's own algorithms and those of the libraries named. The list lives as
/// long as the process: callers keep what conv_algorithms() gives them without the device.
std::span<const ConvAlgorithm* const> listed(std::span<const ConvAlgorithm* const> all,
                                             const std::vector<std::string>& names);

/// What a time of the algorithm is kept under: another library's with the version that was timed.
std::string tuned_name(const ConvAlgorithm& algorithm);

/// The algorithm's time, if it is among them; of another library that of its version.
std::optional<double> time_of(const TunedTimes& tuned, const ConvAlgorithm& algorithm);

/// Why another library's algorithm is not asked where it was not forced, and has this time.
Support refused_unmeasured(const ConvAlgorithm& algorithm, const TunedTimes& tuned,
                           const std::optional<double>& seconds);

}  // namespace plumb
