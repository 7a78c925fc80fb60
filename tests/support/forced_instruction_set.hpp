// Holds the CPU's kernels to one instruction set.
#pragma once

#include <cstdlib>
#include <string>

namespace plumb_test {

/// PLUMB_CPU_ISA for as long as this lives.
class ForcedInstructionSet {
 public:
  explicit ForcedInstructionSet(const char* name) { setenv("PLUMB_CPU_ISA", name, 1); }
  ~ForcedInstructionSet() {
    if (before_.empty())
      unsetenv("PLUMB_CPU_ISA");
    else
      setenv("PLUMB_CPU_ISA", before_.c_str(), 1);
  }

 private:
  std::string before_ = std::getenv("PLUMB_CPU_ISA") ? std::getenv("PLUMB_CPU_ISA") : "";
};

}  // namespace plumb_test
