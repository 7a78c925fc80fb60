// Whose an array is, and what only its owner can say: how a new one is made, and which stream is
// current.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "dlpack.hpp"
#include "plumb/tensor.hpp"

namespace plumb::python {

namespace nb = nanobind;

/// Whose arrays are told apart. `buffer` is any other object with the buffer protocol, `other` one
/// with DLPack.
enum class Framework : std::uint8_t { numpy, cupy, torch, jax, buffer, other };

/// Returns whose array an object is, by the modules of its type and the types that derives from.
Framework framework_of(nb::handle object);
/// Says whether an object is of NumPy's or CuPy's own type of arrays, and of none that derives from
/// it.
bool is_plain_array(nb::handle object);

/// A stream of CUDA's.
struct Stream {
  void* native = nullptr;  ///< never null of a GPU: CUDA's name for its default stream is 1
};
/// Returns the stream that the framework puts work on now, on a device of CUDA's (DLPack names its
/// default one 1, too).
Stream current_stream(Framework framework, int device);
/// Returns what destroys the current stream when it goes; none where it stays.
nb::object owner_of_current_stream(Framework framework);

/// Returns PyTorch's type of bytes.
nb::handle torch_bytes();

/// What a tensor of PyTorch's says of itself.
struct TorchTensor {
  void* data;
  DType dtype;
  int device;                   ///< the index of a GPU; -1 for the CPU
  nb::object extents, strides;  ///< tuples, of one length
};
/// Describes a tensor of which torch_tensor() would say what it is, by the function that PyTorch
/// exports for that: shape and strides are the tensor's. False where this PyTorch has none, or does
/// not describe it.
bool describe_torch_tensor(nb::handle object, dlpack::Tensor& described);
/// Returns it of a tensor that lies in memory as it says: nothing of one that DLPack may refuse (it
/// needs a gradient, is sparse, is negated when it is read, lies on another kind of device), nor of
/// types that derive from PyTorch's.
std::optional<TorchTensor> torch_tensor(nb::handle object);

/// An array that was made for a result.
struct Result {
  nb::object object;               ///< of the caller's kind; none while only `tensor` is there
  std::unique_ptr<Tensor> tensor;  ///< JAX's arrays cannot be written once they are theirs
};

/// Makes a dense array of the kind and on the device of `like`.
Result make_result(nb::handle like, Framework framework, const DeviceId& device, DType dtype,
                   const Extents& extents);
/// Returns what is handed to the caller, once the work that writes it is done or, on CUDA, has been
/// put on the framework's own stream.
nb::object finish(Result result);

}  // namespace plumb::python
