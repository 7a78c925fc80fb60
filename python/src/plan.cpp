// plumb.Plan: a convolution that has been checked and whose algorithm has been chosen, and filters
// packed for it.
#include <nanobind/nanobind.h>

#include <optional>
#include <string>

#include "arguments.hpp"
#include "candidates.hpp"
#include "graphs.hpp"
#include "output.hpp"
#include "parts.hpp"
#include "plumb/error.hpp"
#include "plumb/problem_text.hpp"
#include "queues.hpp"

namespace plumb::python {
namespace {

using namespace nanobind::literals;

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::invalid_argument, sentence);
}

/// What a plan is made for: an array, whose strides count, or a shape of dense ones.
struct Described {
  ConstTensorView view;
  std::optional<Array> array;
  Described(nb::handle object, std::string_view name, DType dtype, const DeviceId& device) {
    if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr())) {
      view = ConstTensorView(nullptr, dtype, extents_from(object, name), device);
    } else {
      array.emplace(object, name);
      view = array->view();
    }
  }
};

/// The plan of a forward convolution, with the number of axes that its caller's images have.
class Plan {
 public:
  Plan(Device device, const ConvProblem& problem, const ConvOptions& options, int axes)
      : plan_(std::move(device), problem, options), axes_(axes) {
    const ConvProblem& p = plan_.problem();
    if (axes == 1) y_extents_ = {p.n, p.k, p.q()};
    if (axes == 2) y_extents_ = {p.n, p.k, p.p(), p.q()};
    if (axes == 3) y_extents_ = {p.n, p.k, p.z(), p.p(), p.q()};
  }

  const ConvPlan& plan() const { return plan_; }
  const Extents& y_extents() const { return y_extents_; }
  int axes() const { return axes_; }

 private:
  ConvPlan plan_;
  int axes_;
  Extents y_extents_;
};

struct Packed {
  PackedFilters filters;
};

Plan make_plan(nb::handle x, nb::handle w, nb::handle bias, nb::handle dtype, nb::handle device,
               nb::handle stride, nb::handle padding, nb::handle dilation, std::int64_t groups,
               nb::handle boundary, nb::handle math, nb::handle activation, bool accumulate,
               nb::handle algorithm, bool deterministic, bool reproducible, nb::handle providers) {
  std::string where = device.is_none() ? "cpu" : nb::str(device).c_str();
  const Device described_on = opened(where, providers_from(providers));
  const DType type = dtype.is_none() ? DType::f32 : dtype_from(dtype);
  const Described image(x, "x", type, described_on.id());
  const Described filters(w, "w", image.view.dtype(), image.view.device());
  if (image.array && filters.array) device_of({&*image.array, &*filters.array});
  const ConvGeometry geometry = geometry_from({stride, padding, dilation, groups, boundary},
                                              image.view.rank() - 2, filters.view.extents());
  ConvOptions options =
      options_from({math, activation, algorithm, accumulate, deterministic, reproducible});
  options.bias = PyBool_Check(bias.ptr()) ? bias.is(nb::handle(Py_True)) : !bias.is_none();
  const ConvProblem problem = problem_of({.x = image.view, .w = filters.view}, geometry);
  return Plan(image.array ? opened(to_string(image.view.device()), providers_from(providers))
                          : described_on,
              problem, options, image.view.rank() - 2);
}

nb::object execute(const Plan& plan, nb::handle x_object, nb::handle w_object,
                   nb::handle bias_object, nb::handle out) {
  const Packed* packed = nullptr;
  if (nb::isinstance<Packed>(w_object)) {
    if (!nb::inst_ready(w_object)) refuse("w is PackedFilters without filters; expected pack()'s");
    packed = nb::inst_ptr<Packed>(w_object);
  }
  const Array x(x_object, "x"), w(packed ? nb::handle(nb::none()) : w_object, "w"),
      bias(bias_object, "bias");
  if (plan.plan().options().accumulate && out.is_none())
    refuse("out is None in a plan that accumulates; expected the array that is added to");
  device_of({&x, &w, &bias});
  Output y(out, x, plan.y_extents());
  Queue& queue = queue_for(plan.plan().device(), x.framework());
  const ConvTensors tensors{.x = x.view(), .w = w.view(), .bias = bias.view(), .y = y.view()};
  std::optional<GraphWorkspace> workspace;
  if (records(queue, x.framework()))
    workspace.emplace(
        x, packed ? plan.plan().packed_workspace_bytes() : plan.plan().workspace_bytes());
  void* const memory = workspace ? workspace->data() : nullptr;
  {
    const nb::gil_scoped_release released;
    if (packed)
      plan.plan().execute(queue, packed->filters, tensors, memory);
    else
      plan.plan().execute(queue, tensors, memory);
    settle(queue, x.framework());
  }
  return y.take();
}

Packed pack(const Plan& plan, nb::handle w_object) {
  const Array w(w_object, "w");
  Queue& queue = queue_for(plan.plan().device(), w.framework());
  const nb::gil_scoped_release released;
  Packed packed{plan.plan().pack(queue, w.view())};
  settle(queue, w.framework());
  return packed;
}

nb::tuple shape_tuple(const Extents& extents) {
  nb::list list;
  for (const std::int64_t extent : extents) list.append(extent);
  return nb::tuple(list);
}

}  // namespace

void bind_plans(nb::module_& module) {
  nb::class_<Packed>(module, "PackedFilters",
                     "Filters in an algorithm's own layout, made by Plan.pack().")
      .def_prop_ro(
          "nbytes", [](const Packed& packed) { return packed.filters.bytes(); },
          "Bytes of the device's memory that they hold.");

  nb::class_<Plan>(module, "_Plan")
      .def("execute", execute, "x"_a, "w"_a, "bias"_a.none() = nb::none(),
           "out"_a.none() = nb::none())
      .def("pack", pack, "w"_a)
      .def("_explain", [](const Plan& plan) { return candidates_as_list(plan.plan().explain()); })
      .def_prop_ro("algorithm", [](const Plan& plan) { return text(plan.plan().algorithm().name); })
      .def_prop_ro("provider",
                   [](const Plan& plan) {
                     const Provider* provider = plan.plan().algorithm().provider;
                     return text(provider ? provider->name : "");
                   })
      .def_prop_ro("device",
                   [](const Plan& plan) { return text(to_string(plan.plan().device().id())); })
      .def_prop_ro("problem",
                   [](const Plan& plan) { return text(to_string(plan.plan().problem())); })
      .def_prop_ro("dtype",
                   [](const Plan& plan) { return text(numpy_name(plan.plan().problem().dtype)); })
      .def_prop_ro("shape", [](const Plan& plan) { return shape_tuple(plan.y_extents()); })
      .def_prop_ro("workspace_bytes",
                   [](const Plan& plan) { return plan.plan().workspace_bytes(); })
      .def_prop_ro("packs_filters", [](const Plan& plan) { return plan.plan().packs_filters(); });

  module.def("_make_plan", make_plan, "x"_a, "w"_a, "bias"_a.none() = nb::none(), nb::kw_only(),
             "dtype"_a.none() = nb::none(), "device"_a.none() = nb::none(), "stride"_a = 1,
             "padding"_a = 0, "dilation"_a = 1, "groups"_a = 1, "boundary"_a = "zeros",
             "math"_a = "fp32", "activation"_a.none() = nb::none(), "accumulate"_a = false,
             "algorithm"_a.none() = nb::none(), "deterministic"_a = false, "reproducible"_a = false,
             "providers"_a.none() = nb::none());
}

}  // namespace plumb::python
