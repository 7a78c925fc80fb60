// Finds backends: linked in, or opened as modules. A module that is missing or broken is a reason.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "module_file.hpp"
#include "module_folders.hpp"
#include "plumb/backend.hpp"
#include "plumb/did_you_mean.hpp"
#include "plumb/error.hpp"
#include "plumb/quote.hpp"
#include "plumb/version.hpp"

namespace plumb {
namespace {

namespace fs = std::filesystem;

LoadedBackend refuse(Reason reason, std::string sentence) {
  return {.reason = reason, .sentence = std::move(sentence)};
}

/// Whether code of the file may be run: not so where its file system is mounted noexec.
bool may_be_run(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  void* page = mmap(nullptr, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
  const bool denied = page == MAP_FAILED && errno != ENOMEM;
  if (page != MAP_FAILED) munmap(page, 1);
  close(file);
  return !denied;
}

/// More than the loader and the constructors of what it loads ask for, which is 8 KiB with Kokkos
/// 3.4. A constructor's exception goes through the loader, which keeps its lock for ever then, and
/// some of the loader's own failures leave it broken.
constexpr std::size_t bytes_to_load = 64 << 10;

/// dlopen(), from which exceptions come, unlike the C library's header has it.
void* open_library(const fs::path& path) {
  using Open = void*(const char*, int);
  Open* const volatile open = &dlopen;
  return open(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// What dlopen() has to say of a module. Where it was memory that ran out, its text alone tells:
/// the loader has an errno of its own, and not always one. Without memory it cannot create this or
/// allocate that, and the file that cannot be opened has no reason.
LoadedBackend refuse_unopened(const fs::path& path) {
  const char* said = dlerror();
  const std::string_view why = said ? said : "";
  const auto says = [&](std::string_view text) { return why.find(text) != why.npos; };
  const bool memory = says(std::strerror(ENOMEM)) || says("cannot allocate ") ||
                      says("cannot create ") || says("out of memory") ||
                      why.ends_with("cannot open shared object file") ||
                      (says("failed to map segment") && may_be_run(path));
  return refuse(memory ? Reason::out_of_memory : Reason::module_broken,
                says(path.native()) ? std::string(why) : fmt::format("{}: {}", path.string(), why));
}

/// How to get what this build does not have.
std::string who_has(const BackendSource& source) {
  return source.where_built.empty() ? "" : fmt::format("; {} has it", source.where_built);
}

LoadedBackend open_module(const BackendSource& source) {
  const std::string file = fmt::format("libplumb_{}.so", source.name);
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
    if (!memory_is_there(bytes_to_load)) throw std::bad_alloc();
    // Never closed: devices, queues and plans hold code of the module for as long as they live.
    void* handle = open_library(path);
    if (!handle) return refuse_unopened(path);
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
                fmt::format("no {} in {}{}", file, looked_in.empty() ? "no folder" : looked_in,
                            who_has(source)));
}

/// May throw: the module's own code runs, and memory may run out.
LoadedBackend load(const BackendSource& source) {
  if (source.linked) return {.backend = &source.linked()};
  if (loads_modules) return open_module(source);
  return refuse(Reason::module_missing, fmt::format("this static build of Plumb has no backend {}, "
                                                    "and loads no modules{}",
                                                    quoted(source.name), who_has(source)));
}

/// The backends that were loaded, each once: of the list alone, so that no caller's text makes it
/// grow.
LoadedBackend load_once(const BackendSource& source) {
  constinit static std::mutex mutex;
  // Never destroyed: other threads may still open devices while the process ends.
  static auto& loaded = *new std::map<const BackendSource*, Backend*>;
  const std::lock_guard lock(mutex);
  if (const auto found = loaded.find(&source); found != loaded.end())
    return {.backend = found->second};
  LoadedBackend result = load(source);
  if (result.backend) loaded.emplace(&source, result.backend);
  return result;
}

LoadedBackend find_and_load(std::string_view name) {
  // A backend that is there is found without memory: a plan asks for its own where there may be
  // none.
  for (const BackendSource& source : backend_list())
    if (source.name == name) return load_once(source);
  std::vector<std::string_view> known;
  for (const BackendSource& source : backend_list()) known.push_back(source.name);
  return refuse(Reason::unknown_backend,
                fmt::format("no backend {}; there are {}{}", quoted(name), fmt::join(known, ", "),
                            did_you_mean(name, known)));
}

}  // namespace

LoadedBackend load_backend(std::string_view name) noexcept try {
  return find_and_load(name);
} catch (...) {
  BackendProbe failed = failed_probe(Reason::module_broken);
  return {.reason = failed.reason, .sentence = std::move(failed.sentence)};
}

}  // namespace plumb
