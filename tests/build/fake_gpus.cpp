// A libcuda.so.1 that plays a driver to cmake/gpu_architectures.cpp: PLUMB_FAKE_GPUS has the
// compute capabilities of its devices ("9.0 8.6"), PLUMB_FAKE_INIT the code that cuInit returns.
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::vector<std::string> gpus() {
  std::istringstream text(std::getenv("PLUMB_FAKE_GPUS") ? std::getenv("PLUMB_FAKE_GPUS") : "");
  std::vector<std::string> all;
  for (std::string one; text >> one;) all.push_back(one);
  return all;
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
  const char* code = std::getenv("PLUMB_FAKE_INIT");
  return code ? std::atoi(code) : 0;
}

int cuDeviceGetCount(int* count) {
  *count = static_cast<int>(gpus().size());
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  int capability[2] = {};
  std::sscanf(gpus().at(device).c_str(), "%d.%d", &capability[0], &capability[1]);
  if (attribute != 75 && attribute != 76) return 1;
  *value = capability[attribute - 75];
  return 0;
}
}
