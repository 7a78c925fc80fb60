// A tensor between canaries and guard pages: every byte that is not an element must stay as it was.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "guarded_memory.hpp"
#include "plumb/tensor.hpp"
#include "plumb/validate.hpp"

namespace plumb {

/// Owns the same bytes on the host and on a device: a canary, the elements (with the gaps that the
/// strides leave), a canary. All starts as 0xff, which is NaN in every stored type. On a device
/// that uses the host's memory a page that nobody may touch can take the place of either canary.
class GuardedTensor {
 public:
  /// Strides may be negative or zero, and elements may overlap. `alignment`, in bytes, is promised
  /// of the first element wherever the guard pages are: what is left between the elements and a
  /// page behind them is canary. Without guard pages the tensor begins `offset` elements past a
  /// 256-byte boundary, so that kernels that count on alignment are found out.
  GuardedTensor(std::shared_ptr<GuardedMemory> memory, DType dtype, const Extents& extents,
                const Strides& strides, std::int64_t offset = 0,
                GuardPages pages = GuardPages::none, std::int64_t alignment = 1);

  GuardedTensor(GuardedTensor&&) = default;
  GuardedTensor& operator=(GuardedTensor&&) = default;

  TensorView host() const { return host_; }
  TensorView on_device() const { return device_; }
  /// All bytes of the host, canaries too, for results of other runs.
  const std::vector<std::byte>& image() const { return image_; }

  /// Puts the guard page there (not `both`). What was on the device has to be uploaded again.
  void place(GuardPages pages);
  void poison();  ///< all host bytes to 0xff again
  /// All host bytes as they are in another tensor of the same type, extents, strides and offset.
  void copy_host(const GuardedTensor& other) { image_ = other.image_; }
  void upload(Queue& queue) const;  ///< host to device; the host's bytes stay until it has passed
  void download(Queue& queue);      ///< device to host; done on return
  /// Whether the device has what the host has, once the queue's work is done.
  bool same_on_device(Queue& queue) const;

  /// After a download: the first byte outside the elements that is not 0xff any more, as a
  /// sentence.
  std::optional<std::string> broken_canary();

 private:
  void find_gaps();

  std::shared_ptr<GuardedMemory> memory_;
  std::int64_t alignment_;
  std::int64_t lowest_byte_;  ///< of the element of the lowest address
  std::int64_t first_byte_;   ///< of the element of index zero
  std::int64_t end_byte_;     ///< behind the element of the highest address
  std::vector<std::byte> image_;
  std::shared_ptr<const GuardedMemory::Block> block_;
  std::int64_t begin_ = 0, end_ = 0;  ///< the bytes of the image that are on the device
  std::byte* on_device_ = nullptr;    ///< where they begin
  std::vector<std::pair<std::int64_t, std::int64_t>> gaps_;  ///< of bytes; empty until asked for
  TensorView host_, device_;
};

/// Calls `visit` with the offset in elements of each element of a tensor, in row-major order.
template <class Visit>
void for_each_offset(const Extents& extents, const Strides& strides, const Visit& visit) {
  const std::int64_t count = element_count(extents);
  Dims index = extents;
  for (int i = 0; i < index.rank(); ++i) index[i] = 0;
  std::int64_t offset = 0;
  for (std::int64_t done = 0; done < count; ++done) {
    visit(offset);
    for (int i = extents.rank() - 1; i >= 0; --i) {
      offset += strides[i];
      if (++index[i] < extents[i]) break;
      offset -= strides[i] * extents[i];
      index[i] = 0;
    }
  }
}

}  // namespace plumb
