// A module that nobody asked for: it tells when its code is run.
#include <cstdio>

[[gnu::constructor]] static void run() {
  std::puts("the hostile module was run");
  std::fflush(stdout);
}
