// What the operating system tells about the machine, and what it leaves to this process.
#pragma once

#include <cstddef>
#include <string>

namespace plumb {

/// The processor as its vendor calls it, or the architecture where the system does not say.
std::string processor_name();

/// Where the system tells of itself; a test has folders of its own.
struct SystemFolders {
  std::string proc = "/proc", cgroup = "/sys/fs/cgroup";
};

/// The machine's memory, or what the control group of this process may have of it.
std::size_t physical_memory_bytes(const SystemFolders& folders = {});

/// Memory that could be had without swapping: what is free in the machine, and no more than the
/// control group (version 1 or 2, with those above it), RLIMIT_AS and RLIMIT_DATA leave.
std::size_t available_memory_bytes(const SystemFolders& folders = {});

}  // namespace plumb
