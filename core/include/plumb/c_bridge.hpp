// What stands behind the C handles that other libraries of Plumb's take too, and how a C function
// runs C++: nothing is thrown across. For libraries beside libplumb that have a C interface of
// their own (libplumb_mpi); users of the library do not need it.
#pragma once

#include <string>
#include <utility>

#include "plumb/conv.hpp"
#include "plumb/device.hpp"
#include "plumb/plumb.h"
#include "plumb/plumb_nd.h"
#include "plumb/tensor.hpp"

/// A device behind its C handle.
struct plumb_device {
  plumb::Device device;  ///< the device
  std::string id;        ///< "cuda:0": the text that plumb_device_info shows
};
/// A queue behind its C handle.
struct plumb_queue {
  plumb::Queue queue;  ///< the queue
};

/// What the C interface is made of.
namespace plumb::c {

/// Returns the status of the exception being handled; its message becomes this thread's last one.
PLUMB_API plumb_status caught(const char* function) noexcept;
/// Says whether an exception can be thrown on this thread; it is false where there is no memory for
/// the first one.
PLUMB_API bool can_throw() noexcept;
/// Returns PLUMB_OUT_OF_MEMORY, and this thread's last message says so.
PLUMB_API plumb_status without_memory(const char* function) noexcept;
/// Throws Error (invalid_argument).
[[noreturn]] PLUMB_API void refuse(const std::string& message);

/// Runs the body of the C function `function`.
template <class Body>
plumb_status run(const char* function, Body&& body) noexcept {
  if (!can_throw()) return without_memory(function);
  try {
    std::forward<Body>(body)();
    return PLUMB_OK;
  } catch (...) {
    return caught(function);
  }
}

/// Returns the thing that an argument points to. Throws Error (invalid_argument) on null.
template <class T>
T& at(T* pointer, const char* name) {
  if (!pointer) refuse(std::string(name) + " is NULL");
  return *pointer;
}

/// Returns where a function leaves what it makes: null until it has made it.
template <class T>
T*& made_at(T** pointer, const char* name) {
  T*& made = at(pointer, name);
  made = nullptr;
  return made;
}

/// Returns the problem that a struct describes. Throws Error (invalid_argument) that names the
/// field and the value met.
PLUMB_API ConvProblem problem_of(const plumb_conv_problem_nd* given);
/// Returns the options of a struct, likewise; null: no option is set.
PLUMB_API ConvOptions options_of(const plumb_conv_options_nd* given);

}  // namespace plumb::c
