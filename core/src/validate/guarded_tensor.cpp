// Memory between canaries and guard pages.
#include "guarded_tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "../span.hpp"
#include "plumb/backend.hpp"

namespace plumb {
namespace {

constexpr std::int64_t guard_bytes = 512;  // a multiple of every alignment that kernels ask for
constexpr std::byte canary{0xff};

std::int64_t rounded_up(std::int64_t bytes, std::int64_t step) {
  return (bytes + step - 1) / step * step;
}

}  // namespace

GuardedTensor::GuardedTensor(std::shared_ptr<GuardedMemory> memory, DType dtype,
                             const Extents& extents, const Strides& strides, std::int64_t offset,
                             GuardPages pages, std::int64_t alignment)
    : memory_(std::move(memory)), alignment_(alignment) {
  const Span span = span_of(extents, strides);
  const auto element_bytes = static_cast<std::int64_t>(size_in_bytes(dtype));
  lowest_byte_ = guard_bytes + offset * element_bytes;
  first_byte_ = lowest_byte_ + span.below * element_bytes;
  end_byte_ = lowest_byte_ + std::max<std::int64_t>(1, span.elements) * element_bytes;
  const std::int64_t bytes = rounded_up(end_byte_, alignment) + guard_bytes;
  image_.assign(static_cast<std::size_t>(bytes), canary);
  block_ = memory_->take(image_.size());
  host_ = TensorView(image_.data() + first_byte_, dtype, extents, plumb::host, strides);
  place(pages);
}

void GuardedTensor::place(GuardPages pages) {
  if (!memory_->has_guard_pages()) pages = GuardPages::none;
  begin_ = pages == GuardPages::before ? lowest_byte_ : 0;
  end_ = pages == GuardPages::behind
             ? lowest_byte_ + rounded_up(end_byte_ - lowest_byte_, alignment_)
             : static_cast<std::int64_t>(image_.size());
  on_device_ = block_->data;
  if (pages == GuardPages::behind) on_device_ += static_cast<std::int64_t>(block_->bytes) - end_;
  device_ = TensorView(on_device_ + first_byte_ - begin_, host_.dtype(), host_.extents(),
                       memory_->device().id(), host_.strides());
}

void GuardedTensor::poison() { std::fill(image_.begin(), image_.end(), canary); }

void GuardedTensor::upload(Queue& queue) const {
  queue.backend().copy(on_device_, image_.data() + begin_, static_cast<std::size_t>(end_ - begin_));
}

void GuardedTensor::download(Queue& queue) {
  queue.backend().copy(image_.data() + begin_, on_device_, static_cast<std::size_t>(end_ - begin_));
  queue.synchronize();
}

bool GuardedTensor::same_on_device(Queue& queue) const {
  const auto bytes = static_cast<std::size_t>(end_ - begin_);
  const std::byte* now = on_device_;
  std::vector<std::byte> copied;
  if (!memory_->has_guard_pages()) {
    copied.resize(bytes);
    queue.backend().copy(copied.data(), on_device_, bytes);
    now = copied.data();
  }
  queue.synchronize();
  return std::memcmp(now, image_.data() + begin_, bytes) == 0;
}

/// Elements may lie in any order and overlap, so they are marked byte by byte once.
void GuardedTensor::find_gaps() {
  const auto size = static_cast<std::int64_t>(image_.size());
  const auto element_bytes = static_cast<std::int64_t>(size_in_bytes(host_.dtype()));
  const std::int64_t span = (end_byte_ - lowest_byte_) / element_bytes;
  gaps_.emplace_back(0, lowest_byte_);
  if (element_count(host_.extents()) != span) {
    std::vector<bool> is_element(static_cast<std::size_t>(span), false);
    const std::int64_t below = (first_byte_ - lowest_byte_) / element_bytes;
    for_each_offset(host_.extents(), host_.strides(), [&](std::int64_t offset) {
      is_element[static_cast<std::size_t>(below + offset)] = true;
    });
    for (std::int64_t i = 0; i < span; ++i) {
      if (is_element[static_cast<std::size_t>(i)]) continue;
      const std::int64_t begin = lowest_byte_ + i * element_bytes, end = begin + element_bytes;
      if (gaps_.back().second == begin && gaps_.size() > 1)
        gaps_.back().second = end;
      else
        gaps_.emplace_back(begin, end);
    }
  }
  gaps_.emplace_back(end_byte_, size);
}

std::optional<std::string> GuardedTensor::broken_canary() {
  if (gaps_.empty()) find_gaps();
  for (const auto& [begin, end] : gaps_)
    for (std::int64_t byte = begin; byte < end; ++byte)
      if (image_[static_cast<std::size_t>(byte)] != canary)
        return fmt::format("byte {} from the first element was written, outside the tensor",
                           byte - first_byte_);
  return std::nullopt;
}

}  // namespace plumb
