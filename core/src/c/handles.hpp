// What stands behind the C handles, and how a C function runs C++: nothing is thrown across. What
// is PLUMB_API here is so for Plumb's own libraries beside libplumb (mpi/).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plumb/conv.hpp"
#include "plumb/device.hpp"
#include "plumb/error.hpp"
#include "plumb/plumb.h"

struct plumb_device {
  plumb::Device device;
  std::string id;  // "cuda:0": the text that plumb_device_info shows
};
struct plumb_queue {
  plumb::Queue queue;
};
struct plumb_event {
  plumb::Event event;
};
struct plumb_plan {
  plumb::ConvPlan plan;
};
struct plumb_packed_filters {
  plumb::PackedFilters filters;
};
struct plumb_explanation {
  std::vector<plumb::ConvCandidate> candidates;
};

namespace plumb::c {

/// The status of the exception being handled; its message becomes this thread's last one.
PLUMB_API plumb_status caught(const char* function) noexcept;

/// Whether an exception can be thrown on this thread; false where there is no memory for the first
/// one.
PLUMB_API bool can_throw() noexcept;
/// PLUMB_OUT_OF_MEMORY, and this thread's last message says so.
PLUMB_API plumb_status without_memory(const char* function) noexcept;

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

[[noreturn]] PLUMB_API void refuse(const std::string& message);

/// The thing that an argument points to. Error (invalid_argument) on null.
template <class T>
T& at(T* pointer, const char* name) {
  if (!pointer) refuse(std::string(name) + " is NULL");
  return *pointer;
}

/// Where a function leaves what it makes: null until it has made it.
template <class T>
T*& made_at(T** pointer, const char* name) {
  T*& made = at(pointer, name);
  made = nullptr;
  return made;
}

}  // namespace plumb::c
