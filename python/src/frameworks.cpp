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

/// A module's attribute, found once: it is kept for good, as modules are.
nb::handle kept(const char* module, const char* name) {
  static auto& all = *new std::unordered_map<std::string, nb::object>;
  auto& entry = all[std::string(module) + "." + name];
  if (!entry.is_valid()) entry = nb::module_::import_(module).attr(name);
  return entry;
}

nb::tuple as_tuple(const Extents& extents) {
  nb::list list;
  for (const std::int64_t extent : extents) list.append(extent);
  return nb::tuple(list);
}

}  // namespace

Framework framework_of(nb::handle object) {
  // The types of arrays are few and live as long as their modules, but a subclass may go and
  // another take its place: those are kept, and each is asked for once.
  static auto& known = *new std::unordered_map<PyObject*, std::pair<nb::object, Framework>>;
  const nb::handle type = object.type();
  const auto found = known.find(type.ptr());
  if (found != known.end()) return found->second.second;
  const Framework framework = search(type);
  if (framework != Framework::other)
    known.emplace(type.ptr(), std::pair(nb::borrow(type), framework));
  return framework;
}

Stream current_stream(Framework framework, int device) {
  std::uintptr_t stream = 0;
  nb::object owner;
  if (framework == Framework::torch) {  // whose streams are a pool's, which stays
    stream =
        nb::cast<std::uintptr_t>(kept("torch.cuda", "current_stream")(device).attr("cuda_stream"));
  } else if (framework == Framework::cupy) {
    nb::object current = kept("cupy.cuda", "get_current_stream")();
    stream = nb::cast<std::uintptr_t>(current.attr("ptr"));
    if (stream > 2) owner = std::move(current);
  }
  return {reinterpret_cast<void*>(stream == 0 ? 1 : stream), std::move(owner)};
}

std::optional<TorchTensor> torch_tensor(nb::handle object) {
  struct Names {
    nb::object tensor, parameter, strided;
    std::array<std::pair<nb::object, DType>, 4> dtypes;
  };
  static const Names* names = nullptr;  // kept for good, as modules are
  if (!names) {
    const auto name = [](const char* of) { return nb::borrow(kept("torch", of)); };
    names = new Names{.tensor = name("Tensor"),
                      .parameter = nb::borrow(kept("torch.nn", "Parameter")),
                      .strided = name("strided"),
                      .dtypes = {{{name("float32"), DType::f32},
                                  {name("float64"), DType::f64},
                                  {name("bfloat16"), DType::bf16},
                                  {name("float16"), DType::f16}}}};
  }
  const nb::handle type = object.type();
  if (!type.is(names->tensor) && !type.is(names->parameter)) return {};
  const nb::object dtype = object.attr("dtype");
  const auto* const known = std::find_if(names->dtypes.begin(), names->dtypes.end(),
                                         [&](const auto& one) { return dtype.is(one.first); });
  if (known == names->dtypes.end() || !object.attr("layout").is(names->strided) ||
      PyObject_IsTrue(nb::object(object.attr("requires_grad")).ptr()) != 0 ||
      PyObject_IsTrue(nb::object(object.attr("is_neg")()).ptr()) != 0)
    return {};
  const nb::object extents = object.attr("shape"), strides = object.attr("stride")();
  const bool on_cpu = nb::cast<bool>(object.attr("is_cpu"));
  if (!PyTuple_Check(extents.ptr()) || !PyTuple_Check(strides.ptr()) ||
      PyTuple_Size(extents.ptr()) != PyTuple_Size(strides.ptr()) ||
      (!on_cpu && !nb::cast<bool>(object.attr("is_cuda"))))
    return {};
  const nb::object address = object.attr("data_ptr")();  // what has no memory of its own throws
  const int device = on_cpu ? -1 : nb::cast<int>(object.attr("get_device")());
  return TorchTensor{PyLong_AsVoidPtr(address.ptr()), known->second, device, extents, strides};
}

nb::handle torch_bytes() { return kept("torch", "uint8"); }

Result make_result(nb::handle like, Framework framework, const DeviceId& device, DType dtype,
                   const Extents& extents) {
  if (framework == Framework::jax)
    return {{}, std::make_unique<Tensor>(Device::open(to_string(device)), dtype, extents)};
  const nb::tuple shape = as_tuple(extents);
  if (framework == Framework::torch) return {like.attr("new_empty")(shape), nullptr};
  if (framework == Framework::cupy) {
    if (nb::cast<int>(kept("cupy.cuda.runtime", "getDevice")()) == device.index)
      return {kept("cupy", "empty")(shape, like.attr("dtype")), nullptr};
    const nb::object on = kept("cupy.cuda", "Device")(device.index);
    on.attr("__enter__")();
    nb::object made;
    try {
      made = kept("cupy", "empty")(shape, like.attr("dtype"));
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
    return {kept("numpy", "empty")(shape, like.attr("dtype")), nullptr};
  const std::string name(numpy_name(dtype));
  if (dtype == DType::bf16)  // NumPy has none of its own
    return {kept("numpy", "empty")(shape, kept("ml_dtypes", "bfloat16")), nullptr};
  return {kept("numpy", "empty")(shape, name.c_str()), nullptr};
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
