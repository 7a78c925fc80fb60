// Opens libplumb, then goes to another folder, then opens a device, and says what came of it.
// usage: open_device LIBPLUMB DEVICE [FOLDER]
#include <dlfcn.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cstdio>

#include "plumb/plumb.h"

#define PLUMB(name) reinterpret_cast<decltype(&name)>(dlsym(library, #name))

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::printf("secure %lu\n", getauxval(AT_SECURE));
  void* library = dlopen(argv[1], RTLD_NOW);
  if (!library) {
    std::printf("%s\n", dlerror());
    return 2;
  }
  if (argc > 3 && chdir(argv[3]) != 0) return 2;
  plumb_device* device = nullptr;
  if (PLUMB(plumb_device_open)(argv[2], nullptr, &device) != PLUMB_OK) {
    std::printf("%s: %s\n", PLUMB(plumb_last_reason)(), PLUMB(plumb_last_message)());
    return 1;
  }
  plumb_device_info info;
  PLUMB(plumb_device_get_info)(device, &info);
  std::printf("opened %s\n", info.id);
  PLUMB(plumb_device_close)(device);
  return 0;
}
