// Plumb throws one type, with codes that say why something cannot be had.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "plumb/export.h"

namespace plumb {

/// The code tells callers what went wrong, so that they can act on it; the message is for people.
enum class ErrorCode {
  invalid_argument,    ///< a wrong shape, stride, dtype or name; nothing was done
  unsupported,         ///< a right request that no algorithm here can serve
  device_unavailable,  ///< the device asked for cannot be had; the message says why
  out_of_memory,       ///< host or device memory ran out; execute() then wrote nothing
  device_failure,      ///< the device or its driver reported an error
};
PLUMB_API std::string_view to_string(ErrorCode);  ///< "out_of_memory"

/// A reason why a device cannot be had or an algorithm cannot run. Codes are stable; the sentence
/// beside one carries the values.
enum class Reason {
  none,  ///< nothing is in the way
  // Devices and backends.
  unknown_backend,     ///< no backend of that name was ever built
  module_missing,      ///< the backend's module is not where modules are looked for
  module_broken,       ///< the module is there and cannot be loaded
  module_version,      ///< the module was built for another version of Plumb
  no_driver,           ///< the vendor's driver is not installed
  driver_too_old,      ///< the driver is older than the runtime that the backend was built with
  no_device,           ///< the driver works and shows no device (of that index)
  no_code_for_device,  ///< the backend holds no machine code for that device
  device_error,        ///< the device's own error
  out_of_memory,       ///< the device's memory, or the host's for it, ran out
  // Algorithms.
  direction,          ///< the algorithm computes another one alone
  dtype,              ///< not for this stored type
  math,               ///< less accurate than the caller allows
  layout,             ///< not for these strides
  geometry,           ///< not for these filter sizes, strides, dilations, paddings or groups
  too_large,          ///< a size is beyond what the algorithm can index
  device_limit,       ///< the device has too little of something (shared or constant memory, ...)
  workspace_limit,    ///< needs more workspace than the caller allows
  not_deterministic,  ///< the caller asked for the same bits every time
  not_reproducible,   ///< the caller asked for the bits that are specified
  not_forced,         ///< another algorithm was forced by name
  forced_only,        ///< runs only when forced by name
  provider_missing,   ///< another library's, which cannot be opened
  provider_version,   ///< another library's, of a version or build that Plumb cannot use
  not_measured,       ///< another library's, which only a measured time could choose
};
/// Returns the code as written in JSON and logs: "no_driver".
PLUMB_API std::string_view to_string(Reason);
/// Returns, for people, what would change it: "install the vendor's driver". docs/reasons.md has
/// all remedies.
PLUMB_API std::string_view remedy(Reason);

/// Plumb throws nothing else.
class PLUMB_API Error : public std::runtime_error {
 public:
  /// `reason` is for a device that cannot be had.
  Error(ErrorCode code, const std::string& message, Reason reason = Reason::none)
      : std::runtime_error(message), code_(code), reason_(reason) {}
  ~Error() override;  // its place is libplumb's: one type to catch, whichever module throws
  ErrorCode code() const noexcept { return code_; }  ///< for programs; what() is for people
  /// Returns which obstacle was in the way of a device that cannot be had (device_unavailable, or
  /// out_of_memory where memory for it ran out); unknown_backend for a wrong name; otherwise
  /// `none`.
  Reason reason() const noexcept { return reason_; }

 private:
  ErrorCode code_;
  Reason reason_;
};

}  // namespace plumb
