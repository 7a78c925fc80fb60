// Names of error and reason codes, as they stand in JSON and logs; and where Error lives.
#include "plumb/error.hpp"

#include "names.hpp"

namespace plumb {
namespace {

constexpr Name<ErrorCode> error_codes[] = {
    {ErrorCode::invalid_argument, "invalid_argument"},
    {ErrorCode::unsupported, "unsupported"},
    {ErrorCode::device_unavailable, "device_unavailable"},
    {ErrorCode::out_of_memory, "out_of_memory"},
    {ErrorCode::device_failure, "device_failure"},
};

constexpr Name<Reason> reasons[] = {
    {Reason::none, "none"},
    {Reason::unknown_backend, "unknown_backend"},
    {Reason::module_missing, "module_missing"},
    {Reason::module_broken, "module_broken"},
    {Reason::module_version, "module_version"},
    {Reason::no_driver, "no_driver"},
    {Reason::driver_too_old, "driver_too_old"},
    {Reason::no_device, "no_device"},
    {Reason::no_code_for_device, "no_code_for_device"},
    {Reason::device_error, "device_error"},
    {Reason::direction, "direction"},
    {Reason::dtype, "dtype"},
    {Reason::math, "math"},
    {Reason::layout, "layout"},
    {Reason::geometry, "geometry"},
    {Reason::too_large, "too_large"},
    {Reason::device_limit, "device_limit"},
    {Reason::workspace_limit, "workspace_limit"},
    {Reason::not_deterministic, "not_deterministic"},
    {Reason::not_forced, "not_forced"},
    {Reason::forced_only, "forced_only"},
};

}  // namespace

std::string_view to_string(ErrorCode code) { return name_of(error_codes, code); }
std::string_view to_string(Reason reason) { return name_of(reasons, reason); }

Error::~Error() = default;

}  // namespace plumb
