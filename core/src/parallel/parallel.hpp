// Work on several threads: the only way in libplumb to OpenMP. Each thread that works, the caller's
// too, does so in the default floating-point mode. What OpenMP cannot do is not asked of it: in a
// child of a fork, whose parent's threads are gone, and where the system has no threads to give,
// work is done by fewer threads, the caller's alone at the least. Results do not depend on how many
// they are.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace plumb {

/// One of the threads that do a piece of work together.
struct TeamMember {
  int thread, threads;
  /// Waits for all others. Each of them has to come here as often, and none may throw before.
  void wait_for_team() const;
};

/// Threads that work begun here may ask for: the caller's setting of OpenMP, at the time of the
/// call.
int available_threads();

/// Of so many threads those that a team may be made of now: fewer where OpenMP, asked for more,
/// would end the process or wait for ever. For work that another library puts on OpenMP's threads.
int obtainable_threads(int wanted);

/// For as long as this lives, work begun in this thread may ask for `count` threads; 0 leaves
/// OpenMP's setting as it is.
class RequestedThreads {
 public:
  explicit RequestedThreads(int count);
  ~RequestedThreads();
  RequestedThreads(const RequestedThreads&) = delete;
  RequestedThreads& operator=(const RequestedThreads&) = delete;

 private:
  int before_;
};

/// Calls `work(data, member)` on `threads` threads or fewer. What one of them throws is thrown when
/// all are done, the first where there are several.
void run_team(int threads, void (*work)(const void* data, const TeamMember&), const void* data);

/// The same with `work(member)`.
template <class Work>
void run_parallel(int threads, const Work& work) {
  run_team(
      threads,
      [](const void* data, const TeamMember& member) { (*static_cast<const Work*>(data))(member); },
      &work);
}

/// Calls `work(i)` for i in [0, count), each thread for neighbours. The team is not cut to fit the
/// count: OpenMP ends the threads that a smaller team leaves over, and starts them again later.
template <class Work>
void parallel_for(int threads, std::int64_t count, const Work& work) {
  run_parallel(count > 1 ? threads : 1, [&](const TeamMember& member) {
    const std::int64_t part = count / member.threads, rest = count % member.threads;
    const std::int64_t first = member.thread * part + std::min<std::int64_t>(member.thread, rest);
    const std::int64_t end = first + part + (member.thread < rest ? 1 : 0);
    for (std::int64_t i = first; i < end; ++i) work(i);
  });
}

/// Calls `work(i, thread)` for i in [0, count): a thread that is free takes the next `together` of
/// them.
template <class Work>
void parallel_tasks(int threads, std::int64_t count, std::int64_t together, const Work& work) {
  std::atomic<std::int64_t> next{0};
  run_parallel(count > together ? threads : 1, [&](const TeamMember& member) {
    for (;;) {
      const std::int64_t first = next.fetch_add(together, std::memory_order_relaxed);
      if (first >= count) break;
      for (std::int64_t i = first; i < std::min(first + together, count); ++i)
        work(i, member.thread);
    }
  });
}

/// Calls `work(take, thread)` on each thread: `take()` returns the next of [0, count) to be done,
/// or -1. A thread has a share of neighbours, and takes what others have left when it is done: in
/// repeated calls most of what it reads is where it was, in its own caches and memory.
template <class Work>
void parallel_shares(int threads, std::int64_t count, const Work& work) {
  struct alignas(64) Share {
    std::atomic<std::int64_t> next;
    std::int64_t end;
  };
  std::vector<Share> shares(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    shares[static_cast<std::size_t>(i)].next = count * i / threads;
    shares[static_cast<std::size_t>(i)].end = count * (i + 1) / threads;
  }
  run_parallel(count > 1 ? threads : 1, [&](const TeamMember& member) {
    int behind = 0;  // the share that is taken from is so many behind the thread's own
    const auto take = [&]() -> std::int64_t {
      for (; behind < threads; ++behind) {
        Share& share = shares[static_cast<std::size_t>((member.thread + behind) % threads)];
        const std::int64_t i = share.next.fetch_add(1, std::memory_order_relaxed);
        if (i < share.end) return i;
      }
      return -1;
    };
    work(take, member.thread);
  });
}

}  // namespace plumb
