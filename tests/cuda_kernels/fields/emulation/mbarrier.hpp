// Barriers in shared memory that count arrivals and the bytes of bulk copies, emulated.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <stdexcept>

#include "cuda_kernels/fields/emulation/emulation.hpp"

namespace plumb::cuda {

/// A barrier's eight bytes lead to the emulated one.
class Mbarrier {
 public:
  void init(int arrivals) {
    static std::deque<Late> all;
    of_ = &all.emplace_back();
    of_->init(arrivals);
  }
  void arrive() { of_->arrive(); }
  void wait(int parity) { of_->wait(parity); }

 protected:
  struct Late : plumb_test::emulation::Barrier {
    using Barrier::copy_bytes;
    using Barrier::expect;
  };
  Late* of_;
};

/// One that bulk copies complete.
class BulkCopyBarrier : public Mbarrier {
 public:
  void copy(void* to, const void* from, int bytes) {
    if ((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % 16 != 0 ||
        bytes <= 0 || bytes % 16 != 0)
      throw std::runtime_error("a bulk copy is not aligned");
    of_->copy_bytes(bytes, [=] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
  }

 protected:
  void arrive_at_bytes(int bytes) { of_->expect(bytes), arrive(); }
};

}  // namespace plumb::cuda
