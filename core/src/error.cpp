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
    {Reason::out_of_memory, "out_of_memory"},
    {Reason::direction, "direction"},
    {Reason::dtype, "dtype"},
    {Reason::math, "math"},
    {Reason::layout, "layout"},
    {Reason::geometry, "geometry"},
    {Reason::too_large, "too_large"},
    {Reason::device_limit, "device_limit"},
    {Reason::workspace_limit, "workspace_limit"},
    {Reason::not_deterministic, "not_deterministic"},
    {Reason::not_reproducible, "not_reproducible"},
    {Reason::not_forced, "not_forced"},
    {Reason::forced_only, "forced_only"},
    {Reason::provider_missing, "provider_missing"},
    {Reason::provider_version, "provider_version"},
    {Reason::not_measured, "not_measured"},
};

}  // namespace

std::string_view to_string(ErrorCode code) { return name_of(error_codes, code); }
std::string_view to_string(Reason reason) { return name_of(reasons, reason); }

std::string_view remedy(Reason reason) {
  switch (reason) {
    case Reason::none: return "nothing is in the way";
    case Reason::unknown_backend: return "ask for a backend that plumb info lists";
    case Reason::module_missing:
      return "install the module beside libplumb, or name its folder in PLUMB_BACKEND_PATH";
    case Reason::module_broken: return "install the module again, with the libraries it needs";
    case Reason::module_version: return "install libplumb and the module from one build";
    case Reason::no_driver: return "install the vendor's driver";
    case Reason::driver_too_old: return "update the driver, or build with an older toolkit";
    case Reason::no_device:
      return "make a device visible (CUDA_VISIBLE_DEVICES), or ask for an index that is there";
    case Reason::no_code_for_device: return "build for this device: CMAKE_CUDA_ARCHITECTURES";
    case Reason::device_error:
      return "see what the driver says of the device; a process whose device broke must start anew";
    case Reason::out_of_memory:
      return "free memory on the device, or ask for less: a smaller batch, a memory budget";
    case Reason::direction: return "ask for the direction that the algorithm computes";
    case Reason::dtype: return "store the tensors in a type that the algorithm takes";
    case Reason::math: return "allow its arithmetic: ConvOptions::math, --math";
    case Reason::layout: return "lay the tensors out as the algorithm takes them";
    case Reason::geometry:
      return "another filter size, stride, dilation, padding or number of groups";
    case Reason::too_large: return "a smaller problem: cut the batch";
    case Reason::device_limit: return "a smaller problem, or a device that has more of it";
    case Reason::workspace_limit: return "allow more: ConvOptions::workspace_limit_bytes";
    case Reason::not_deterministic:
      return "allow results that vary: ConvOptions::deterministic off";
    case Reason::not_reproducible:
      return "allow sums in another order: ConvOptions::reproducible off, no --reproducible";
    case Reason::not_forced:
      return "force it instead, or none: ConvOptions::algorithm, PLUMB_CONV_ALGORITHM, --algorithm";
    case Reason::forced_only:
      return "force it by name: ConvOptions::algorithm, PLUMB_CONV_ALGORITHM, --algorithm";
    case Reason::provider_missing:
      return "install the library, or name its folder in PLUMB_PROVIDER_PATH";
    case Reason::provider_version: return "install a version of the library that Plumb can use";
    case Reason::not_measured:
      return "tune the problem with the library enabled: plumb tune --providers";
  }
  return "?";
}

Error::~Error() = default;

}  // namespace plumb
