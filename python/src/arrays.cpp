// Arrays of Python as views of Plumb's.
#include "arrays.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "attributes.hpp"
#include "dlpack.hpp"
#include "plumb/error.hpp"
#include "plumb/quote.hpp"
#include "queues.hpp"

namespace plumb::python {
namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::invalid_argument, sentence);
}

std::string text_of(nb::handle object) { return nb::str(object).c_str(); }

std::string type_of(nb::handle object) { return nb::type_name(object.type()).c_str(); }

[[noreturn]] void refuse_dtype(std::string_view name, const std::string& met) {
  refuse(std::string(name) + " has elements of type " + met +
         "; expected float32, float64, float16 or bfloat16");
}

std::string shown(nb::handle object) {
  const std::string all = nb::repr(object).c_str();
  return all.size() <= 80 ? all : all.substr(0, 77) + "...";
}

// What an object says of itself by a protocol may be anything.

/// `what` is what it is, for the sentence: "x_shape", "x's __dlpack_device__".
std::int64_t integer_of(nb::handle object, const std::string& what) {
  const nb::object number = nb::steal(PyNumber_Index(object.ptr()));
  const long long value = number.is_valid() ? PyLong_AsLongLong(number.ptr()) : -1;
  if (value == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    refuse(what + " has " + shown(object) + "; expected integers of 64 bits");
  }
  return value;
}

/// `count` is how many it must have, or -1 where any number does.
nb::tuple tuple_of(nb::handle object, std::int64_t count, const std::string& what) {
  if (!PyTuple_Check(object.ptr()) || (count >= 0 && PyTuple_Size(object.ptr()) != count))
    refuse(what + " is " + shown(object) + "; expected a tuple" +
           (count >= 0 ? " of " + std::to_string(count) : ""));
  return nb::borrow<nb::tuple>(object);
}

/// By the format of the buffer protocol, in the machine's byte order.
std::optional<DType> dtype_of_format(std::string_view format) {
  if (!format.empty() && (format[0] == '@' || format[0] == '=' || format[0] == '<'))
    format.remove_prefix(1);
  if (format == "f") return DType::f32;
  if (format == "d") return DType::f64;
  if (format == "e") return DType::f16;
  return {};
}

std::optional<DType> dtype_of_code(std::uint8_t code, std::uint8_t bits) {
  if (code == dlpack::bfloat && bits == 16) return DType::bf16;
  if (code != dlpack::floating) return {};
  if (bits == 32) return DType::f32;
  if (bits == 64) return DType::f64;
  if (bits == 16) return DType::f16;
  return {};
}

DeviceId cuda_device(std::int32_t index) { return {"cuda", index}; }

void check_rank(std::string_view name, std::int64_t rank) {
  if (rank > Dims::max_rank)
    refuse(std::string(name) + " has " + std::to_string(rank) + " axes; expected at most " +
           std::to_string(Dims::max_rank));
}

/// Of a tuple of them. Python's error is left to be asked for.
void read_integers(nb::handle tuple, std::int64_t* into) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple.ptr()); ++i)
    into[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple.ptr(), i));
}

}  // namespace

Array::Array(nb::handle object, std::string_view name, Access access)
    : object_(object), framework_(framework_of(object)) {
  if (object.is_none()) return;
  try {
    if (framework_ == Framework::torch || framework_ == Framework::cupy ||
        framework_ == Framework::jax) {
      const bool taken = framework_ == Framework::cupy    ? take_cupy(name)
                         : framework_ == Framework::torch ? take_torch(name)
                                                          : false;
      if (!taken) take_dlpack(name, access);
    } else if (take_buffer(name, access)) {
      if (framework_ == Framework::other) framework_ = Framework::buffer;
    } else if (PyCapsule_CheckExact(object.ptr()) || nb::hasattr(object, "__dlpack__")) {
      take_dlpack(name, access);
    } else if (nb::hasattr(object, "__cuda_array_interface__")) {
      take_cuda_interface(name, access);
    } else {
      refuse(std::string(name) + " is of type " + type_of(object) +
             "; expected an array of NumPy, CuPy, PyTorch or JAX, or another with the buffer "
             "protocol, DLPack "
             "or __cuda_array_interface__");
    }
  } catch (...) {
    if (has_buffer_) PyBuffer_Release(&buffer_);
    throw;
  }
}

Array::~Array() {
  if (has_buffer_) PyBuffer_Release(&buffer_);
}

bool Array::take_buffer(std::string_view name, Access access) {
  if (!PyObject_CheckBuffer(object_.ptr())) return false;
  if (PyObject_GetBuffer(object_.ptr(), &buffer_, PyBUF_RECORDS_RO) != 0) {
    nb::python_error failure;  // takes it from Python
    if (framework_ == Framework::numpy && text_of(object_.attr("dtype")) == "bfloat16") {
      take_numpy_bfloat16(name, access);
      return true;
    }
    if (framework_ == Framework::numpy) refuse_dtype(name, text_of(object_.attr("dtype")));
    if (nb::hasattr(object_, "__dlpack__")) return false;
    refuse(std::string(name) + " is an array that cannot be read: " + text_of(failure.value()));
  }
  has_buffer_ = true;
  const std::string_view format = buffer_.format ? buffer_.format : "B";
  const std::optional<DType> dtype = dtype_of_format(format);
  if (!dtype) {
    if (framework_ == Framework::numpy && text_of(object_.attr("dtype")) == "bfloat16") {
      take_numpy_bfloat16(name, access);
      return true;
    }
    refuse_dtype(name, framework_ == Framework::numpy ? text_of(object_.attr("dtype"))
                                                      : quoted(std::string(format)));
  }
  if (access == Access::write && buffer_.readonly)
    refuse(std::string(name) + " is read-only; expected an array that may be written");
  check_rank(name, buffer_.ndim);
  std::int64_t extents[Dims::max_rank], strides[Dims::max_rank];
  for (int i = 0; i < buffer_.ndim; ++i) {
    extents[i] = buffer_.shape[i];
    strides[i] = buffer_.strides[i];
  }
  set_view(buffer_.buf, *dtype, buffer_.ndim, extents, strides, buffer_.itemsize, name, host);
  return true;
}

// The buffer protocol has no letter for bfloat16, and NumPy's type for it is from the package
// ml_dtypes.
void Array::take_numpy_bfloat16(std::string_view name, Access access) {
  if (access == Access::write && !nb::cast<bool>(object_.attr("flags").attr("writeable")))
    refuse(std::string(name) + " is read-only; expected an array that may be written");
  const nb::tuple shape = nb::borrow<nb::tuple>(object_.attr("shape"));
  const nb::tuple steps = nb::borrow<nb::tuple>(object_.attr("strides"));
  check_rank(name, static_cast<std::int64_t>(shape.size()));
  std::int64_t extents[Dims::max_rank], strides[Dims::max_rank];
  for (std::size_t i = 0; i < shape.size(); ++i) {
    extents[i] = nb::cast<std::int64_t>(shape[i]);
    strides[i] = nb::cast<std::int64_t>(steps[i]);
  }
  const auto address =
      nb::cast<std::uintptr_t>(object_.attr("__array_interface__")["data"][nb::int_(0)]);
  set_view(reinterpret_cast<void*>(address), DType::bf16, static_cast<int>(shape.size()), extents,
           strides, 2, name, host);
}

// What CuPy's arrays say of themselves takes a fraction of the time of a capsule, for which CUDA is
// asked where they are. A call works on the stream that is current, which it would be lent for.
bool Array::take_cupy(std::string_view name) {
  const nb::object letter = attribute<"char">(attribute<"dtype">(object_));
  const std::optional<DType> dtype = dtype_of_format(nb::str(letter).c_str());
  if (!dtype) return false;  // DLPack knows its other types, or what they are called
  const nb::object shape = attribute<"shape">(object_), steps = attribute<"strides">(object_),
                   memory = attribute<"data">(object_);
  const Py_ssize_t rank = PyTuple_Check(shape.ptr()) ? PyTuple_Size(shape.ptr()) : -1;
  if (rank < 0 || !PyTuple_Check(steps.ptr()) || PyTuple_Size(steps.ptr()) != rank) return false;
  std::int64_t extents[Dims::max_rank], strides[Dims::max_rank];
  check_rank(name, rank);
  read_integers(shape, extents);
  read_integers(steps, strides);
  const nb::object address = attribute<"ptr">(memory), device = attribute<"device_id">(memory);
  void* data = PyLong_AsVoidPtr(address.ptr());
  const auto index = static_cast<int>(PyLong_AsLongLong(device.ptr()));
  if (PyErr_Occurred()) throw nb::python_error();
  set_view(data, *dtype, static_cast<int>(rank), extents, strides,
           static_cast<std::int64_t>(size_in_bytes(*dtype)), name, cuda_device(index));
  return true;
}

// PyTorch makes its capsules in Python, and for a GPU asks for streams and makes events on the way.
bool Array::take_torch(std::string_view name) {
  std::optional<TorchTensor> tensor;
  try {
    dlpack::Tensor described{};
    if (describe_torch_tensor(object_, described) && take_tensor(described, name)) return true;
    tensor = torch_tensor(object_);
  } catch (const nb::python_error&) {  // DLPack's refusal says more
  }
  if (!tensor) return false;
  const Py_ssize_t rank = PyTuple_Size(tensor->extents.ptr());
  check_rank(name, rank);
  std::int64_t extents[Dims::max_rank], strides[Dims::max_rank];
  read_integers(tensor->extents, extents);
  read_integers(tensor->strides, strides);
  if (PyErr_Occurred()) throw nb::python_error();
  set_view(tensor->data, tensor->dtype, static_cast<int>(rank), extents, strides, 1, name,
           tensor->device < 0 ? host : cuda_device(tensor->device));
  return true;
}

void Array::take_dlpack(std::string_view name, Access access) {
  if (access == Access::write && framework_ == Framework::jax)
    refuse(std::string(name) + " is an array of JAX, which may not be written; leave it out");
  if (PyCapsule_CheckExact(object_.ptr())) {
    lender_ = nb::borrow(object_);
  } else {
    const std::string what = std::string(name) + "'s __dlpack_device__";
    const nb::tuple place = tuple_of(nb::object(object_.attr("__dlpack_device__")()), 2, what);
    if (integer_of(place[0], what) == dlpack::cpu) {
      lender_ = object_.attr("__dlpack__")();
    } else {
      const Stream stream =
          current_stream(framework_, static_cast<int>(integer_of(place[1], what)));
      lender_ = object_.attr("__dlpack__")(nb::arg("stream") =
                                               reinterpret_cast<std::uintptr_t>(stream.native));
    }
  }
  const dlpack::Tensor* tensor = nullptr;
  if (PyCapsule_IsValid(lender_.ptr(), "dltensor")) {
    tensor = &static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(lender_.ptr(), "dltensor"))
                  ->tensor;
  } else if (PyCapsule_IsValid(lender_.ptr(), "dltensor_versioned")) {
    const auto* versioned = static_cast<dlpack::VersionedTensor*>(
        PyCapsule_GetPointer(lender_.ptr(), "dltensor_versioned"));
    if (versioned->major != 1)
      refuse(std::string(name) + " is of DLPack " + std::to_string(versioned->major) +
             "; expected version 1");
    if (access == Access::write && (versioned->flags & dlpack::read_only))
      refuse(std::string(name) + " is read-only; expected an array that may be written");
    tensor = &versioned->tensor;
  } else {
    const char* met =
        PyCapsule_CheckExact(lender_.ptr()) ? PyCapsule_GetName(lender_.ptr()) : "no capsule";
    refuse(std::string(name) + " is a capsule named " + quoted(met ? met : "") +
           "; expected one of DLPack, dltensor, that nobody has taken yet");
  }
  if (take_tensor(*tensor, name)) return;
  const nb::object type = nb::getattr(object_, "dtype", nb::none());
  refuse_dtype(name, type.is_none() ? "code " + std::to_string(tensor->code) + " of DLPack, " +
                                          std::to_string(tensor->bits) + " bits"
                                    : text_of(type));
}

bool Array::take_tensor(const dlpack::Tensor& tensor, std::string_view name) {
  const std::optional<DType> dtype =
      tensor.lanes == 1 ? dtype_of_code(tensor.code, tensor.bits) : std::nullopt;
  if (!dtype) return false;
  DeviceId device = host;
  if (tensor.device_type == dlpack::cuda || tensor.device_type == dlpack::cuda_managed)
    device = cuda_device(tensor.device_id);
  else if (tensor.device_type != dlpack::cpu && tensor.device_type != dlpack::cuda_host)
    refuse(std::string(name) + " is on a device of DLPack's type " +
           std::to_string(tensor.device_type) + "; expected the CPU or a GPU of CUDA");
  check_rank(name, tensor.ndim);
  const Extents extents(tensor.shape, static_cast<std::size_t>(tensor.ndim));
  const Strides strides = tensor.strides
                              ? Strides(tensor.strides, static_cast<std::size_t>(tensor.ndim))
                              : dense_strides(extents);
  set_view(static_cast<char*>(tensor.data) + tensor.byte_offset, *dtype, tensor.ndim,
           extents.begin(), strides.begin(), 1, name, device);
  return true;
}

void Array::take_cuda_interface(std::string_view name, Access access) {
  const std::string what = std::string(name) + "'s __cuda_array_interface__";
  const nb::object given_interface = object_.attr("__cuda_array_interface__");
  if (!PyDict_Check(given_interface.ptr()))
    refuse(what + " is " + shown(given_interface) + "; expected a dictionary");
  const auto interface = nb::borrow<nb::dict>(given_interface);
  for (const char* key : {"typestr", "data", "shape"})
    if (!interface.contains(key)) refuse(what + " has no " + quoted(key) + "; expected one");
  const std::string type = text_of(interface["typestr"]);
  const std::optional<DType> dtype = type == "<f4"   ? std::optional(DType::f32)
                                     : type == "<f8" ? std::optional(DType::f64)
                                     : type == "<f2" ? std::optional(DType::f16)
                                                     : std::nullopt;
  if (!dtype) refuse_dtype(name, type);
  const nb::tuple data = tuple_of(nb::object(interface["data"]), 2, what + "'s data");
  if (access == Access::write && PyObject_IsTrue(nb::object(data[1]).ptr()) != 0)
    refuse(std::string(name) + " is read-only; expected an array that may be written");
  const nb::tuple shape = tuple_of(nb::object(interface["shape"]), -1, what + "'s shape");
  const auto rank = static_cast<std::int64_t>(shape.size());
  check_rank(name, rank);
  std::int64_t extents[Dims::max_rank], steps[Dims::max_rank];
  for (std::size_t i = 0; i < shape.size(); ++i)
    extents[i] = integer_of(shape[i], what + "'s shape");
  const auto bytes = static_cast<std::int64_t>(size_in_bytes(*dtype));
  const nb::object given =
      interface.contains("strides") ? nb::object(interface["strides"]) : nb::none();
  if (given.is_none()) {
    const Strides dense = dense_strides(Extents(extents, shape.size()));
    for (int i = 0; i < static_cast<int>(rank); ++i) steps[i] = dense[i] * bytes;
  } else {
    const nb::tuple strides = tuple_of(given, rank, what + "'s strides");
    for (std::size_t i = 0; i < shape.size(); ++i)
      steps[i] = integer_of(strides[i], what + "'s strides");
  }
  // It does not say which device's memory it is; its owner has none but the first, or says so.
  const nb::object device = nb::getattr(object_, "device", nb::none());
  const nb::object id = device.is_none() ? nb::none() : nb::getattr(device, "id", nb::none());
  const auto index =
      id.is_none() ? 0 : static_cast<int>(integer_of(id, std::string(name) + "'s device.id"));
  const DeviceId where = cuda_device(index);
  // Work on it may be under way on its owner's stream. 1 and 2 are CUDA's default ones, which the
  // queue of such arrays waits for.
  const nb::object stream =
      interface.contains("stream") ? nb::object(interface["stream"]) : nb::none();
  const std::int64_t pending = stream.is_none() ? 0 : integer_of(stream, what + "'s stream");
  if (pending < 0) refuse(what + "'s stream is " + shown(stream) + "; expected a stream's address");
  if (pending > 2)
    queue_on(opened(to_string(where)), reinterpret_cast<void*>(pending)).synchronize();
  const auto address = static_cast<std::uintptr_t>(integer_of(data[0], what + "'s data"));
  set_view(reinterpret_cast<void*>(address), *dtype, static_cast<int>(rank), extents, steps, bytes,
           name, where);
}

void Array::set_view(void* data, DType dtype, int rank, const std::int64_t* extents,
                     const std::int64_t* strides, std::int64_t bytes_a_stride,
                     std::string_view name, DeviceId device) {
  Strides steps(strides, static_cast<std::size_t>(rank));
  for (int i = 0; i < rank; ++i) {
    if (steps[i] % bytes_a_stride != 0)
      refuse(std::string(name) + " has a stride of " + std::to_string(steps[i]) +
             " bytes; expected a multiple of an element's " + std::to_string(bytes_a_stride));
    steps[i] /= bytes_a_stride;
  }
  if (rank == 0) refuse(std::string(name) + " has no axes; expected an array with some");
  if (reinterpret_cast<std::uintptr_t>(data) % size_in_bytes(dtype) != 0)
    refuse(std::string(name) + " begins at an address that is no multiple of an element's " +
           std::to_string(size_in_bytes(dtype)) + " bytes; expected an aligned array");
  view_ = TensorView(data, dtype, Extents(extents, static_cast<std::size_t>(rank)), device, steps);
}

std::string_view numpy_name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "float32";
    case DType::f64: return "float64";
    case DType::f16: return "float16";
    case DType::bf16: return "bfloat16";
  }
  return {};
}

DType dtype_from(nb::handle object) {
  std::string name;
  if (nb::isinstance<nb::str>(object)) {
    name = text_of(object);
  } else if (nb::hasattr(object, "__name__")) {  // numpy.float32, a class
    name = text_of(object.attr("__name__"));
  } else {
    name = text_of(object);  // "torch.float32", "float32"
    name = name.substr(name.rfind('.') + 1);
  }
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    if (name == numpy_name(dtype) || name == to_string(dtype)) return dtype;
  refuse("dtype is " + quoted(name) + "; expected float32, float64, float16 or bfloat16");
}

Extents extents_from(nb::handle object, std::string_view name) {
  std::int64_t values[Dims::max_rank];
  std::size_t count = 0;
  if (!nb::isinstance<nb::iterable>(object) || nb::isinstance<nb::str>(object))
    refuse(std::string(name) + " is of type " + type_of(object) + "; expected a list of integers");
  for (nb::handle value : object) {
    if (count == Dims::max_rank)
      refuse(std::string(name) + " has more than " + std::to_string(Dims::max_rank) + " values");
    if (!PyIndex_Check(value.ptr()))
      refuse(std::string(name) + " has a value of type " + type_of(value) + "; expected integers");
    values[count++] = integer_of(value, std::string(name));
  }
  return Extents(values, count);
}

}  // namespace plumb::python
