// Attributes of Python's objects by names that are made once: a name made for each look-up costs as
// much as the look-up.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstddef>

namespace plumb::python {

namespace nb = nanobind;

/// A literal as an argument of a template.
template <std::size_t size>
struct Name {
  char text[size];
  constexpr Name(const char (&literal)[size]) {  // NOLINT: implicit on purpose
    std::copy_n(literal, size, text);
  }
};

/// Returns an object's attribute. Throws Python's error where it has none.
template <Name name>
nb::object attribute(nb::handle object) {
  static PyObject* const interned = PyUnicode_InternFromString(name.text);
  nb::object value = nb::steal(PyObject_GetAttr(object.ptr(), interned));
  if (!value.is_valid()) throw nb::python_error();
  return value;
}

/// Calls a method without arguments. Throws Python's error.
template <Name name>
nb::object call(nb::handle object) {
  nb::object value = nb::steal(PyObject_CallNoArgs(attribute<name>(object).ptr()));
  if (!value.is_valid()) throw nb::python_error();
  return value;
}

/// Whether an attribute is true. Throws Python's error.
template <Name name>
bool is_true(nb::handle object) {
  const int truth = PyObject_IsTrue(attribute<name>(object).ptr());
  if (truth < 0) throw nb::python_error();
  return truth != 0;
}

}  // namespace plumb::python
