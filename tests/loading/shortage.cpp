// A shortage that passes: while a backend is loaded there is too little address space, by a little
// more each time, or no file can be opened. The device cannot be had then, and can afterwards.
// usage: shortage LIBPLUMB DEVICE    with PLUMB_BACKEND_PATH in the environment
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "plumb/plumb.h"

namespace {

void* library = nullptr;
#define PLUMB(name) reinterpret_cast<decltype(&name)>(dlsym(library, #name))

rlim_t address_space() {
  long pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return static_cast<rlim_t>(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

plumb_status open_and_close(const char* name) {
  plumb_device* device = nullptr;
  const plumb_status status = PLUMB(plumb_device_open)(name, nullptr, &device);
  PLUMB(plumb_device_close)(device);
  return status;
}

/// In a process of its own: 0 if the device could be had at once, 1 if after the shortage, 2 if
/// that is not what should have come of it.
int try_limit(int resource, rlim_t limit, plumb_status expected, const char* device) {
  rlimit before{};
  getrlimit(resource, &before);
  const rlimit little{limit, before.rlim_max};
  setrlimit(resource, &little);
  const plumb_status short_of_it = open_and_close(device);
  char message[200];
  std::snprintf(message, sizeof message, "%s", PLUMB(plumb_last_message)());
  setrlimit(resource, &before);
  const plumb_status afterwards = open_and_close(device);
  if (short_of_it == PLUMB_OK && afterwards == PLUMB_OK) return 0;
  if (short_of_it == expected && afterwards == PLUMB_OK) return 1;
  std::printf("limit %ld: status %d (%s), then %d (%s)\n", static_cast<long>(limit),
              static_cast<int>(short_of_it), message, static_cast<int>(afterwards),
              PLUMB(plumb_last_message)());
  std::fflush(stdout);
  return 2;
}

int in_process(int resource, rlim_t limit, plumb_status expected, const char* device) {
  const pid_t child = fork();
  if (child == 0) _exit(try_limit(resource, limit, expected, device));
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  std::printf("limit %ld: ended by signal %d\n", static_cast<long>(limit), WTERMSIG(status));
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  library = dlopen(argv[1], RTLD_NOW);
  if (!library) {
    std::printf("%s\n", dlerror());
    return 2;
  }
  open_and_close("cpu");
  int counts[3] = {};
  const rlim_t now = address_space();
  for (rlim_t more = 0; more < 1024; more += 8)
    ++counts[in_process(RLIMIT_AS, now + more * 1024, PLUMB_OUT_OF_MEMORY, argv[2])];
  std::printf("address space: %d not short, %d short and had afterwards, %d wrong\n", counts[0],
              counts[1], counts[2]);
  const int files = in_process(RLIMIT_NOFILE, 0, PLUMB_DEVICE_UNAVAILABLE, argv[2]);
  std::printf("files: %d\n", files);
  return counts[0] > 0 && counts[1] > 0 && counts[2] == 0 && files == 1 ? 0 : 1;
}
