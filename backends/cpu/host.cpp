// Reads /proc where there is one, and asks sysconf otherwise.
#include "backends/cpu/host.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <string_view>

namespace plumb {
namespace {

/// The value of the first line "key : value" of a file of such lines, or empty.
std::string value_in(const char* file, std::string_view key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, key.size(), key) != 0) continue;
    const std::size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

std::size_t memory_bytes(const char* key, int pages) {
  const std::string kibibytes = value_in("/proc/meminfo", key);
  if (!kibibytes.empty()) return std::stoull(kibibytes) << 10;
  return static_cast<std::size_t>(sysconf(pages)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

std::string processor_name() {
  const std::string name = value_in("/proc/cpuinfo", "model name");
  if (!name.empty()) return name;
  utsname system{};
  return uname(&system) == 0 ? system.machine : "CPU";
}

std::size_t physical_memory_bytes() { return memory_bytes("MemTotal", _SC_PHYS_PAGES); }

std::size_t available_memory_bytes() { return memory_bytes("MemAvailable", _SC_AVPHYS_PAGES); }

}  // namespace plumb
