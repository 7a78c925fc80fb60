// What the tests of the CPU's convolutions share: the algorithms, problems of every shape and order
// in memory, and outputs that are held against the oracle.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "plumb/plumb.hpp"
#include "support/forced_instruction_set.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test::cpu_conv {

using namespace plumb;

constexpr const char* algorithms[] = {
    "cpu.conv.direct.fp32",   "cpu.conv.panels.fp32",      "cpu.conv.im2col.fp32",
    "cpu.conv.fields.fp32",   "cpu.conv.channels.fp32",    "cpu.conv.direct.fp64",
    "cpu.conv.panels.fp64",   "cpu.conv.im2col.fp64",      "cpu.conv.fields.fp64",
    "cpu.conv.channels.fp64", "cpu.conv.fields_spec.fp32", "cpu.conv.fields_spec.fp64",
    "cpu.conv.images.fp32",   "cpu.conv.images.fp64"};

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

inline ConvOptions forced(const char* algorithm, Activation activation = Activation::none) {
  return {.algorithm = algorithm, .bias = true, .activation = activation};
}

/// Whether the algorithm has to run the problem. Fields have no strides; along an axis of one
/// output there is none.
inline bool runs(const char* algorithm, const ConvProblem& p) {
  const std::string_view name(algorithm);
  const bool strided = (p.stride.d > 1 && p.z() > 1) || (p.stride.h > 1 && p.p() > 1) ||
                       (p.stride.w > 1 && p.q() > 1);
  return (p.dtype != DType::f64 || name.ends_with("fp64")) &&
         !(name.starts_with("cpu.conv.fields") && strided);
}

inline ConvProblem make(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w,
                        std::int64_t k, std::int64_t r, std::int64_t s,
                        const ConvGeometry& geometry = {}) {
  ConvProblem p;
  static_cast<ConvGeometry&>(p) = geometry;
  p.n = n, p.c = c, p.h = h, p.w = w, p.k = k, p.r = r, p.s = s;
  return p;
}

inline ConvGeometry geometry(Pair stride, Pair dilation, Padding padding, std::int64_t groups = 1) {
  return {.stride = stride, .dilation = dilation, .padding = padding, .groups = groups};
}

inline std::vector<ConvProblem> shapes() {
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
inline std::vector<ConvProblem> layouts(const ConvProblem& shape) {
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
inline double rounded(DType dtype, double value) {
  return HostTensor::of(dtype, {1}, {value}).at({0});
}

/// The CPU once for each instruction set that this machine has, the baseline first.
inline std::vector<Device> devices_of_every_instruction_set() {
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
    if (!runs(name, data.problem)) continue;
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
inline auto exactly(const Case& data, Activation activation) {
  return [&data, activation, oracle = data.oracle()](const Numerics&, std::size_t i, double y) {
    const bool cut = activation == Activation::relu && oracle[i].y < 0;
    return y == (cut ? 0 : rounded(data.problem.dtype, oracle[i].y));
  };
}

}  // namespace plumb_test::cpu_conv
