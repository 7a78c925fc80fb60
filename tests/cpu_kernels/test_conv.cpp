// The CPU's convolution algorithms against the oracle, and what they promise besides.
#include <dlfcn.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "support/forced_instruction_set.hpp"
#include "support/host_tensor.hpp"

using namespace plumb;
using namespace plumb_test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

constexpr const char* algorithms[] = {"cpu.conv.direct.fp32", "cpu.conv.panels.fp32",
                                      "cpu.conv.im2col.fp32", "cpu.conv.direct.fp64",
                                      "cpu.conv.panels.fp64", "cpu.conv.im2col.fp64"};

/// One convolution's data, with what comes out.
struct Case {
  ConvProblem problem;
  HostTensor x, w, bias, y;

  explicit Case(const ConvProblem& p)
      : problem(check(p)),
        x(p.dtype, problem.x_extents(), problem.x_strides),
        w(p.dtype, problem.w_extents(), problem.w_strides),
        bias(p.dtype, {p.k}),
        y(p.dtype, problem.y_extents(), problem.y_strides) {}

  template <class F>
  void fill(const F& generate) {
    x.fill(generate);
    w.fill(generate);
    bias.fill(generate);
  }
  std::vector<OracleTerm> oracle() const {
    return conv_oracle(problem, x.view(), w.view(), bias.view());
  }
  void run(const Device& device, const ConvOptions& options) {
    Queue queue(device);
    ConvPlan(device, problem, options)
        .execute(queue,
                 {x.view(), w.view(), options.bias ? bias.view() : ConstTensorView(), y.view()});
  }
};

ConvOptions forced(const char* algorithm, Activation activation = Activation::none) {
  return {.algorithm = algorithm, .bias = true, .activation = activation};
}

bool runs(const char* algorithm, DType dtype) {
  return dtype != DType::f64 || std::string_view(algorithm).ends_with("fp64");
}

ConvProblem make(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w, std::int64_t k,
                 std::int64_t r, std::int64_t s, const ConvGeometry& geometry = {}) {
  ConvProblem p;
  static_cast<ConvGeometry&>(p) = geometry;
  p.n = n, p.c = c, p.h = h, p.w = w, p.k = k, p.r = r, p.s = s;
  return p;
}

ConvGeometry geometry(Pair stride, Pair dilation, Padding padding, std::int64_t groups = 1) {
  return {.stride = stride, .dilation = dilation, .padding = padding, .groups = groups};
}

std::vector<ConvProblem> shapes() {
  return {
      make(1, 1, 1, 1, 1, 1, 1),                                            // one product
      make(3, 1, 9, 7, 4, 9, 7),                                            // one output an image
      make(5, 13, 1, 1, 11, 1, 1),                                          // linear
      make(300, 8, 1, 1, 3, 1, 1),                                          // a long batch of it
      make(4, 3, 1, 1, 2, 3, 3, geometry({1, 1}, {1, 1}, {1, 1, 1, 1})),    // mostly padding
      make(2, 3, 1, 29, 5, 1, 4, geometry({1, 2}, {1, 3}, {0, 2, 0, 1})),   // 1-D
      make(2, 3, 29, 1, 5, 4, 1, geometry({2, 1}, {3, 1}, {2, 0, 1, 0})),   // 1-D, upright
      make(1, 1, 86, 86, 4, 7, 7),                                          // the network's first
      make(1, 4, 40, 40, 16, 7, 7),                                         // and second layer
      make(3, 5, 11, 13, 7, 3, 3, geometry({1, 1}, {1, 1}, {1, 2, 3, 0})),  // four paddings
      make(2, 2, 10, 12, 3, 2, 2, geometry({3, 4}, {1, 1}, {0, 0, 0, 0})),  // steps over pixels
      make(2, 6, 9, 10, 4, 3, 2, geometry({2, 3}, {3, 2}, {2, 1, 1, 2}, 2)),
      make(2, 8, 7, 7, 16, 3, 3, geometry({1, 1}, {1, 1}, {1, 1, 1, 1}, 8)),  // depthwise
      make(1, 2, 5, 5, 2, 3, 3,
           geometry({1, 1}, {1, 1}, {6, 7, 5, 8})),  // padding beyond the image
      make(2, 33, 5, 7, 530, 1, 1),                  // 1x1, many channels
      make(2, 3, 8, 8, 4, 1, 1, geometry({2, 2}, {1, 1}, {0, 0, 0, 0})),  // 1x1 with a stride
      make(1, 100, 12, 12, 4, 10, 10),  // few outputs, a reduction in pieces
      make(1, 3, 41, 37, 2, 3, 3),      // primes
  };
}

/// The shape as it is, and with its tensors lying otherwise.
std::vector<ConvProblem> layouts(const ConvProblem& shape) {
  const ConvProblem dense = check(shape);
  ConvProblem nhwc = dense, gaps = dense, turned = dense, backwards = dense;
  for (auto [strides, extents] : {std::pair{&nhwc.x_strides, dense.x_extents()},
                                  std::pair{&nhwc.w_strides, dense.w_extents()},
                                  std::pair{&nhwc.y_strides, dense.y_extents()}})
    *strides = strides_for(Layout::nhwc, extents);
  gaps.x_strides = strides_in_order(dense.x_extents(), {0, 1, 2, 3}, 3);
  gaps.w_strides = strides_in_order(dense.w_extents(), {0, 1, 2, 3}, 2);
  gaps.y_strides = strides_in_order(dense.y_extents(), {0, 1, 2, 3}, 1);
  turned.x_strides = strides_in_order(dense.x_extents(), {3, 2, 1, 0});
  turned.w_strides = strides_in_order(dense.w_extents(), {3, 2, 1, 0});
  turned.y_strides = strides_in_order(dense.y_extents(), {3, 2, 1, 0});
  for (int i = 0; i < 4; ++i) {
    backwards.x_strides[i] *= -1;
    backwards.w_strides[i] *= -1;
    backwards.y_strides[i] *= -1;
  }
  return {dense, nhwc, gaps, turned, backwards};
}

/// What `value`, exact in double, is when rounded once to `dtype`. (f16 and bf16 by way of
/// binary32, which holds the values that tests ask for.)
double rounded(DType dtype, double value) { return HostTensor::of(dtype, {1}, {value}).at({0}); }

/// The CPU once for each instruction set that this machine has, the baseline first.
std::vector<Device> devices_of_every_instruction_set() {
  std::vector<Device> devices;
  for (const char* name : {"generic", "sse2", "avx2", "avx512"}) {
    const plumb_test::ForcedInstructionSet force(name);
    for (const BackendReport& report : backend_reports())
      if (report.name == "cpu" && !report.devices.empty() &&
          report.devices[0].instruction_set == name)
        devices.push_back(Device::open("cpu"));
  }
  return devices;
}

/// Runs the case on the device with each algorithm that can; `is_right(numerics, i, y)` judges
/// output i.
template <class F>
void check_outputs(Case& data, const Device& device, Activation activation, const F& is_right) {
  for (const char* name : algorithms) {
    if (!runs(name, data.problem.dtype)) continue;
    CAPTURE(name, device.info().instruction_set, to_string(data.problem));
    CAPTURE(to_string(data.problem.x_strides));
    const ConvPlan plan(device, data.problem, forced(name, activation));
    data.run(device, forced(name, activation));
    CHECK(data.y.surroundings_untouched());
    const std::vector<double> y = data.y.values();
    for (std::size_t i = 0; i < y.size(); ++i)
      if (!is_right(plan.algorithm().numerics, i, y[i])) {
        FAIL_CHECK("output " << i << " is " << y[i]);
        break;
      }
  }
}

/// What integers must give: the sum, exact, rounded once.
auto exactly(const Case& data, Activation activation) {
  return [&data, activation, oracle = data.oracle()](const Numerics&, std::size_t i, double y) {
    const bool cut = activation == Activation::relu && oracle[i].y < 0;
    return y == (cut ? 0 : rounded(data.problem.dtype, oracle[i].y));
  };
}

}  // namespace

TEST_CASE("cpu conv: integers, bit for bit, in every layout") {
  const Device device = Device::open("cpu");
  Random random(1);
  for (const ConvProblem& shape : shapes())
    for (const ConvProblem& problem : layouts(shape)) {
      Case data(problem);
      data.fill([&] { return random.integer(-3, 3); });
      check_outputs(data, device, Activation::none, exactly(data, Activation::none));
    }
}

TEST_CASE("cpu conv: every dtype on every instruction set") {
  const std::vector<Device> devices = devices_of_every_instruction_set();
  REQUIRE_FALSE(devices.empty());
  Random random(2);
  for (ConvProblem problem : shapes())
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      problem.dtype = dtype;
      Case data(problem);
      data.fill([&] { return random.integer(-3, 3); });
      const auto exact = exactly(data, Activation::relu);
      for (const Device& device : devices) check_outputs(data, device, Activation::relu, exact);

      data.fill([&] { return random.normal(); });
      const auto bounded = [&, oracle = data.oracle()](const Numerics& numerics, std::size_t i,
                                                       double y) {
        return std::abs(y - oracle[i].y) <= conv_error_bound(numerics, problem, oracle[i], y);
      };
      for (const Device& device : devices) check_outputs(data, device, Activation::none, bounded);
    }
}

TEST_CASE("cpu conv: rows of every width, whole vectors and parts") {
  Random random(12);
  for (const Device& device : devices_of_every_instruction_set())
    for (std::int64_t q = 1; q <= 34; ++q)
      for (const std::int64_t padding : {0, 1})
        for (const DType dtype : {DType::f32, DType::f64}) {
          const Padding all{padding, padding, padding, padding};
          ConvProblem problem =
              make(2, 2, 6, q + 2 - 2 * padding, 7, 3, 3, geometry({1, 1}, {1, 1}, all));
          if (problem.w == 0) continue;
          problem.dtype = dtype;
          Case data(problem);
          data.fill([&] { return random.integer(-3, 3); });
          check_outputs(data, device, Activation::none, exactly(data, Activation::none));
        }
}

TEST_CASE("cpu conv: filters of one row or one column, at every pair of strides") {
  Random random(13);
  const std::vector<Device> devices = devices_of_every_instruction_set();
  REQUIRE_FALSE(devices.empty());
  // One channel a group, or images enough that each is one band: what is read where it lies in x.
  const std::vector<ConvProblem> channels = {make(2, 1, 9, 1, 4, 1, 1), make(2, 2, 9, 1, 4, 1, 1),
                                             make(64, 2, 9, 1, 3, 1, 1),
                                             make(2, 3, 9, 1, 6, 1, 1, {.groups = 3})};
  const std::vector<Pair> filters = {{1, 1}, {1, 3}, {1, 5}, {3, 1}, {5, 1}};
  for (ConvProblem problem : channels)
    for (const Pair& filter : filters)
      for (const std::int64_t stride_h : {1, 2, 3})
        for (const std::int64_t stride_w : {1, 2})
          for (const std::int64_t width : {5, 16, 33})
            for (const DType dtype : {DType::f32, DType::f64}) {
              problem.r = filter.h, problem.s = filter.w, problem.w = width;
              problem.stride = {stride_h, stride_w}, problem.dtype = dtype;
              Case data(problem);
              data.fill([&] { return random.integer(-3, 3); });
              const auto exact = exactly(data, Activation::none);
              for (const Device& device : devices)
                check_outputs(data, device, Activation::none, exact);
            }
}

TEST_CASE("cpu conv: inputs with zero strides repeat") {
  const Device device = Device::open("cpu");
  ConvProblem problem = make(3, 4, 8, 8, 5, 3, 3);
  problem.x_strides = {0, 64, 8, 1};
  problem.w_strides = {0, 0, 3, 1};
  Random random(4);
  Case data(problem);
  data.fill([&] { return random.integer(-3, 3); });
  check_outputs(data, device, Activation::none, exactly(data, Activation::none));
}

TEST_CASE("cpu conv: the same bits for any number of threads") {
  // The caller's setting, found at run time: tests are built without OpenMP.
  const auto set_threads =
      reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  const auto max_threads = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  REQUIRE(set_threads);
  REQUIRE(max_threads);
  const int before = max_threads();
  Random random(5);
  for (const ConvProblem& shape : shapes()) {
    Case data(shape);
    data.fill([&] { return random.normal(); });
    for (const char* algorithm : algorithms) {
      CAPTURE(to_string(data.problem), algorithm);
      std::vector<std::byte> first;
      for (const int threads : {1, 2, 3, 7}) {
        set_threads(threads);
        const Device device = Device::open("cpu");
        CHECK(device.info().units == threads);
        data.run(device, forced(algorithm));
        if (first.empty()) first = data.y.bytes();
        CHECK(data.y.bytes() == first);
      }
    }
  }
  set_threads(before);
}

TEST_CASE("cpu conv: one plan on several queues at once") {
  const Device device = Device::open("cpu");
  Random random(6);
  Case data(make(4, 5, 20, 20, 6, 3, 3));
  data.fill([&] { return random.normal(); });
  data.run(device, forced(algorithms[0]));
  const ConvPlan plan(device, data.problem, forced(algorithms[0]));
  std::vector<HostTensor> results(4, HostTensor(DType::f32, data.problem.y_extents()));
  std::vector<std::thread> threads;
  for (HostTensor& y : results)
    threads.emplace_back([&plan, &data, &y, &device] {
      Queue queue(device);
      for (int i = 0; i < 5; ++i)
        plan.execute(queue, {data.x.view(), data.w.view(), data.bias.view(), y.view()});
    });
  for (std::thread& thread : threads) thread.join();
  for (const HostTensor& y : results) CHECK(y.bytes() == data.y.bytes());
}

TEST_CASE("cpu conv: a workspace of the declared size is enough, whatever lies in it") {
  const Device device = Device::open("cpu");
  Random random(7);
  for (ConvProblem problem : shapes())
    for (const DType dtype : {DType::f32, DType::f16}) {
      problem.dtype = dtype;
      Case data(problem);
      data.fill([&] { return random.normal(); });
      for (const char* algorithm : algorithms) {
        CAPTURE(to_string(data.problem), algorithm);
        data.run(device, forced(algorithm));
        const std::vector<std::byte> expected = data.y.bytes();
        const ConvPlan plan(device, data.problem, forced(algorithm));
        const auto bytes = static_cast<std::int64_t>(plan.workspace_bytes());
        const Tensor workspace(device, DType::bf16, {bytes / 2 + 256});
        auto* memory = workspace.data_as<unsigned char>();
        std::fill_n(memory, bytes + 512, static_cast<unsigned char>(0xff));  // NaN
        Queue queue(device);
        plan.execute(queue, {data.x.view(), data.w.view(), data.bias.view(), data.y.view()},
                     memory);
        CHECK(std::all_of(memory + bytes, memory + bytes + 512,
                          [](unsigned char byte) { return byte == 0xff; }));
        CHECK(data.y.bytes() == expected);
      }
    }
}

TEST_CASE("cpu conv: the workspace stays under 64 MiB however large the problem") {
  const Device device = Device::open("cpu");
  std::vector<ConvProblem> problems = {
      make(10'000'000, 3, 224, 224, 64, 7, 7),
      make(1, 1 << 20, 40, 40, 1 << 16, 7, 7),
      make(1, 1 << 20, 7, 7, 1 << 20, 7, 7),
      make(1 << 20, 1 << 16, 1, 1, 1 << 16, 1, 1),
      make(1, 1, 1 << 20, 1 << 20, 1, 1000, 1000),
      make(4, 1 << 12, 99, 99, 1 << 12, 3, 3, geometry({1, 1}, {1, 1}, {1, 1, 1, 1}, 1 << 12)),
      make(4, 100, 40, 40, 16, 34, 34),
      make(1, 1, 1, 1, 1, 1, 1),
  };
  for (ConvProblem& problem : problems)
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
      for (const char* algorithm : algorithms) {
        if (!runs(algorithm, dtype)) continue;
        problem.dtype = dtype;
        const ConvOptions options{.algorithm = algorithm};
        const auto candidates = explain(device, problem, options);
        const auto own = std::find_if(candidates.begin(), candidates.end(),
                                      [&](const auto& one) { return one.algorithm == algorithm; });
        // im2col runs whatever the size; the others, which hold all filters, may find one too
        // large.
        const bool any_size = own->algorithm.starts_with("cpu.conv.im2col");
        if (own->support.reason == Reason::too_large && !any_size) continue;
        const ConvPlan plan(device, problem, options);
        DeviceInfo larger = device.info();
        for (const int threads : {1, 2, 64, 256, 4096}) {
          larger.units = threads;
          const ConvAlgorithm& chosen = plan.algorithm();
          const PlanResult planned = chosen.plan(plan.problem(), larger);
          const std::size_t bytes = planned.filter_bytes + planned.workspace_bytes;
          CAPTURE(to_string(problem), threads);
          CHECK(bytes > 0);
          CHECK(bytes <= std::size_t{64} << 20);
        }
      }
}

TEST_CASE("cpu conv: NaN and Inf come out where the oracle has them, and nowhere else") {
  const Device device = Device::open("cpu");
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    ConvProblem problem = make(2, 3, 9, 9, 4, 3, 3, geometry({1, 1}, {1, 1}, {1, 1, 1, 1}));
    problem.dtype = dtype;
    Random random(8);
    Case data(problem);
    data.fill([&] { return random.integer(1, 3); });
    data.x.set({0, 1, 4, 4}, std::numeric_limits<double>::quiet_NaN());
    data.x.set({0, 2, 0, 0}, infinity);
    data.x.set({1, 0, 8, 8}, -infinity);
    const std::vector<OracleTerm> oracle = data.oracle();
    for (const char* algorithm : algorithms)
      for (const Activation activation : {Activation::none, Activation::relu}) {
        data.run(device, forced(algorithm, activation));
        const std::vector<double> actual = data.y.values();
        int special = 0;
        for (std::size_t i = 0; i < oracle.size(); ++i) {
          const bool cut = activation == Activation::relu && oracle[i].y < 0;
          const double wanted = cut ? 0 : oracle[i].y;
          CHECK((std::isnan(wanted) ? std::isnan(actual[i]) : actual[i] == wanted));
          special += !std::isfinite(wanted);
        }
        // 9 outputs over the NaN, 4 in the corner of each infinity, of each of 4 channels.
        CHECK(special == (activation == Activation::relu ? 4 * (9 + 4) : 4 * (9 + 4 + 4)));
      }
  }
}

TEST_CASE("cpu conv: Inf and NaN in filters come out") {
  const Device device = Device::open("cpu");
  Case data(make(1, 2, 5, 5, 3, 2, 2));
  data.fill([] { return 1; });
  data.w.set({1, 0, 1, 1}, std::numeric_limits<double>::infinity());
  data.w.set({2, 1, 0, 0}, std::numeric_limits<double>::quiet_NaN());
  for (const char* algorithm : algorithms) {
    data.run(device, forced(algorithm));
    CHECK(data.y.at({0, 0, 2, 2}) == 9);
    CHECK(data.y.at({0, 1, 2, 2}) == std::numeric_limits<double>::infinity());
    CHECK(std::isnan(data.y.at({0, 2, 2, 2})));
  }
}

TEST_CASE("cpu conv: a tap in the padding contributes nothing, even where the filter is Inf") {
  const Device device = Device::open("cpu");
  // 1 2 over 3 4, a column of padding left; filter: Inf 1. The Inf meets the padding in the first
  // column of outputs, and pixels in the others.
  for (const DType dtype : {DType::f32, DType::f16}) {
    ConvProblem problem = make(1, 1, 2, 2, 1, 1, 2, geometry({1, 1}, {1, 1}, {0, 1, 0, 0}));
    problem.dtype = dtype;
    Case data(problem);
    data.x = HostTensor::of(dtype, {1, 1, 2, 2}, {1, 2, 3, 4});
    data.w = HostTensor::of(dtype, {1, 1, 1, 2}, {std::numeric_limits<double>::infinity(), 1});
    data.bias = HostTensor::of(dtype, {1}, {10});
    const double infinity = std::numeric_limits<double>::infinity();
    for (const char* algorithm : algorithms) {
      data.run(device, forced(algorithm));
      CHECK(data.y.values() == std::vector<double>{11, infinity, 13, infinity});
    }
  }
}

TEST_CASE("cpu conv: an empty batch is done at once and writes nothing") {
  const Device device = Device::open("cpu");
  for (const char* algorithm : algorithms) {
    Case data(make(0, 3, 8, 8, 4, 3, 3));
    data.w.fill([] { return 1; });
    data.bias.fill([] { return 1; });
    data.run(device, forced(algorithm));
    CHECK(data.y.surroundings_untouched());
  }
}

TEST_CASE("cpu conv: every half and bfloat16 is read and rounded as it should be") {
  const Device device = Device::open("cpu");
  // y = 1 * x + b, for every x: reads all values, and rounds sums of every size.
  for (const DType dtype : {DType::f16, DType::bf16}) {
    ConvProblem problem = make(1, 1, 256, 256, 4, 1, 1);
    problem.dtype = dtype;
    Case data(problem);
    auto* bits =
        const_cast<std::uint16_t*>(static_cast<const std::uint16_t*>(data.x.view().data()));
    for (int i = 0; i < 65536; ++i) bits[i] = static_cast<std::uint16_t>(i);
    data.w = HostTensor::of(dtype, {4, 1, 1, 1}, {1, 1, -0.00390625, 1.00390625});
    data.bias = HostTensor::of(dtype, {4}, {0, 0.1, 6.1e-5, 333});
    const std::vector<double> x = data.x.values();
    for (const char* algorithm : algorithms) {
      data.run(device, forced(algorithm));
      const std::vector<double> actual = data.y.values();
      int wrong = 0;
      for (std::size_t i = 0; i < actual.size(); ++i) {
        const auto k = static_cast<std::int64_t>(i / 65536);
        // Where the sum is not exact in binary32, fp32 and fp64 may differ by a last place.
        const double exact = x[i % 65536] * data.w.at({k, 0, 0, 0}) + data.bias.at({k});
        if (static_cast<float>(exact) != exact && !std::isnan(exact)) continue;
        const double expected = rounded(dtype, exact);
        wrong += std::isnan(expected) ? !std::isnan(actual[i]) : actual[i] != expected;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("cpu conv: fp64 results are rounded once") {
  const Device device = Device::open("cpu");
  ConvProblem problem = make(1, 3, 1, 1, 1, 1, 1);
  problem.dtype = DType::f16;
  Case data(problem);
  // 1 + 2^-11 + 2^-30 lies above the middle of 1 and its successor 1 + 2^-10. Rounded to binary32
  // first it would be the middle, and then go to the even 1.
  data.x = HostTensor::of(DType::f16, {1, 3, 1, 1}, {1, 0x1p-11, 0x1p-15});
  data.w = HostTensor::of(DType::f16, {1, 3, 1, 1}, {1, 1, 0x1p-15});
  data.bias = HostTensor::of(DType::f16, {1}, {0});
  data.run(device, forced("cpu.conv.im2col.fp64"));
  CHECK(data.y.at({0, 0, 0, 0}) == 1 + 0x1p-10);
  data.x.set({0, 2, 0, 0}, -0x1p-15);  // and now just below
  data.run(device, forced("cpu.conv.im2col.fp64"));
  CHECK(data.y.at({0, 0, 0, 0}) == 1);
}

TEST_CASE("cpu conv: fp32 serves no f64 tensors") {
  const Device device = Device::open("cpu");
  ConvProblem problem = make(1, 1, 3, 3, 1, 2, 2);
  const auto chosen = [&](Math math) {
    ConvOptions options;
    options.math = math;
    return ConvPlan(device, problem, options).algorithm().name;
  };
  problem.dtype = DType::f64;
  for (const char* fp32 : {"cpu.conv.direct.fp32", "cpu.conv.im2col.fp32"})
    REQUIRE_THROWS_MATCHES(ConvPlan(device, problem, {.algorithm = fp32}), Error,
                           MessageMatches(ContainsSubstring("f64")));
  CHECK(chosen(Math::fp32).ends_with("fp64"));
  problem.dtype = DType::f32;
  CHECK(chosen(Math::fp32).ends_with("fp32"));
  CHECK(chosen(Math::fp64).ends_with("fp64"));
}

TEST_CASE("cpu: PLUMB_CPU_ISA lowers the instruction set, and names what it does not know") {
  const std::vector<Device> devices = devices_of_every_instruction_set();
  REQUIRE_FALSE(devices.empty());
  {
    const plumb_test::ForcedInstructionSet force("");
    CHECK(Device::open("cpu").info().instruction_set == devices.back().info().instruction_set);
  }
  const plumb_test::ForcedInstructionSet force("avx1024");
  REQUIRE_THROWS_MATCHES(Device::open("cpu"), Error, MessageMatches(ContainsSubstring("avx1024")));
}
