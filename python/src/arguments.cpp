// What callers say of a convolution, in Python's words.
#include "arguments.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "plumb/error.hpp"
#include "plumb/quote.hpp"

namespace plumb::python {
namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::invalid_argument, sentence);
}

/// As Python would write it, which escapes what cannot be printed.
std::string shown(nb::handle object) {
  const std::string all = nb::repr(object).c_str();
  return all.size() <= 80 ? all : all.substr(0, 77) + "...";
}

bool is_list(nb::handle object) {
  return PyList_Check(object.ptr()) || PyTuple_Check(object.ptr());
}

std::int64_t integer_from(nb::handle object, std::string_view name) {
  if (PyBool_Check(object.ptr()) || !PyIndex_Check(object.ptr()))
    refuse(std::string(name) + " is " + shown(object) +
           "; expected an integer, or one for each axis");
  const nb::object number = nb::steal(PyNumber_Index(object.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  const long long value = PyLong_AsLongLong(number.ptr());
  if (value == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    refuse(std::string(name) + " is " + shown(object) + "; expected an integer of 64 bits");
  }
  return value;
}

/// The values of a list for the last axes, one of which stands for all. The rest keep what `values`
/// had.
template <class T, class From>
void spread(nb::handle object, int axes, std::string_view name, std::array<T, 3>& values,
            From from) {
  if (!is_list(object)) {
    values.fill(from(object));
    return;
  }
  const auto count = static_cast<int>(nb::len(object));
  if (count == 1) {
    values.fill(from(nb::object(object[nb::int_(0)])));
  } else if (count == axes) {
    for (int i = 0; i < axes; ++i)
      values[static_cast<std::size_t>(3 - axes + i)] = from(nb::object(object[nb::int_(i)]));
  } else {
    refuse(std::string(name) + " has " + std::to_string(count) + " values; expected one, or " +
           std::to_string(axes) + ", one for each axis of the image");
  }
}

/// PyTorch's names for boundaries beside Plumb's. Names that mean two things to two libraries
/// ("reflect" to PyTorch and SciPy) mean Plumb's here, which is PyTorch's.
Boundary one_boundary(nb::handle object) {
  const std::string name =
      nb::isinstance<nb::str>(object) ? nb::borrow<nb::str>(object).c_str() : "";
  if (const auto boundary = parse_boundary(name)) return *boundary;
  if (name == "replicate") return Boundary::clamp;
  if (name == "circular") return Boundary::periodic;
  refuse("boundary is " + shown(object) +
         "; expected zeros, periodic (circular), reflect, symmetric or clamp (replicate)");
}

Padding from_sides(const std::array<std::int64_t, 3>& before,
                   const std::array<std::int64_t, 3>& after) {
  return {before[0], before[1], before[2], after[0], after[1], after[2]};
}

/// Half of what the dilated filter reaches on each side; the odd one behind, as PyTorch has it.
Padding same_padding(const ConvGeometry& geometry, int axes, const Extents& w) {
  if (geometry.stride != Triple(1)) {
    const std::int64_t steps[] = {geometry.stride.d, geometry.stride.h, geometry.stride.w};
    for (int i = 3 - axes; i < 3; ++i)
      if (steps[i] != 1)
        refuse("padding is \"same\" with a stride of " + std::to_string(steps[i]) + "; expected 1");
  }
  const std::int64_t dilation[] = {geometry.dilation.d, geometry.dilation.h, geometry.dilation.w};
  std::array<std::int64_t, 3> before{}, after{};
  for (int i = 0; i < axes; ++i) {
    const auto axis = static_cast<std::size_t>(3 - axes + i);
    const std::int64_t reach = dilation[axis] * (w[w.rank() - axes + i] - 1);
    before[axis] = reach / 2;
    after[axis] = reach - reach / 2;
  }
  return from_sides(before, after);
}

}  // namespace

Triple triple_from(nb::handle object, int axes, std::string_view name) {
  std::array<std::int64_t, 3> values{1, 1, 1};
  spread(object, axes, name, values, [name](nb::handle one) { return integer_from(one, name); });
  return {values[0], values[1], values[2]};
}

Padding padding_from(nb::handle object, int axes) {
  const bool pairs =
      is_list(object) && nb::len(object) > 0 && is_list(nb::object(object[nb::int_(0)]));
  std::array<std::int64_t, 3> before{}, after{};
  if (!pairs) {
    spread(object, axes, "padding", before,
           [](nb::handle one) { return integer_from(one, "padding"); });
    return from_sides(before, before);
  }
  const auto side = [](int which) {
    return [which](nb::handle one) {
      if (!is_list(one) || nb::len(one) != 2)
        refuse("padding has " + shown(one) + " for an axis; expected a pair, before and after");
      return integer_from(nb::object(one[nb::int_(which)]), "padding");
    };
  };
  spread(object, axes, "padding", before, side(0));
  spread(object, axes, "padding", after, side(1));
  return from_sides(before, after);
}

ConvGeometry geometry_from(const GeometryArguments& given, int axes, const Extents& w) {
  if (axes < 1 || axes > 3)
    refuse("the image has " + std::to_string(axes + 2) +
           " axes; expected 3 to 5: batch, channels and one to three of the image");
  ConvGeometry geometry;
  geometry.stride = triple_from(given.stride, axes, "stride");
  geometry.dilation = triple_from(given.dilation, axes, "dilation");
  geometry.groups = given.groups;
  std::array<Boundary, 3> boundary{};
  spread(given.boundary, axes, "boundary", boundary, one_boundary);
  geometry.boundary = {boundary[0], boundary[1], boundary[2]};
  if (!nb::isinstance<nb::str>(given.padding)) {
    geometry.padding = padding_from(given.padding, axes);
    return geometry;
  }
  const std::string_view name = nb::borrow<nb::str>(given.padding).c_str();
  if (name == "same") {
    if (w.rank() != axes + 2)
      refuse("w has " + std::to_string(w.rank()) + " axes beside an image's " +
             std::to_string(axes + 2) + "; expected as many");
    geometry.padding = same_padding(geometry, axes, w);
  } else if (name != "valid") {
    refuse("padding is " + quoted(name) + "; expected numbers, \"valid\" or \"same\"");
  }
  return geometry;
}

ConvOptions options_from(const OptionArguments& given) {
  ConvOptions options;
  const auto text = [](nb::handle object) {
    return nb::isinstance<nb::str>(object) ? std::string(nb::borrow<nb::str>(object).c_str())
                                           : std::string();
  };
  const auto math = parse_math(text(given.math));
  if (!math) refuse("math is " + shown(given.math) + "; expected fp64, fp32, tf32, bf16 or fp16");
  options.math = *math;
  if (text(given.activation) == "relu")
    options.activation = Activation::relu;
  else if (!given.activation.is_none())
    refuse("activation is " + shown(given.activation) + "; expected None or \"relu\"");
  options.algorithm = text(given.algorithm);
  if (options.algorithm.empty() && !given.algorithm.is_none())
    refuse("algorithm is " + shown(given.algorithm) + "; expected None or an algorithm's name");
  options.accumulate = given.accumulate;
  options.deterministic = given.deterministic;
  options.reproducible = given.reproducible;
  return options;
}

Direction direction_from(nb::handle object) {
  if (nb::isinstance<nb::str>(object))
    if (const auto direction = parse_direction(nb::borrow<nb::str>(object).c_str()))
      return *direction;
  refuse("direction is " + shown(object) + "; expected forward, backward_data or backward_weights");
}

}  // namespace plumb::python
