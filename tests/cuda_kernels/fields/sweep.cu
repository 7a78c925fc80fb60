// Times the field kernels in all the ways that they may cut a problem, and prints a line of JSON
// for each: the plan that the planner makes first, and then, of every kernel, the ways from the
// fastest on.
//
//   plumb_sweep_fields [--suite NAME] [--dtype f32|f64] [--only TEXT] [--kernel NAME] [--seconds S]
//                      [--lines N] [PROBLEM...]
//
// Problems are in benchdnn's notation (plumb/problem_text.hpp); --suite adds those of a suite,
// --only drops those whose names lack a text. A problem's sweep ends after S seconds (2); of each
// kernel N lines (5) are printed. Outputs of every plan that is printed are compared with the
// definition in double: "error" is the largest difference in units of the sum of |x w|. A plan that
// fails is printed as "failed", and ends the program.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cuda_kernels/fields/fields.hpp"
#include "cuda_kernels/primitives/boundary.cuh"
#include "cuda_kernels/primitives/check.hpp"
#include "plumb/conv.hpp"
#include "plumb/error.hpp"
#include "plumb/suites.hpp"

using namespace plumb;
using namespace plumb::cuda;

namespace {

struct Options {
  std::vector<NamedProblem> problems;
  std::string only, kernel;
  DType dtype = DType::f32;
  double seconds = 2;
  int lines = 5;
};

/// A kernel has run often enough for its median where this many runs are timed.
constexpr int sweep_runs = 3, line_runs = 20;
/// Runs rotate over so many bytes of buffers that no cache holds them.
constexpr std::size_t rotated_bytes = std::size_t{400} << 20;

__device__ unsigned long long mixed(unsigned long long z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

/// Fills with normal random numbers (Box and Muller 1958).
template <class Scalar>
__global__ void fill(Scalar* to, std::int64_t count, unsigned long long seed) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const unsigned long long bits = mixed((i + 1) * 0x9E3779B97F4A7C15ull + seed);
    const float radius = sqrtf(-2 * logf(fminf(((bits >> 32) + 1) * 0x1p-32f, 1.0f)));
    to[i] = radius * cospif(static_cast<unsigned>(bits) * 0x1p-31f);
  }
}

/// Compares sampled outputs with the definition, and keeps the largest error.
template <class Scalar>
__global__ void compare(FieldProblem p, const Scalar* x, const Scalar* w, const Scalar* y,
                        std::int64_t outputs, unsigned long long* worst) {
  const std::int64_t sample = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  // The first and the last outputs, and others anywhere.
  std::int64_t rest = sample < 128   ? sample
                      : sample < 256 ? outputs - 1 - (sample - 128)
                                     : static_cast<std::int64_t>(mixed(sample) % outputs);
  if (rest < 0 || rest >= outputs) return;
  std::int64_t at[3];
  for (int axis = 2; axis >= 0; --axis) {
    const std::int64_t extent =
        p.before[axis] + p.extent[axis] + p.after[axis] - p.filter[axis] + 1;
    at[axis] = rest % extent, rest /= extent;
  }
  const std::int64_t k = rest % p.k, n = rest / p.k;
  double sum = 0, magnitude = 1e-300;
  for (std::int64_t c = 0; c < p.c; ++c)
    for (std::int64_t i = 0; i < p.filter[0] * p.filter[1] * p.filter[2]; ++i) {
      const std::int64_t tap[] = {i / (p.filter[1] * p.filter[2]), i / p.filter[2] % p.filter[1],
                                  i % p.filter[2]};
      std::int64_t from = n * p.x_stride[0] + c * p.x_stride[1];
      std::int64_t weight = k * p.w_stride[0] + c * p.w_stride[1];
      bool inside = true;
      for (int axis = 0; axis < 3; ++axis) {
        const std::int64_t source =
            at_boundary(p.boundary[axis], at[axis] - p.before[axis] + tap[axis], p.extent[axis]);
        inside = inside && source >= 0;
        from += source * p.x_stride[axis + 2];
        weight += tap[axis] * p.w_stride[axis + 2];
      }
      if (!inside) continue;
      const double product = static_cast<double>(x[from]) * static_cast<double>(w[weight]);
      sum += product, magnitude += fabs(product);
    }
  const double result = y[n * p.y_stride[0] + k * p.y_stride[1] + at[0] * p.y_stride[2] +
                          at[1] * p.y_stride[3] + at[2] * p.y_stride[4]];
  const double error = fabs(result - sum) / magnitude;
  atomicMax(worst, __double_as_longlong(error <= 1e30 ? error : 1e30));
}

/// Device memory, and the time of a plan on it.
template <class Scalar>
class Bench {
 public:
  explicit Bench(const ConvProblem& problem)
      : problem_(field_problem(problem)),
        x_count_(element_count(problem.x_extents())),
        y_count_(element_count(problem.y_extents())) {
    const std::size_t bytes = (x_count_ + y_count_) * sizeof(Scalar);
    buffers_ = static_cast<int>(rotated_bytes / bytes) + 1;
    x_ = allocate(buffers_ * padded(x_count_));
    y_ = allocate(buffers_ * padded(y_count_));
    const std::int64_t weights = element_count(problem.w_extents());
    w_ = allocate(weights);
    fill<<<2048, 256>>>(x_, buffers_ * padded(x_count_), 1);
    fill<<<32, 256>>>(w_, weights, 2);
    check(cudaMalloc(&worst_, sizeof(*worst_)), "cudaMalloc");
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  Bench(const Bench&) = delete;
  ~Bench() {
    for (void* memory : {static_cast<void*>(x_), static_cast<void*>(w_), static_cast<void*>(y_),
                         static_cast<void*>(worst_)})
      cudaFree(memory);
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }

  /// The median time of so many runs, in milliseconds.
  double milliseconds(const FieldPlan& plan, int runs) {
    std::vector<float> times;
    for (int run = -1; run < runs; ++run) {
      FieldCall call{.w = w_};
      call.x = x_ + next_ * padded(x_count_);
      call.y = y_ + next_ * padded(y_count_);
      next_ = (next_ + 1) % buffers_;
      check(cudaEventRecord(begin_), "cudaEventRecord");
      launch(plan, call);
      check(cudaEventRecord(end_), "cudaEventRecord");
      check(cudaEventSynchronize(end_), "cudaEventSynchronize");
      float time = 0;
      check(cudaEventElapsedTime(&time, begin_, end_), "cudaEventElapsedTime");
      if (run >= 0) times.push_back(time);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  double error(const FieldPlan& plan) {
    check(cudaMemset(y_, 0xff, y_count_ * sizeof(Scalar)), "cudaMemset");
    launch(plan, {.x = x_, .w = w_, .y = y_});
    check(cudaMemset(worst_, 0, sizeof(*worst_)), "cudaMemset");
    compare<<<64, 128>>>(problem_, x_, w_, y_, y_count_, worst_);
    check(cudaGetLastError(), "compare");
    double result = 0;
    check(cudaMemcpy(&result, worst_, sizeof(result), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return result;
  }

 private:
  static std::int64_t padded(std::int64_t count) { return (count + 63) / 64 * 64; }
  static Scalar* allocate(std::int64_t count) {
    Scalar* memory = nullptr;
    check(cudaMalloc(&memory, count * sizeof(Scalar)), "cudaMalloc");
    return memory;
  }
  static void launch(const FieldPlan& plan, const FieldCall& call) {
    if constexpr (sizeof(Scalar) == sizeof(float))
      launch_fields_f32(plan, call, nullptr);
    else
      launch_fields_f64(plan, call, nullptr);
  }

  FieldProblem problem_;
  std::int64_t x_count_, y_count_;
  int buffers_ = 1, next_ = 0;
  Scalar *x_ = nullptr, *w_ = nullptr, *y_ = nullptr;
  unsigned long long* worst_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

constexpr const char* kernel_names[] = {"tile", "line", "columns", "queue", "toeplitz"};
const char* name(FieldKernel kernel) { return kernel_names[static_cast<int>(kernel)]; }

/// How a plan cuts its problem, as JSON's fields.
std::string cut(const FieldPlan& plan) {
  char text[320];
  std::snprintf(
      text, sizeof(text),
      R"("kernel":"%s","threads":[%d,%d,%d],"tile":[%d,%d,%d],"outputs":%d,"planes":%d,)"
      R"("shared":%d,"filters":%d,"channels":%d,"queue":[%d,%d,%d,%d],"boxes":%d,"in_order":%d)",
      name(plan.kernel), plan.threads_u, plan.threads_v, plan.threads_w, plan.tile_u, plan.tile_v,
      plan.tile_w, plan.outputs, plan.planes, plan.shared_bytes, plan.filters, plan.channels,
      plan.queue.vectors, plan.queue.rows, plan.queue.filters, plan.queue.kept_rows, plan.boxes,
      plan.in_order);
  return text;
}

struct Timed {
  FieldPlan plan;
  double ms = 0;
};

/// The plans of a kernel, one of each kind, the least predicted time first.
std::vector<Timed> plans_of(FieldKernel kernel, const FieldProblem& problem, int bytes,
                            const FieldMachine& machine) {
  std::vector<Timed> found;
  std::set<std::string> met;
  const auto consider = [&](const FieldChoice& choice) {
    const auto plan = plan_fields(problem, bytes, machine, choice);
    if (!plan || plan->kernel != kernel || plan->threads_w != choice.threads_w ||
        plan->threads_v != choice.threads_v || !met.insert(cut(*plan)).second)
      return;
    found.push_back({*plan});
  };
  using Values = std::vector<int>;
  const bool queue = kernel == FieldKernel::queue;
  const bool tile = kernel != FieldKernel::queue && kernel != FieldKernel::columns;
  Values cuts{0}, filters{0}, channels{0};
  for (int i = 1; queue && i <= static_cast<int>(std::size(queue_cuts)); ++i) cuts.push_back(i);
  for (int i = 1; kernel == FieldKernel::line && i <= most_line_filters; ++i) filters.push_back(i);
  for (int i = 1; queue && problem.c > 1 && i <= 4; ++i) channels.push_back(i);
  FieldChoice choice{.kernel = kernel};
  for (choice.threads = 32; choice.threads <= 256; choice.threads *= 2)
    for (choice.threads_w = 8; choice.threads_w <= choice.threads; choice.threads_w *= 2)
      for (choice.threads_v = 1; choice.threads_v * choice.threads_w <= choice.threads;
           choice.threads_v *= 2)
        for (const int run : tile ? Values{0} : Values{0, 16, 32, 43, 64, 86, 128, 171, 256})
          for (const int outputs : kernel == FieldKernel::columns ? Values{4, 8} : Values{0})
            for (const int cut : cuts) {
              choice.tile_u = run, choice.outputs = outputs, choice.queue_cut = cut;
              for (const int count : filters) choice.filters = count, consider(choice);
              choice.filters = 0;
              for (const int count : channels) choice.channels = count, consider(choice);
              choice.channels = 0;
              if (queue) choice.boxes = false, consider(choice), choice.boxes.reset();
              choice.in_order = kernel == FieldKernel::tile;
              if (choice.in_order) consider(choice), choice.in_order = false;
            }
  std::ranges::sort(found, {}, [](const Timed& one) { return one.plan.clocks; });
  return found;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Scalar>
class Sweep {
 public:
  Sweep(const NamedProblem& problem, const Options& options)
      : problem_(problem), options_(options), bench_(problem.problem) {
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    const auto attribute = [&](cudaDeviceAttr what) {
      int value = 0;
      check(cudaDeviceGetAttribute(&value, what, device), "cudaDeviceGetAttribute");
      return value;
    };
    kilohertz_ = attribute(cudaDevAttrClockRate);
    machine_.units = attribute(cudaDevAttrMultiProcessorCount);
    // Both clocks are in kHz; memory moves data on both edges of its own.
    machine_.bytes_in_clock = 2.0 * attribute(cudaDevAttrMemoryClockRate) *
                              attribute(cudaDevAttrGlobalMemoryBusWidth) / 8 / kilohertz_ /
                              machine_.units;
  }

  void run() {
    const FieldProblem fields = field_problem(problem_.problem);
    const int bytes = static_cast<int>(sizeof(Scalar));
    if (const auto plan = plan_fields(fields, bytes, machine_))
      print("planned", *plan, timed(*plan, line_runs));
    std::vector<std::vector<Timed>> kernels;
    for (int kernel = 0; kernel < static_cast<int>(std::size(kernel_names)); ++kernel)
      if (options_.kernel.empty() || options_.kernel == kernel_names[kernel])
        kernels.push_back(plans_of(static_cast<FieldKernel>(kernel), fields, bytes, machine_));
    // Each kernel's most promising plans come first, so that time runs out for the others.
    const double begin = now();
    bool more = true;
    for (std::size_t i = 0; more; ++i) {
      more = false;
      for (std::vector<Timed>& plans : kernels)
        if (i < plans.size() && now() - begin < options_.seconds) {
          plans[i].ms = timed(plans[i].plan, sweep_runs);
          more = true;
        }
    }
    for (std::vector<Timed>& plans : kernels) {
      std::erase_if(plans, [](const Timed& one) { return one.ms == 0; });
      std::ranges::sort(plans, {}, &Timed::ms);
      for (int i = 0; i < std::min<int>(options_.lines, plans.size()); ++i)
        print("swept", plans[i].plan, timed(plans[i].plan, line_runs));
    }
  }

 private:
  /// The time of a plan; one that the device stops at is named before the program ends.
  double timed(const FieldPlan& plan, int runs) {
    try {
      return bench_.milliseconds(plan, runs);
    } catch (const std::exception&) {
      std::printf(R"({"problem":"%s","dtype":"%s","kind":"failed",%s})"
                  "\n",
                  to_string(problem_.problem).c_str(), sizeof(Scalar) == 4 ? "f32" : "f64",
                  cut(plan).c_str());
      std::fflush(stdout);
      throw;
    }
  }

  void print(const char* kind, const FieldPlan& plan, double ms) {
    const ConvProblem& p = problem_.problem;
    const double predicted = plan.clocks / (kilohertz_ * 1e3) * 1e3;
    std::printf(R"({"problem":"%s","name":"%s","dtype":"%s","kind":"%s",%s,"ms":%.4f,)"
                R"("predicted_ms":%.4f,"tflops":%.2f,"gbs":%.0f,"error":%.2e})"
                "\n",
                to_string(p).c_str(), problem_.name.c_str(), sizeof(Scalar) == 4 ? "f32" : "f64",
                kind, cut(plan).c_str(), ms, predicted, p.flop() / ms * 1e-9, p.bytes() / ms * 1e-6,
                bench_.error(plan));
    std::fflush(stdout);
  }

  const NamedProblem& problem_;
  const Options& options_;
  Bench<Scalar> bench_;
  FieldMachine machine_;
  int kilohertz_ = 0;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] {
      if (++i == argc) throw std::invalid_argument(word + " without a value");
      return std::string(argv[i]);
    };
    if (word == "--suite")
      for (NamedProblem& one : suite(value())) options.problems.push_back(one);
    else if (word == "--dtype")
      options.dtype = value() == "f64" ? DType::f64 : DType::f32;
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
      options.problems.push_back(parse_problem(word));
  }
  if (options.problems.empty()) throw std::invalid_argument("no problem; --suite fields has some");
  return options;
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  for (NamedProblem one : options.problems) {
    if (one.name.find(options.only) == std::string::npos) continue;
    one.problem.dtype = options.dtype;
    if (options.dtype == DType::f32)
      Sweep<float>(one, options).run();
    else
      Sweep<double>(one, options).run();
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "plumb_sweep_fields: %s\n", error.what());
  return 1;
}
