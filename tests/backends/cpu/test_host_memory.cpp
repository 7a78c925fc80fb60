// What the CPU reports as free: no more than limits leave, whatever the machine has.
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "backends/cpu/host.hpp"
#include "plumb/plumb.hpp"

using namespace plumb;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

/// A /proc and a /sys/fs/cgroup of the test's own: a machine with 1000 MiB, of which 600 are free.
class System {
 public:
  System() : root_(make()), folders_{root_ / "proc", root_ / "cgroup"} {
    put("proc/meminfo", "MemTotal: 1024000 kB\nMemFree:  10 kB\nMemAvailable: 614400 kB\n");
  }
  ~System() { fs::remove_all(root_); }
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  void put(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::size_t physical_mib() const { return physical_memory_bytes(folders_) / mib; }
  std::size_t available_mib() const { return available_memory_bytes(folders_) / mib; }

 private:
  static fs::path make() {
    std::string name = (fs::temp_directory_path() / "plumb-host-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    return name;
  }
  fs::path root_;
  SystemFolders folders_;
};

std::string bytes(std::size_t mebibytes) { return std::to_string(mebibytes * mib) + "\n"; }

/// A limit of this process for one scope: so many bytes above what it uses.
class Limit {
 public:
  Limit(decltype(RLIMIT_AS) resource, const char* used_key, std::size_t above)
      : resource_(resource) {
    std::ifstream lines("/proc/self/status");
    rlim_t used = 0;
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with(used_key)) used = std::stoull(line.substr(line.find(':') + 1)) << 10;
    if (used == 0) SKIP("the system does not say how much this process uses");
    REQUIRE(getrlimit(resource, &before_) == 0);
    const rlimit limit{used + above, before_.rlim_max};
    if (setrlimit(resource, &limit) != 0) SKIP("there is a lower limit already");
  }
  ~Limit() { setrlimit(resource_, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  decltype(RLIMIT_AS) resource_;
  rlimit before_{};
};

}  // namespace

TEST_CASE("memory of the machine: without limits it is what the system says") {
  const System system;
  CHECK(system.physical_mib() == 1000);
  CHECK(system.available_mib() == 600);
  system.put("proc/self/cgroup", "0::/user/job\n");
  system.put("cgroup/user/job/memory.max", "max\n");
  system.put("cgroup/user/job/memory.current", bytes(100));
  CHECK(system.available_mib() == 600);
}

TEST_CASE("memory of the machine: control groups of version 2 and those above them are limits") {
  const System system;
  system.put("proc/self/cgroup", "0::/user/job\n");
  system.put("cgroup/user/job/memory.max", bytes(400));
  system.put("cgroup/user/job/memory.current", bytes(150));
  CHECK(system.physical_mib() == 400);
  CHECK(system.available_mib() == 250);
  // Pages of files count as used and can be given back.
  system.put("cgroup/user/job/memory.stat",
             "anon 5\nactive_file 7\ninactive_file " + bytes(50) + "file 1\n");
  CHECK(system.available_mib() == 300);
  system.put("cgroup/user/memory.max", bytes(300));
  system.put("cgroup/user/memory.current", bytes(290));
  CHECK(system.physical_mib() == 300);
  CHECK(system.available_mib() == 10);
  // More is used than the limit, which was lowered.
  system.put("cgroup/user/memory.current", bytes(310));
  CHECK(system.available_mib() == 0);
}

TEST_CASE("memory of the machine: control groups of version 1 are limits, also in a container") {
  const System system;
  system.put("proc/self/cgroup", "12:cpu,cpuacct:/x\n5:memory:/docker/abc\n1:name=systemd:/x\n");
  system.put("cgroup/memory/docker/abc/memory.limit_in_bytes", bytes(200));
  system.put("cgroup/memory/docker/abc/memory.usage_in_bytes", bytes(120));
  CHECK(system.physical_mib() == 200);
  CHECK(system.available_mib() == 80);
  const System container;  // the path is the host's; the mount begins at the group itself
  container.put("proc/self/cgroup", "5:memory:/docker/abc\n");
  container.put("cgroup/memory/memory.limit_in_bytes", bytes(90));
  container.put("cgroup/memory/memory.usage_in_bytes", bytes(30));
  CHECK(container.physical_mib() == 90);
  CHECK(container.available_mib() == 60);
}

TEST_CASE("cpu: what is free respects the limits of the process") {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
  SKIP("sanitizers end a process whose memory is refused");
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  SKIP("sanitizers end a process whose memory is refused");
#endif
#endif
  const Device cpu = Device::open("cpu");
  const std::size_t unlimited = cpu.free_bytes();
  constexpr std::size_t left = 256 * mib;
  if (unlimited < 2 * left) SKIP("too little memory to tell");
  const auto limited = [&](decltype(RLIMIT_AS) resource, const char* used_key) {
    const Limit limit(resource, used_key, left);
    CHECK(cpu.free_bytes() <= left);
    CHECK(cpu.free_bytes() > 0);
    // What is refused names what is free under the limit.
    std::string message;
    try {
      const Tensor large(cpu, DType::f32, {static_cast<std::int64_t>(left / 2)});
    } catch (const Error& error) {
      message = error.what();
    }
    const std::size_t at = message.find("; ");
    INFO(message);
    REQUIRE(at != std::string::npos);
    CHECK(std::stoull(message.substr(at + 2)) <= left);
  };
  SECTION("RLIMIT_AS") { limited(RLIMIT_AS, "VmSize:"); }
  SECTION("RLIMIT_DATA") { limited(RLIMIT_DATA, "VmData:"); }
}
