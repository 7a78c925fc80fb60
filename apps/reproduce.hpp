// The command line that runs one case again.
#pragma once

#include <string>
#include <string_view>

#include "crash_report.hpp"
#include "plumb/plumb.hpp"

namespace plumb::app {

/// `plumb validate` of exactly this case: sizes, stored type, views, bias, activation and
/// accumulation, the seed of its data, guard pages, threads and, where not all of them were judged,
/// the tiers.
std::string reproduce(const Device& device, std::string_view algorithm, const ValidationCase& test,
                      const ValidationOptions& options);

/// Such options that `report` has the command line of what is running, while they are used.
ValidationOptions reported(CrashReport& report, const Device& device, const ValidationCase& test,
                           ValidationOptions options);

}  // namespace plumb::app
