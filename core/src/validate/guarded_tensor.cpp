// Memory between canaries.
#include "guarded_tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace plumb {
namespace {

constexpr std::int64_t guard_bytes = 512;  // a multiple of every alignment that kernels ask for
constexpr std::byte canary{0xff};

}  // namespace

GuardedTensor::GuardedTensor(const Device& device, DType dtype, const Extents& extents,
                             const Strides& strides, std::int64_t offset) {
  std::int64_t below = 0, above = 0;
  for (int i = 0; i < extents.rank(); ++i) {
    const std::int64_t reach = std::max<std::int64_t>(extents[i] - 1, 0) * strides[i];
    (reach < 0 ? below : above) += std::abs(reach);
  }
  const auto element_bytes = static_cast<std::int64_t>(size_in_bytes(dtype));
  first_byte_ = guard_bytes + (below + offset) * element_bytes;
  const std::int64_t bytes = first_byte_ + (above + 1) * element_bytes + guard_bytes;
  const std::int64_t words = (bytes + 3) / 4;
  image_.assign(static_cast<std::size_t>(words) * 4, canary);
  storage_ = Tensor(device, DType::f32, {words});
  host_ = TensorView(image_.data() + first_byte_, dtype, extents, plumb::host, strides);
  device_ =
      TensorView(storage_.data_as<std::byte>() + first_byte_, dtype, extents, device.id(), strides);
}

void GuardedTensor::poison() { std::fill(image_.begin(), image_.end(), canary); }

void GuardedTensor::upload(Queue& queue) {
  copy(queue, ConstTensorView(image_.data(), DType::f32, storage_.extents()), storage_);
  queue.synchronize();
}

void GuardedTensor::download(Queue& queue) {
  copy(queue, storage_, TensorView(image_.data(), DType::f32, storage_.extents()));
  queue.synchronize();
}

std::optional<std::string> GuardedTensor::broken_canary() const {
  const auto element_bytes = static_cast<std::int64_t>(size_in_bytes(host_.dtype()));
  std::vector<bool> is_element(image_.size(), false);
  for_each_offset(host_.extents(), host_.strides(), [&](std::int64_t offset) {
    const std::int64_t begin = first_byte_ + offset * element_bytes;
    for (std::int64_t byte = begin; byte < begin + element_bytes; ++byte)
      is_element[static_cast<std::size_t>(byte)] = true;
  });
  for (std::size_t byte = 0; byte < image_.size(); ++byte)
    if (!is_element[byte] && image_[byte] != canary)
      return fmt::format("byte {} from the first element was written, outside the tensor",
                         static_cast<std::int64_t>(byte) - first_byte_);
  return std::nullopt;
}

}  // namespace plumb
