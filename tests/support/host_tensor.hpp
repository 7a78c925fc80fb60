// Tensors of any dtype and strides on the host, for tests: unwritten elements are NaN, and what
// lies before, between and behind the elements must stay as it was.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <stdexcept>
#include <vector>

#include "plumb/plumb.hpp"

namespace plumb_test {

/// Calls `f(index)` for each index of `extents`, the last running fastest.
template <class F>
void for_each_index(const plumb::Extents& extents, const F& f) {
  const std::int64_t count = plumb::element_count(extents);
  for (std::int64_t flat = 0; flat < count; ++flat) {
    plumb::Dims index = extents;
    std::int64_t rest = flat;
    for (int i = extents.rank() - 1; i >= 0; --i) {
      index[i] = rest % extents[i];
      rest /= extents[i];
    }
    f(index);
  }
}

class HostTensor {
 public:
  /// All bits set: a NaN in every dtype.
  HostTensor(plumb::DType dtype, const plumb::Extents& extents, const plumb::Strides& strides = {})
      : dtype_(dtype),
        extents_(extents),
        strides_(strides.empty() ? plumb::dense_strides(extents) : strides) {
    std::int64_t before = guard, after = guard;
    for (int i = 0; i < extents.rank(); ++i) {
      const std::int64_t reach = std::max<std::int64_t>(extents_[i] - 1, 0) * strides_[i];
      (reach < 0 ? before : after) += std::abs(reach);
    }
    zero_ = before;
    bytes_.assign(static_cast<std::size_t>(before + 1 + after) * plumb::size_in_bytes(dtype),
                  std::byte{0xff});
  }
  /// With these values, in the order of the indices.
  static HostTensor of(plumb::DType dtype, const plumb::Extents& extents,
                       const std::vector<double>& values, const plumb::Strides& strides = {}) {
    HostTensor result(dtype, extents, strides);
    if (values.size() != static_cast<std::size_t>(plumb::element_count(extents)))
      throw std::logic_error("as many values as elements");
    std::size_t next = 0;
    result.fill([&] { return values[next++]; });
    return result;
  }

  /// One value of `generate()` after the other, rounded to the dtype.
  template <class F>
  void fill(const F& generate) {
    for_each_index(extents_, [&](const plumb::Dims& index) { set(index, generate()); });
  }

  void set(const plumb::Dims& index, double value) {
    plumb::store_element(view(), offset(index), value);
  }
  double at(const plumb::Dims& index) const { return plumb::load_element(view(), offset(index)); }

  /// In the order of the indices, whatever the strides.
  std::vector<double> values() const {
    std::vector<double> result;
    for_each_index(extents_, [&](const plumb::Dims& index) { result.push_back(at(index)); });
    return result;
  }

  /// Whether every byte that is no element is as it was made.
  bool surroundings_untouched() const {
    const auto size = static_cast<std::int64_t>(plumb::size_in_bytes(dtype_));
    std::vector<std::byte> others = bytes_;
    for_each_index(extents_, [&](const plumb::Dims& index) {
      std::fill_n(others.begin() + (zero_ + offset(index)) * size, size, std::byte{0xff});
    });
    return std::count(others.begin(), others.end(), std::byte{0xff}) ==
           static_cast<std::ptrdiff_t>(others.size());
  }

  plumb::ConstTensorView view() const { return const_cast<HostTensor*>(this)->view(); }
  plumb::TensorView view() { return view_in(bytes_.data(), plumb::host); }

  plumb::DType dtype() const { return dtype_; }
  const plumb::Extents& extents() const { return extents_; }
  const plumb::Strides& strides() const { return strides_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  friend class DeviceTensor;
  static constexpr std::int64_t guard = 16;  // elements

  std::int64_t offset(const plumb::Dims& index) const {
    std::int64_t sum = 0;
    for (int i = 0; i < extents_.rank(); ++i) sum += index[i] * strides_[i];
    return sum;
  }
  plumb::TensorView view_in(void* memory, plumb::DeviceId device) const {
    return plumb::TensorView(static_cast<std::byte*>(memory) +
                                 zero_ * static_cast<std::int64_t>(plumb::size_in_bytes(dtype_)),
                             dtype_, extents_, device, strides_);
  }
  /// All of the memory, as one row of elements.
  plumb::TensorView everything() {
    return plumb::TensorView(
        bytes_.data(), dtype_,
        {static_cast<std::int64_t>(bytes_.size() / plumb::size_in_bytes(dtype_))});
  }

  plumb::DType dtype_;
  plumb::Extents extents_;
  plumb::Strides strides_;
  std::int64_t zero_;  // the element of index zero
  std::vector<std::byte> bytes_;
};

/// A host tensor's memory on a device, surroundings and all.
class DeviceTensor {
 public:
  DeviceTensor(plumb::Queue& queue, HostTensor& host)
      : memory_(queue.device(), host.dtype(), host.everything().extents()),
        view_(host.view_in(memory_.data(), queue.device().id())) {
    write(queue, host);
  }
  /// What a host tensor of the same shape holds; that must live until the queue has passed it.
  void write(plumb::Queue& queue, HostTensor& host) const {
    plumb::copy(queue, host.everything(), memory_);
  }
  operator plumb::TensorView() const { return view_; }       // NOLINT: serves as its view
  operator plumb::ConstTensorView() const { return view_; }  // NOLINT
  /// Waits for the queue.
  void read_back(plumb::Queue& queue, HostTensor& host) const {
    plumb::copy(queue, memory_, host.everything());
    queue.synchronize();
  }

 private:
  plumb::Tensor memory_;
  plumb::TensorView view_;
};

/// Random values from a seed: normal ones, or small integers whose sums are exact.
class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  double normal() { return std::normal_distribution<double>()(engine_); }
  double integer(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(engine_);
  }

 private:
  std::mt19937 engine_;
};

/// A tensor of small integers, so that each sum is exact.
inline HostTensor integers(plumb::DType dtype, const plumb::Extents& extents, std::uint32_t seed) {
  HostTensor tensor(dtype, extents);
  Random random(seed);
  tensor.fill([&] { return random.integer(-3, 3); });
  return tensor;
}

/// The strides of `extents` if its dimensions lay in memory in this order, outermost first, with
/// `gap` unused elements behind each row of the innermost.
inline plumb::Strides strides_in_order(const plumb::Extents& extents, const plumb::Dims& order,
                                       std::int64_t gap = 0) {
  plumb::Strides strides = extents;
  std::int64_t step = 1;
  for (int i = extents.rank() - 1; i >= 0; --i) {
    const int dimension = static_cast<int>(order[i]);
    strides[dimension] = step;
    step = step * extents[dimension] + gap;
  }
  return strides;
}

}  // namespace plumb_test
