// Whose an array is, and what only its owner can say.
#include "frameworks.hpp"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "arrays.hpp"
#include "attributes.hpp"
#include "plumb/error.hpp"

namespace plumb::python {
namespace {

/// By the module that a type is from.
Framework framework_of_module(std::string_view module) {
  const std::string_view top = module.substr(0, module.find('.'));
  if (top == "numpy") return Framework::numpy;
  if (top == "cupy") return Framework::cupy;
  if (top == "torch") return Framework::torch;
  if (top == "jax" || top == "jaxlib") return Framework::jax;
  return Framework::other;
}

Framework search(nb::handle type) {
  for (nb::handle base : nb::borrow<nb::tuple>(type.attr("__mro__"))) {
    const nb::object module = nb::getattr(base, "__module__", nb::none());
    if (!nb::isinstance<nb::str>(module)) continue;
    const Framework found = framework_of_module(nb::borrow<nb::str>(module).c_str());
    if (found != Framework::other) return found;
  }
  return Framework::other;
}

struct Kind {
  Framework framework = Framework::other;
  bool plain = false;  ///< NumPy's or CuPy's ndarray itself
};

Kind kind_of(nb::handle object) {
  // The types of arrays are few and live as long as their modules, but a subclass may go and
  // another take its place: those are kept, and each is asked for once.
  static auto& known = *new std::unordered_map<PyObject*, std::pair<nb::object, Kind>>;
  const nb::handle type = object.type();
  const auto found = known.find(type.ptr());
  if (found != known.end()) return found->second.second;
  Kind kind{search(type)};
  if (kind.framework == Framework::other) return kind;
  const std::string name = nb::str(nb::object(type.attr("__module__"))).c_str();
  kind.plain = (name == "numpy" || name == "cupy") &&
               std::string_view(nb::str(nb::object(type.attr("__name__"))).c_str()) == "ndarray";
  known.emplace(type.ptr(), std::pair(nb::borrow(type), kind));
  return kind;
}

/// A module's attribute, found once: it is kept for good, as modules are.
template <Name module, Name name>
nb::handle kept() {
  static nb::object& entry = *new nb::object;
  if (!entry.is_valid()) entry = nb::module_::import_(module.text).attr(name.text);
  return entry;
}

nb::tuple as_tuple(const Extents& extents) {
  const nb::object tuple = nb::steal(PyTuple_New(extents.rank()));
  if (!tuple.is_valid()) throw nb::python_error();
  for (int i = 0; i < extents.rank(); ++i)
    if (PyTuple_SetItem(tuple.ptr(), i, PyLong_FromLongLong(extents[i])) != 0)
      throw nb::python_error();
  return nb::borrow<nb::tuple>(tuple);
}

}  // namespace

Framework framework_of(nb::handle object) { return kind_of(object).framework; }

bool is_plain_array(nb::handle object) { return kind_of(object).plain; }

namespace {

using CupyStream = std::intptr_t (*)();

/// CuPy's own look-up of the current stream's address, which its modules export to each other and
/// which makes no object. Null where this CuPy has it otherwise.
CupyStream cupy_stream() {
  static const CupyStream found = [] {
    constexpr const char* type = "intptr_t (void)";
    const nb::object exports =
        nb::getattr(nb::module_::import_("cupy.cuda.stream"), "__pyx_capi__", nb::none());
    if (!PyDict_Check(exports.ptr())) return CupyStream{};
    const nb::handle capsule = PyDict_GetItemString(exports.ptr(), "get_current_stream_ptr");
    if (!capsule.is_valid() || PyCapsule_IsValid(capsule.ptr(), type) == 0) return CupyStream{};
    return reinterpret_cast<CupyStream>(PyCapsule_GetPointer(capsule.ptr(), type));
  }();
  return found;
}

/// PyTorch's look-up of the address for code that it generates, which makes no object.
std::uintptr_t torch_stream(int device) {
  static const nb::object& raw = *new nb::object(
      nb::getattr(nb::module_::import_("torch._C"), "_cuda_getCurrentRawStream", nb::none()));
  if (!raw.is_none()) return nb::cast<std::uintptr_t>(raw(device));
  return nb::cast<std::uintptr_t>(
      kept<"torch.cuda", "current_stream">()(device).attr("cuda_stream"));
}

}  // namespace

Stream current_stream(Framework framework, int device) {
  std::uintptr_t stream = 0;
  if (framework == Framework::torch) {
    stream = torch_stream(device);
  } else if (framework == Framework::cupy) {
    if (const CupyStream current = cupy_stream()) {
      stream = static_cast<std::uintptr_t>(current());
      if (PyErr_Occurred()) throw nb::python_error();
    } else {
      stream = nb::cast<std::uintptr_t>(kept<"cupy.cuda", "get_current_stream">()().attr("ptr"));
    }
  }
  return {reinterpret_cast<void*>(stream == 0 ? 1 : stream)};
}

nb::object owner_of_current_stream(Framework framework) {
  if (framework != Framework::cupy) return {};  // PyTorch's streams are a pool's, which stays
  nb::object current = kept<"cupy.cuda", "get_current_stream">()();
  return nb::cast<std::uintptr_t>(current.attr("ptr")) > 2 ? std::move(current) : nb::object();
}

namespace {

/// Whether what a tensor says of itself is what lies in memory, for anybody to read.
bool is_readable_tensor(nb::handle object) {
  const nb::handle type = object.type();
  return (type.is(kept<"torch", "Tensor">()) || type.is(kept<"torch.nn", "Parameter">())) &&
         attribute<"layout">(object).is(kept<"torch", "strided">()) &&
         !is_true<"requires_grad">(object) && PyObject_IsTrue(call<"is_neg">(object).ptr()) == 0;
}

const dlpack::ExchangeApi* torch_exchange() {
  static const auto* const found = []() -> const dlpack::ExchangeApi* {
    constexpr const char* name = "dlpack_exchange_api";
    const nb::object capsule =
        nb::getattr(kept<"torch", "Tensor">(), "__dlpack_c_exchange_api__", nb::none());
    if (PyCapsule_IsValid(capsule.ptr(), name) == 0) return nullptr;
    const auto* const api =
        static_cast<const dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), name));
    return api->major == 1 && api->describe ? api : nullptr;
  }();
  return found;
}

}  // namespace

bool describe_torch_tensor(nb::handle object, dlpack::Tensor& described) {
  const dlpack::ExchangeApi* const api = torch_exchange();
  if (!api || !is_readable_tensor(object)) return false;
  if (api->describe(object.ptr(), &described) == 0) return true;
  PyErr_Clear();
  return false;
}

std::optional<TorchTensor> torch_tensor(nb::handle object) {
  using Types = std::array<std::pair<nb::object, DType>, 4>;
  static const Types* types = nullptr;  // kept for good, as modules are
  if (!types) {
    const auto name = [](const char* of) { return nb::module_::import_("torch").attr(of); };
    types = new Types{{{name("float32"), DType::f32},
                       {name("float64"), DType::f64},
                       {name("bfloat16"), DType::bf16},
                       {name("float16"), DType::f16}}};
  }
  if (!is_readable_tensor(object)) return {};
  const nb::object dtype = attribute<"dtype">(object);
  const auto* const known = std::find_if(types->begin(), types->end(),
                                         [&](const auto& one) { return dtype.is(one.first); });
  if (known == types->end()) return {};
  const nb::object extents = attribute<"shape">(object), strides = call<"stride">(object);
  const bool on_cpu = is_true<"is_cpu">(object);
  if (!PyTuple_Check(extents.ptr()) || !PyTuple_Check(strides.ptr()) ||
      PyTuple_Size(extents.ptr()) != PyTuple_Size(strides.ptr()) ||
      (!on_cpu && !is_true<"is_cuda">(object)))
    return {};
  const nb::object address = call<"data_ptr">(object);  // what has no memory of its own throws
  const int device = on_cpu ? -1 : nb::cast<int>(call<"get_device">(object));
  return TorchTensor{PyLong_AsVoidPtr(address.ptr()), known->second, device, extents, strides};
}

nb::handle torch_bytes() { return kept<"torch", "uint8">(); }

Result make_result(nb::handle like, Framework framework, const DeviceId& device, DType dtype,
                   const Extents& extents) {
  if (framework == Framework::jax)
    return {{}, std::make_unique<Tensor>(Device::open(to_string(device)), dtype, extents)};
  const nb::tuple shape = as_tuple(extents);
  if (framework == Framework::torch) return {attribute<"new_empty">(like)(shape), nullptr};
  if (framework == Framework::cupy) {
    if (nb::cast<int>(kept<"cupy.cuda.runtime", "getDevice">()()) == device.index)
      return {kept<"cupy", "ndarray">()(shape, attribute<"dtype">(like)), nullptr};
    const nb::object on = kept<"cupy.cuda", "Device">()(device.index);
    on.attr("__enter__")();
    nb::object made;
    try {
      made = kept<"cupy", "ndarray">()(shape, attribute<"dtype">(like));
    } catch (...) {
      on.attr("__exit__")(nb::none(), nb::none(), nb::none());
      throw;
    }
    on.attr("__exit__")(nb::none(), nb::none(), nb::none());
    return {made, nullptr};
  }
  if (device != host)
    throw Error(
        ErrorCode::invalid_argument,
        "out is None, and Plumb cannot make an array of the kind of " +
            std::string(nb::type_name(like.type()).c_str()) +
            " on a GPU; expected arrays of CuPy, PyTorch or JAX, or an array to write as out");
  if (framework == Framework::numpy)
    return {kept<"numpy", "empty">()(shape, attribute<"dtype">(like)), nullptr};
  const std::string name(numpy_name(dtype));
  if (dtype == DType::bf16)  // NumPy has none of its own
    return {kept<"numpy", "empty">()(shape, kept<"ml_dtypes", "bfloat16">()), nullptr};
  return {kept<"numpy", "empty">()(shape, name.c_str()), nullptr};
}

nb::object finish(Result result) {
  if (!result.tensor) return std::move(result.object);
  const TensorView view = result.tensor->view();
  std::size_t shape[Dims::max_rank];
  for (int i = 0; i < view.rank(); ++i) shape[i] = static_cast<std::size_t>(view.extent(i));
  const nb::capsule owner(result.tensor.get(),
                          [](void* tensor) noexcept { delete static_cast<Tensor*>(tensor); });
  result.tensor.release();
  const nb::dlpack::dtype dtype{
      static_cast<std::uint8_t>(view.dtype() == DType::bf16 ? nb::dlpack::dtype_code::Bfloat
                                                            : nb::dlpack::dtype_code::Float),
      static_cast<std::uint8_t>(8 * size_in_bytes(view.dtype())), 1};
  const bool on_host = view.device() == host;
  const nb::ndarray<nb::jax> array(view.data(), static_cast<std::size_t>(view.rank()), shape, owner,
                                   nullptr, dtype,
                                   on_host ? nb::device::cpu::value : nb::device::cuda::value,
                                   on_host ? 0 : view.device().index);
  return nb::cast(array);
}

}  // namespace plumb::python
