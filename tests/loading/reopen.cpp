// libplumb opened, used on two threads and closed, again and again: OpenMP's threads outlive the
// closing, and so must the code that they wait in.
// usage: reopen LIBPLUMB CYCLES
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "plumb/plumb.h"

namespace {

constexpr int side = 256;

#define PLUMB(name) reinterpret_cast<decltype(&name)>(dlsym(library, #name))

/// A 3x3 mean over ones, large enough for two threads.
bool convolve(void* library) {
  static float x[side * side], w[9], y[side * side];
  for (float& value : x) value = 1;
  for (float& value : w) value = 1.0f / 9;
  plumb_device* device = nullptr;
  plumb_queue* queue = nullptr;
  plumb_plan* plan = nullptr;
  plumb_conv_problem problem;
  const bool done = PLUMB(plumb_conv_problem_init)(&problem) == PLUMB_OK &&
                    (problem.h = problem.w = side, problem.r = problem.s = 3, true) &&
                    PLUMB(plumb_device_open)("cpu", nullptr, &device) == PLUMB_OK &&
                    PLUMB(plumb_queue_create)(device, &queue) == PLUMB_OK &&
                    PLUMB(plumb_plan_create)(device, &problem, nullptr, &plan) == PLUMB_OK &&
                    PLUMB(plumb_plan_execute)(plan, queue, x, w, nullptr, y, nullptr) == PLUMB_OK;
  if (!done) std::printf("%s\n", PLUMB(plumb_last_message)());
  PLUMB(plumb_plan_destroy)(plan);
  PLUMB(plumb_queue_destroy)(queue);
  PLUMB(plumb_device_close)(device);
  return done && y[0] > 0.999f && y[0] < 1.001f;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  setenv("OMP_NUM_THREADS", "2", 1);
  const int cycles = std::atoi(argv[2]);
  for (int cycle = 0; cycle < cycles; ++cycle) {
    void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      std::printf("cycle %d: %s\n", cycle, dlerror());
      return 1;
    }
    if (!convolve(library)) return 1;
    dlclose(library);
  }
  std::printf("%d cycles\n", cycles);
  return 0;
}
