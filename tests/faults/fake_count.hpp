// What the fake module has counted.
#pragma once

#include <dlfcn.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace plumb_test {

/// Returns what the fake module, which is loaded, has counted.
inline int fake_count(const char* name) {
  const std::string file = std::string(PLUMB_FAKE_MODULES) + "/fake/libplumb_cuda.so";
  void* const module = dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(module);
  auto* const count = reinterpret_cast<int (*)()>(dlsym(module, name));
  REQUIRE(count);
  const int counted = count();
  dlclose(module);
  return counted;
}

}  // namespace plumb_test
