// Reads /proc and /sys where there are such, and asks sysconf otherwise.
#include "backends/cpu/host.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

namespace plumb {
namespace {

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

/// The value of the first line "key : value" of a file of such lines, or empty; in some files a
/// space stands for the colon.
std::string value_in(const std::string& file, std::string_view key, char separator = ':') {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const std::size_t end = line.find(separator, key.size());
    if (end == std::string::npos ||
        line.find_first_not_of(" \t", key.size()) < end)  // a longer key
      continue;
    const std::size_t value = line.find_first_not_of(" \t", end + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

/// The integer that the text begins with.
std::optional<std::size_t> leading_integer(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<std::size_t> integer_in(const std::string& file) {
  std::string line;
  std::ifstream lines(file);
  std::getline(lines, line);
  return leading_integer(line);  // "max" is none
}

std::optional<std::size_t> kibibytes_in(const std::string& file, std::string_view key) {
  const auto value = leading_integer(value_in(file, key));
  if (!value) return std::nullopt;
  return *value << 10;
}

std::size_t memory_bytes(const SystemFolders& folders, const char* key, int pages) {
  if (const auto bytes = kibibytes_in(folders.proc + "/meminfo", key)) return *bytes;
  return static_cast<std::size_t>(sysconf(pages)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t difference(std::size_t limit, std::size_t used) {
  return limit - std::min(limit, used);
}

/// What control groups leave: in all, and now.
struct GroupMemory {
  std::size_t limit_bytes = unlimited, free_bytes = unlimited;
};

/// The names that a version of the interface has for the same things.
struct GroupFiles {
  const char *limit, *used, *reclaimable;
};
constexpr GroupFiles version1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                              "total_inactive_file"};
constexpr GroupFiles version2{"memory.max", "memory.current", "inactive_file"};

/// Takes the group and all above it into account. In a container the path may be the host's, of
/// which nothing is there but the mount's own root: what is missing says nothing.
void add_groups(GroupMemory& memory, const std::string& mount, std::string path,
                const GroupFiles& files) {
  for (;;) {
    const std::string folder = mount + path + "/";
    if (const auto limit = integer_in(folder + files.limit)) {
      const std::size_t used = integer_in(folder + files.used).value_or(0);
      // Pages of files that nobody has used of late are given back as they are needed.
      const std::size_t back =
          leading_integer(value_in(folder + "memory.stat", files.reclaimable, ' ')).value_or(0);
      memory.limit_bytes = std::min(memory.limit_bytes, *limit);
      memory.free_bytes = std::min(memory.free_bytes, difference(*limit, difference(used, back)));
    }
    if (path.empty()) return;
    path.resize(path.rfind('/'));
  }
}

/// Lines are "number:controllers:/path"; version 2 has number 0 and names no controllers.
GroupMemory group_memory(const SystemFolders& folders) {
  GroupMemory memory;
  std::ifstream lines(folders.proc + "/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
    const std::string controllers =
        fmt::format(",{},", std::string_view(line).substr(first + 1, second - first - 1));
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers == ",,")
      add_groups(memory, folders.cgroup, path, version2);
    else if (controllers.find(",memory,") != std::string::npos)
      add_groups(memory, folders.cgroup + "/memory", path, version1);
  }
  return memory;
}

/// What a limit of this process leaves, of which it uses what its status has under a key.
std::size_t left_under(decltype(RLIMIT_AS) resource, const SystemFolders& folders,
                       const char* used_key) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  return difference(static_cast<std::size_t>(limit.rlim_cur),
                    kibibytes_in(folders.proc + "/self/status", used_key).value_or(0));
}

}  // namespace

std::string processor_name() {
  const std::string name = value_in("/proc/cpuinfo", "model name");
  if (!name.empty()) return name;
  utsname system{};
  return uname(&system) == 0 ? system.machine : "CPU";
}

std::size_t physical_memory_bytes(const SystemFolders& folders) {
  return std::min(memory_bytes(folders, "MemTotal", _SC_PHYS_PAGES),
                  group_memory(folders).limit_bytes);
}

std::size_t available_memory_bytes(const SystemFolders& folders) {
  return std::min({memory_bytes(folders, "MemAvailable", _SC_AVPHYS_PAGES),
                   group_memory(folders).free_bytes, left_under(RLIMIT_AS, folders, "VmSize"),
                   left_under(RLIMIT_DATA, folders, "VmData")});
}

}  // namespace plumb
