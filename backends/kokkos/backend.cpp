// Kokkos as a backend: a device for each execution space that it was built with.
#include <string>

#include "conv_algorithms.hpp"
#include "device.hpp"
#include "plumb/backend.hpp"
#include "plumb/error.hpp"
#include "runtime.hpp"

namespace plumb {
namespace kokkos {
namespace {

/// Why this Kokkos cannot be used on this machine.
Reason obstacle([[maybe_unused]] std::string& sentence) {
#ifdef KOKKOS_ENABLE_CUDA
  return cuda_obstacle(sentence);
#else
  return Reason::none;
#endif
}

BackendProbe probe_spaces() {
  BackendProbe probe;
  probe.reason = obstacle(probe.sentence);
  if (probe.reason != Reason::none) return probe;
  const std::lock_guard lock(kokkos_mutex());
  for (int number = 0; number < Spaces::size; ++number)
    Spaces::visit(number, [&]<class Space>() { probe.devices.push_back(describe<Space>(number)); });
  return probe;
}

class KokkosBackend final : public Backend {
 public:
  std::string_view name() const override { return "kokkos"; }

  std::string version() const override {
    constexpr int version = KOKKOS_VERSION;
    return "Kokkos " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
           "." + std::to_string(version % 100);
  }
  std::span<const ConvAlgorithm* const> conv_algorithms() const override {
    return kokkos::conv_algorithms();
  }
  /// Does not start Kokkos: the process may be one whose own code will.
  BackendProbe probe() const noexcept override try { return probe_spaces(); } catch (...) {
    return failed_probe();
  }

  std::unique_ptr<BackendDevice> open(int index) override {
    std::string sentence;
    if (const Reason reason = obstacle(sentence); reason != Reason::none)
      throw Error(ErrorCode::device_unavailable, sentence, reason);
    if (index < 0 || index >= Spaces::size)
      throw Error(ErrorCode::device_unavailable,
                  "no device kokkos:" + std::to_string(index) + "; Kokkos has " +
                      std::to_string(Spaces::size) + " execution spaces",
                  Reason::no_device);
    start();
    return in_kokkos([&] {
      std::unique_ptr<BackendDevice> device;
      Spaces::visit(index,
                    [&]<class Space>() { device = std::make_unique<KokkosDevice<Space>>(index); });
      return device;
    });
  }
};

}  // namespace
}  // namespace kokkos

Backend& kokkos_backend() {
  static kokkos::KokkosBackend backend;
  return backend;
}

}  // namespace plumb
