// A part of plumb_race_wide runs in a process of its own, and says in JSON what it has found.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>

#include "wide_case.cuh"

namespace plumb_test {

struct Case {
  const char* text;
  WideOptions options = {};
};

template <class Arithmetic>
const char* class_name() {
  if (Arithmetic::products == 3) return Arithmetic::splits_in_registers ? "tf32x3" : "fp16x3";
  switch (dtype_of_stored<typename Arithmetic::Stored>) {
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    default: return "tf32";
  }
}

inline std::string tiles_of(const WidePlan& plan) {
  const WideShape& of = wide_shapes[plan.tiles.shape];
  char text[240];
  std::snprintf(
      text, sizeof(text),
      R"("shape":%d,"tile":"%dx%d","stages":%d,"splits":%d,"cluster":%d,"works":%d,"repacks":%d,"folded":%d)",
      plan.tiles.shape, of.m, of.n, of.stages(), plan.tiles.splits, plan.tiles.cluster,
      static_cast<int>(plan.tiles.works()), plan.input.repacks, plan.filters.fold.axes);
  return text;
}

template <class Arithmetic>
int print(const char* kind, const Case& of, WideCase<Arithmetic>& convolution, const WidePlan& plan,
          std::int64_t samples = 0) {
  check(cudaDeviceSynchronize(), "kernel");
  const Wrong wrong = convolution.wrong(samples);
  const WideOptions& o = of.options;
  std::printf(R"({"check":"%s","problem":"%s","class":"%s",%s,"options":"%s%s%s%s%s%s%s %d",)"
              R"("wrong":%llu,"first":%llu,"met":%g,"expected":%g})"
              "\n",
              kind, of.text, class_name<Arithmetic>(), tiles_of(plan).c_str(),
              o.bias ? " bias" : "", o.relu ? " relu" : "", o.accumulate ? " accumulate" : "",
              o.shifted_x ? " shifted_x" : "", o.shifted_y ? " shifted_y" : "",
              o.planes ? " planes" : "", o.x_planes ? " x_planes" : "", o.pitch, wrong.count,
              wrong.first, wrong.met, wrong.expected);
  std::fflush(stdout);
  return wrong.count > 0;
}

/// Runs a part in a process of its own and says how it ended.
inline int part(const char* name, int shape, const std::function<int()>& run) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    int wrong = 0;
    try {
      wrong = run();
    } catch (const std::exception& error) {
      std::printf(R"({"part":"%s","shape":%d,"error":"%s"})"
                  "\n",
                  name, shape, error.what());
      wrong = 255;
    }
    std::fflush(stdout);
    _exit(std::min(wrong, 255));
  }
  int status = 0;
  waitpid(child, &status, 0);
  const bool passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  std::printf(R"({"part":"%s","shape":%d,"passed":%s,"status":%d})"
              "\n",
              name, shape, passed ? "true" : "false", status);
  return passed ? 0 : 1;
}

}  // namespace plumb_test
