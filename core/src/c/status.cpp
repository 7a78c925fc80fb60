// Statuses, and the last message of each thread.
#include "plumb/error.hpp"

#include <new>
#include <string>

#include "handles.hpp"
#include "plumb/version.hpp"

namespace plumb::c {
namespace {

plumb_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return PLUMB_INVALID_ARGUMENT;
    case ErrorCode::unsupported: return PLUMB_UNSUPPORTED;
    case ErrorCode::device_unavailable: return PLUMB_DEVICE_UNAVAILABLE;
    case ErrorCode::out_of_memory: return PLUMB_OUT_OF_MEMORY;
    case ErrorCode::device_failure: return PLUMB_DEVICE_FAILURE;
  }
  return PLUMB_INTERNAL_ERROR;
}

struct LastFailure {
  std::string message;
  const char* without_memory = nullptr;  // shown where there was none left for the message
  Reason reason = Reason::none;
};
LastFailure& last_failure() {
  thread_local LastFailure failure;
  return failure;
}

plumb_status remember(plumb_status status, const char* function, const char* what,
                      Reason reason = Reason::none) noexcept {
  LastFailure& failure = last_failure();
  failure.reason = reason;
  failure.without_memory = nullptr;
  try {
    failure.message = std::string(function) + ": " + what;
  } catch (...) {
    failure.without_memory = "out of memory, also for a message";
  }
  return status;
}

}  // namespace

void refuse(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }

plumb_status caught(const char* function) noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return remember(status_of(e.code()), function, e.what(), e.reason());
  } catch (const std::bad_alloc&) {
    return remember(PLUMB_OUT_OF_MEMORY, function, "host memory ran out");
  } catch (const std::exception& e) {
    return remember(PLUMB_INTERNAL_ERROR, function, e.what());
  } catch (...) {  // a callback of the caller's, in a language that throws anything
    return remember(PLUMB_INTERNAL_ERROR, function, "something was thrown that is no exception");
  }
}

}  // namespace plumb::c

const char* plumb_status_name(plumb_status status) {
  switch (status) {
    case PLUMB_OK: return "ok";
    case PLUMB_INVALID_ARGUMENT: return "invalid_argument";
    case PLUMB_UNSUPPORTED: return "unsupported";
    case PLUMB_DEVICE_UNAVAILABLE: return "device_unavailable";
    case PLUMB_OUT_OF_MEMORY: return "out_of_memory";
    case PLUMB_DEVICE_FAILURE: return "device_failure";
    case PLUMB_INTERNAL_ERROR: return "internal_error";
    default: return "?";
  }
}

const char* plumb_last_message(void) {
  const auto& failure = plumb::c::last_failure();
  return failure.without_memory ? failure.without_memory : failure.message.c_str();
}

// Names of reasons are literals, which end in a NUL.
const char* plumb_last_reason(void) {
  return plumb::to_string(plumb::c::last_failure().reason).data();
}

const char* plumb_version(void) { return plumb::version.data(); }
