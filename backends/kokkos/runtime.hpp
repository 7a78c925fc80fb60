// Kokkos' own state in this process: started where nobody has, never ended, and asked for before
// every use, because who started it may have ended it.
//
// One call at a time goes into Kokkos: its host spaces share scratch memory among all their
// instances. On the host a call has done its work when it returns; on a device it has only put it
// there.
#pragma once

#include <mutex>

#include "plumb/error.hpp"

namespace plumb::kokkos {

/// Initialised, and not finalised since.
bool is_running() noexcept;

/// Initialises Kokkos where nobody has; warnings of Kokkos' own are turned off then. Error:
/// device_unavailable where it has been finalised already, or does not start, out_of_memory.
void start();

/// Error (device_failure) where Kokkos does not run.
void require_running();

std::mutex& kokkos_mutex();

/// In the handler of an exception: throws it as an Error, which says that memory ran out where it
/// did, and otherwise has this code and reason. It begins with `what`.
[[noreturn]] void throw_as_error(const char* what, ErrorCode otherwise,
                                 Reason reason = Reason::none);

/// Calls `f`, which uses Kokkos, when nobody else does. Throws Error alone: device_failure where
/// Kokkos has been finalised or reports one, out_of_memory.
template <class F>
auto in_kokkos(F&& f) {
  const std::lock_guard lock(kokkos_mutex());
  require_running();
  try {
    return f();
  } catch (...) {
    throw_as_error("Kokkos", ErrorCode::device_failure);
  }
}

/// An instance of an execution space. Where Kokkos has been finalised it is left as it is: Kokkos
/// has freed what it stood for, and would end the program over a handle to it.
template <class Space>
class HeldInstance {
 public:
  explicit HeldInstance(const Space& space) : space_(new Space(space)) {}
  ~HeldInstance() {
    const std::lock_guard lock(kokkos_mutex());
    if (is_running()) delete space_;
  }
  HeldInstance(const HeldInstance&) = delete;
  HeldInstance& operator=(const HeldInstance&) = delete;

  Space& operator*() const { return *space_; }

 private:
  Space* space_;
};

}  // namespace plumb::kokkos
