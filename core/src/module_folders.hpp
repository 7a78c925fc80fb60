// Where backends' modules are looked for.
#pragma once

#include <filesystem>
#include <vector>

namespace plumb {

#ifdef PLUMB_STATIC  // a module would bring a second libplumb with it
constexpr bool loads_modules = false;
#else
constexpr bool loads_modules = true;
#endif

/// The folders of PLUMB_BACKEND_PATH, colons between, or else those that libplumb itself was loaded
/// from: the one of the name that the loader found it by, and, behind a symbolic link, the one
/// where the file lies. All are absolute, whatever the working folder has become since libplumb was
/// loaded. Error (device_unavailable, module_missing) for a relative folder in PLUMB_BACKEND_PATH.
std::vector<std::filesystem::path> module_folders();

}  // namespace plumb
