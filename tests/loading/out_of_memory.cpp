// Memory that runs out in the first calls of a thread: at each allocation in turn, once or for
// good, each in a process of its own. Every call gives PLUMB_OK or PLUMB_OUT_OF_MEMORY, nothing
// ends the process, and with memory again everything works. usage: out_of_memory LIBPLUMB    where
// it is linked to libplumb too, the same with one that is not
//                                  opened by dlopen()
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "plumb/plumb.h"

namespace {

// ---- malloc, which fails when it is told to. ----

constexpr long never = -1;
/// Of this thread: how many allocations still succeed.
thread_local long left = never;
thread_local bool fails_for_good = false;
thread_local bool has_failed = false;

/// OpenMP's runtime ends the process where it gets no memory; docs/embedding.md says so.
struct Range {
  std::uintptr_t begin = 0, end = 0;
} openmp;

bool fails(const void* caller) {
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  if (left == never || (address >= openmp.begin && address < openmp.end)) return false;
  if (left > 0) {
    --left;
    return false;
  }
  if (has_failed && !fails_for_good) return false;
  has_failed = true;
  errno = ENOMEM;
  return true;
}

int find_openmp(dl_phdr_info* info, std::size_t, void*) {
  if (!std::strstr(info->dlpi_name, "libgomp") && !std::strstr(info->dlpi_name, "libomp")) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const std::uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (openmp.begin == 0) openmp.begin = begin;
    openmp.end = begin + info->dlpi_phdr[i].p_memsz;
  }
  return 1;
}

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  return fails(__builtin_return_address(0)) ? nullptr : __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  return fails(__builtin_return_address(0)) ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* data, std::size_t bytes) {
  return fails(__builtin_return_address(0)) ? nullptr : __libc_realloc(data, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  return fails(__builtin_return_address(0)) ? nullptr : __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return fails(__builtin_return_address(0)) ? nullptr : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** data, std::size_t alignment, std::size_t bytes) {
  if (fails(__builtin_return_address(0))) return ENOMEM;
  *data = __libc_memalign(alignment, bytes);
  return *data ? 0 : ENOMEM;
}
}

namespace {

// ---- What is called. ----

void* library = nullptr;

/// The function of libplumb of that name.
#define PLUMB(name) reinterpret_cast<decltype(&name)>(dlsym(library, #name))

int wrong = 0;

/// What a call may give: that there is no memory, or what it gives with memory.
plumb_status expect(plumb_status expected, plumb_status status, const char* call) {
  const bool failed = status == PLUMB_OUT_OF_MEMORY && has_failed;
  if (status == expected || failed) {
    if (status != PLUMB_OK && !*PLUMB(plumb_last_message)()) {
      std::printf("%s: no message\n", call);
      ++wrong;
    }
    return status;
  }
  std::printf("%s: status %d, %s\n", call, static_cast<int>(status), PLUMB(plumb_last_message)());
  ++wrong;
  return status;
}
#define EXPECT(expected, name, ...) expect(expected, PLUMB(name)(__VA_ARGS__), #name)

/// A 3x3 mean over ones of 8x8, in every way that C has.
void call_all() {
  static float x[64], w[9], y[36];
  for (float& value : x) value = 1;
  for (float& value : w) value = 1.0f / 9;
  std::int32_t count = 0;
  EXPECT(PLUMB_OK, plumb_device_count, "cpu", &count);
  EXPECT(PLUMB_INVALID_ARGUMENT, plumb_device_open, "abacus", nullptr, nullptr);
  plumb_device* device = nullptr;
  EXPECT(PLUMB_INVALID_ARGUMENT, plumb_device_open, "abacus", nullptr, &device);
  if (EXPECT(PLUMB_OK, plumb_device_open, "cpu", nullptr, &device) != PLUMB_OK) return;
  plumb_queue* queue = nullptr;
  plumb_plan* plan = nullptr;
  plumb_explanation* explanation = nullptr;
  plumb_packed_filters* filters = nullptr;
  plumb_conv_problem problem;
  EXPECT(PLUMB_OK, plumb_conv_problem_init, &problem);
  problem.h = problem.w = 8;
  problem.r = problem.s = 3;
  const auto right = [&](plumb_status status, const char* call) {
    if (status != PLUMB_OK || (y[0] > 0.999f && y[35] > 0.999f && y[35] < 1.001f)) return;
    std::printf("%s: a wrong result\n", call);
    ++wrong;
  };
  if (EXPECT(PLUMB_OK, plumb_queue_create, device, &queue) == PLUMB_OK &&
      EXPECT(PLUMB_OK, plumb_plan_create, device, &problem, nullptr, &plan) == PLUMB_OK) {
    EXPECT(PLUMB_OK, plumb_plan_explain, plan, &explanation);
    y[0] = y[35] = 0;
    right(EXPECT(PLUMB_OK, plumb_plan_execute, plan, queue, x, w, nullptr, y, nullptr), "execute");
    EXPECT(PLUMB_INVALID_ARGUMENT, plumb_plan_execute, plan, queue, x, w, nullptr, nullptr,
           nullptr);
    if (EXPECT(PLUMB_OK, plumb_plan_pack, plan, queue, w, &filters) == PLUMB_OK) {
      y[0] = y[35] = 0;
      right(
          EXPECT(PLUMB_OK, plumb_plan_execute_packed, plan, queue, x, filters, nullptr, y, nullptr),
          "execute_packed");
    }
    EXPECT(PLUMB_OK, plumb_queue_synchronize, queue);
  }
  PLUMB(plumb_explanation_destroy)(explanation);
  PLUMB(plumb_packed_filters_destroy)(filters);
  PLUMB(plumb_plan_destroy)(plan);
  PLUMB(plumb_queue_destroy)(queue);
  PLUMB(plumb_device_close)(device);
}

// ---- Each allocation in turn. ----

enum Outcome { passed = 0, failed = 1, all_succeeded = 2 };

/// Of a process of its own, in a thread of its own.
Outcome try_allocation(long number, bool for_good) {
  bool reached = false;
  std::thread([&] {
    left = number;
    fails_for_good = for_good;
    call_all();
    reached = has_failed;
    left = never;
    has_failed = false;
    call_all();
  }).join();
  left = never;
  std::thread(call_all).join();
  return wrong ? failed : reached ? passed : all_succeeded;
}

/// 1 where one of them failed, or too few were met for this to be a test.
int sweep(bool for_good) {
  int broken = 0;
  for (long number = 0;; ++number) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // a process that hangs is broken too
      const Outcome outcome = try_allocation(number, for_good);
      std::fflush(stdout);
      _exit(outcome);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == passed) continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == all_succeeded) {
      std::printf("%ld allocations, each failing %s: %d broken\n", number,
                  for_good ? "with all after it" : "alone", broken);
      return broken > 0 || number < 20;
    }
    std::printf("allocation %ld, %s: ended by %s %d\n", number, for_good ? "for good" : "once",
                WIFSIGNALED(status) ? "signal" : "exit code",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    if (++broken == 10) return 1;  // enough is known
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  setenv("OMP_NUM_THREADS", "1", 1);
  // No modules: constructors of libraries that they bring (Kokkos) throw through dlopen(), whose
  // lock stays taken then.
  setenv("PLUMB_BACKEND_PATH", "/nowhere", 1);
  library = dlopen(argv[1], RTLD_NOW);
  if (!library) {
    std::printf("%s\n", dlerror());
    return 2;
  }
  dl_iterate_phdr(find_openmp, nullptr);
  return sweep(false) + sweep(true) == 0 ? 0 : 1;
}
