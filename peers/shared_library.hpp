// Other libraries are opened when they are first wanted, with nothing of them needed to compile.
// What is used of their C interfaces is declared by hand, and believed only of versions that are
// known to have it so.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <forward_list>
#include <initializer_list>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "plumb/algorithm.hpp"
#include "plumb/backend.hpp"
#include "plumb/quote.hpp"

namespace plumb::peers {

/// Folders to look in before the loader's own: PLUMB_PROVIDER_PATH, which says nothing in a process
/// that runs with more rights than its user has.
inline std::string provider_path() {
  const char* value = secure_getenv("PLUMB_PROVIDER_PATH");
  return value ? value : "";
}

/// A shared library that was opened, or why there is none.
struct SharedLibrary {
  void* handle = nullptr;
  LibraryReport report = {};  ///< the path; its version is for the caller to ask and fill in

  /// A function of the library or of what it is linked with; null where there is none.
  void* function(const char* name) const { return dlsym(handle, name); }
  /// Where a function lies; empty where the loader does not know.
  static std::string file_of(const void* function) {
    Dl_info info{};
    return dladdr(function, &info) != 0 && info.dli_fname ? info.dli_fname : "";
  }
};

/// Takes functions out of a library, and remembers the first that is not there.
class Functions {
 public:
  explicit Functions(const SharedLibrary& from) : from_(from) {}
  template <class Function>
  void take(Function& function, const char* name) {
    function = reinterpret_cast<Function>(from_.function(name));
    if (!function && missing_.empty()) missing_ = name;
  }
  const std::string& missing() const { return missing_; }  ///< empty: all are there

 private:
  const SharedLibrary& from_;
  std::string missing_;
};

/// dlopen(), from which exceptions of constructors come, unlike the C library's header has it.
inline void* open_file(const std::string& name) {
  using Open = void*(const char*, int);
  Open* const volatile open = &dlopen;
  return open(name.c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// Opens the first of the names that is there: each in the folders of PLUMB_PROVIDER_PATH, then
/// where the loader looks. A file in those folders that cannot be opened is the reason, and nothing
/// else is tried. Never closed: what it made stays in use until the process ends.
inline SharedLibrary open_shared_library(std::initializer_list<const char*> names,
                                         std::string_view folders) {
  constexpr std::size_t bytes_to_load = 64 << 10;  // as for modules of Plumb's own
  if (!memory_is_there(bytes_to_load)) throw std::bad_alloc();
  std::string whys;
  const auto open = [&](const std::string& name) -> void* {
    void* const handle = open_file(name);
    if (handle) return handle;
    const char* const why = dlerror();
    whys += (whys.empty() ? "" : "; ") + std::string(why ? why : name);
    return nullptr;
  };
  while (!folders.empty()) {
    const std::string_view folder = folders.substr(0, folders.find(':'));
    folders.remove_prefix(std::min(folder.size() + 1, folders.size()));
    if (!folder.starts_with('/')) {  // the working folder is nobody's place for code
      if (!folder.empty())
        return {nullptr,
                {.reason = Reason::provider_missing,
                 .sentence = fmt::format("PLUMB_PROVIDER_PATH has {}; expected absolute folders",
                                         quoted(folder))}};
      continue;
    }
    for (const char* name : names) {
      const std::string path = fmt::format("{}/{}", folder, name);
      if (void* const handle = open(path)) return {handle, {.path = path}};
      if (access(path.c_str(), F_OK) == 0)
        return {nullptr, {.reason = Reason::provider_missing, .sentence = whys}};
    }
  }
  for (const char* name : names)
    if (void* const handle = open(name)) return {handle, {.path = name}};
  return {nullptr,
          {.reason = Reason::provider_missing,
           .sentence = fmt::format("no {}: {}", fmt::join(names, " or "), whys)}};
}

/// What is opened once in a process: kept where it was had, and otherwise tried again once
/// PLUMB_PROVIDER_PATH says something else. `Opened` has a `report`.
template <class Opened>
class OpenedOnce {
 public:
  /// `open(folders)` opens it. The result stays as long as this object.
  template <class Open>
  const Opened& get(const Open& open) {
    const std::lock_guard lock(mutex_);
    if (!opened_.empty() && opened_.front().report.reason == Reason::none) return opened_.front();
    std::string folders = provider_path();
    if (opened_.empty() || folders != folders_) {
      opened_.push_front(open(folders));
      folders_ = std::move(folders);
    }
    return opened_.front();
  }

 private:
  std::mutex mutex_;
  std::forward_list<Opened> opened_;  // newest first; callers may still hold older ones
  std::string folders_;
};

}  // namespace plumb::peers
