// A convolution of the wide kernel on the device, in tiles of the test's choice, and its outputs
// held against the definition in double.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "cuda_kernels/conv/deep_shape.cuh"
#include "cuda_kernels/primitives/check.hpp"
#include "cuda_kernels/wide/wide_entry.cuh"
#include "plumb/problem_text.hpp"

namespace plumb_test {

using namespace plumb;
using namespace plumb::cuda;

/// What a convolution is run with beside its problem.
struct WideOptions {
  bool bias = false, relu = false, accumulate = false;
  bool shifted_x = false, shifted_y = false;  ///< begin one element behind an aligned address
  bool planes = false;                        ///< y is N K (Z) P Q
  bool x_planes = false;                      ///< x is N C (D) H W
  int pitch = 0;                              ///< filters that y has room for; 0: K
  int images_at_once = 0;                     ///< that are repacked; 0: as planned
  int folded_axes = -1;                       ///< a WideFold's; negative: as planned
};

inline DeviceInfo device_info() {
  int device = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  int kilohertz = 0;
  check(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, device), "clock");
  DeviceInfo info;
  info.name = properties.name;
  info.compute_major = properties.major;
  info.compute_minor = properties.minor;
  info.units = properties.multiProcessorCount;
  info.shared_memory_bytes = properties.sharedMemPerBlockOptin;
  info.nominal_bytes_per_second = 4.8e12;
  info.nominal_fp32_flop_per_second = 2.0 * 128 * info.units * 1e3 * kilohertz;
  return info;
}

/// Strides with the channels innermost, `pitch` elements from one pixel to the next.
inline Strides channels_last(const Extents& extents, std::int64_t pitch) {
  Strides strides = extents;
  std::int64_t step = pitch;
  strides[1] = 1;
  for (int i = extents.rank() - 1; i >= 2; --i) strides[i] = step, step *= extents[i];
  strides[0] = step;
  return strides;
}

/// The problem of a text with tensors whose channels lie innermost.
inline ConvProblem wide_problem(const std::string& text, DType dtype,
                                const WideOptions& options = {}) {
  ConvProblem problem = parse_problem(text).problem;
  problem.dtype = dtype;
  if (!options.x_planes)
    problem.x_strides = channels_last(problem.x_extents(), (problem.c + 7) / 8 * 8);
  if (!options.planes)
    problem.y_strides =
        channels_last(problem.y_extents(), options.pitch > 0 ? options.pitch : problem.k);
  return check(problem);
}

__device__ inline unsigned mixed(unsigned long long z) {
  z = (z + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return static_cast<unsigned>((z ^ (z >> 31)) >> 16);
}

/// Integers of -2 to 2, or normal random numbers (Box and Muller 1958).
template <class Stored>
__global__ void fill(Stored* to, std::int64_t count, unsigned long long seed, bool integers) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const unsigned first = mixed(2 * i + seed), second = mixed(2 * i + 1 + seed);
    const float radius = sqrtf(-2 * logf((first + 1.0f) * 0x1p-32f));
    to[i] = convert<Stored>(integers ? static_cast<float>(static_cast<int>(first % 5) - 2)
                                     : 0.5f * radius * cospif(second * 0x1p-31f));
  }
}

/// What is wrong: how many outputs, and the first of them.
struct Wrong {
  unsigned long long count, first;
  float met, expected;
  unsigned long long worst;  ///< bits of the largest error over its bound
};

/// Compares `samples` outputs, evenly spread, with the definition. With `exact` they must be equal.
template <class Stored>
__global__ void compare(DeepShape<std::int64_t> shape, const Stored* x, const Stored* w,
                        const Stored* bias, const Stored* old, const Stored* y, bool relu,
                        bool exact, double rounding, int products, std::int64_t outputs,
                        std::int64_t samples, Wrong* wrong) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < samples;
       i += step) {
    std::int64_t rest = samples == outputs ? i
                        : i < 128          ? i
                        : i < 256          ? outputs - 1 - (i - 128)
                                           : (i * 0x9E3779B97F4A7C15ull >> 8) % outputs;
    const std::int64_t number = rest;
    const std::int64_t k = rest % shape.k.value();
    rest /= shape.k.value();
    const std::int64_t q = rest % shape.q.value();
    rest /= shape.q.value();
    const std::int64_t p = rest % shape.p.value();
    rest /= shape.p.value();
    const std::int64_t z = rest % shape.z.value(), n = rest / shape.z.value();
    const std::int64_t first_c = k / shape.group_k.value() * shape.group_c;
    double sum = deep_sum<double>(shape, x + n * shape.x_n + first_c * shape.x_c, w + k * shape.w_k,
                                  z, p, q);
    const std::int64_t at = n * shape.y_n + k * shape.y_k + z * shape.depth.y_step +
                            p * shape.rows.y_step + q * shape.columns.y_step;
    if (bias) sum += convert<double>(bias[k]);
    if (old) sum += convert<double>(old[at]);
    if (relu) sum = sum > 0 ? sum : 0;
    const double terms =
        shape.group_c * shape.depth.taps * shape.rows.taps * shape.columns.taps + 2.0;
    const float expected = convert<float>(convert<Stored>(static_cast<float>(sum)));
    const float met = convert<float>(y[at]);
    // The products of such numbers are 0.16 in the mean. Where operands are rounded, errors of the
    // terms are of either sign.
    const double of_sum = 1.01 * terms * products * 0x1p-24 * terms * 0.3;
    const double of_operands =
        sizeof(Stored) == 2 ? rounding * fabs(sum) : rounding * sqrt(terms) * 2;
    const double bound = of_operands + of_sum + 1e-7;
    const double error = fabs(met - sum) / bound;
    const bool sound = exact ? met == expected || (met != met && expected != expected) : error <= 1;
    if (error == error) atomicMax(&wrong->worst, __double_as_longlong(error));
    if (sound) continue;
    if (atomicAdd(&wrong->count, 1ull) == 0)
      wrong->first = number, wrong->met = met, wrong->expected = expected;
  }
}

/// One convolution with its tensors.
template <class Arithmetic>
class WideCase {
 public:
  using Stored = typename Arithmetic::Stored;

  WideCase(const std::string& text, const WideOptions& options, bool integers, int buffers = 1)
      : options_(options),
        problem_(wide_problem(text, dtype_of_stored<Stored>, options)),
        info_(device_info()),
        filters_(plan().filters),
        integers_(integers),
        buffers_(buffers) {
    x_count_ = span(problem_.x_extents(), problem_.x_strides);
    y_count_ = span(problem_.y_extents(), problem_.y_strides);
    const std::int64_t w_count = span(problem_.w_extents(), problem_.w_strides);
    x_ = allocate<Stored>(buffers_ * x_count_ + 8) + options.shifted_x;
    y_ = allocate<Stored>(buffers_ * y_count_ + 8) + options.shifted_y;
    old_ = allocate<Stored>(y_count_);
    w_ = allocate<Stored>(w_count);
    bias_ = allocate<Stored>(problem_.k);
    packed_ = allocate<char>(static_cast<std::int64_t>(filters_.bytes()));
    wrong_ = allocate<Wrong>(1);
    fill<<<1024, 256>>>(x_, buffers_ * x_count_, 1, integers);
    fill<<<64, 256>>>(w_, w_count, 1ull << 40, integers);
    fill<<<64, 256>>>(bias_, problem_.k, 1ull << 41, integers);
    fill<<<1024, 256>>>(old_, y_count_, 1ull << 42, integers);
    check(cudaGetLastError(), "fill");
  }
  WideCase(const WideCase&) = delete;
  ~WideCase() {
    for (void* memory : memory_) cudaFree(memory);
  }

  const ConvProblem& problem() const { return problem_; }
  const DeviceInfo& info() const { return info_; }
  Stored* x() const { return x_; }
  Stored* w() const { return w_; }
  Stored* y() const { return y_; }
  const char* packed() const { return packed_; }
  const WideFilters& filters() const { return filters_; }

  template <WideFault fault = WideFault::none>
  void pack() {
    pack_wide_filters<Arithmetic, fault>(problem_, filters_, w_, packed_, nullptr);
  }
  WidePlan plan(WideChoice choice = {}) const {
    choice.folded_axes = options_.folded_axes;
    WidePlan plan(problem_, Arithmetic::host, info_, choice);
    if (options_.images_at_once > 0) plan.input.images = options_.images_at_once;
    return plan;
  }
  /// Makes the tensors ready, and returns what the kernel is told of all images.
  WideParams<Arithmetic> params(const WidePlan& plan, int buffer = 0) {
    return wide_params<Arithmetic>(problem_, plan, plan.tiles, call(plan, buffer), epilogue());
  }
  /// Tells the copy engine how to read x, after repacking it where that is planned. Returns whether
  /// it reads x as it lies.
  bool prepare(WideParams<Arithmetic>& of, const WidePlan& plan) {
    if (reads_as_it_lies(of, problem_, plan, plan.tiles)) return true;
    repack(of, problem_, plan, plan.tiles, call(plan, 0).workspace, nullptr);
    return false;
  }
  void launch(const WidePlan& plan, int buffer = 0) {
    launch_wide<Arithmetic>(problem_, plan, call(plan, buffer), epilogue(), nullptr,
                            [&](const WideParams<Arithmetic>& of, bool early) {
                              with_shape<Arithmetic>(plan.tiles.shape, [&]<int shape>() {
                                launch_tiles<Arithmetic, shape>(of, early, info_, nullptr);
                              });
                            });
  }
  /// Runs a kernel with a mistake in it.
  template <int shape, WideFault fault>
  void launch_faulty(const WidePlan& plan) {
    launch_wide<Arithmetic>(problem_, plan, call(plan, 0), epilogue(), nullptr,
                            [&](const WideParams<Arithmetic>& of, bool early) {
                              launch_tiles<Arithmetic, shape, fault>(of, early, info_, nullptr);
                            });
  }

  /// Prepares y: its old values, or NaN.
  void clear() {
    if (options_.accumulate)
      check(cudaMemcpy(y_, old_, y_count_ * sizeof(Stored), cudaMemcpyDeviceToDevice), "copy");
    else
      check(cudaMemset(y_, 0xff, y_count_ * sizeof(Stored)), "cudaMemset");
    if (workspace_) check(cudaMemset(workspace_, 0xff, workspace_bytes_), "cudaMemset");
  }
  Wrong wrong(std::int64_t samples = 0) {
    check(cudaMemset(wrong_, 0, sizeof(Wrong)), "cudaMemset");
    const std::int64_t outputs = element_count(problem_.y_extents());
    if (samples == 0 || samples > outputs) samples = outputs;
    constexpr double rounding = dtype_of_stored<Stored> == DType::bf16 ? 0x1p-8
                                : Arithmetic::splits_operands          ? 0x1p-22
                                                                       : 0x1p-11;
    compare<<<512, 128>>>(DeepShape<std::int64_t>(problem_), x_, w_,
                          options_.bias ? bias_ : nullptr, options_.accumulate ? old_ : nullptr, y_,
                          options_.relu, integers_, rounding, Arithmetic::products, outputs,
                          samples, wrong_);
    Wrong result{};
    check(cudaMemcpy(&result, wrong_, sizeof(result), cudaMemcpyDeviceToHost), "compare");
    return result;
  }

 private:
  WideCall call(const WidePlan& plan, int buffer) {
    if (plan.workspace.bytes > workspace_bytes_) {
      workspace_ = allocate<char>(static_cast<std::int64_t>(plan.workspace.bytes));
      workspace_bytes_ = plan.workspace.bytes;
    }
    return {.x = x_ + buffer * x_count_,
            .filters = packed_,
            .y = y_ + buffer * y_count_,
            .workspace = workspace_};
  }
  Epilogue<Stored> epilogue() const {
    return Epilogue<Stored>(
        ConvLaunch{.problem = problem_,
                   .device = info_,
                   .x = x_,
                   .w = nullptr,
                   .bias = options_.bias ? bias_ : nullptr,
                   .y = y_,
                   .activation = options_.relu ? Activation::relu : Activation::none,
                   .accumulate = options_.accumulate,
                   .workspace = nullptr,
                   .native_queue = nullptr});
  }
  static std::int64_t span(const Extents& extents, const Strides& strides) {
    std::int64_t last = 0;
    for (int i = 0; i < extents.rank(); ++i) last += (extents[i] - 1) * strides[i];
    return (last + 1 + 127) / 128 * 128;  // the next buffer is aligned too
  }
  template <class Element>
  Element* allocate(std::int64_t count) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, (count + 64) * sizeof(Element)), "cudaMalloc");
    check(cudaMemset(memory, 0xff, (count + 64) * sizeof(Element)), "cudaMemset");
    memory_.push_back(memory);
    return static_cast<Element*>(memory);
  }

  WideOptions options_;
  ConvProblem problem_;
  DeviceInfo info_;
  WideFilters filters_;
  bool integers_;
  int buffers_;
  std::int64_t x_count_ = 0, y_count_ = 0;
  std::size_t workspace_bytes_ = 0;
  Stored *x_ = nullptr, *y_ = nullptr, *old_ = nullptr, *w_ = nullptr, *bias_ = nullptr;
  char* packed_ = nullptr;
  char* workspace_ = nullptr;
  Wrong* wrong_ = nullptr;
  std::vector<void*> memory_;
};

}  // namespace plumb_test
