// The tests of faults, with a fake CUDA backend (fake_module.cpp) in the place of the real one.
// With `--reason-of DEVICE` it prints why that device cannot be had and ends: a module is loaded
// once in a process, so the tests start this program again to meet another one.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "plumb/plumb.h"
#include "plumb/plumb.hpp"
#include "support/run_catch.hpp"

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--reason-of") {
    try {
      plumb::Device::open(argv[2]);
      std::puts("none\n");
    } catch (const plumb::Error& e) {
      std::printf("%s\n%s\n", std::string(to_string(e.reason())).c_str(), e.what());
    }
    // Whatever was thrown, C goes on in the same thread.
    std::int32_t count = 0;
    if (plumb_device_count("cpu", &count) == PLUMB_OK) return 0;
    std::printf("from C: %s\n", plumb_last_message());
    return 1;
  }
  setenv("PLUMB_BACKEND_PATH", PLUMB_FAKE_MODULES "/fake", 1);
  return plumb_test::run_catch(argc, argv);
}
