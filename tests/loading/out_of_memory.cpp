// Memory that runs out in the first calls of a thread: at each allocation in turn, once or for
// good, each in a process of its own. Every call gives PLUMB_OK or PLUMB_OUT_OF_MEMORY, nothing
// ends the process, and with memory again everything works.
// usage: out_of_memory LIBPLUMB                  the CPU, and no modules. Where this program is
//                                                linked to libplumb too, the same with one that is
//                                                not opened by dlopen()
//        out_of_memory LIBPLUMB DEVICE FOLDER    a device of a module that lies there
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "failing_malloc.hpp"
#include "plumb/plumb.h"

namespace {

// ---- What is called. ----

void* library = nullptr;
const char* device_name = "cpu";

/// The function of libplumb of that name.
#define PLUMB(name) reinterpret_cast<decltype(&name)>(dlsym(library, #name))

int wrong = 0;

/// What a call may give: that there is no memory, or what it gives with memory.
plumb_status expect(plumb_status expected, plumb_status status, const char* call) {
  const bool failed = status == PLUMB_OUT_OF_MEMORY && failing::has_failed;
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
  EXPECT(PLUMB_OK, plumb_device_count, device_name, &count);
  EXPECT(PLUMB_INVALID_ARGUMENT, plumb_device_open, "abacus", nullptr, nullptr);
  plumb_device* device = nullptr;
  EXPECT(PLUMB_INVALID_ARGUMENT, plumb_device_open, "abacus", nullptr, &device);
  if (EXPECT(PLUMB_OK, plumb_device_open, device_name, nullptr, &device) != PLUMB_OK) return;
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
enum class Kind { alone, for_good, loaders, kibibytes };
constexpr const char* kinds[] = {
    "allocations, each failing alone", "allocations, each failing with all after it",
    "allocations, each failing alone, in the dynamic loader", "KiB, and each number below"};

/// The loader calls a library that a module brings missing where it had no memory to look for it.
void count_devices() {
  std::int32_t count = 0;
  const plumb_status status = PLUMB(plumb_device_count)(device_name, &count);
  const bool not_found = status == PLUMB_DEVICE_UNAVAILABLE && failing::has_failed &&
                         std::strstr(PLUMB(plumb_last_message)(), "No such file or directory");
  if (!not_found) expect(PLUMB_OK, status, "plumb_device_count");
}

/// Of a process of its own, in a thread of its own. After the loader went without memory only that
/// it said so is asked for: it may have broken what it keeps (docs/never_falls_over.md).
Outcome try_allocation(long number, Kind kind) {
  bool reached = false;
  std::thread([&] {
    failing::for_good = kind == Kind::for_good;
    failing::which = kind == Kind::loaders     ? failing::Which::loaders
                     : kind == Kind::kibibytes ? failing::Which::bytes
                                               : failing::Which::all_but_third_parties;
    failing::left = kind == Kind::kibibytes ? number * 1024 : number;
    kind == Kind::loaders ? count_devices() : call_all();
    reached = failing::has_failed;
    failing::left = failing::never;
    failing::has_failed = false;
    if (kind != Kind::loaders) call_all();
  }).join();
  if (kind != Kind::loaders) std::thread(call_all).join();
  if (failing::own_in_constructors > 0) {
    std::printf("%d allocations by static constructors of Plumb's\n", failing::own_in_constructors);
    ++wrong;
  }
  return wrong ? failed : reached ? passed : all_succeeded;
}

/// 1 where one of them failed, or too few were met for this to be a test.
int sweep(Kind kind) {
  const char* const name = kinds[static_cast<int>(kind)];
  int broken = 0, ended_by_loader = 0;
  for (long number = 0;; ++number) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // a process that hangs is broken too
      const Outcome outcome = try_allocation(number, kind);
      std::fflush(stdout);
      _exit(outcome);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == passed) continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == all_succeeded) {
      std::printf("%ld %s: %d broken, %d ended by the loader\n", number, name, broken,
                  ended_by_loader);
      return broken > 0 || number - ended_by_loader < (kind == Kind::loaders ? 5 : 20);
    }
    // glibc's loader ends the process itself where some of its own memory cannot be had.
    if (kind == Kind::loaders && WIFEXITED(status) && WEXITSTATUS(status) == 127) {
      ++ended_by_loader;
      continue;
    }
    std::printf("number %ld of %s: ended by %s %d\n", number, name,
                WIFSIGNALED(status) ? "signal" : "exit code",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    if (++broken == 10) return 1;  // enough is known
  }
}

/// Asking for the CPU loads nobody's module.
int count_cpu() {
  std::int32_t count = 0;
  EXPECT(PLUMB_OK, plumb_device_count, "cpu", &count);
  if (failing::dlopens == 0) return wrong;
  std::printf("%d libraries were opened to count the CPU\n", failing::dlopens);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) return 2;
  const bool module = argc == 4;
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("PLUMB_BACKEND_PATH", module ? argv[3] : "/nowhere", 1);
  if (module) device_name = argv[2];
  failing::spares_third_parties = module;
  library = dlopen(argv[1], RTLD_NOW);
  if (!library) {
    std::printf("%s\n", dlerror());
    return 2;
  }
  failing::dlopens = 0;
  failing::prepare();
  const int broken = sweep(Kind::alone) + sweep(Kind::for_good) + sweep(Kind::kibibytes) +
                     (module ? sweep(Kind::loaders) + count_cpu() : 0);
  return broken == 0 ? 0 : 1;
}
