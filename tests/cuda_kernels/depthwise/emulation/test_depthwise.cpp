// The depthwise kernels of CUDA on the host, where no GPU is: their sources as they are, every
// form, type, rank and layout, are the oracle's bit for bit.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cuda_kernels/depthwise/depthwise.hpp"
#include "plumb/plumb.hpp"
#include "plumb/validate.hpp"
#include "support/host_tensor.hpp"
#include "support/sanitized.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb::cuda;

namespace {

#ifdef PLUMB_FLOATS_ALONE
constexpr bool floats_alone = true;
#else
constexpr bool floats_alone = false;
#endif
/// Under a sanitizer every fourth problem, with some of a kernel's forms.
constexpr std::uint32_t every = is_sanitized ? 4 : 1;
constexpr bool all_forms = !floats_alone && !is_sanitized;
constexpr DType dtypes[] = {DType::f32, DType::f16, DType::bf16, DType::f64};

class Draw {
 public:
  explicit Draw(std::uint32_t seed) : random_(seed), dilations_(seed + 1'000'000) {}
  int number(int low, int high) { return static_cast<int>(random_.integer(low, high)); }
  bool one_in(int count) { return number(1, count) == 1; }
  Random& random() { return random_; }

  /// `small`: the filters that are compiled.
  ConvProblem problem(bool small) {
    ConvProblem p;
    const int rank = one_in(4) ? 1 : one_in(3) ? 3 : 2;
    if (small) taps_ = rank == 1 ? number(3, 4) : rank == 3 ? 3 : 2 * number(1, 3) + 1;
    stride_ = rank == 2 && taps_ < 7 && one_in(2) ? 2 : 1;
    p.dtype = floats_alone ? DType::f32 : dtypes[number(0, 3)];
    p.n = one_in(3) ? number(2, 7) : 1;
    p.c = one_in(2) ? 8 * number(1, 5) : number(1, 40);
    p.k = p.c * (one_in(4) ? number(2, 3) : 1), p.groups = p.c;
    if (rank == 3)
      axis(10, p.d, p.t, p.stride.d, p.dilation.d, p.padding.front, p.padding.back, p.boundary.d);
    if (rank > 1)
      axis(18, p.h, p.r, p.stride.h, p.dilation.h, p.padding.top, p.padding.bottom, p.boundary.h);
    axis(rank == 1 ? 90 : 34, p.w, p.s, p.stride.w, p.dilation.w, p.padding.left, p.padding.right,
         p.boundary.w);
    const bool nhwc = one_in(2);
    p.x_strides = strides(p.x_extents(), nhwc), p.y_strides = strides(p.y_extents(), nhwc);
    p.w_strides = strides(p.w_extents(), false);
    return p;
  }

 private:
  void axis(int most, std::int64_t& extent, std::int64_t& taps, std::int64_t& stride,
            std::int64_t& dilation, std::int64_t& before, std::int64_t& after, Boundary& boundary) {
    constexpr Boundary boundaries[] = {Boundary::periodic, Boundary::reflect, Boundary::symmetric,
                                       Boundary::clamp};
    extent = number(2, most);
    if (taps_ > 0) {
      taps = taps_, stride = stride_;
      dilation = 1;
      if (stride == 1 && dilations_.integer(1, 4) == 1)
        dilation = static_cast<int>(dilations_.integer(2, 4));
      const std::int64_t reach = (taps - 1) * dilation + 1;
      before = one_in(3) ? number(0, 4) : taps % 2 == 1 ? reach / 2 : reach - 1;
      after = one_in(3) ? number(0, 4) : reach / 2;
      if (one_in(3)) extent = 4 * number(1, most / 4);
      after += std::max<std::int64_t>(0, reach - before - extent - after);
      if (one_in(4)) boundary = boundaries[number(0, 3)];
      return;
    }
    taps = one_in(3) ? number(1, 12) : 1 + 2 * number(1, 3);
    stride = one_in(3) ? number(1, 5) : one_in(3) ? 2 : 1;
    dilation = one_in(5) ? number(2, 3) : 1;
    const auto reach = (taps - 1) * dilation + 1;
    before = one_in(3) ? number(0, 4) : reach / 2;
    after = one_in(3) ? number(0, 4) : reach / 2;
    after += std::max<std::int64_t>(0, reach - before - extent - after);
    if (one_in(4)) boundary = boundaries[number(0, 3)];
  }

 public:
  /// A form of whole planes: dense images or lines of one filter a channel, padded with zeros.
  ConvProblem whole() {
    constexpr std::array<int, 3> forms[] = {{3, 1, 1}, {3, 2, 1}, {5, 1, 1}, {5, 2, 1},
                                            {7, 1, 1}, {3, 1, 2}, {3, 1, 3}, {5, 1, 2}};
    ConvProblem p;
    const auto [taps, stride, dilation] = forms[number(0, 7)];
    p.dtype = floats_alone ? DType::f32 : dtypes[number(0, 3)];
    p.n = number(1, 4), p.c = p.k = p.groups = number(2, 40);
    p.s = taps, p.stride.w = stride, p.dilation.w = dilation;
    padded(30, p.w, p.s, dilation, p.padding.left, p.padding.right);
    if (!one_in(5)) {
      p.r = one_in(3) ? number(1, 7) : taps;
      p.stride.h = one_in(4) ? number(1, 3) : stride;
      p.dilation.h = one_in(4) ? number(1, 3) : dilation;
      padded(18, p.h, p.r, p.dilation.h, p.padding.top, p.padding.bottom);
    }
    return p;
  }

  /// A form of staged rows: images of whole vectors of channels side by side, one filter each,
  /// padded with zeros.
  ConvProblem staged() {
    constexpr std::array<int, 3> forms[] = {{3, 1, 1}, {3, 2, 1}, {5, 1, 1}, {5, 2, 1},
                                            {7, 1, 1}, {3, 1, 2}, {5, 1, 2}, {3, 1, 3}};
    ConvProblem p;
    const auto [taps, stride, dilation] = forms[number(0, 7)];
    p.dtype = floats_alone ? DType::f32 : dtypes[number(0, 3)];
    p.n = number(1, 4), p.c = p.k = p.groups = 8 * number(1, 9);
    p.r = p.s = taps, p.stride.h = p.stride.w = stride;
    p.dilation.w = dilation;
    p.dilation.h = stride == 1 && one_in(5) ? number(1, 3) : dilation;
    padded(24, p.w, p.s, p.dilation.w, p.padding.left, p.padding.right);
    padded(24, p.h, p.r, p.dilation.h, p.padding.top, p.padding.bottom);
    // A stride to no second output is of either form.
    if (one_in(8)) p.w = 1, p.padding.left = p.padding.right = (p.s - 1) * p.dilation.w / 2;
    p.x_strides = strides(p.x_extents(), true), p.y_strides = strides(p.y_extents(), true);
    p.x_strides[1] = p.y_strides[1] = 1;  // other axes may be mirrored
    p.w_strides = strides(p.w_extents(), one_in(2));
    return p;
  }

  /// Columns lie side by side; other axes may be mirrored.
  void place_in_planes(ConvProblem& p) {
    p.x_strides = strides(p.x_extents(), false), p.y_strides = strides(p.y_extents(), false);
    for (Strides* of : {&p.x_strides, &p.y_strides}) (*of)[of->rank() - 1] = 1;
  }

 private:
  void padded(int most, std::int64_t& extent, std::int64_t taps, std::int64_t dilation,
              std::int64_t& before, std::int64_t& after) {
    const std::int64_t reach = (taps - 1) * dilation + 1;
    extent = one_in(3) ? 7 * number(1, 2) : number(1, most);
    before = one_in(3) ? number(0, 4) : reach / 2;
    after = one_in(3) ? number(0, 4) : reach / 2;
    after += std::max<std::int64_t>(0, reach - before - extent - after);
  }

  Strides strides(const Extents& extents, bool channels_last) {
    Dims order = extents;
    for (int i = 0; i < order.rank(); ++i) order[i] = i;
    if (channels_last) {
      for (int i = 1; i + 1 < order.rank(); ++i) order[i] = i + 1;
      order[order.rank() - 1] = 1;
    }
    Strides strides = strides_in_order(extents, order, one_in(3) ? number(1, 3) * 8 : 0);
    if (one_in(12)) {
      std::int64_t& mirrored = strides[number(0, strides.rank() - 1)];
      mirrored = -mirrored;
    }
    return strides;
  }

  Random random_, dilations_;
  int taps_ = 0, stride_ = 1;
};

void fill(HostTensor& tensor, Random& random) {
  tensor.fill([&] { return random.integer(-3, 3); });
}

/// Puts `value` somewhere, or at the first element.
void put(HostTensor& tensor, Random& random, double value, bool first) {
  Dims index = tensor.extents();
  for (int i = 0; i < index.rank(); ++i)
    index[i] = first ? 0
                     : static_cast<std::int64_t>(
                           random.integer(0, static_cast<int>(tensor.extents()[i]) - 1));
  tensor.set(index, value);
}

/// The launch for a stored type, which is not asked for where only floats are linked.
auto launch_of(DType dtype) {
#ifndef PLUMB_FLOATS_ALONE
  if (dtype == DType::f16) return launch_depthwise_f16;
  if (dtype == DType::bf16) return launch_depthwise_bf16;
  if (dtype == DType::f64) return launch_depthwise_f64;
#endif
  static_cast<void>(dtype);
  return launch_depthwise_f32;
}

/// The kernel, the stored type, and what the kernel is compiled for.
using Form = std::vector<int>;
Form form_of(const DepthwisePlan& plan, DType dtype) {
  if (plan.direct)
    return {plan.direct->rows ? 6 : 5, static_cast<int>(dtype), plan.direct->form.taps,
            plan.direct->form.stride};
  if (plan.staged)
    return {4, static_cast<int>(dtype), plan.staged->form.taps, plan.staged->form.stride};
  if (plan.kernel == DepthwiseKernel::march) {
    const MarchCut& cut = plan.wide_march ? *plan.wide_march : *plan.march;
    const MarchForm& form = cut.form;
    return {0,           static_cast<int>(dtype),
            form.width,  form.columns,
            form.taps_m, form.taps_r,
            form.taps_s, form.stride};
  }
  if (plan.whole)
    return {3, static_cast<int>(dtype), plan.whole->form.taps, plan.whole->form.stride,
            plan.whole->form.dilation};
  const DepthwiseForm& form = plan.wide ? plan.wide->form : plan.cut.form;
  return {static_cast<int>(plan.kernel), static_cast<int>(dtype), form.width, form.chunk,
          form.stride};
}

/// Runs a problem by a kernel, and returns what is wrong.
std::string run(const ConvProblem& drawn, DepthwiseKernel kernel, Draw& draw, std::set<Form>& forms,
                std::optional<bool> whole = {}, std::optional<bool> staged = {},
                bool direct = false) {
  const ConvProblem problem = check(drawn);
  DeviceInfo device;
  device.units = 132;
  DepthwiseChoice choice;
  if (draw.one_in(2)) {
    choice.threads = 32 << draw.number(0, 2), choice.lanes = 1 << draw.number(2, 5);
    choice.vectors = !draw.one_in(6);
    choice.length = draw.number(0, 9);
    if (choice.length == 0) choice.images = 1 << draw.number(0, 2);
  } else if (draw.one_in(2)) {
    choice.vectors = true;  // where the planner would take the other form
  }
  choice.whole = whole, choice.staged = staged, choice.direct = direct;
  if (staged == true) choice.threads = std::max(choice.threads, 64);  // a dilation's phases
  auto plan = plan_depthwise(problem, kernel, device, choice);
  if (!plan) return "no plan";
  if (whole && plan->whole.has_value() != *whole) return "planes are not held whole";
  if (staged && plan->staged.has_value() != *staged) return "rows are not staged";
  if (plan->direct.has_value() != direct) return direct ? "no plan" : "not what was asked for";
  forms.insert(form_of(*plan, problem.dtype));
  HostTensor x(problem.dtype, problem.x_extents(), problem.x_strides),
      w(problem.dtype, problem.w_extents(), problem.w_strides), bias(problem.dtype, {problem.k}),
      y(problem.dtype, problem.y_extents(), problem.y_strides);
  for (HostTensor* tensor : {&x, &w, &bias, &y}) fill(*tensor, draw.random());
  if (draw.one_in(4)) {
    put(x, draw.random(), NAN, false), put(x, draw.random(), INFINITY, false);
    put(w, draw.random(), INFINITY, draw.one_in(2));
  }
  const bool with_bias = draw.one_in(2), relu = draw.one_in(3), accumulate = draw.one_in(3);
  std::vector<double> expected = y.values();
  std::size_t at = 0;
  for (const OracleTerm& term :
       conv_oracle(problem, x.view(), w.view(), with_bias ? bias.view() : ConstTensorView())) {
    double& value = expected[at++];
    value = term.y + (accumulate ? value : 0);
    if (relu && value < 0) value = 0;
  }
  const ConvLaunch call{.problem = problem,
                        .device = device,
                        .x = x.view().data(),
                        .w = w.view().data(),
                        .bias = with_bias ? bias.view().data() : nullptr,
                        .y = y.view().data(),
                        .activation = relu ? Activation::relu : Activation::none,
                        .accumulate = accumulate,
                        .workspace = nullptr,
                        .native_queue = nullptr};
  try {
    launch_of(problem.dtype)(*plan, call);
  } catch (const std::exception& error) {
    return error.what();
  }
  if (!y.surroundings_untouched()) return "wrote beside y";
  HostTensor rounded(problem.dtype, {1});
  const std::vector<double> values = y.values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    rounded.set({0}, expected[i]);
    const double value = rounded.at({0});
    if (values[i] != value && !(std::isnan(values[i]) && std::isnan(value)))
      return "element " + std::to_string(i) + " of " + std::to_string(values.size()) + " is " +
             std::to_string(values[i]) + ", expected " + std::to_string(value);
  }
  return {};
}

void run_all(DepthwiseKernel kernel, std::uint32_t problems, std::size_t least_forms,
             std::optional<bool> whole = {}, std::optional<bool> staged = {}) {
  std::set<Form> forms;
  int failures = 0;
  for (std::uint32_t seed = 0; seed < problems && failures < 5; seed += every) {
    Draw draw(seed);
    const ConvProblem problem = draw.problem(kernel == DepthwiseKernel::march);
    CAPTURE(seed, to_string(problem), to_string(problem.dtype));
    const std::string wrong = run(problem, kernel, draw, forms, whole, staged);
    if (wrong == "no plan") continue;
    CHECK(wrong == "");
    failures += !wrong.empty();
  }
  if (all_forms) CHECK(forms.size() >= least_forms);
}

}  // namespace

TEST_CASE("depthwise emulated: random problems of march") {
  // Sixteen forms of three types, and of f64 twelve, where some are along rows and channels alike.
  run_all(DepthwiseKernel::march, 600, 60, {}, false);
}

TEST_CASE("depthwise emulated: random problems of planes") {
  run_all(DepthwiseKernel::planes, 150, 8, false);  // two forms of four types
}

TEST_CASE("depthwise emulated: random problems of channels") {
  run_all(DepthwiseKernel::channels, 150, 14);  // four forms of three types and two of f64
}

TEST_CASE("depthwise emulated: random problems of whole") {
  std::set<Form> forms;
  int failures = 0;
  for (std::uint32_t seed = 0; seed < 400 && failures < 5; seed += every) {
    Draw draw(seed);
    const ConvProblem problem = draw.whole();
    CAPTURE(seed, to_string(problem), to_string(problem.dtype));
    const std::string wrong = run(problem, DepthwiseKernel::planes, draw, forms, true);
    CHECK(wrong == "");
    failures += !wrong.empty();
  }
  if (all_forms) CHECK(forms.size() == 4 * std::size(whole_forms));
}

TEST_CASE("depthwise emulated: random problems of staged") {
  std::set<Form> forms;
  int failures = 0;
  for (std::uint32_t seed = 0; seed < 400 && failures < 5; seed += every) {
    Draw draw(seed);
    const ConvProblem problem = draw.staged();
    CAPTURE(seed, to_string(problem), to_string(problem.dtype));
    const std::string wrong = run(problem, DepthwiseKernel::march, draw, forms, {}, true);
    CHECK(wrong == "");
    failures += !wrong.empty();
  }
  if (all_forms) CHECK(forms.size() == 4 * std::size(staged_forms));
}

TEST_CASE("depthwise emulated: random problems of direct") {
  std::set<Form> forms;
  int failures = 0;
  for (std::uint32_t seed = 0; seed < 900 && failures < 5; seed += every) {
    Draw draw(seed);
    ConvProblem problem = draw.staged();  // of which some are dilated, or have larger filters
    if (seed % 2 == 0) draw.place_in_planes(problem);
    CAPTURE(seed, to_string(problem), to_string(problem.dtype));
    const std::string wrong = run(problem, DepthwiseKernel::march, draw, forms, {}, {}, true);
    if (wrong == "no plan") continue;
    CHECK(wrong == "");
    failures += !wrong.empty();
  }
  if (all_forms) CHECK(forms.size() == 2 * 4 * std::size(direct_forms));
}

TEST_CASE("depthwise emulated: large filters, and images of many planes") {
  std::set<Form> forms;
  for (const DepthwiseKernel kernel : {DepthwiseKernel::planes, DepthwiseKernel::channels})
    for (const int taps : {9, 31, 63}) {
      ConvProblem p;
      p.c = p.k = p.groups = 3, p.h = 13, p.w = 37, p.r = p.s = taps;
      p.padding = {taps / 2, taps / 2, taps / 2, taps / 2};
      Draw draw(static_cast<std::uint32_t>(taps));
      CAPTURE(taps);
      CHECK(run(p, kernel, draw, forms, false) == "");
      p.n = 5, p.c = p.k = p.groups = 32, p.h = p.w = 7, p.r = p.s = 3;
      p.padding = {1, 1, 1, 1};
      CHECK(run(p, kernel, draw, forms, false) == "");
    }
}
