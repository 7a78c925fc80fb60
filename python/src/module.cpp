// The module plumb._plumb: errors, and the parts that the others bind.
#include <nanobind/nanobind.h>

#include <exception>
#include <string>

#include "parts.hpp"
#include "plumb/error.hpp"
#include "plumb/version.hpp"

namespace plumb::python {
namespace {

namespace nb = nanobind;

/// Every Error becomes plumb.Error, with its code and reason by name.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const nb::object type = nb::module_::import_("plumb._error").attr("Error");
    const nb::object made = type(error.what(), std::string(to_string(error.code())).c_str(),
                                 std::string(to_string(error.reason())).c_str());
    PyErr_SetObject(type.ptr(), made.ptr());
  }
}

}  // namespace
}  // namespace plumb::python

NB_MODULE(_plumb, module) {
  nanobind::register_exception_translator(plumb::python::translate);
  module.attr("__version__") = std::string(plumb::version).c_str();
  plumb::python::bind_convolutions(module);
  plumb::python::bind_plans(module);
  plumb::python::bind_operators(module);
  plumb::python::bind_filters(module);
  plumb::python::bind_library(module);
  plumb::python::bind_jax(module);
}
