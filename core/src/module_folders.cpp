// Finds libplumb's own folder when it is loaded, before anybody can have left the working folder.
#include "module_folders.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "environment.hpp"
#include "plumb/error.hpp"
#include "plumb/quote.hpp"

namespace plumb {
namespace {

namespace fs = std::filesystem;

/// libplumb's own folders, as absolute paths without links; empty where one cannot be told.
struct OwnFolders {
  char by_name[PATH_MAX] = "";
  char of_file[PATH_MAX] = "";
};
constinit OwnFolders own;

/// Cuts off the file's name, of a path that has a slash.
void to_folder(char* path) {
  char* slash = std::strrchr(path, '/');
  slash[slash == path ? 1 : 0] = '\0';
}

/// The loader knows a library by the name it found it under, which may be relative to the folder
/// that was the working folder then. So this runs when libplumb is loaded, and takes no memory of
/// C++'s. (/proc/self/maps would tell later too, but not by which of several links, nor where no
/// /proc is mounted.)
[[gnu::constructor]] void find_own_folders() {
  if (!loads_modules) return;
  Dl_info self{};
  if (dladdr(&own, &self) == 0 || !self.dli_fname) return;
  const std::string_view name = self.dli_fname;
  if (name.size() >= PATH_MAX || !realpath(self.dli_fname, own.of_file)) return;
  to_folder(own.of_file);
  char folder[PATH_MAX + 2] = "./";  // a name without a slash lies in the working folder
  std::copy(name.begin(), name.end(), folder + (name.starts_with('/') ? 0 : 2));
  to_folder(folder);
  if (!realpath(folder, own.by_name)) own.by_name[0] = '\0';
}

}  // namespace

std::vector<fs::path> module_folders() {
  std::vector<fs::path> folders;
  const std::string path = environment("PLUMB_BACKEND_PATH");
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string folder = path.substr(begin, end - begin);
    begin = end + 1;
    if (folder.empty()) continue;
    if (folder.front() != '/')
      throw Error(ErrorCode::device_unavailable,
                  fmt::format("PLUMB_BACKEND_PATH has {}; expected absolute folders, which are the "
                              "same wherever the program works",
                              plumb::quoted(folder)),
                  Reason::module_missing);
    folders.emplace_back(folder);
  }
  if (!folders.empty()) return folders;
  for (const char* folder : {own.by_name, own.of_file})
    if (*folder && std::find(folders.begin(), folders.end(), folder) == folders.end())
      folders.emplace_back(folder);
  return folders;
}

}  // namespace plumb
