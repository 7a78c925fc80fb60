// A Tensor owns its memory; views borrow anybody's.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

#include "plumb/device.hpp"
#include "plumb/export.h"
#include "plumb/types.hpp"

namespace plumb {

/// The DType of a C++ element type.
template <class T>
inline constexpr DType dtype_of = [] {
  using U = std::remove_const_t<T>;
  if constexpr (std::is_same_v<U, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<U, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<U, Half>)
    return DType::f16;
  else {
    static_assert(std::is_same_v<U, BFloat16>, "float, double, plumb::Half or plumb::BFloat16");
    return DType::bf16;
  }
}();

/// A view is borrowed memory: a pointer to the element of index zero, a stored type, extents,
/// strides in elements, and the device that can read it. Strides may be zero or negative on inputs.
/// An output that overlaps itself, and offsets past 2^58 elements, are an Error where the view is
/// used. A default-made view is empty, and stands for "none".
template <class Void>
class BasicTensorView {
 public:
  BasicTensorView() = default;
  /// Without strides the view is dense, the last index running fastest.
  BasicTensorView(Void* data, DType dtype, Extents extents, DeviceId device = host,
                  Strides strides = {})
      : data_(data),
        extents_(extents),
        strides_(strides.empty() ? dense_strides(extents) : strides),
        device_(device),
        dtype_(dtype) {}
  /// Makes a view of host memory.
  template <class T>
  requires(!std::is_void_v<T> && std::is_convertible_v<T*, Void*>)
      BasicTensorView(T* data, Extents extents, Strides strides = {})
      : BasicTensorView(data, dtype_of<T>, extents, host, strides) {}
  /// A view that may be written also serves where one is only read.
  template <class Other>
  requires(std::is_void_v<Other>&& std::is_convertible_v<Other*, Void*> &&
           !std::is_same_v<Other, Void>)
      BasicTensorView(const BasicTensorView<Other>& o)  // NOLINT: implicit on purpose
      : BasicTensorView(o.data(), o.dtype(), o.extents(), o.device(), o.strides()) {}

  Void* data() const { return data_; }                      ///< the element of index zero
  DType dtype() const { return dtype_; }                    ///< what is stored
  const Extents& extents() const { return extents_; }       ///< in elements
  const Strides& strides() const { return strides_; }       ///< in elements
  DeviceId device() const { return device_; }               ///< the device that can read it
  int rank() const { return extents_.rank(); }              ///< dimensions
  std::int64_t extent(int i) const { return extents_[i]; }  ///< of dimension i
  std::int64_t stride(int i) const { return strides_[i]; }  ///< of dimension i, in elements
  bool empty() const { return extents_.empty(); }           ///< whether it stands for "none"
  /// Says whether the view is row-major without gaps (extents of one have no effect).
  bool is_dense() const {
    const Strides dense = dense_strides(extents_);
    for (int i = 0; i < rank(); ++i)
      if (extents_[i] > 1 && strides_[i] != dense[i]) return false;
    return true;
  }

 private:
  Void* data_ = nullptr;
  Extents extents_;
  Strides strides_;
  DeviceId device_;
  DType dtype_ = DType::f32;
};
using TensorView = BasicTensorView<void>;             ///< may be written
using ConstTensorView = BasicTensorView<const void>;  ///< is only read

/// Returns the element that lies `offset` elements from the one of index zero, exactly as stored:
/// double holds every value of every dtype. It reads host memory only.
inline double load_element(const ConstTensorView& view, std::int64_t offset) {
  const void* data = view.data();
  switch (view.dtype()) {
    case DType::f64: return static_cast<const double*>(data)[offset];
    case DType::f32: return static_cast<const float*>(data)[offset];
    case DType::f16: return static_cast<float>(static_cast<const Half*>(data)[offset]);
    case DType::bf16: return static_cast<float>(static_cast<const BFloat16*>(data)[offset]);
  }
  return 0;
}

/// Writes `value`, rounded to the stored type (f16 and bf16 by way of float), to host memory only.
inline void store_element(const TensorView& view, std::int64_t offset, double value) {
  void* data = view.data();
  const auto narrow = static_cast<float>(value);
  switch (view.dtype()) {
    case DType::f64: static_cast<double*>(data)[offset] = value; return;
    case DType::f32: static_cast<float*>(data)[offset] = narrow; return;
    case DType::f16: static_cast<Half*>(data)[offset] = Half(narrow); return;
    case DType::bf16: static_cast<BFloat16*>(data)[offset] = BFloat16(narrow); return;
  }
}

/// Restricts `view` to [begin, begin + count) of one dimension. Throws Error (invalid_argument)
/// past its end, and where offsets would pass 2^58 elements.
PLUMB_API TensorView slice(const TensorView& view, int dimension, std::int64_t begin,
                           std::int64_t count);
/// Restricts a view that is only read, in the same way.
PLUMB_API ConstTensorView slice(const ConstTensorView& view, int dimension, std::int64_t begin,
                                std::int64_t count);

/// Returns the same elements, dense, under other extents of the same count. Throws Error
/// (invalid_argument) where the view is not dense or the counts differ.
PLUMB_API TensorView reshape(const TensorView& view, const Extents& extents);
/// Returns the same for a view that is only read.
PLUMB_API ConstTensorView reshape(const ConstTensorView& view, const Extents& extents);

/// A tensor owns its memory, which is uninitialised and freed with the object. It moves, and does
/// not copy.
class PLUMB_API Tensor {
 public:
  Tensor() = default;
  /// Allocates a tensor, which is dense unless strides are given. Extents and strides are checked
  /// before anything is allocated (invalid_argument). Throws Error (out_of_memory) that names the
  /// bytes asked for and those free.
  Tensor(const Device& device, DType dtype, const Extents& extents, const Strides& strides = {},
         Memory memory = Memory::device);

  const TensorView& view() const { return view_; }  ///< good as long as the tensor lives
  /// A tensor serves as its view.
  operator TensorView() const { return view_; }  // NOLINT: implicit on purpose
  /// A tensor serves as its view.
  operator ConstTensorView() const { return view_; }  // NOLINT: implicit on purpose
  void* data() const { return view_.data(); }         ///< the element of index zero
  /// Returns the element of index zero as a pointer to T; that the elements are of type T is not
  /// checked.
  template <class T>
  T* data_as() const {
    return static_cast<T*>(view_.data());
  }
  const Extents& extents() const { return view_.extents(); }  ///< in elements
  DType dtype() const { return view_.dtype(); }               ///< what is stored

 private:
  std::shared_ptr<void> storage_;
  TensorView view_;
};

/// Copies between views of the same dtype and extents, of any strides, on the queue's device or the
/// host; gaps of `to` stay. Asynchronous, but for what docs/api.md names: a host side must stay as
/// it is until the queue has passed it. Throws Error (invalid_argument) where dtypes or extents
/// differ, `to` overlaps itself or both overlap in part; as Queue::workspace() does.
PLUMB_API void copy(Queue& queue, const ConstTensorView& from, const TensorView& to);

}  // namespace plumb
