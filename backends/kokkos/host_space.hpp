// What the backend does on execution spaces that the host runs, beside launching kernels: memory,
// copies, and time. Work has been done when it has been put there. No fmt in what nvcc may compile:
// it does not get through fmt 9 in C++20.
#pragma once

#include <chrono>
#include <cstring>
#include <memory>
#include <string>

#include "kokkos_kernels/spaces.hpp"
#include "plumb/backend.hpp"
#include "plumb/error.hpp"
#include "runtime.hpp"

namespace plumb::kokkos {

/// The instructions that kernels are compiled to, and the fp32 operations of one core in one cycle
/// that come of them, an addition and a multiplication being two.
struct CompiledFor {
  const char* name;
  double flop_per_cycle;
};
#if defined(__AVX512F__)
inline constexpr CompiledFor compiled_for{"avx512", 64};
#elif defined(__AVX2__)
inline constexpr CompiledFor compiled_for{"avx2", 32};
#else
inline constexpr CompiledFor compiled_for{"baseline", 8};
#endif

class HostEvent final : public BackendEvent {
 public:
  void synchronize() const override {}
  bool done() const override { return true; }
  double seconds_since(const BackendEvent& earlier) const override {
    const auto& other = dynamic_cast<const HostEvent&>(earlier);
    return std::chrono::duration<double>(time_ - other.time_).count();
  }

 private:
  std::chrono::steady_clock::time_point time_ = std::chrono::steady_clock::now();
};

/// The parts of a device. `Space` is the execution space, whose instances need not be told apart
/// here.
template <class Space>
struct SpaceParts {
  static_assert(
      runs_on_host<Space>,
      "Kokkos was built for a device that this backend does not know: it needs parts like "
      "those of cuda_space.hpp");

  /// The CPU as its own backend describes it, with the threads that Kokkos has.
  static DeviceInfo describe() {
    DeviceInfo info = host().info();
    info.name += std::string(" (Kokkos ") + Space::name() + ")";
    if (is_running()) info.units = Space().concurrency();
#ifdef KOKKOS_ENABLE_SERIAL
    if (std::is_same_v<Space, Kokkos::Serial>) info.units = 1;
#endif
    info.instruction_set = compiled_for.name;
    info.shared_memory_bytes =
        static_cast<std::size_t>(Kokkos::TeamPolicy<Space>::scratch_size_max(0));
    constexpr double cycles_per_second = 2.5e9;  // as guessed for the CPU
    info.nominal_fp32_flop_per_second =
        info.units * cycles_per_second * compiled_for.flop_per_cycle;
    return info;
  }

  static std::size_t free_bytes() { return host().free_bytes(); }

  /// The memory that the device `cpu` has, in huge pages where it is large.
  static void* allocate(std::size_t bytes, Memory kind) {
    try {
      return host().allocate(bytes, kind);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::out_of_memory) throw;
      throw Error(ErrorCode::out_of_memory,
                  "kokkos: " + std::to_string(bytes) + " bytes asked for; " +
                      std::to_string(host().free_bytes()) + " bytes are free of " +
                      std::to_string(host().info().memory_bytes));
    }
  }
  static void deallocate(void* memory, Memory kind) noexcept {
    host().deallocate(memory, 0, kind);  // `cpu` needs no size
  }
  static bool is_pinned(const void*) noexcept { return true; }  // nothing is copied at all

  /// An instance for a queue of its own: they all share the host's threads, one call at a time.
  class OwnInstance {
   public:
    Space make() const { return Space(); }
  };

  class Work {
   public:
    explicit Work(const Space& space) : space_(space) {}
    /// Runs what puts work on the space, and finishes the work.
    template <class F>
    void launch(const F& f) const {
      f();
      space_.fence();
    }
    void synchronize() const {}
    bool is_capturing() const { return false; }
    std::shared_ptr<BackendEvent> record() const { return std::make_shared<HostEvent>(); }
    void wait(const BackendEvent&) const {}
    void copy(void* to, const void* from, std::size_t bytes) const {
      std::memmove(to, from, bytes);
    }
    void* allocate(std::size_t bytes) const { return SpaceParts::allocate(bytes, Memory::device); }
    void deallocate(void* memory) const noexcept { SpaceParts::deallocate(memory, Memory::device); }

   private:
    const Space& space_;
  };

 private:
  /// Never destroyed: tensors may be freed while the process ends.
  static const Device& host() {
    static const Device& cpu = *new Device(Device::open("cpu"));
    return cpu;
  }
};

}  // namespace plumb::kokkos
