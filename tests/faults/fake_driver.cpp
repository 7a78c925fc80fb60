// A libcuda.so.1 that plays drivers which do not work, for the CUDA runtime that is linked into the
// backend: PLUMB_FAKE_DRIVER is the code that cuInit returns (34: the toolkit's stub, 100: no
// device, 999: anything), PLUMB_FAKE_DRIVER_VERSION what cuDriverGetVersion says. It goes no
// further: before a device is shown the runtime has the driver prove that it is NVIDIA's.
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int success = 0, not_found = 500, not_supported = 801;

int number(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

int init(unsigned) { return number("PLUMB_FAKE_DRIVER", success); }

int driver_version(int* version) {
  *version = number("PLUMB_FAKE_DRIVER_VERSION", 99000);
  return success;
}

int no_table(const void**, const void*) { return not_found; }

int no_entry() { return not_supported; }

int address(const char* symbol, void** entry, int version, std::uint64_t, int* status);
int address_before_12(const char* symbol, void** entry, int version, std::uint64_t flags) {
  return address(symbol, entry, version, flags, nullptr);
}

int address(const char* symbol, void** entry, int version, std::uint64_t, int* status) {
  *entry = reinterpret_cast<void*>(&no_entry);
  if (std::strcmp(symbol, "cuInit") == 0) *entry = reinterpret_cast<void*>(&init);
  if (std::strcmp(symbol, "cuDriverGetVersion") == 0)
    *entry = reinterpret_cast<void*>(&driver_version);
  if (std::strcmp(symbol, "cuGetExportTable") == 0) *entry = reinterpret_cast<void*>(&no_table);
  if (std::strcmp(symbol, "cuGetProcAddress") == 0)
    *entry = version < 12000 ? reinterpret_cast<void*>(&address_before_12)
                             : reinterpret_cast<void*>(&address);
  if (status) *status = 0;
  return success;
}

}  // namespace

extern "C" {
int cuInit(unsigned flags) { return init(flags); }
int cuDriverGetVersion(int* version) { return driver_version(version); }
int cuGetExportTable(const void** table, const void* id) { return no_table(table, id); }
int cuGetProcAddress(const char* symbol, void** entry, int version, std::uint64_t flags) {
  return address_before_12(symbol, entry, version, flags);
}
int cuGetProcAddress_v2(const char* symbol, void** entry, int version, std::uint64_t flags,
                        int* status) {
  return address(symbol, entry, version, flags, status);
}
}
