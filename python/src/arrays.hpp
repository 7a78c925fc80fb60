// Arrays of Python as views of Plumb's: by the buffer protocol, DLPack or __cuda_array_interface__,
// whatever their strides, without a copy.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string_view>

#include "frameworks.hpp"
#include "plumb/tensor.hpp"

namespace plumb::python {

/// Whether an array is read or written.
enum class Access : std::uint8_t { read, write };

/// One array of the caller's, borrowed for a call: what lends it stays alive as long as this does,
/// which must be made and destroyed by a thread that holds the GIL.
class Array {
 public:
  Array() = default;  ///< none
  /// Takes an array, of None nothing. `name` is that of the argument. Throws Error
  /// (invalid_argument) where the object is no array, where its elements are of no type of Plumb's,
  /// and where it is to be written and may not be.
  Array(nb::handle object, std::string_view name, Access access = Access::read);
  ~Array();
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  bool empty() const { return view_.empty(); }        ///< whether there is none
  const TensorView& view() const { return view_; }    ///< its memory
  nb::handle object() const { return object_; }       ///< as it was given
  Framework framework() const { return framework_; }  ///< whose it is

 private:
  bool take_buffer(std::string_view name, Access access);
  void take_numpy_bfloat16(std::string_view name, Access access);
  bool take_cupy(std::string_view name);
  bool take_torch(std::string_view name);
  void take_dlpack(std::string_view name, Access access);
  /// False where its elements are of no type of Plumb's.
  bool take_tensor(const dlpack::Tensor& tensor, std::string_view name);
  void take_cuda_interface(std::string_view name, Access access);
  void set_view(void* data, DType dtype, int rank, const std::int64_t* extents,
                const std::int64_t* strides, std::int64_t bytes_a_stride, std::string_view name,
                DeviceId device);

  nb::handle object_;
  Framework framework_ = Framework::other;
  Py_buffer buffer_{};
  bool has_buffer_ = false;
  nb::object lender_;  ///< a capsule of DLPack's
  TensorView view_;
};

/// Returns the type's name as NumPy has it: "float32".
std::string_view numpy_name(DType dtype);
/// Returns the type of such a name, of Plumb's ("f32"), or of an object whose name or text ends in
/// one (NumPy's and PyTorch's types). Throws Error (invalid_argument) where it is none.
DType dtype_from(nb::handle object);

/// Returns the extents of a list of integers. Throws Error (invalid_argument) that names `name`.
Extents extents_from(nb::handle object, std::string_view name);

}  // namespace plumb::python
