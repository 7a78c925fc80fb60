// One CUDA device: its memory and its queues.
#pragma once

#include "plumb/backend.hpp"

namespace plumb::cuda {

class CudaDevice final : public BackendDevice {
 public:
  explicit CudaDevice(DeviceInfo info) : info_(std::move(info)) {}

  const DeviceInfo& info() const override { return info_; }
  std::size_t free_bytes() const override;
  void* allocate(std::size_t bytes, Memory memory) override;
  void deallocate(void* memory, Memory kind) noexcept override;
  bool is_pinned(const void* host_memory) const noexcept override;
  std::unique_ptr<BackendQueue> make_queue() override;
  std::unique_ptr<BackendQueue> wrap_queue(void* native) override;
  DeviceCeilings measure_ceilings() override;
  double clock_hertz() override;

 private:
  int index() const { return info_.id.index; }

  DeviceInfo info_;
};

}  // namespace plumb::cuda
