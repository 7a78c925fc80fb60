// The CPU as a backend: always there, one device.
#include <fmt/format.h>

#include "backends/cpu/algorithms.hpp"
#include "backends/cpu/host.hpp"
#include "backends/cpu/memory.hpp"
#include "backends/cpu/queue.hpp"
#include "core/src/parallel/parallel.hpp"
#include "cpu_kernels/primitives/instruction_set.hpp"
#include "cpu_kernels/probes/ceilings.hpp"
#include "plumb/backend.hpp"
#include "plumb/error.hpp"

namespace plumb {
namespace {

/// fp32 operations of one core in one cycle, an addition and a multiplication being two: what
/// today's server cores have units for.
double flop_per_cycle(InstructionSet set) {
  switch (set) {
    case InstructionSet::baseline: return 8;
    case InstructionSet::avx2: return 32;
    case InstructionSet::avx512:
    case InstructionSet::avx512_bf16:
    case InstructionSet::amx: return 64;
  }
  return 1;
}

/// Error (invalid_argument) where PLUMB_CPU_ISA names no instruction set.
DeviceInfo describe_cpu() {
  const InstructionSet set = choose_instruction_set();
  DeviceInfo info;
  info.id = host;
  info.name = processor_name();
  info.instruction_set = to_string(set);
  info.units = available_threads();
  info.memory_bytes = physical_memory_bytes();
  // The system knows neither the clock under load nor the memory's speed; these are guesses, good
  // enough to tell algorithms of one device apart.
  constexpr double cycles_per_second = 2.5e9;
  info.nominal_fp32_flop_per_second = info.units * cycles_per_second * flop_per_cycle(set);
  info.nominal_bytes_per_second = 20e9;
  return info;
}

class CpuDevice final : public BackendDevice {
 public:
  const DeviceInfo& info() const override { return info_; }
  std::size_t free_bytes() const override { return available_memory_bytes(); }
  void* allocate(std::size_t bytes, Memory) override { return allocate_host(bytes); }
  void deallocate(void* memory, Memory) noexcept override { free_host(memory); }
  bool is_pinned(const void*) const noexcept override { return true; }  // nothing is copied at all
  std::unique_ptr<BackendQueue> make_queue() override { return make_cpu_queue(); }
  std::unique_ptr<BackendQueue> wrap_queue(void* native) override {
    if (native)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("cpu: a queue to wrap lies at {}; expected null, the CPU has none", native));
    return make_cpu_queue();
  }
  DeviceCeilings measure_ceilings() override {
    return measure_cpu_ceilings(instruction_set_of(info_.instruction_set), free_bytes());
  }
  double clock_hertz() override { return 0; }  // cores have clocks of their own, and hide them

 private:
  DeviceInfo info_ = describe_cpu();
};

class CpuBackend final : public Backend {
 public:
  std::string_view name() const override { return host.backend; }
  std::string version() const override {
    return fmt::format("Eigen {}, OpenMP {}", PLUMB_EIGEN_VERSION, _OPENMP);
  }
  std::span<const ConvAlgorithm* const> conv_algorithms() const override {
    return cpu_conv_algorithms();
  }
  BackendProbe probe() const noexcept override try {
    return {.devices = {describe_cpu()}};
  } catch (...) {
    return failed_probe();
  }
  std::unique_ptr<BackendDevice> open(int) override { return std::make_unique<CpuDevice>(); }
};

}  // namespace

Backend& cpu_backend() {
  static CpuBackend backend;
  return backend;
}

}  // namespace plumb
