// The wide kernel by itself, on a machine with a GPU of sm_90: what its stages hold, whether
// outputs of each of its tiles are right, whether planted faults show, and how long tiles take.
// Prints lines of JSON. Each part runs in a process of its own, so that one that stops does not end
// the others.
//
//   plumb_race_wide check [SHAPE...]       all of the tests, about 20 s
//   plumb_race_wide time [--sweep] [--dtype f16|bf16] [PROBLEM...]    problems in benchdnn's
//   notation
//
// Compiled with PLUMB_BOUNDED_WAITS, a barrier that is waited for in vain says so after two
// seconds.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "stage_checks.cuh"

using namespace plumb_test;

namespace {

struct Case {
  const char* text;
  WideOptions options = {};
};

/// Small problems that between them reach every branch.
const Case small_cases[] = {
    {"mb2ic64ih9iw11oc64kh3ph1"},
    {"mb3ic64ih13iw7oc128kh1ph0"},
    {"mb2ic128ih14oc256kh3ph1", {.bias = true, .relu = true}},
    {"mb5ic8ih10iw9oc40kh3ph1", {.bias = true}},
    {"mb2ic24ih12oc8kh3ph1sh2"},
    {"mb2ic72ih17iw15oc72kh3ph2dh1", {.accumulate = true}},
    {"mb1ic72ih23iw19oc264kh5ph2sh3", {.bias = true, .relu = true, .accumulate = true}},
    {"mb2ic64ih8iw10oc1kh3ph1", {.bias = true}},
    {"mb2ic40ih8iw10oc21kh3ph1", {.bias = true, .accumulate = true}},
    {"mb2ic64ih8iw10oc24kh3ph1", {.pitch = 27}},
    {"mb2ic64ih8iw10oc24kh3ph1", {.pitch = 32}},
    {"mb2ic13ih8iw10oc24kh3ph1"},
    {"mb2ic64ih8iw10oc96kh3ph1", {.bias = true, .planes = true}},
    {"mb2ic64ih8iw10oc96kh3ph1", {.accumulate = true, .planes = true}},
    {"mb2ic72ih8iw10oc96kh3ph1", {.shifted_x = true}},
    {"mb2ic64ih8iw10oc96kh3ph1", {.accumulate = true, .shifted_y = true}},
    {"mb3ic64iw200oc96kw5pw2"},
    {"mb2ic16iw301oc200kw7pw3sw2dw2", {.relu = true}},
    {"mb2ic32id6ih7iw8oc48kd3kh3kw3pd1ph1pw1"},
    {"mb2ic64id7ih9iw8oc136kd3kh2kw3pd1ph0pw2sd2sh2sw1", {.bias = true}},
    {"mb1ic512ih7oc512kh3ph1"},
    {"mb9ic64ih7iw7oc320kh1ph0sh2"},
    {"mb1ic64ih40iw33oc64kh7ph3sh8"},
    {"mb1ic8ih3iw3oc8kh3ph0"},
    {"mb1ic64ih5iw300oc64kh3kw1ph1pw0"},
};

const char* dtype_name(DType dtype) { return dtype == DType::f16 ? "f16" : "bf16"; }

std::string tiles_of(const WidePlan& plan) {
  const WideShape& of = wide_shapes[plan.tiles.shape];
  char text[200];
  std::snprintf(text, sizeof(text),
                R"("shape":%d,"tile":"%dx%d","cluster":%d,"stages":%d,"splits":%d,"works":%d)",
                plan.tiles.shape, of.m, of.n, of.cluster, of.stages(), plan.tiles.splits,
                static_cast<int>(plan.tiles.works()));
  return text;
}

template <class Stored>
int print(const char* kind, const Case& of, WideCase<Stored>& convolution, const WidePlan& plan,
          std::int64_t samples = 0) {
  check(cudaDeviceSynchronize(), "kernel");
  const Wrong wrong = convolution.wrong(samples);
  const WideOptions& o = of.options;
  std::printf(R"({"check":"%s","problem":"%s","dtype":"%s",%s,"options":"%s%s%s%s%s%s %d",)"
              R"("wrong":%llu,"first":%llu,"met":%g,"expected":%g})"
              "\n",
              kind, of.text, dtype_name(dtype_of_stored<Stored>), tiles_of(plan).c_str(),
              o.bias ? " bias" : "", o.relu ? " relu" : "", o.accumulate ? " accumulate" : "",
              o.shifted_x ? " shifted_x" : "", o.shifted_y ? " shifted_y" : "",
              o.planes ? " planes" : "", o.pitch, wrong.count, wrong.first, wrong.met,
              wrong.expected);
  std::fflush(stdout);
  return wrong.count > 0;
}

template <class Stored>
int check_shape(int shape) {
  int wrong = 0;
  for (const Case& of : small_cases)
    for (const int splits : {1, 3}) {
      WideCase<Stored> convolution(of.text, of.options, true);
      convolution.pack();
      const WidePlan plan = convolution.plan({.shape = shape, .splits = splits});
      convolution.clear();
      convolution.launch(plan);
      wrong += print("outputs", of, convolution, plan);
    }
  return wrong;
}

/// Many tiles a block, so that stages and parities go round.
template <class Stored>
int check_rounds(int shape) {
  const Case of{"mb40ic192ih28oc256kh3ph1"};
  WideCase<Stored> convolution(of.text, of.options, false);
  convolution.pack();
  const WidePlan plan = convolution.plan({.shape = shape, .splits = 1});
  int wrong = 0;
  for (int i = 0; i < 3; ++i) {
    convolution.clear();
    convolution.launch(plan);
    wrong += print("rounds", of, convolution, plan, 200000);
  }
  return wrong;
}

/// An Inf under a tap in the padding leaves no NaN; those of the image do.
int check_infinities(int shape) {
  const Case of{"mb2ic64ih9iw10oc72kh3ph1"};
  int wrong = 0;
  for (const int splits : {1, 2}) {
    WideCase<__half> convolution(of.text, of.options, true);
    const std::uint16_t infinity = 0x7c00;
    for (const int tap : {0, 4, 8})
      check(cudaMemcpy(convolution.w() + (tap * 64 + 3 * tap) * 9 + tap, &infinity, 2,
                       cudaMemcpyHostToDevice),
            "Inf");
    convolution.pack();
    const WidePlan plan = convolution.plan({.shape = shape, .splits = splits});
    convolution.clear();
    convolution.launch(plan);
    wrong += print("infinities", of, convolution, plan);
  }
  return wrong;
}

constexpr int faulty_shape = 5;

/// A kernel with a mistake must come out wrong; returns 1 where it does not.
template <WideFault fault>
int plant(const char* name, int splits) {
  const Case of{"mb2ic128ih14oc128kh3ph1"};
  WideCase<__half> convolution(of.text, of.options, true);
  convolution.pack<fault>();
  const WidePlan plan = convolution.plan({.shape = faulty_shape, .splits = splits});
  convolution.clear();
  convolution.launch_faulty<faulty_shape, fault>(plan);
  const bool wrong = print(name, of, convolution, plan) > 0;
  return wrong == (fault == WideFault::none);
}

int check_faults() {
  return plant<WideFault::none>("no fault", 1) + plant<WideFault::none>("no fault", 3) +
         plant<WideFault::wrong_swizzle>("wrong_swizzle", 1) +
         plant<WideFault::stale_stage>("stale_stage", 1) +
         plant<WideFault::lost_split>("lost_split", 3);
}

/// Runs a part in a process of its own and says how it ended.
int part(const char* name, int shape, const std::function<int()>& run) {
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

int check_loads() {
  int wrong = 0;
  for (const char* text :
       {"mb2ic64ih9iw11oc64kh3ph1", "mb3ic16ih12iw9oc8kh3ph1sh2", "mb2ic72ih7iw8oc8kh3ph2dh1",
        "mb2ic64iw90oc8kw5pw2", "mb2ic8iw300oc8kw7pw3sw2dw2",
        "mb2ic8id6ih7iw8oc8kd3kh3kw3pd1ph1pw1", "mb1ic16id7ih9iw8oc8kd3kh2kw3pd1ph0pw2sd2sh2sw1",
        "mb2ic13ih8iw10oc24kh3ph1"})
    wrong += check_pixels<5>(text);
  return wrong + check_pixels<3>("mb3ic24ih14iw13oc8kh3ph1") +
         check_pixels<8>("mb3ic24ih14iw13oc8kh3ph1");
}

int check_all(const std::vector<int>& shapes) {
  int failed = part("step", -1, [] {
    return check_step<__half, 8>() + check_step<__half, 16>() + check_step<__half, 24>() +
           check_step<__half, 32>() + check_step<__nv_bfloat16, 16>();
  });
  failed += part("pixels", -1, check_loads);
  failed += part("filters", -1, [] {
    return check_filters<5>("mb1ic72ih8oc136kh3ph1") + check_filters<2>("mb1ic64ih8oc40kh3ph1") +
           check_filters<0>("mb1ic72ih8oc264kh3ph1");
  });
  for (const int shape : shapes) {
    failed += part("outputs", shape, [=] {
      return check_shape<__half>(shape) + check_shape<__nv_bfloat16>(shape) +
             check_infinities(shape) + check_rounds<__half>(shape);
    });
  }
  failed += part("faults", faulty_shape, check_faults);
  std::printf(R"({"parts_failed":%d})"
              "\n",
              failed);
  return failed;
}

const std::vector<std::string> timed_problems{"mb64ic256ih56oc256kh3ph1",
                                              "mb64ic64ih56oc64kh3ph1",
                                              "mb64ic128ih28oc128kh3ph1",
                                              "mb64ic256ih14oc256kh3ph1",
                                              "mb64ic512ih7oc512kh3ph1",
                                              "mb64ic256ih56oc64kh1ph0",
                                              "mb64ic64ih56oc256kh1ph0",
                                              "mb64ic1024ih14oc256kh1ph0",
                                              "mb64ic512ih28oc1024kh1ph0sh2",
                                              "mb64ic2048ih7oc512kh1ph0",
                                              "mb1ic64ih56oc64kh3ph1",
                                              "mb1ic256ih14oc256kh3ph1",
                                              "mb1ic512ih7oc512kh3ph1",
                                              "mb8ic512ih32oc512kh3ph6dh5",
                                              "mb2ic64id32ih64oc64kd3kh3kw3pd1ph1pw1"};

/// Runs rotate over so many bytes, more than L2 holds.
constexpr double rotated_bytes = 200e6;

template <class Stored>
double milliseconds(WideCase<Stored>& convolution, const WidePlan& plan, int buffers, int runs) {
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int run = -2; run < runs; ++run) {
    check(cudaEventRecord(begin), "event");
    convolution.launch(plan, (run + 2) % buffers);
    check(cudaEventRecord(end), "event");
    check(cudaEventSynchronize(end), "kernel");
    float time = 0;
    check(cudaEventElapsedTime(&time, begin, end), "event");
    if (run >= 0) times.push_back(time);
  }
  cudaEventDestroy(begin), cudaEventDestroy(end);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

template <class Stored>
int time_problem(const std::string& text, bool sweep) {
  const ConvProblem problem = wide_problem(text, dtype_of_stored<Stored>);
  const int buffers =
      1 + static_cast<int>(std::min(20.0, rotated_bytes / std::max(problem.bytes(), 1.0)));
  WideCase<Stored> convolution(text, {}, false, buffers);
  convolution.pack();
  const WidePlan planned = convolution.plan();
  const auto line = [&](const char* kind, const WidePlan& plan) {
    const double ms = milliseconds(convolution, plan, buffers, 15);
    convolution.clear();
    convolution.launch(plan);
    const Wrong wrong = convolution.wrong(20000);
    double worst = 0;
    std::memcpy(&worst, &wrong.worst, sizeof(worst));
    std::printf(R"({"problem":"%s","dtype":"%s","kind":"%s",%s,"ms":%.4f,"predicted_ms":%.4f,)"
                R"("tflops":%.1f,"gbs":%.0f,"wrong":%llu,"error_over_bound":%.3f})"
                "\n",
                text.c_str(), dtype_name(problem.dtype), kind, tiles_of(plan).c_str(), ms,
                1e3 * plan.tiles.seconds, problem.flop() / ms * 1e-9, problem.bytes() / ms * 1e-6,
                wrong.count, worst);
    std::fflush(stdout);
  };
  line("planned", planned);
  if (!sweep) return 0;
  for (int shape = 0; shape < wide_shape_count; ++shape)
    for (const int splits : {1, 2, 4, 8}) {
      const WidePlan plan = convolution.plan({.shape = shape, .splits = splits});
      // Splits are for those that do not fill the device by themselves.
      if (plan.tiles.splits != splits ||
          (splits > 1 && plan.tiles.works() * wide_shapes[shape].cluster > 2 * 132))
        continue;
      line("swept", plan);
    }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || (words[0] != "check" && words[0] != "time")) {
    std::fprintf(stderr,
                 "usage: plumb_race_wide check [SHAPE...] | time [--sweep] [--dtype f16|bf16]"
                 " [PROBLEM...]\n");
    return 2;
  }
  if (words[0] == "check") {
    std::vector<int> shapes;
    for (std::size_t i = 1; i < words.size(); ++i) shapes.push_back(std::stoi(words[i]));
    if (shapes.empty())
      for (int i = 0; i < wide_shape_count; ++i) shapes.push_back(i);
    return std::min(check_all(shapes), 255);
  }
  bool sweep = false, bf16 = false;
  std::vector<std::string> problems;
  for (std::size_t i = 1; i < words.size(); ++i)
    if (words[i] == "--sweep")
      sweep = true;
    else if (words[i] == "--dtype")
      bf16 = words[++i] == "bf16";
    else
      problems.push_back(words[i]);
  int failed = 0;
  for (const std::string& text : problems.empty() ? timed_problems : problems)
    failed += part(text.c_str(), -1, [&] {
      return bf16 ? time_problem<__nv_bfloat16>(text, sweep) : time_problem<__half>(text, sweep);
    });
  return std::min(failed, 255);
}
