// Memory that emulated kernels are given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace plumb_test::emulation {

/// Memory of NaN, at a multiple of 256 bytes.
class Memory {
 public:
  explicit Memory(std::size_t bytes)
      : size_(bytes), bytes_(bytes + alignment + guard, static_cast<char>(0xff)) {
    begin_ = bytes_.data();
    while (reinterpret_cast<std::uintptr_t>(begin_) % alignment != 0) ++begin_;
  }
  char* begin() const { return begin_; }
  std::vector<char> contents() const {
    for (std::size_t i = 0; i < guard; ++i)
      if (begin_[size_ + i] != static_cast<char>(0xff))
        throw std::runtime_error("a write behind workspace or filters");
    return {begin_, begin_ + size_};
  }

 private:
  static constexpr std::size_t alignment = 256, guard = 64;
  std::size_t size_;
  std::vector<char> bytes_;
  char* begin_;
};

}  // namespace plumb_test::emulation
