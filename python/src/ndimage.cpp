// What plumb.ndimage calls first: filters of arrays of NumPy or CuPy that need no conversion, in
// one call. Of anything else it returns None, and Python, which knows all of SciPy's cases, goes
// on.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "filters.hpp"
#include "output.hpp"
#include "parts.hpp"
#include "plumb/error.hpp"
#include "queues.hpp"

namespace plumb::python {
namespace {

using namespace nanobind::literals;

/// On the host an image is padded up to here; a larger one's edges are told apart in Python.
constexpr std::int64_t max_padded_on_host = 1 << 16;

/// Of SciPy's names.
std::optional<Boundary> boundary_of(nb::handle mode) {
  constexpr std::pair<std::string_view, Boundary> names[] = {
      {"reflect", Boundary::symmetric},   {"constant", Boundary::zeros},
      {"nearest", Boundary::clamp},       {"mirror", Boundary::reflect},
      {"wrap", Boundary::periodic},       {"grid-mirror", Boundary::symmetric},
      {"grid-constant", Boundary::zeros}, {"grid-wrap", Boundary::periodic}};
  if (!PyUnicode_Check(mode.ptr())) return {};
  const std::string_view name = nb::borrow<nb::str>(mode).c_str();
  for (const auto& [known, boundary] : names)
    if (name == known) return boundary;
  return {};
}

std::optional<std::int64_t> integer_of(nb::handle object) {
  if (!PyLong_Check(object.ptr())) return {};
  const long long value = PyLong_AsLongLong(object.ptr());
  if (value != -1 || !PyErr_Occurred()) return value;
  PyErr_Clear();
  return {};
}

std::optional<double> number_of(nb::handle object) {
  if (PyFloat_Check(object.ptr())) return PyFloat_AsDouble(object.ptr());
  if (const auto whole = integer_of(object)) return static_cast<double>(*whole);
  return {};
}

/// The bytes from a view's first to behind its last.
std::pair<const char*, const char*> span_of(const TensorView& view) {
  std::int64_t first = 0, last = 0;
  for (int i = 0; i < view.rank(); ++i) {
    const std::int64_t reach = (view.extent(i) - 1) * view.stride(i);
    (reach < 0 ? first : last) += reach;
  }
  const auto bytes = static_cast<std::int64_t>(size_in_bytes(view.dtype()));
  const auto* const data = static_cast<const char*>(view.data());
  return {data + first * bytes, data + (last + 1) * bytes};
}

bool may_overlap(const TensorView& a, const TensorView& b) {
  const auto [a_begin, a_end] = span_of(a);
  const auto [b_begin, b_end] = span_of(b);
  return a_begin < b_end && b_begin < a_end;
}

/// Of host memory.
bool is_finite(const TensorView& taps) {
  std::array<std::int64_t, 3> index{};
  for (std::int64_t left = element_count(taps.extents()); left > 0; --left) {
    std::int64_t offset = 0;
    for (int i = 0; i < taps.rank(); ++i)
      offset += index[static_cast<std::size_t>(i)] * taps.stride(i);
    if (!std::isfinite(load_element(taps, offset))) return false;
    for (int i = taps.rank() - 1; i >= 0; --i) {
      auto& at = index[static_cast<std::size_t>(i)];
      if (++at < taps.extent(i)) break;
      at = 0;
    }
  }
  return true;
}

/// Taps of one axis, as those of an image of so many.
TensorView along(const TensorView& taps, int axis, int rank) {
  std::int64_t extents[3] = {1, 1, 1}, strides[3] = {};
  extents[axis] = taps.extent(0);
  strides[axis] = taps.stride(0);
  return TensorView(taps.data(), taps.dtype(), Extents(extents, static_cast<std::size_t>(rank)),
                    taps.device(), Strides(strides, static_cast<std::size_t>(rank)));
}

/// Convolutions turn their taps about along every axis.
TensorView turned(const TensorView& taps) {
  std::int64_t first = 0;
  Strides strides = taps.strides();
  for (int i = 0; i < taps.rank(); ++i) {
    first += (taps.extent(i) - 1) * strides[i];
    strides[i] = -strides[i];
  }
  const auto bytes = static_cast<std::int64_t>(size_in_bytes(taps.dtype()));
  return TensorView(static_cast<char*>(taps.data()) + first * bytes, taps.dtype(), taps.extents(),
                    taps.device(), strides);
}

/// What all filters of a call share.
struct Terms {
  double cval = 0;
  bool convolution = false;  ///< taps are turned about, and origins with them
  bool finite = false;       ///< the caller knows that all taps are
};

/// The filters of one call, over arrays that are taken as they stand.
class FilterCall {
 public:
  /// Says whether image and result can be taken: they are NumPy's or CuPy's own arrays, of one type
  /// that is computed in, of one to three axes with elements, and of the same extents.
  bool take_images(nb::handle input, nb::handle output) {
    output_ = output;
    if (!take(x_, input, "input", Access::read)) return false;
    const TensorView& x = x_->view();
    if (x.dtype() != DType::f32 && x.dtype() != DType::f64) return false;
    if (x.rank() > 3 || std::find(x.extents().begin(), x.extents().end(), 0) != x.extents().end())
      return false;
    if (output.is_none()) return true;
    return take(y_, output, "output", Access::write) && matches(*y_) &&
           y_->view().extents() == x.extents();
  }

  int rank() const { return x_->view().rank(); }

  /// Says whether one more filter can be taken. `axis` is that of taps of one axis, below 0 where
  /// they have the image's; origins and modes are one for each axis of the taps.
  bool take_filter(nb::handle weights, int axis, const std::array<std::int64_t, 3>& origins,
                   const std::array<Boundary, 3>& modes, const Terms& terms) {
    if (count_ == 3) return false;
    Pass& pass = passes_[static_cast<std::size_t>(count_)];
    if (!take(pass.taps, weights, "weights", Access::read) || !matches(*pass.taps)) return false;
    TensorView taps = pass.taps->view();
    if (taps.rank() != (axis < 0 ? rank() : 1)) return false;
    if (axis >= 0) taps = along(taps, axis, rank());
    if (y_ && may_overlap(taps, y_->view())) return false;
    Filter& filter = pass.filter;
    filter.outside = terms.cval;
    for (int i = 0; i < rank(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t size = taps.extent(i), half = size / 2;
      std::int64_t origin = origins[at];
      if (size == 0 || origin < -half || origin > (size - 1) / 2) return false;
      if (terms.convolution) origin = size % 2 != 0 ? -origin : -origin - 1;
      // Taps of one along an axis read nothing beyond its edges.
      filter.before[at] = size == 1 ? 0 : half + origin;
      filter.boundary[at] = size == 1 ? Boundary::zeros : modes[at];
      if (filter.boundary[at] == Boundary::reflect && x_->view().extent(i) == 1)
        filter.boundary[at] = Boundary::clamp;
    }
    filter.taps = terms.convolution ? turned(taps) : taps;
    ++count_;
    return decide_padding(pass, terms);
  }

  /// Runs them one behind the other, or, where their results are added, each on the image. None
  /// where an array that is written would be read.
  nb::object run(bool add) {
    if (count_ == 0) return nb::none();
    // With an even number of filters in a row the first writes between, and the image is read then.
    if (y_ && (add || count_ % 2 != 0) && may_overlap(x_->view(), y_->view())) return nb::none();
    std::optional<Output> made, between;
    if (!y_) made.emplace(nb::none(), *x_, x_->view().extents());
    if (!add && count_ > 1) between.emplace(nb::none(), *x_, x_->view().extents());
    std::array<std::optional<Output>, 3> padded;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count_); ++i)
      if (passes_[i].padded)
        padded[i].emplace(nb::none(), *x_, padded_extents(x_->view(), passes_[i].filter));
    const TensorView y = y_ ? y_->view() : made->view();
    Queue& queue = queue_for(opened(x_->view().device()), x_->framework());
    {
      const nb::gil_scoped_release released;
      TensorView from = x_->view();
      for (int i = 0; i < count_; ++i) {
        Pass& pass = passes_[static_cast<std::size_t>(i)];
        const auto& copy = padded[static_cast<std::size_t>(i)];
        const bool last = add || (count_ - i) % 2 != 0;
        const TensorView to = last ? y : between->view();
        pass.filter.accumulate = add && i > 0;
        run_filter(queue, from, pass.filter, to, copy ? copy->view() : TensorView());
        if (!add) from = to;
      }
    }
    return made ? made->take() : nb::borrow(output_);
  }

 private:
  struct Pass {
    std::optional<Array> taps;
    Filter filter;
    bool padded = false;
  };

  /// What cannot be taken is Python's to convert or to refuse.
  static bool take(std::optional<Array>& into, nb::handle object, std::string_view name,
                   Access access) {
    if (!is_plain_array(object)) return false;
    try {
      into.emplace(object, name, access);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  bool matches(const Array& other) const {
    return other.view().dtype() == x_->view().dtype() &&
           other.view().device() == x_->view().device() && other.framework() == x_->framework();
  }

  /// Convolutions leave out what lies beyond an edge with zeros. Weights are multiplied by cval,
  /// and by zeros where that makes NaN: such an image is padded. What lies on a GPU is not looked
  /// at.
  bool decide_padding(Pass& pass, const Terms& terms) const {
    if (!reads_outside(pass.filter)) return true;
    const bool on_host = x_->view().device() == host;
    const bool finite = terms.finite || (on_host && is_finite(pass.filter.taps));
    pass.padded = terms.cval != 0 || !finite;
    return !pass.padded || !on_host || element_count(x_->view().extents()) <= max_padded_on_host;
  }

  nb::handle output_;
  std::optional<Array> x_, y_;
  std::array<Pass, 3> passes_;
  int count_ = 0;
};

/// As many integers as there are axes, of one or of a list of them.
bool take_origins(nb::handle given, int rank, std::array<std::int64_t, 3>& origins) {
  if (const auto one = integer_of(given)) {
    origins.fill(*one);
    return true;
  }
  const bool is_list = PyList_Check(given.ptr()) || PyTuple_Check(given.ptr());
  if (!is_list || nb::len(given) != static_cast<std::size_t>(rank)) return false;
  for (int i = 0; i < rank; ++i) {
    const auto one = integer_of(nb::object(given[nb::int_(i)]));
    if (!one) return false;
    origins[static_cast<std::size_t>(i)] = *one;
  }
  return true;
}

/// As many modes, of one or of a tuple of them.
bool take_modes(nb::handle given, int rank, std::array<Boundary, 3>& modes) {
  const bool is_tuple = PyTuple_Check(given.ptr());
  if (is_tuple && nb::len(given) != static_cast<std::size_t>(rank)) return false;
  for (int i = 0; i < rank; ++i) {
    const auto mode = boundary_of(is_tuple ? nb::object(given[nb::int_(i)]) : nb::borrow(given));
    if (!mode) return false;
    modes[static_cast<std::size_t>(i)] = *mode;
  }
  return true;
}

nb::object filter(nb::handle input, nb::handle weights, nb::handle output, nb::handle mode,
                  nb::handle cval, nb::handle origin, bool convolution, bool finite) {
  const auto outside = number_of(cval);
  FilterCall call;
  std::array<std::int64_t, 3> origins{};
  std::array<Boundary, 3> modes{};
  if (!outside || !call.take_images(input, output) || !take_modes(mode, call.rank(), modes) ||
      !take_origins(origin, call.rank(), origins) ||
      !call.take_filter(weights, -1, origins, modes, {*outside, convolution, finite}))
    return nb::none();
  return call.run(false);
}

/// Each step is (axis, taps, origin, mode).
nb::object filter_axes(nb::handle input, nb::handle output, nb::handle steps, nb::handle cval,
                       bool convolution, bool finite, bool add) {
  const auto outside = number_of(cval);
  FilterCall call;
  if (!outside || !call.take_images(input, output)) return nb::none();
  for (nb::handle step : nb::borrow<nb::tuple>(steps)) {
    const auto parts = nb::borrow<nb::tuple>(step);
    const auto axis = integer_of(parts[0]), origin = integer_of(parts[2]);
    const auto boundary = boundary_of(parts[3]);
    if (!axis || !origin || !boundary || *axis < -call.rank() || *axis >= call.rank())
      return nb::none();
    const auto at = static_cast<int>(*axis < 0 ? *axis + call.rank() : *axis);
    std::array<std::int64_t, 3> origins{};
    origins[static_cast<std::size_t>(at)] = *origin;
    if (!call.take_filter(parts[1], at, origins, {*boundary, *boundary, *boundary},
                          {*outside, convolution, finite}))
      return nb::none();
  }
  return call.run(add);
}

}  // namespace

void bind_filters(nb::module_& module) {
  module.def("_filter", filter, "input"_a, "weights"_a, "output"_a.none(), "mode"_a, "cval"_a,
             "origin"_a, "convolution"_a, "finite"_a);
  module.def("_filter_axes", filter_axes, "input"_a, "output"_a.none(), "steps"_a, "cval"_a,
             "convolution"_a, "finite"_a, "add"_a);
}

}  // namespace plumb::python
