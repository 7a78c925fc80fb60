// One execution space of Kokkos as a device: its memory and its queues.
#pragma once

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>

#include "queue.hpp"

namespace plumb::kokkos {

/// "openmp", "cuda": what follows the colon in a device's name.
template <class Space>
std::string alias_of() {
  std::string name = Space::name();
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return name;
}

/// What is known of the space; more where Kokkos runs already.
template <class Space>
DeviceInfo describe(int number) {
  DeviceInfo info = SpaceParts<Space>::describe();
  info.id = {"kokkos", number};
  info.alias = alias_of<Space>();
  info.driver_version = KOKKOS_VERSION;
  return info;
}

template <class Space>
class KokkosDevice final : public BackendDevice {
 public:
  using Parts = SpaceParts<Space>;

  explicit KokkosDevice(int number) : number_(number) {}

  const DeviceInfo& info() const override { return info_; }
  std::size_t free_bytes() const override { return Parts::free_bytes(); }
  void* allocate(std::size_t bytes, Memory memory) override {
    require_running();
    return Parts::allocate(bytes, memory);
  }
  void deallocate(void* memory, Memory kind) noexcept override { Parts::deallocate(memory, kind); }
  bool is_pinned(const void* host_memory) const noexcept override {
    return Parts::is_pinned(host_memory);
  }
  std::unique_ptr<BackendQueue> make_queue() override {
    return in_kokkos([&] { return std::make_unique<KokkosQueue<Space>>(number_); });
  }
  std::unique_ptr<BackendQueue> wrap_queue(void* native) override {
    return in_kokkos([&] {
      return std::make_unique<KokkosQueue<Space>>(number_,
                                                  native ? *static_cast<Space*>(native) : Space());
    });
  }
  DeviceCeilings measure_ceilings() override {
    const std::size_t free = free_bytes();
    return in_kokkos([&] {
      const Space space;
      return kokkos::measure_ceilings({number_, &space}, free);
    });
  }
  double clock_hertz() override { return 0; }  // Kokkos does not tell

 private:
  int number_;
  DeviceInfo info_ = describe<Space>(number_);
};

}  // namespace plumb::kokkos
