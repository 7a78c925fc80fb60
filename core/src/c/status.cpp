// Statuses, and the last message of each thread.
#include "plumb/error.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>
#include <type_traits>

#include "handles.hpp"
#include "plumb/backend.hpp"
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

/// This thread's last failure, but for its message. Small and of initial-exec: memory for it is
/// there since the thread began. Everything else that is thread-local may take memory when the
/// thread first touches it (a destructor to register, the variable's own in a library that was
/// opened by dlopen()), and the C library ends the process where there is none.
struct LastFailure {
  const char* literal = "";  ///< shown in place of a message; null: the message is in the buffer
  Reason reason = Reason::none;
  bool can_throw = false;  ///< the C++ runtime has what it needs for exceptions of this thread
};
static_assert(std::is_trivially_destructible_v<LastFailure>);
[[gnu::tls_model("initial-exec")]] constinit thread_local LastFailure last_failure;

constexpr std::size_t buffer_bytes = 4096;
constexpr std::string_view cut_mark = "... (cut)";

/// The buffer for this thread's message, or null where there is no memory for one. The thread's end
/// frees it by a function of the C library, so that nothing hangs on libplumb being there still.
char* message_buffer(bool make) noexcept {
  static pthread_key_t key;
  static const bool has_key = pthread_key_create(&key, std::free) == 0;
  if (!has_key) return nullptr;
  if (void* buffer = pthread_getspecific(key); buffer || !make) return static_cast<char*>(buffer);
  void* buffer = std::malloc(buffer_bytes);
  if (buffer && pthread_setspecific(key, buffer) != 0) {
    std::free(buffer);
    buffer = nullptr;
  }
  return static_cast<char*>(buffer);
}

/// Appends what fits behind `size` bytes; false where it did not all fit, and was cut between two
/// characters.
bool append(char* buffer, std::size_t& size, std::string_view text) noexcept {
  const std::size_t room = buffer_bytes - 1 - cut_mark.size() - size;
  std::size_t count = std::min(text.size(), room);
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  if (count < text.size())
    while (count > 0 && continues(text[count])) --count;
  size = static_cast<std::size_t>(std::copy_n(text.data(), count, buffer + size) - buffer);
  return count == text.size();
}

plumb_status remember(plumb_status status, const char* function, const char* what,
                      Reason reason = Reason::none) noexcept {
  last_failure.reason = reason;
  char* buffer = message_buffer(true);
  last_failure.literal = buffer ? nullptr : "host memory ran out, also for a message";
  if (!buffer) return status;
  std::size_t size = 0;
  if (!append(buffer, size, function) || !append(buffer, size, ": ") || !append(buffer, size, what))
    size = static_cast<std::size_t>(std::copy(cut_mark.begin(), cut_mark.end(), buffer + size) -
                                    buffer);
  buffer[size] = '\0';
  return status;
}

}  // namespace

// In a program that is not C++'s and opened libplumb by dlopen(), the C++ runtime takes memory for
// its thread-local when a thread first throws. Whether there is some is asked before, where the
// answer may be no: what is given back here is what the runtime takes.
bool can_throw() noexcept {
  if (last_failure.can_throw) return true;
  constexpr std::size_t more_than_it_takes = 8192;
  if (!memory_is_there(more_than_it_takes)) return false;
  // The answer lies in the runtime's thread-local, and does not matter. It may be -1: after what
  // was thrown by a module that has a runtime of its own.
  [[maybe_unused]] const volatile int answer = std::uncaught_exceptions();
  return last_failure.can_throw = true;
}

plumb_status without_memory(const char* function) noexcept {
  return remember(PLUMB_OUT_OF_MEMORY, function, "host memory ran out");
}

void refuse(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }

plumb_status caught(const char* function) noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return remember(status_of(e.code()), function, e.what(), e.reason());
  } catch (const std::bad_alloc&) {
    return without_memory(function);
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
  if (const char* literal = plumb::c::last_failure.literal) return literal;
  const char* message = plumb::c::message_buffer(false);
  return message ? message : "";  // the thread is ending, and the buffer is gone
}

// Names of reasons are literals, which end in a NUL.
const char* plumb_last_reason(void) {
  return plumb::to_string(plumb::c::last_failure.reason).data();
}

const char* plumb_version(void) { return plumb::version.data(); }
