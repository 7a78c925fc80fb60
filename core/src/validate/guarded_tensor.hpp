// A tensor between canaries: every byte that is not an element must stay as it was.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "plumb/tensor.hpp"

namespace plumb {

/// Owns the same bytes on the host and on a device: a guard, the elements (with the gaps that the
/// strides leave), a guard. All starts as 0xff, which is NaN in every stored type.
class GuardedTensor {
 public:
  /// Begins `offset` elements past a 256-byte boundary, so that kernels that count on alignment
  /// are found out.
  GuardedTensor(const Device& device, DType dtype, const Extents& extents, const Strides& strides,
                std::int64_t offset = 0);

  TensorView host() const { return host_; }
  TensorView on_device() const { return device_; }
  /// Host memory of this tensor's size and shape, for results of other runs.
  const std::vector<std::byte>& image() const { return image_; }

  void poison();                ///< all host bytes to 0xff again
  void upload(Queue& queue);    ///< host to device, guards and all; done on return
  void download(Queue& queue);  ///< device to host; done on return

  /// After a download: the first byte outside the elements that is not 0xff any more, as a
  /// sentence.
  std::optional<std::string> broken_canary() const;

 private:
  std::int64_t first_byte_;  ///< of the element of index zero
  std::vector<std::byte> image_;
  Tensor storage_;
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
