// The instruction set is what the processor has, limited by what the environment asks for.
#include "cpu_kernels/primitives/instruction_set.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

#include "plumb/error.hpp"
#include "plumb/quote.hpp"

namespace plumb {
namespace {

#if defined(__x86_64__)
constexpr std::string_view baseline_name = "sse2";
struct CpuidLeaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  CpuidLeaf(unsigned leaf, unsigned subleaf) {
    __get_cpuid_count(leaf, subleaf, &eax, &ebx, &ecx, &edx);  // leaves zeros where there is none
  }
};

bool has_avx512_bf16() { return (CpuidLeaf(7, 1).eax >> 5 & 1) != 0; }

/// The processor has AMX-BF16, the system saves its registers, and gives this process the use of
/// them, which has to be asked for (Linux, "Using XSTATE features in user space applications").
bool has_amx() {
  const unsigned features = CpuidLeaf(7, 0).edx;
  if ((features >> 22 & 1) == 0 || (features >> 24 & 1) == 0) return false;
#if defined(__linux__)
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

/// Returns the processor's best. libgcc's check includes that the operating system saves the
/// registers.
InstructionSet best_of_machine() {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (!avx2 || !avx512) return avx2 ? InstructionSet::avx2 : InstructionSet::baseline;
  if (!has_avx512_bf16()) return InstructionSet::avx512;
  return has_amx() ? InstructionSet::amx : InstructionSet::avx512_bf16;
}
#else
constexpr std::string_view baseline_name = "generic";
InstructionSet best_of_machine() { return InstructionSet::baseline; }
#endif

constexpr std::array names{baseline_name, std::string_view("avx2"), std::string_view("avx512"),
                           std::string_view("avx512_bf16"), std::string_view("amx")};

}  // namespace

std::string_view to_string(InstructionSet set) { return names[static_cast<std::size_t>(set)]; }

InstructionSet instruction_set_of(std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? InstructionSet::baseline
                              : static_cast<InstructionSet>(found - names.begin());
}

InstructionSet choose_instruction_set() {
  const InstructionSet best = best_of_machine();
  const char* wish = secure_getenv("PLUMB_CPU_ISA");
  if (!wish || !*wish) return best;
  if (std::find(names.begin(), names.end(), std::string_view(wish)) == names.end())
    throw Error(ErrorCode::invalid_argument, fmt::format("PLUMB_CPU_ISA is {}; expected one of {}",
                                                         quoted(wish), fmt::join(names, ", ")));
  return std::min(best, instruction_set_of(wish));
}

}  // namespace plumb
