// Finds backends: linked in, or opened as modules. A module that is missing or broken is a reason.
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "environment.hpp"
#include "module_file.hpp"
#include "plumb/backend.hpp"
#include "plumb/version.hpp"

namespace plumb {
namespace {

namespace fs = std::filesystem;

#ifdef PLUMB_STATIC  // a module would bring a second libplumb with it
constexpr bool loads_modules = false;
#else
constexpr bool loads_modules = true;
#endif

LoadedBackend refuse(Reason reason, std::string sentence) {
  return {.reason = reason, .sentence = std::move(sentence)};
}

/// PLUMB_BACKEND_PATH (folders, colons between), or the folder that libplumb itself lies in.
std::vector<fs::path> module_folders() {
  std::vector<fs::path> folders;
  const std::string path = environment("PLUMB_BACKEND_PATH");
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    if (end > begin) folders.emplace_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  if (!folders.empty()) return folders;
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&load_backend), &self) != 0 && self.dli_fname)
    folders.push_back(fs::absolute(self.dli_fname).parent_path());
  return folders;
}

LoadedBackend open_module(std::string_view name) {
  const std::string file = fmt::format("libplumb_{}.so", name);
  std::string looked_in;
  for (const fs::path& folder : module_folders()) {
    const fs::path path = folder / file;
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {
      looked_in += (looked_in.empty() ? "" : ", ") + folder.string();
      continue;
    }
    if (const std::string missing = missing_part(path); !missing.empty())
      return refuse(Reason::module_broken, fmt::format("{}: {}", path.string(), missing));
    // Never closed: devices, queues and plans hold code of the module for as long as they live.
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      const char* why = dlerror();
      return refuse(Reason::module_broken, why ? why : path.string());
    }
    const auto entry =
        reinterpret_cast<BackendModuleFunction*>(dlsym(handle, backend_module_symbol));
    if (!entry)
      return refuse(Reason::module_broken,
                    fmt::format("{} has no symbol {}", path.string(), backend_module_symbol));
    const BackendModule* module = entry();
    if (!module)
      return refuse(Reason::module_broken,
                    fmt::format("{}: {} returned nothing", path.string(), backend_module_symbol));
    if (module->abi != BackendModule::current_abi)
      return refuse(Reason::module_version,
                    fmt::format("{} has interface {}; this is Plumb {}, which expects {}",
                                path.string(), module->abi, version, BackendModule::current_abi));
    if (module->version != version)
      return refuse(Reason::module_version, fmt::format("{} is of Plumb {}; this is Plumb {}",
                                                        path.string(), module->version, version));
    return {.backend = &module->backend()};
  }
  return refuse(Reason::module_missing,
                fmt::format("no {} in {}", file, looked_in.empty() ? "no folder" : looked_in));
}

LoadedBackend load(std::string_view name) try {
  for (const BackendSource& source : backend_list())
    if (source.name == name) {
      if (source.linked) return {.backend = &source.linked()};
      if (loads_modules) return open_module(name);
      return refuse(Reason::module_missing,
                    fmt::format("this static build of Plumb has no backend '{}', and loads no "
                                "modules",
                                name));
    }
  std::string known;
  for (const BackendSource& source : backend_list())
    known += (known.empty() ? "" : ", ") + std::string(source.name);
  return refuse(Reason::unknown_backend, fmt::format("no backend '{}'; there are {}", name, known));
} catch (const std::exception& e) {
  return refuse(Reason::module_broken, e.what());
} catch (...) {
  return refuse(Reason::module_broken,
                fmt::format("backend '{}' threw what is no exception", name));
}

}  // namespace

const LoadedBackend& load_backend(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, LoadedBackend, std::less<>> loaded;
  const std::lock_guard lock(mutex);
  const auto found = loaded.find(name);
  if (found != loaded.end()) return found->second;
  return loaded.emplace(name, load(name)).first->second;
}

}  // namespace plumb
