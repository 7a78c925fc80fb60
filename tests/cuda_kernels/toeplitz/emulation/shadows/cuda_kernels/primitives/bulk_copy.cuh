// Barriers in shared memory and bulk copies, emulated.
#pragma once

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

class CopyBarrier : public Mbarrier {
 public:
  void init() { Mbarrier::init(1); }
  void expect(int bytes) {
    if (bytes <= 0 || bytes >= 1 << 20) throw std::runtime_error("a round of too many bytes");
    of_->expect(bytes), arrive();
  }
  void copy(void* to, const void* from, int bytes) {
    if ((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % 16 != 0 ||
        bytes <= 0 || bytes % 16 != 0)
      throw std::runtime_error("a bulk copy is not aligned");
    of_->copy_bytes(bytes, [=] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
  }
};

inline void order_shared_writes() {}

}  // namespace plumb::cuda
