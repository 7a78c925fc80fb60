// Teams of OpenMP's, of as many threads as can be had.
#include "parallel.hpp"

#include <omp.h>
#include <pthread.h>

#include <exception>

#include "floating_point.hpp"
#include "startable_threads.hpp"

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace plumb {
namespace {

/// Whether the process has, or had, a thread beside this one.
bool had_other_threads() {
#if __has_include(<sys/single_threaded.h>)
  return !__libc_single_threaded;
#else
  return true;
#endif
}

/// A child has the thread that forked alone. GNU's OpenMP does not know that, and would wait for
/// the threads of its team for ever. Children of a process that had no other thread have lost none.
std::atomic<bool> threads_at_fork{false}, lost_threads{false};

const int watches_forks = pthread_atfork(
    [] { threads_at_fork.store(had_other_threads(), std::memory_order_relaxed); }, nullptr,
    [] {
      if (threads_at_fork.load(std::memory_order_relaxed))
        lost_threads.store(true, std::memory_order_relaxed);
    });

/// Threads that OpenMP keeps for the teams of this thread, itself among them, as far as is known
/// here: a smaller team in between, of the caller's own, ends some of them.
thread_local int kept_threads = 1;

}  // namespace

int obtainable_threads(int wanted) {
  if (wanted <= 1 || lost_threads.load(std::memory_order_relaxed)) return 1;
  if (omp_get_active_level() >= omp_get_max_active_levels()) return 1;
  wanted = std::min(wanted, omp_get_thread_limit());
  // Threads of a nested team are started anew each time.
  const bool nested = omp_get_level() > 0;
  const int kept = nested ? 1 : kept_threads;
  if (wanted > kept) wanted = kept + startable_threads(wanted - kept);
  if (!nested && wanted > 1) kept_threads = wanted;
  return wanted;
}

void TeamMember::wait_for_team() const {
  if (threads == 1) return;  // of no team
#pragma omp barrier
}

int available_threads() {
  return lost_threads.load(std::memory_order_relaxed) ? 1 : omp_get_max_threads();
}

RequestedThreads::RequestedThreads(int count) : before_(omp_get_max_threads()) {
  if (count > 0) omp_set_num_threads(count);
}
RequestedThreads::~RequestedThreads() { omp_set_num_threads(before_); }

void run_team(int threads, void (*work)(const void*, const TeamMember&), const void* data) {
  threads = obtainable_threads(threads);
  if (threads <= 1) {
    const DefaultFloatingPoint mode;
    return work(data, {.thread = 0, .threads = 1});
  }
  std::exception_ptr thrown;
  std::atomic_flag any_thrown;
#pragma omp parallel num_threads(threads)
  {
    const DefaultFloatingPoint mode;
    try {
      work(data, {.thread = omp_get_thread_num(), .threads = omp_get_num_threads()});
    } catch (...) {
      if (!any_thrown.test_and_set()) thrown = std::current_exception();
    }
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace plumb
