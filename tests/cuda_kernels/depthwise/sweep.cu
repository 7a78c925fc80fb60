// Times the depthwise kernels in the ways that they may cut a problem, and prints a line of JSON
// for each: first the plan that the planner makes for each kernel, then other cuts from the fastest
// on.
//
//   plumb_sweep_depthwise [--suite timed|small] [--dtype f32|f16|bf16|f64] [--layout nchw|nhwc]
//                         [--kernel march|planes|channels|staged] [--only TEXT] [--seconds S]
//                         [--lines N] [PROBLEM...]
//
// Problems are in benchdnn's notation (plumb/problem_text.hpp), of all four types and both layouts
// unless one is named; --only keeps those whose names have a text. A sweep of one kernel ends after
// S seconds (0.1), and N lines (2) are printed. Outputs of every plan that is printed are compared
// with the definition in double: "error" is the largest difference in units of the sum of |x w|.
// The exit status is 1 where one was beyond its type's bound, unwritten, or beside y.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "cuda_kernels/depthwise/depthwise.hpp"
#include "cuda_kernels/primitives/check.hpp"
#include "definition.cuh"
#include "plumb/error.hpp"
#include "plumb/problem_text.hpp"

using namespace plumb;
using namespace plumb::cuda;
using namespace plumb_test;

namespace {

constexpr const char* timed[] = {R"(g384mb64ic384ih32oc384kh7ph3n"7x7 384x32")",
                                 R"(g384mb64ic384ih32oc384kh31ph15n"31x31 384x32")",
                                 R"(g32mb64ic32ih112oc32kh3ph1n"3x3 32x112")",
                                 R"(g128mb64ic128ih56oc128kh3ph1n"3x3 128x56")",
                                 R"(g128mb1ic128ih56oc128kh3ph1n"3x3 128x56 one")",
                                 R"(g256mb64ic256ih28oc256kh3ph1n"3x3 256x28")",
                                 R"(g256mb1ic256ih28oc256kh3ph1n"3x3 256x28 one")",
                                 R"(g512mb64ic512ih14oc512kh3ph1n"3x3 512x14")",
                                 R"(g512mb1ic512ih14oc512kh3ph1n"3x3 512x14 one")",
                                 R"(g1024mb64ic1024ih7oc1024kh3ph1n"3x3 1024x7")",
                                 R"(g1024mb1ic1024ih7oc1024kh3ph1n"3x3 1024x7 one")",
                                 R"(g64mb64ic64ih112oc64kh3sh2ph1n"3x3/2 64x112")",
                                 R"(g128mb64ic128ih56oc128kh3sh2ph1n"3x3/2 128x56")",
                                 R"(g256mb64ic256ih28oc256kh3sh2ph1n"3x3/2 256x28")",
                                 R"(g512mb64ic512ih14oc512kh3sh2ph1n"3x3/2 512x14")",
                                 R"(g240mb64ic240ih28oc240kh5ph2n"5x5 240x28")",
                                 R"(g672mb64ic672ih14oc672kh5ph2n"5x5 672x14")",
                                 R"(g144mb64ic144ih56oc144kh5sh2ph2n"5x5/2 144x56")",
                                 R"(g96mb64ic96ih56oc96kh7ph3n"7x7 96x56")",
                                 R"(g192mb64ic192ih28oc192kh7ph3n"7x7 192x28")",
                                 R"(g384mb64ic384ih14oc384kh7ph3n"7x7 384x14")",
                                 R"(g768mb64ic768ih7oc768kh7ph3n"7x7 768x7")",
                                 R"(g256mb16ic256ih56oc256kh13ph6n"13x13 256x56")",
                                 R"(g2048mb8ic2048iw4096oc2048ow4096kw4pw3n"1-D 4 taps")",
                                 R"(g512mb64ic512iw1024oc512kw3pw1n"1-D 3 taps")",
                                 R"(g64mb4ic64id32ih56oc64kd3pd1n"3^3 64x32x56")",
                                 R"(g96mb32ic96ih57iw61oc96kh3ph1n"3x3 96x57x61")",
                                 R"(g96mb32ic96ih55iw53oc96kh7ph3n"7x7 96x55x53")"};

constexpr const char* small[] = {"g6mb3ic6ih9iw11oc6kh3ph1",
                                 "g8mb2ic8ih17iw37oc16kh3sh2ph1",
                                 "g16mb2ic16ih13oc16kh5ph2padreflect",
                                 "g16mb2ic16ih14iw19oc16kh5sh2ph2",
                                 "g32mb2ic32ih15iw22oc32kh7ph3padperiodic",
                                 "g8mb1ic8ih12iw29oc8kh31ph15padzeros/clamp",
                                 "g3mb2ic3ih23iw70oc3kh4kw6sh3sw1ph2pw1",
                                 "g8mb2ic8ih20iw21oc8kh3dh1ph2padsymmetric",
                                 "g8mb1ic8ih20iw27oc8kh7sh4ph3",
                                 "g8mb2ic8id6ih7iw13oc8kd3pd1",
                                 "g4mb1ic4id7ih8iw9oc8kd3sd2pd1padclamp",
                                 "g40mb5ic40iw67oc40kw4pw3",
                                 "g40mb5ic40iw64ow64oc40kw4pw3",
                                 "g24mb3ic24iw64oc24kw3pw1",
                                 "g24mb3ic24ih16iw24oc24kh7ph3",
                                 "g12mb2ic12id5ih12oc12kd3pd1",
                                 "g16mb3ic16iw301oc16kw9sw2pw4",
                                 "g64mb3ic64ih7oc64kh3ph1",
                                 "g5mb1ic5ih64iw64oc5kh63ph31"};

struct Options {
  std::vector<NamedProblem> problems;
  std::vector<DType> dtypes{DType::f32, DType::f16, DType::bf16, DType::f64};
  std::string only, kernel, layout;
  double seconds = 0.1;
  int lines = 2;
};

/// A cut has run often enough for its median where this many runs are timed.
constexpr int sweep_runs = 3, line_runs = 11;
/// Runs rotate over so many bytes of buffers that no cache holds them.
constexpr std::size_t rotated_bytes = std::size_t{400} << 20;
constexpr std::int64_t guard_elements = 1024;

template <std::size_t bytes>
using BitsOf = std::conditional_t<bytes == 2, std::uint16_t,
                                  std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>>;

/// The largest error in units of the sum of |x w|: sums of up to 10,000 terms, and a rounding to
/// the stored type.
double bound(DType dtype) {
  switch (dtype) {
    case DType::f16: return 6e-4;
    case DType::bf16: return 5e-3;
    case DType::f64: return 4e-15;
    default: return 2e-6;
  }
}

/// Device memory, and the time of a plan on it.
template <class Stored>
class Bench {
 public:
  Bench(const ConvProblem& problem, const DeviceInfo& device, std::size_t rotated)
      : problem_(problem),
        device_(device),
        x_count_(padded(element_count(problem.x_extents()))),
        y_count_(element_count(problem.y_extents())),
        y_step_(padded(y_count_) + 2 * guard_elements) {
    buffers_ = static_cast<int>(rotated / ((x_count_ + y_step_) * sizeof(Stored))) + 1;
    const std::int64_t weights = element_count(problem.w_extents());
    x_ = allocate(buffers_ * x_count_);
    y_ = allocate(buffers_ * y_step_);
    w_ = allocate(weights);
    fill<<<1056, 256>>>(x_, buffers_ * x_count_, 1);
    fill<<<32, 256>>>(w_, weights, 2);
    check(cudaMalloc(&found_, 3 * sizeof(*found_)), "cudaMalloc");
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  Bench(const Bench&) = delete;
  ~Bench() {
    for (void* memory : {static_cast<void*>(x_), static_cast<void*>(w_), static_cast<void*>(y_),
                         static_cast<void*>(found_)})
      cudaFree(memory);
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }

  /// The median time of so many runs, in milliseconds.
  double milliseconds(const DepthwisePlan& plan, int runs) {
    std::vector<float> times;
    for (int run = -1; run < runs; ++run) {
      check(cudaEventRecord(begin_), "cudaEventRecord");
      launch(plan, next_);
      check(cudaEventRecord(end_), "cudaEventRecord");
      check(cudaEventSynchronize(end_), "cudaEventSynchronize");
      next_ = (next_ + 1) % buffers_;
      float time = 0;
      check(cudaEventElapsedTime(&time, begin_, end_), "cudaEventElapsedTime");
      if (run >= 0) times.push_back(time);
      if (time > 50) break;
    }
    std::sort(times.begin(), times.end());
    return times.empty() ? 1e3 : times[times.size() / 2];
  }

  struct Checked {
    double error = 0;
    unsigned long long unwritten = 0, beside = 0;
  };
  Checked checked(const DepthwisePlan& plan) {
    using Bits = BitsOf<sizeof(Stored)>;
    check(cudaMemset(y_, 0xff, y_step_ * sizeof(Stored)), "cudaMemset");
    check(cudaMemset(found_, 0, 3 * sizeof(*found_)), "cudaMemset");
    launch(plan, 0);
    compare<<<64, 128>>>(Definition(problem_), x_, w_, y_ + guard_elements, y_count_, found_);
    const auto* bits = reinterpret_cast<const Bits*>(y_);
    count_marked<<<528, 256>>>(bits + guard_elements, y_count_, found_ + 1);
    count_marked<<<1, 256>>>(bits, guard_elements, found_ + 2);
    count_marked<<<1, 256>>>(bits + guard_elements + y_count_, guard_elements, found_ + 2);
    check(cudaGetLastError(), "compare");
    unsigned long long found[3];
    check(cudaMemcpy(found, found_, sizeof(found), cudaMemcpyDeviceToHost), "cudaMemcpy");
    Checked result{.unwritten = found[1], .beside = 2 * guard_elements - found[2]};
    std::memcpy(&result.error, found, sizeof(result.error));
    return result;
  }

 private:
  static std::int64_t padded(std::int64_t count) { return (count + 63) / 64 * 64; }
  static Stored* allocate(std::int64_t count) {
    Stored* memory = nullptr;
    check(cudaMalloc(&memory, count * sizeof(Stored)), "cudaMalloc");
    return memory;
  }
  void launch(const DepthwisePlan& plan, int buffer) const {
    const ConvLaunch call{.problem = problem_,
                          .device = device_,
                          .x = x_ + buffer * x_count_,
                          .w = w_,
                          .bias = nullptr,
                          .y = y_ + buffer * y_step_ + guard_elements,
                          .activation = Activation::none,
                          .workspace = nullptr,
                          .native_queue = nullptr};
    if constexpr (dtype_of_stored<Stored> == DType::f16)
      launch_depthwise_f16(plan, call);
    else if constexpr (dtype_of_stored<Stored> == DType::bf16)
      launch_depthwise_bf16(plan, call);
    else if constexpr (dtype_of_stored<Stored> == DType::f64)
      launch_depthwise_f64(plan, call);
    else
      launch_depthwise_f32(plan, call);
  }

  const ConvProblem& problem_;
  const DeviceInfo& device_;
  std::int64_t x_count_, y_count_, y_step_;
  int buffers_ = 1, next_ = 0;
  Stored *x_ = nullptr, *w_ = nullptr, *y_ = nullptr;
  unsigned long long* found_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

/// The last is a march over staged rows.
constexpr const char* kernel_names[] = {"march", "planes", "channels", "staged"};
constexpr int staged_kernel = 3;

/// How a plan cuts its problem, as JSON's fields.
std::string cut(const DepthwisePlan& plan) {
  char text[320];
  if (plan.staged) {
    const StagedCut& cut = *plan.staged;
    std::snprintf(text, sizeof(text),
                  R"("kernel":"staged","form":[%d,%d],"channels":%d,"images":%d,"runs":%d,)"
                  R"("length":%d,"threads":%d,"shared":%d)",
                  cut.form.taps, cut.form.stride, cut.channels, cut.images, cut.runs, cut.length,
                  cut.threads, cut.shared_bytes);
    return text;
  }
  if (plan.kernel == DepthwiseKernel::march) {
    const MarchCut& cut = plan.wide_march ? *plan.wide_march : *plan.march;
    const MarchForm& form = cut.form;
    std::snprintf(text, sizeof(text),
                  R"("kernel":"march","form":[%d,%d,%d,%d,%d,%d],"length":%d,"threads":%d,)"
                  R"("shared":%d)",
                  form.width, form.columns, form.taps_m, form.taps_r, form.taps_s, form.stride,
                  cut.length, cut.threads, cut.shared_bytes);
    return text;
  }
  const DepthwiseCut& cut = plan.wide ? *plan.wide : plan.cut;
  std::snprintf(text, sizeof(text),
                R"("kernel":"%s","form":[%d,%d,%d],"lanes":[%d,%d,%d],"planes":%d,"threads":%d,)"
                R"("shared":%d)",
                kernel_names[static_cast<int>(plan.kernel)], cut.form.width, cut.form.chunk,
                cut.form.stride, cut.lanes_c, cut.lanes_u, cut.lanes_w, cut.planes, cut.threads(),
                cut.shared_bytes);
  return text;
}

struct Timed {
  DepthwisePlan plan;
  double ms = 0;
};

/// The plans of a kernel, each once: first what the planner makes by itself.
std::vector<Timed> plans_of(int number, const ConvProblem& problem, const DeviceInfo& device) {
  const bool staged = number == staged_kernel;
  const auto kernel = staged ? DepthwiseKernel::march : static_cast<DepthwiseKernel>(number);
  std::vector<Timed> found;
  std::set<std::string> met;
  const auto add = [&](DepthwiseChoice choice) {
    choice.staged = staged;
    const auto plan = plan_depthwise(problem, kernel, device, choice);
    if (plan && plan->staged.has_value() == staged && met.insert(cut(*plan)).second)
      found.push_back({*plan});
  };
  add({});
  if (staged) {
    for (const int lanes : {32, 24, 16, 12, 8}) {
      for (const int length : {64, 28, 14, 7, 10, 19, 4, 2, 1})
        add({.lanes = lanes, .length = length});
      for (const int images : {2, 4, 8}) add({.lanes = lanes, .images = images});
      for (const int threads : {96, 64}) add({.threads = threads, .lanes = lanes});
    }
    return found;
  }
  if (kernel == DepthwiseKernel::march) {
    for (const bool vectors : {true, false})
      for (const int length : {64, 56, 28, 19, 14, 8, 7, 4, 2, 1})
        for (const int threads : {128, 64, 32})
          add({.threads = threads, .vectors = vectors, .length = length});
    return found;
  }
  for (const bool vectors : {true, false})
    for (const int threads : {128, 64, 32})
      for (const int lanes : {32, 16, 8, 4})
        add({.threads = threads, .lanes = lanes, .vectors = vectors});
  return found;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Strides channels_last(const Extents& extents) {
  Strides strides = extents;
  std::int64_t step = extents[1];
  strides[1] = 1;
  for (int i = extents.rank() - 1; i > 1; --i) strides[i] = step, step *= extents[i];
  strides[0] = step;
  return strides;
}

template <class Stored>
class Sweep {
 public:
  Sweep(const NamedProblem& problem, const Options& options, const DeviceInfo& device,
        std::size_t rotated, const char* layout)
      : problem_(problem),
        options_(options),
        device_(device),
        layout_(layout),
        bench_(problem.problem, device, rotated) {}

  /// Returns whether every plan was right.
  bool run() {
    for (int kernel = 0; kernel < static_cast<int>(std::size(kernel_names)); ++kernel) {
      if (!options_.kernel.empty() && options_.kernel != kernel_names[kernel]) continue;
      std::vector<Timed> plans = plans_of(kernel, problem_.problem, device_);
      if (plans.empty()) continue;
      print("planned", plans[0].plan);
      const double begin = now();
      for (std::size_t i = 1; i < plans.size() && now() - begin < options_.seconds; ++i)
        plans[i].ms = bench_.milliseconds(plans[i].plan, sweep_runs);
      std::erase_if(plans, [](const Timed& one) { return one.ms == 0; });
      std::ranges::sort(plans, {}, &Timed::ms);
      for (int i = 0; i < std::min<int>(options_.lines, plans.size()); ++i)
        print("swept", plans[i].plan);
    }
    return right_;
  }

 private:
  void print(const char* kind, const DepthwisePlan& plan) {
    const ConvProblem& p = problem_.problem;
    const double ms = bench_.milliseconds(plan, options_.seconds > 0 ? line_runs : 1);
    const auto [error, unwritten, beside] = bench_.checked(plan);
    const bool right = error <= bound(p.dtype) && unwritten == 0 && beside == 0;
    right_ = right_ && right;
    std::printf(
        R"({"problem":"%s","name":"%s","layout":"%s","dtype":"%s","kind":"%s",%s,)"
        R"("ms":%.4f,"estimate":%.4f,"tbs":%.3f,"tflops":%.2f,"error":%.2e,"unwritten":%llu,)"
        R"("beside":%llu,"right":%s})"
        "\n",
        to_string(p).c_str(), problem_.name.c_str(), layout_,
        std::string(to_string(p.dtype)).c_str(), kind, cut(plan).c_str(), ms, plan.seconds * 1e3,
        p.bytes() / ms * 1e-9, p.flop() / ms * 1e-9, error, unwritten, beside,
        right ? "true" : "false");
    std::fflush(stdout);
  }

  const NamedProblem& problem_;
  const Options& options_;
  const DeviceInfo& device_;
  const char* layout_;
  bool right_ = true;
  Bench<Stored> bench_;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] {
      if (++i == argc) throw std::invalid_argument(word + " without a value");
      return std::string(argv[i]);
    };
    const auto add = [&](const char* text) { options.problems.push_back(parse_problem(text)); };
    if (word == "--suite")
      value() == "small" ? std::ranges::for_each(small, add) : std::ranges::for_each(timed, add);
    else if (word == "--dtype")
      options.dtypes = {parse_dtype(value()).value()};
    else if (word == "--layout")
      options.layout = value();
    else if (word == "--only")
      options.only = value();
    else if (word == "--kernel")
      options.kernel = value();
    else if (word == "--seconds")
      options.seconds = std::stod(value());
    else if (word == "--lines")
      options.lines = std::stoi(value());
    else if (word.starts_with("--"))
      throw std::invalid_argument("unknown option " + word);
    else
      add(word.c_str());
  }
  if (options.problems.empty()) throw std::invalid_argument("no problem; --suite timed has some");
  return options;
}

/// The device as the planner knows it, with the nominal rates that its attributes say.
DeviceInfo this_device() {
  int device = 0, kilohertz = 0, memory_kilohertz = 0, bus_bits = 0;
  DeviceInfo info;
  check(cudaGetDevice(&device), "cudaGetDevice");
  const auto read = [&](int& to, cudaDeviceAttr what) {
    check(cudaDeviceGetAttribute(&to, what, device), "cudaDeviceGetAttribute");
  };
  read(info.units, cudaDevAttrMultiProcessorCount);
  read(kilohertz, cudaDevAttrClockRate);
  read(memory_kilohertz, cudaDevAttrMemoryClockRate);
  read(bus_bits, cudaDevAttrGlobalMemoryBusWidth);
  info.compute_major = 9;
  info.nominal_fp32_flop_per_second = 256e3 * kilohertz * info.units;
  info.nominal_bytes_per_second = 2e3 * memory_kilohertz * bus_bits / 8;
  return info;
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  const DeviceInfo device = this_device();
  const std::size_t rotated = options.seconds > 0 ? rotated_bytes : 0;
  bool right = true;
  for (const NamedProblem& given : options.problems) {
    if (given.name.find(options.only) == std::string::npos) continue;
    for (const char* layout : {"nchw", "nhwc"})
      for (const DType dtype : options.dtypes) {
        if (!options.layout.empty() && options.layout != layout) continue;
        NamedProblem one = given;
        one.problem.dtype = dtype;
        if (layout == std::string("nhwc")) {
          one.problem.x_strides = channels_last(one.problem.x_extents());
          one.problem.y_strides = channels_last(one.problem.y_extents());
        }
        with_any_stored(dtype, [&]<class Stored>(Stored) {
          right = Sweep<Stored>(one, options, device, rotated, layout).run() && right;
        });
      }
  }
  return right ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "plumb_sweep_depthwise: %s\n", error.what());
  return 2;
}
