// The caller's floating-point mode has no say in results, keeps as it is, and traps nothing that
// the CPU's kernels do on the way.
#include <fenv.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "support/host_tensor.hpp"
#ifdef __SSE2__
#include <immintrin.h>
#endif

using namespace plumb;
using namespace plumb_test;

namespace {

/// A mode of the caller's: how it is set, and whether it is in force.
struct Mode {
  const char* name;
  std::function<void()> set;
  std::function<bool()> holds;
};

std::vector<Mode> modes() {
  std::vector<Mode> all;
  for (const auto& [name, rounding] :
       {std::pair{"downward", FE_DOWNWARD}, {"upward", FE_UPWARD}, {"toward zero", FE_TOWARDZERO}})
    all.push_back({name, [value = rounding] { fesetround(value); },
                   [value = rounding] { return fegetround() == value; }});
#ifdef __SSE2__
  constexpr unsigned flush_and_zero = 0x8040;
  all.push_back({"FTZ and DAZ", [] { _mm_setcsr(_mm_getcsr() | flush_and_zero); },
                 [] { return (_mm_getcsr() & flush_and_zero) == flush_and_zero; }});
#endif
  return all;
}

/// What was in force before is again when this goes.
class RestoredMode {
 public:
  RestoredMode() { fegetenv(&before_); }
  ~RestoredMode() { fesetenv(&before_); }
  RestoredMode(const RestoredMode&) = delete;
  RestoredMode& operator=(const RestoredMode&) = delete;

 private:
  fenv_t before_;
};

class RestoredThreads {
 public:
  ~RestoredThreads() { omp_set_num_threads(before_); }

 private:
  int before_ = omp_get_max_threads();
};

ConvProblem make(std::int64_t n, std::int64_t c, std::int64_t side, std::int64_t k, std::int64_t r,
                 DType dtype) {
  ConvProblem p;
  p.n = n, p.c = c, p.h = side, p.w = side + 1, p.k = k, p.r = p.s = r, p.padding = r / 2;
  p.dtype = dtype;
  return check(p);
}

/// What has to be allowed for an algorithm to be taken.
Math math_of(const std::string& algorithm) {
  return algorithm.ends_with(".bf16") ? Math::bf16 : Math::fp32;
}

/// A convolution's inputs, and what comes out of each algorithm.
struct Data {
  ConvProblem problem;
  HostTensor x, w, bias, y;
  explicit Data(const ConvProblem& p)
      : problem(p),
        x(p.dtype, p.x_extents()),
        w(p.dtype, p.w_extents()),
        bias(p.dtype, {p.k}),
        y(p.dtype, p.y_extents()) {}

  template <class F>
  void fill(const F& generate) {
    for (HostTensor* input : {&x, &w, &bias}) input->fill(generate);
  }
  std::vector<std::byte> run(const std::string& algorithm) {
    const Device device = Device::open("cpu");
    Queue queue(device);
    const ConvPlan plan(
        device, problem,
        {.math = math_of(algorithm), .algorithm = algorithm, .bias = true, .deterministic = true});
    plan.execute(queue, {x.view(), w.view(), bias.view(), y.view()});
    return y.bytes();
  }
};

std::vector<std::string> algorithms_for(const ConvProblem& problem,
                                        const Device& device = Device::open("cpu")) {
  std::vector<std::string> names = {""};  // what `auto` takes
  for (const ConvAlgorithm* algorithm : conv_algorithms(device))
    if (algorithm->name.starts_with("cpu.conv.") && algorithm->plan(problem, device.info()).support)
      names.emplace_back(algorithm->name);
  return names;
}

/// Everything else that computes on the host: outputs of the operators, and the oracle's.
std::vector<std::byte> run_operators(const HostTensor& x) {
  Queue queue(Device::open("cpu"));
  std::vector<std::byte> all;
  const auto keep = [&](const HostTensor& y) {
    all.insert(all.end(), y.bytes().begin(), y.bytes().end());
  };
  const Extents extents = x.extents();
  HostTensor pooled(x.dtype(), {extents[0], extents[1], extents[2] / 3, extents[3] / 3});
  for (const PoolKind kind : {PoolKind::average, PoolKind::max}) {
    pool(queue, x.view(), pooled.view(), {.kind = kind, .window = 3, .stride = 3});
    keep(pooled);
  }
  HostTensor resized(x.dtype(), {extents[0], extents[1], extents[2] * 2 + 1, extents[3] + 3});
  resize_bilinear(queue, x.view(), resized.view());
  keep(resized);
  HostTensor cut(x.dtype(), extents);
  relu(queue, x.view(), cut.view());
  keep(cut);
  const ConstTensorView rows(x.view().data(), x.dtype(),
                             {extents[0] * extents[1], extents[2] * extents[3]});
  HostTensor shares(x.dtype(), rows.extents());
  softmax(queue, rows, shares.view());
  keep(shares);
  const ConvProblem square = make(extents[0], extents[1], extents[2], 3, 3, x.dtype());
  HostTensor w(x.dtype(), square.w_extents());
  double value = 0;
  w.fill([&] { return value += 0.25; });  // exact, under every mode
  for (const OracleTerm& term : conv_oracle(square, x.view(), w.view(), {})) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&term);
    all.insert(all.end(), bytes, bytes + sizeof term);
  }
  return all;
}

/// Calls `judge()` for 1, 2 and 4 threads under each mode, which it must leave.
template <class F>
void under_every_mode(const F& judge) {
  const RestoredThreads restored;
  for (const int threads : {1, 2, 4}) {
    omp_set_num_threads(threads);
    for (const Mode& mode : modes()) {
      const RestoredMode before;
      CAPTURE(threads, mode.name);
      mode.set();
      feclearexcept(FE_ALL_EXCEPT);
      const bool same = judge();
      const bool kept = mode.holds(), quiet = fetestexcept(FE_ALL_EXCEPT) == 0;
      fesetenv(FE_DFL_ENV);
      CHECK(same);
      CHECK(kept);
      CHECK(quiet);
    }
  }
}

/// NaNs that signal, of the type computed in.
void poison(void* memory, std::size_t bytes, bool fp64) {
  const std::uint64_t signalling = fp64 ? 0x7ff4000000000001u : 0x7fa000017fa00001u;
  for (std::size_t i = 0; i + 8 <= bytes; i += 8)
    std::memcpy(static_cast<std::byte*>(memory) + i, &signalling, 8);
}

std::vector<Device> devices_of_every_instruction_set() {
  std::vector<Device> devices;
  for (const char* name : {"generic", "sse2", "avx2", "avx512"}) {
    setenv("PLUMB_CPU_ISA", name, 1);
    for (const BackendReport& report : backend_reports())
      if (report.name == "cpu" && !report.devices.empty() &&
          report.devices[0].instruction_set == name)
        devices.push_back(Device::open("cpu"));
  }
  unsetenv("PLUMB_CPU_ISA");
  return devices;
}

}  // namespace

TEST_CASE("floating point: convolutions are the same bits under every mode of the caller's") {
  Random random(31);
  for (const ConvProblem& problem :
       {make(4, 16, 24, 16, 3, DType::f32), make(4, 16, 24, 16, 3, DType::f64),
        make(2, 16, 20, 16, 3, DType::f16), make(2, 16, 20, 16, 3, DType::bf16),
        make(3, 64, 16, 32, 1, DType::f32)})
    // The least of numbers come out subnormal.
    for (const double scale : {1.0, problem.dtype == DType::f64 ? 1e-154 : 1e-19}) {
      Data data(problem);
      data.fill([&] { return scale * random.normal(); });
      for (const std::string& algorithm : algorithms_for(problem)) {
        const std::vector<std::byte> expected = data.run(algorithm);
        CAPTURE(algorithm, to_string(problem.dtype), scale);
        under_every_mode([&] { return data.run(algorithm) == expected; });
      }
    }
}

TEST_CASE("floating point: operators and the oracle are the same bits under every mode") {
  Random random(32);
  for (const DType dtype : {DType::f32, DType::f64, DType::f16})
    for (const double scale : {1.0, dtype == DType::f64 ? 1e-308 : 1e-38}) {
      HostTensor x(dtype, {2, 4, 48, 49});
      x.fill([&] { return scale * random.normal(); });
      const std::vector<std::byte> expected = run_operators(x);
      CAPTURE(to_string(dtype), scale);
      under_every_mode([&] { return run_operators(x) == expected; });
    }
}

TEST_CASE("floating point: OpenMP's threads keep the mode that the caller gave them") {
  Random random(33);
  Data data(make(4, 16, 24, 16, 3, DType::f32));
  data.fill([&] { return random.normal(); });
  const RestoredThreads restored;
  omp_set_num_threads(2);
  const std::vector<std::byte> expected = data.run("");
  // GNU's threads keep a mode from one region to the next; LLVM's begin each with the mode of the
  // thread that starts it.
  int before = 0, after = 0;
#pragma omp parallel num_threads(2)
  fesetround(FE_UPWARD);
#pragma omp parallel num_threads(2) reduction(+ : before)
  before = fegetround();
  const bool same = data.run("") == expected;
#pragma omp parallel num_threads(2) reduction(+ : after)
  {
    after = fegetround();
    fesetround(FE_TONEAREST);
  }
  CHECK(same);
  CHECK(after == before);
}

#ifdef __GLIBC__
TEST_CASE("floating point: lanes that are thrown away trap nothing and leave no flag") {
  Random random(34);
  const RestoredThreads restored;
  std::vector<ConvProblem> problems;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const auto& [c, side, k, r] :
         {std::array{3, 13, 5, 3}, {10, 13, 8, 1}, {40, 7, 9, 3}, {2, 27, 3, 5}})
      problems.push_back(make(2, c, side, k, r, dtype));
  for (const Device& device : devices_of_every_instruction_set())
    for (const ConvProblem& problem : problems) {
      Data data(problem);
      data.fill([&] { return random.integer(-3, 3); });
      for (const std::string& algorithm : algorithms_for(problem, device))
        for (const int threads : {1, 2}) {
          omp_set_num_threads(threads);
          CAPTURE(algorithm, device.info().instruction_set, to_string(problem), threads);
          const bool fp64 = algorithm.ends_with("fp64");
          Queue queue(device);
          const RestoredMode before;
          feclearexcept(FE_ALL_EXCEPT);
          feenableexcept(FE_INVALID | FE_OVERFLOW | FE_DIVBYZERO);
          const ConvPlan plan(device, problem,
                              {.math = math_of(algorithm), .algorithm = algorithm, .bias = true});
          const Tensor workspace(device, DType::f64,
                                 {static_cast<std::int64_t>(plan.workspace_bytes() / 8 + 32)});
          poison(workspace.data(), plan.workspace_bytes() + 256, fp64);
          plan.execute(queue, {data.x.view(), data.w.view(), data.bias.view(), data.y.view()},
                       workspace.data());
          const int flags = fetestexcept(FE_ALL_EXCEPT), traps = fegetexcept();
          fesetenv(FE_DFL_ENV);
          CHECK(flags == 0);
          CHECK(traps == (FE_INVALID | FE_OVERFLOW | FE_DIVBYZERO));
        }
    }
}

TEST_CASE("floating point: operators trap nothing") {
  // Of NaN, Inf and the largest numbers, on which comparisons, sums and narrowing all trap.
  HostTensor x(DType::f32, {2, 4, 48, 49});
  const double values[] = {1, HUGE_VAL, -HUGE_VAL, NAN, 3e38, -3e38, 0};
  std::size_t next = 0;
  x.fill([&] { return values[next++ % std::size(values)]; });
  const RestoredMode before;
  feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(FE_INVALID | FE_OVERFLOW | FE_DIVBYZERO);
  run_operators(x);
  const int flags = fetestexcept(FE_INVALID | FE_OVERFLOW | FE_DIVBYZERO);
  fesetenv(FE_DFL_ENV);
  CHECK(flags == 0);
}
#endif
