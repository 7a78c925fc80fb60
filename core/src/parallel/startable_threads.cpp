// Starts threads to see whether they can be had.
#include "startable_threads.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string_view>

namespace plumb {
namespace {

struct Trial {
  pthread_t thread;
  std::atomic<bool>* released;
  std::atomic<long> id{0};  ///< the system's, 0 where it has none
};

void* await_release(void* data) {
  auto& trial = *static_cast<Trial*>(data);
#ifdef SYS_gettid
  trial.id = syscall(SYS_gettid);
#endif
  trial.released->wait(false);
  return nullptr;
}

/// Of a size as OpenMP has it: a number and one of B, K, M, G, without which it is in KiB. Nothing
/// where it is something else, which OpenMP passes over.
std::optional<std::size_t> bytes_of(std::string_view text) {
  const auto skip_spaces = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  };
  skip_spaces();
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  skip_spaces();
  const std::string_view units = "bBkKmMgG";
  const std::size_t unit = text.empty() ? 2 : units.find(text[0]);
  if (unit == std::string_view::npos) return std::nullopt;
  return number << unit / 2 * 10;
}

/// Of OpenMP's threads, where it has been told one.
std::optional<std::size_t> stack_bytes() {
  for (const char* name : {"OMP_STACKSIZE", "GOMP_STACKSIZE"})
    if (const char* const value = std::getenv(name)) return bytes_of(value);
  return std::nullopt;
}

/// A thread that has been waited for may count against a limit for some time yet.
void await_end(long id) {
#ifdef SYS_tgkill
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  while (syscall(SYS_tgkill, getpid(), id, 0) == 0 && std::chrono::steady_clock::now() < give_up)
    sched_yield();
#endif
}

}  // namespace

int startable_threads(int wanted) {
  const std::unique_ptr<Trial[]> trials(new (std::nothrow) Trial[static_cast<std::size_t>(wanted)]);
  if (!trials) return 0;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return 0;
  // Refused, as OpenMP's would be, it stays what it is.
  if (const auto bytes = stack_bytes()) pthread_attr_setstacksize(&attributes, *bytes);
  // No signal of the process's is to find its way to one of them.
  sigset_t all, callers;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &callers);
  std::atomic<bool> released{false};
  int started = 0;
  for (; started < wanted; ++started) {
    trials[started].released = &released;
    if (pthread_create(&trials[started].thread, &attributes, await_release, &trials[started]) != 0)
      break;
  }
  pthread_sigmask(SIG_SETMASK, &callers, nullptr);
  pthread_attr_destroy(&attributes);
  released = true;
  released.notify_all();
  for (int i = 0; i < started; ++i) pthread_join(trials[i].thread, nullptr);
  for (int i = 0; i < started; ++i)
    if (const long id = trials[i].id; id != 0) await_end(id);
  return started;
}

}  // namespace plumb
