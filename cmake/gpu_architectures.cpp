// Prints the chips of this machine's GPUs that Plumb has kernels for, as nvcc calls them: "90a", or
// "80;86" where there are several. Ends with 1 and the reason where there is none. It opens the
// driver itself: neither its headers nor a toolkit are needed, and no nvidia-smi.
#include <dlfcn.h>

#include <cstdio>
#include <set>
#include <string>

namespace {

constexpr int major_of_capability = 75, minor_of_capability = 76;  // CUdevice_attribute

template <typename Function>
Function* find(void* driver, const char* name) {
  return reinterpret_cast<Function*>(dlsym(driver, name));
}

int none(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  return 1;
}

}  // namespace

int main() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) return none("there is no driver, libcuda.so.1");
  const auto init = find<int(unsigned)>(driver, "cuInit");
  const auto count_of = find<int(int*)>(driver, "cuDeviceGetCount");
  const auto attribute = find<int(int*, int, int)>(driver, "cuDeviceGetAttribute");
  if (!init || !count_of || !attribute) return none("libcuda.so.1 is not a driver");
  if (const int status = init(0)) return none("cuInit ended with " + std::to_string(status));
  int count = 0;
  if (const int status = count_of(&count))
    return none("cuDeviceGetCount ended with " + std::to_string(status));

  std::set<int> chips;
  std::string others;
  for (int device = 0; device < count; ++device) {
    int major = 0, minor = 0;
    if (attribute(&major, major_of_capability, device) ||
        attribute(&minor, minor_of_capability, device))
      continue;
    if (major >= 8)
      chips.insert(10 * major + minor);
    else
      others = "compute capability " + std::to_string(major) + "." + std::to_string(minor) +
               " is below 8.0";
  }
  if (chips.empty()) return none(others.empty() ? "the driver shows no device" : others);
  const char* separator = "";
  for (const int chip : chips) {
    // Hopper's own instructions (wgmma) are in the code for sm_90a alone.
    std::printf("%s%d%s", separator, chip, chip == 90 ? "a" : "");
    separator = ";";
  }
  std::printf("\n");
  return 0;
}
