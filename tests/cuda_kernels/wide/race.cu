// The wide kernel by itself, on a machine with a GPU of sm_90: what its stages hold, whether
// outputs of each of its tiles are right, whether planted faults show, and how long tiles take.
// Prints lines of JSON. Each part runs in a process of its own, so that one that stops does not end
// the others.
//
//   plumb_race_wide check [SHAPE...]       all of the tests, about 20 s
//   plumb_race_wide time [--sweep] [--class f16|bf16|tf32|fp16x3|tf32x3] [--nchw] [--fold AXES]
//       [PROBLEM...]
//
// AXES is a sum of 1 for columns, 2 for rows and 4 for planes, whose taps are to be channels.
// Problems are in benchdnn's notation.
//
// Compiled with PLUMB_BOUNDED_WAITS, a barrier that is waited for in vain says so after two
// seconds.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "stage_checks.cuh"
#include "wide_timing.cuh"

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
    {"mb2ic72ih9iw11oc72kh3ph1", {.bias = true, .x_planes = true}},
    {"mb3ic13ih6iw7oc24kh3ph1sh2", {.planes = true, .x_planes = true}},
    {"mb2ic1ih9iw10oc72kh3ph1", {.x_planes = true}},
    {"mb2ic40id5ih6iw7oc24kd3kh3kw3pd1ph1pw1", {.accumulate = true, .x_planes = true}},
    {"mb7ic24ih9iw8oc40kh3ph1", {.accumulate = true, .x_planes = true, .images_at_once = 3}},
    {"mb7ic24ih9iw8oc40kh3ph1", {.shifted_x = true, .images_at_once = 3}},
    {"g2mb2ic128ih7iw9oc144kh3ph1", {.bias = true, .accumulate = true}},
    {"g2mb2ic144ih7iw9oc144kh3ph1", {.bias = true}},
    {"g32mb2ic128ih7iw9oc128kh3ph1", {.bias = true, .relu = true}},
    {"g32mb2ic128ih7iw9oc128kh3ph1", {.planes = true, .x_planes = true}},
    {"g6mb1ic18ih9iw8oc12kh3ph1sh2", {.accumulate = true}},
    {"g3mb2ic201ih5iw6oc15kh1ph0"},
    {"g48mb2ic48ih9iw8oc48kh5ph2", {.bias = true}},
    {"mb3ic3ih33iw45oc40kh11kw9ph0sh11sw9", {.bias = true}},
    {"mb3ic3ih33iw48oc72kh16ph0sh16", {.x_planes = true}},
    {"mb2ic3ih19iw21oc40kh7ph3sh2", {.x_planes = true, .folded_axes = 1}},
    {"mb2ic3ih19iw21oc40kh7ph3sh2", {.accumulate = true, .folded_axes = 3}},
    {"mb5ic3ih9iw10oc24kh4ph0sh4", {.images_at_once = 2, .folded_axes = 3}},
    {"g4mb2ic8ih19iw21oc40kh3ph1sh2", {.bias = true, .x_planes = true, .folded_axes = 3}},
    {"mb2ic3id4ih20iw31oc40kd2kh10kw9pd0ph1pw2sd2sh10sw9", {.x_planes = true}},
    {"mb2ic128ih8oc136kh3ph1", {.accumulate = true, .planes = true}},
    {"mb2ic128ih6oc40kh3ph1", {.bias = true, .planes = true}},
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

std::string tiles_of(const WidePlan& plan) {
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

/// Tiles of a shape without splits, with splits to workspace, and in clusters.
std::vector<WideChoice> choices_of_splits(int shape) {
  std::vector<WideChoice> all{{.shape = shape, .splits = 1}, {.shape = shape, .splits = 3}};
  for (int blocks = 2; blocks <= wide_max_cluster; blocks *= 2)
    all.push_back({.shape = shape, .cluster = blocks});
  return all;
}

template <class Arithmetic>
int check_shape(int shape) {
  int wrong = 0;
  std::vector<Case> cases(std::begin(small_cases), std::end(small_cases));
  // Those that would be folded are tried without it too.
  for (const Case& of : small_cases)
    if (of.options.folded_axes < 0) {
      const ConvProblem problem = wide_problem(of.text, Arithmetic::host.stored, of.options);
      const bool folds = choose_folded_axes(problem, Arithmetic::host, device_info()) > 0;
      if (!folds || problem.stride.h > max_im2col_step) continue;
      cases.push_back(of);
      cases.back().options.folded_axes = 0;
    }
  for (const Case& of : cases)
    for (const WideChoice& choice : choices_of_splits(shape)) {
      WideCase<Arithmetic> convolution(of.text, of.options, true);
      convolution.pack();
      const WidePlan plan = convolution.plan(choice);
      convolution.clear();
      convolution.launch(plan);
      wrong += print("outputs", of, convolution, plan);
    }
  return wrong;
}

/// Many tiles a block, so that stages and parities go round.
template <class Arithmetic>
int check_rounds(int shape) {
  const Case of{"mb40ic192ih28oc256kh3ph1"};
  WideCase<Arithmetic> convolution(of.text, of.options, false);
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

/// An Inf under a tap in the padding leaves no NaN, nor one beside another group's channels; those
/// of the image do.
template <class Arithmetic>
int check_infinities(int shape) {
  using Stored = typename Arithmetic::Stored;
  int wrong = 0;
  for (const Case& of : {Case{"mb2ic64ih9iw10oc72kh3ph1"}, Case{"g8mb2ic64ih9iw10oc72kh3ph1"}})
    for (const int splits : {1, 2}) {
      WideCase<Arithmetic> convolution(of.text, of.options, true);
      const bool half = sizeof(Stored) == 2;
      const bool bf16 = dtype_of_stored<Stored> == DType::bf16;
      const std::uint32_t infinity = !half ? 0x7f800000 : bf16 ? 0x7f80 : 0x7c00;
      const std::int64_t of_filter = convolution.problem().terms();
      for (const int tap : {0, 4, 8})
        check(cudaMemcpy(convolution.w() + tap * of_filter + 3 * tap % (of_filter / 9) * 9 + tap,
                         &infinity, sizeof(Stored), cudaMemcpyHostToDevice),
              "Inf");
      convolution.pack();
      const WidePlan plan = convolution.plan({.shape = shape, .splits = splits});
      convolution.clear();
      convolution.launch(plan);
      wrong += print("infinities", of, convolution, plan);
    }
  return wrong;
}

/// Sums of random numbers are within their bound, with few terms too.
template <class Arithmetic>
int check_bounds(int shape) {
  int wrong = 0;
  for (const Case& of :
       {Case{"mb2ic8ih17iw19oc72kh1ph0"}, Case{"mb2ic16ih17iw19oc72kh1ph0", {.x_planes = true}},
        Case{"mb2ic72ih17iw19oc136kh3ph1", {.bias = true, .accumulate = true}}})
    for (const int splits : {1, 2}) {
      WideCase<Arithmetic> convolution(of.text, of.options, false);
      convolution.pack();
      const WidePlan plan = convolution.plan({.shape = shape, .splits = splits});
      convolution.clear();
      convolution.launch(plan);
      wrong += print("bounds", of, convolution, plan);
    }
  return wrong;
}

/// Values that no common scale fits halves to are summed by the definition.
int check_far_apart(int shape) {
  const Case of{"mb2ic24ih9iw10oc40kh3ph1", {.x_planes = true}};
  int wrong = 0;
  for (const int splits : {1, 2}) {
    WideCase<WideFp16x3> convolution(of.text, of.options, true);
    // Beside integers up to 2; no output sees both, whose sum fp32 would round.
    const float large = 0x1p20f, small = 0x1p-12f;
    check(cudaMemcpy(convolution.x() + 100, &large, 4, cudaMemcpyHostToDevice), "large");
    check(cudaMemcpy(convolution.x() + 355, &small, 4, cudaMemcpyHostToDevice), "small");
    convolution.pack();
    const WidePlan plan = convolution.plan({.shape = shape, .splits = splits});
    convolution.clear();
    convolution.launch(plan);
    wrong += print("far apart", of, convolution, plan);
  }
  return wrong;
}

constexpr int faulty_shape = 3;

/// A kernel with a mistake must come out wrong; returns 1 where it does not.
template <class Arithmetic, WideFault fault>
int plant(const char* name, const char* text, int splits, bool integers = true, int cluster = 1) {
  const Case of{text};
  WideCase<Arithmetic> convolution(of.text, of.options, integers);
  convolution.template pack<fault>();
  const WidePlan plan =
      convolution.plan({.shape = faulty_shape, .splits = splits, .cluster = cluster});
  convolution.clear();
  convolution.template launch_faulty<faulty_shape, fault>(plan);
  const bool wrong = print(name, of, convolution, plan) > 0;
  return wrong == (fault == WideFault::none);
}

int check_faults() {
  const char *const one = "mb2ic128ih14oc128kh3ph1", *const groups = "g2mb2ic256ih14oc128kh3ph1",
                    *const few = "mb2ic16ih14oc128kh1ph0",
                    *const patches = "mb2ic3ih48oc40kh16ph0sh16";
  return plant<WideFp16, WideFault::none>("no fault", one, 1) +
         plant<WideFp16, WideFault::none>("no fault", one, 3) +
         plant<WideFp16, WideFault::wrong_swizzle>("wrong_swizzle", one, 1) +
         plant<WideFp16, WideFault::stale_stage>("stale_stage", one, 1) +
         plant<WideFp16, WideFault::lost_split>("lost_split", one, 3) +
         plant<WideFp16, WideFault::none>("no fault", one, 1, true, 2) +
         plant<WideFp16, WideFault::lost_split>("lost_split", one, 1, true, 2) +
         plant<WideFp16, WideFault::none>("no fault", groups, 1) +
         plant<WideFp16, WideFault::wrong_group>("wrong_group", groups, 1) +
         plant<WideFp16, WideFault::none>("no fault", patches, 1) +
         plant<WideFp16, WideFault::wrong_term>("wrong_term", patches, 1) +
         plant<WideFp16x3, WideFault::none>("no fault", few, 1, false) +
         plant<WideFp16x3, WideFault::low_twice>("low_twice", few, 1, false) +
         plant<WideTf32x3, WideFault::none>("no fault", few, 1, false) +
         plant<WideTf32x3, WideFault::lost_low>("lost_low", few, 1, false) +
         plant<WideTf32x3, WideFault::stale_fragment>("stale_fragment", one, 1) +
         plant<WideTf32x3, WideFault::swapped_terms>("swapped_terms", one, 1);
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
        "mb2ic13ih8iw10oc24kh3ph1", "g2mb2ic144ih7iw8oc16kh3ph1", "g16mb2ic64ih7iw8oc64kh3ph1"})
    wrong += check_pixels<WideFp16, 3>(text) + check_pixels<WideTf32, 3>(text) +
             check_pixels<WideFp16x3, 3>(text) +
             check_pixels<WideFp16, 3>(text, {.x_planes = true}) +
             check_pixels<WideTf32, 3>(text, {.x_planes = true}) +
             check_pixels<WideFp16x3, 3>(text, {.x_planes = true});
  return wrong + check_pixels<WideBf16, 1>("mb3ic24ih14iw13oc8kh3ph1") +
         check_pixels<WideFp16, 6>("mb3ic24ih14iw13oc8kh3ph1");
}

/// The parts of one arithmetic.
template <class Arithmetic>
int check_class(int shape) {
  if (!has_wide_shape(Arithmetic::host, false, shape)) return 0;
  return part((std::string("outputs ") + class_name<Arithmetic>()).c_str(), shape, [=] {
    return check_shape<Arithmetic>(shape) + check_infinities<Arithmetic>(shape) +
           check_bounds<Arithmetic>(shape) + check_rounds<Arithmetic>(shape);
  });
}

int check_all(const std::vector<int>& shapes) {
  int failed = part("step", -1, [] {
    return check_step<__half, 8>() + check_step<__half, 16>() + check_step<__half, 24>() +
           check_step<__half, 32>() + check_step<__nv_bfloat16, 16>() + check_step<float, 8>() +
           check_step<float, 16>() + check_step<float, 24>() + check_step<float, 32>();
  });
  failed += part("rounding", -1, check_rounding);
  failed += part("pixels", -1, check_loads);
  failed += part("filters", -1, [] {
    return check_filters<WideFp16, 3>("mb1ic72ih8oc136kh3ph1") +
           check_filters<WideFp16, 0>("mb1ic72ih8oc264kh3ph1") +
           check_filters<WideTf32, 0>("mb1ic72ih8oc264kh3ph1") +
           check_filters<WideFp16x3, 0>("mb1ic72ih8oc264kh3ph1") +
           check_filters<WideFp16, 3>("g16mb1ic64ih8oc96kh3ph1") +
           check_filters<WideFp16x3, 3>("g6mb1ic18ih8oc12kh3ph1");
  });
  for (const int shape : shapes)
    failed += check_class<WideFp16>(shape) + check_class<WideBf16>(shape) +
              check_class<WideTf32>(shape) + check_class<WideFp16x3>(shape) +
              check_class<WideTf32x3>(shape);
  failed += part("far apart", faulty_shape, [] { return check_far_apart(faulty_shape); });
  failed += part("faults", faulty_shape, check_faults);
  std::printf(R"({"parts_failed":%d})"
              "\n",
              failed);
  return failed;
}

const std::vector<std::string> timed_problems{
    "mb64ic256ih56oc256kh3ph1",     "mb64ic64ih56oc64kh3ph1",
    "mb64ic128ih28oc128kh3ph1",     "mb64ic256ih14oc256kh3ph1",
    "mb64ic512ih7oc512kh3ph1",      "mb64ic256ih56oc64kh1ph0",
    "mb64ic64ih56oc256kh1ph0",      "mb64ic1024ih14oc256kh1ph0",
    "mb64ic512ih28oc1024kh1ph0sh2", "mb64ic2048ih7oc512kh1ph0",
    "mb1ic64ih56oc64kh3ph1",        "mb1ic256ih14oc256kh3ph1",
    "mb1ic512ih7oc512kh3ph1",       "mb8ic512ih32oc512kh3ph6dh5",
    "g32mb64ic128ih56oc128kh3ph1",  "g32mb64ic256ih28oc256kh3ph1",
    "g32mb64ic1024ih7oc1024kh3ph1", "mb2ic64id32ih64oc64kd3kh3kw3pd1ph1pw1",
    "mb64ic3ih224oc768kh16sh16ph0", "mb64ic3ih224oc96kh4sh4ph0"};

/// Runs rotate over so many bytes, more than L2 holds.
constexpr double rotated_bytes = 200e6;

template <class Arithmetic>
int time_problem(const std::string& text, bool sweep, const WideOptions& options) {
  const ConvProblem problem = wide_problem(text, Arithmetic::host.stored, options);
  const int buffers =
      1 + static_cast<int>(std::min(20.0, rotated_bytes / std::max(problem.bytes(), 1.0)));
  WideCase<Arithmetic> convolution(text, options, false, buffers);
  convolution.pack();
  const WidePlan planned = convolution.plan();
  const auto line = [&](const char* kind, const WidePlan& plan) {
    const double ms = milliseconds(convolution, plan, buffers);
    convolution.clear();
    convolution.launch(plan);
    const Wrong wrong = convolution.wrong(20000);
    double worst = 0;
    std::memcpy(&worst, &wrong.worst, sizeof(worst));
    std::printf(
        R"({"problem":"%s","class":"%s","layout":"%s","kind":"%s",%s,"ms":%.4f,"predicted_ms":%.4f,)"
        R"("tflops":%.1f,"gbs":%.0f,"wrong":%llu,"error_over_bound":%.3f})"
        "\n",
        text.c_str(), class_name<Arithmetic>(), options.x_planes ? "nchw" : "nhwc", kind,
        tiles_of(plan).c_str(), ms, 1e3 * plan.tiles.seconds, problem.flop() / ms * 1e-9,
        problem.bytes() / ms * 1e-6, wrong.count, worst);
    std::fflush(stdout);
  };
  line("planned", planned);
  if (!sweep) return 0;
  for (int shape = 0; shape < wide_shape_count; ++shape)
    for (const int splits : {1, 2, 4, 8}) {
      if (!has_wide_shape(Arithmetic::host, false, shape)) continue;
      const WidePlan plan = convolution.plan({.shape = shape, .splits = splits});
      // Splits are for those that do not fill the device by themselves.
      if (plan.tiles.splits != splits || (splits > 1 && plan.tiles.works() > 2 * 132)) continue;
      line("swept", plan);
    }
  for (int shape = 0; shape < wide_shape_count; ++shape)
    for (int blocks = 2; blocks <= wide_max_cluster; blocks *= 2) {
      if (!has_wide_shape(Arithmetic::host, false, shape)) continue;
      const WidePlan plan = convolution.plan({.shape = shape, .cluster = blocks});
      if (plan.tiles.whole() < plan.tiles.tiles()) line("swept", plan);
    }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || (words[0] != "check" && words[0] != "time")) {
    std::fprintf(stderr,
                 "usage: plumb_race_wide check [SHAPE...] | time [--sweep] "
                 "[--class f16|bf16|tf32|fp16x3|tf32x3] [--nchw] [--fold AXES] "
                 "[PROBLEM...]\n");
    return 2;
  }
  if (words[0] == "check") {
    std::vector<int> shapes;
    for (std::size_t i = 1; i < words.size(); ++i) shapes.push_back(std::stoi(words[i]));
    if (shapes.empty())
      for (int i = 0; i < wide_shape_count; ++i) shapes.push_back(i);
    return std::min(check_all(shapes), 255);
  }
  bool sweep = false;
  WideOptions options;
  std::string wanted = "f16";
  std::vector<std::string> problems;
  for (std::size_t i = 1; i < words.size(); ++i)
    if (words[i] == "--sweep")
      sweep = true;
    else if (words[i] == "--nchw")
      options.planes = options.x_planes = true;
    else if (words[i] == "--fold" && i + 1 < words.size())
      options.folded_axes = std::stoi(words[++i]);
    else if (words[i] == "--class" && i + 1 < words.size())
      wanted = words[++i];
    else
      problems.push_back(words[i]);
  int failed = 0;
  for (const std::string& text : problems.empty() ? timed_problems : problems)
    failed += part(text.c_str(), -1, [&] {
      if (wanted == "f16") return time_problem<WideFp16>(text, sweep, options);
      if (wanted == "bf16") return time_problem<WideBf16>(text, sweep, options);
      if (wanted == "tf32") return time_problem<WideTf32>(text, sweep, options);
      if (wanted == "fp16x3") return time_problem<WideFp16x3>(text, sweep, options);
      if (wanted == "tf32x3") return time_problem<WideTf32x3>(text, sweep, options);
      std::fprintf(stderr, "no class %s; expected f16, bf16, tf32, fp16x3 or tf32x3\n",
                   wanted.c_str());
      return 1;
    });
  return std::min(failed, 255);
}
