// Starts Kokkos, old and new.
#include "runtime.hpp"

#include <Kokkos_Core.hpp>
#include <atomic>

namespace plumb::kokkos {
namespace {

/// Once Kokkos has been seen to run and does not any more, its owner has finalised it.
std::atomic<bool> has_run = false;

bool is_finalized() {
#if KOKKOS_VERSION >= 30700
  if (Kokkos::is_finalized()) return true;
#endif
  return has_run && !Kokkos::is_initialized();
}

void initialize() {
#if KOKKOS_VERSION >= 30700
  Kokkos::initialize(Kokkos::InitializationSettings().set_disable_warnings(true));
#else
  Kokkos::InitArguments quiet;
  quiet.disable_warnings = true;
  Kokkos::initialize(quiet);
#endif
}

}  // namespace

std::mutex& kokkos_mutex() {
  static std::mutex mutex;
  return mutex;
}

bool is_running() noexcept {
  const bool running = Kokkos::is_initialized();
  if (running) has_run = true;
  return running;
}

void start() {
  const std::lock_guard lock(kokkos_mutex());
  if (is_running()) return;
  if (is_finalized())
    throw Error(ErrorCode::device_unavailable,
                "Kokkos has been finalised in this process, and cannot be started again",
                Reason::device_error);
  try {
    initialize();
  } catch (const std::exception& e) {
    throw Error(ErrorCode::device_unavailable, std::string("Kokkos does not start: ") + e.what(),
                Reason::device_error);
  }
  has_run = true;
}

void require_running() {
  if (!is_running())
    throw Error(ErrorCode::device_failure,
                "Kokkos has been finalised; devices and queues of it cannot be used any more");
}

}  // namespace plumb::kokkos
