// Starts Kokkos, old and new.
#include "runtime.hpp"

#include <Kokkos_Core.hpp>
#include <atomic>
#include <new>
#include <string>
#include <string_view>

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
  } catch (...) {
    throw_as_error("Kokkos does not start", ErrorCode::device_unavailable, Reason::device_error);
  }
  has_run = true;
}

void throw_as_error(const char* what, ErrorCode otherwise, Reason reason) {
  const auto error = [&](ErrorCode code, Reason why, const std::exception& e) {
    return Error(code, std::string(what) + ": " + e.what(), why);
  };
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc& e) {
    throw error(ErrorCode::out_of_memory, Reason::out_of_memory, e);
  } catch (const std::exception& e) {
    // Of its own failed allocations Kokkos makes a std::runtime_error, of another text by version.
    const std::string_view text = e.what();
    const auto says = [&](std::string_view part) { return text.find(part) != text.npos; };
    if (says("insufficient memory") || says("failed to allocate"))
      throw error(ErrorCode::out_of_memory, Reason::out_of_memory, e);
    throw error(otherwise, reason, e);
  }
}

void require_running() {
  if (!is_running())
    throw Error(ErrorCode::device_failure,
                "Kokkos has been finalised; devices and queues of it cannot be used any more");
}

}  // namespace plumb::kokkos
