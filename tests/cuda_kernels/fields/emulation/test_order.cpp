// The order of sums of CUDA's field kernels, on the host: plans that claim the one that is
// specified for reproducible results have the bits of the plain loop, whatever the data.
#include <cmath>

#include "emulation.hpp"
#include "field_case.hpp"
#include "field_draw.hpp"
#include "support/sanitized.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::emulation;

namespace {

/// Under a sanitizer every fifth problem.
constexpr std::uint32_t step = plumb_test::is_sanitized ? 5 : 1;

bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

/// What tells orders of sums, starts and signs of zeros apart.
enum class Data { normal, wide, tiny, special };
constexpr Data all_data[] = {Data::normal, Data::wide, Data::tiny, Data::special};

class Values {
 public:
  Values(Data data, DType dtype, std::uint32_t seed)
      : data_(data), single_(dtype == DType::f32), random_(seed) {}

  double operator()() {
    const double value = random_.normal();
    if (data_ == Data::wide) return std::ldexp(value, exponent(single_ ? 30 : 200));
    if (data_ == Data::special && random_.integer(1, 40) == 1)
      return random_.integer(0, 2) > 0 ? std::copysign(INFINITY, value) : NAN;
    if (data_ != Data::tiny) return value;
    // Products are about the smallest numbers, and underflow to zeros of either sign.
    if (random_.integer(1, 3) == 1) return std::copysign(0.0, value);
    return std::ldexp(value, (single_ ? -75 : -537) + exponent(4));
  }

 private:
  int exponent(int most) { return static_cast<int>(random_.integer(-most, most)); }

  Data data_;
  bool single_;
  Random random_;
};

void launch(const FieldPlan& plan, const cuda::FieldCall& call) {
#ifndef PLUMB_FLOATS_ALONE
  if (plan.element_bytes == 8) return cuda::launch_fields_f64(plan, call, nullptr);
#endif
  cuda::launch_fields_f32(plan, call, nullptr);
}

DType drawn_dtype(DType drawn) {
#ifdef PLUMB_FLOATS_ALONE
  drawn = DType::f32;
#endif
  return drawn;
}

/// Runs a plan, and says which element of y has other bits than those that are specified; -1 where
/// none has.
std::int64_t first_other(const ConvProblem& problem, const FieldPlan& plan,
                         const FieldOptions& options, Data data, std::uint32_t seed) {
  const DType dtype = problem.dtype;
  Values values(data, dtype, seed);
  HostTensor x(dtype, problem.x_extents(), problem.x_strides),
      w(dtype, problem.w_extents(), problem.w_strides), bias(dtype, {problem.k}),
      y(dtype, problem.y_extents(), problem.y_strides);
  for (HostTensor* tensor : {&x, &w, &bias, &y}) tensor->fill([&] { return values(); });
  if (data == Data::tiny && seed / 4 % 2 == 0) bias.fill([] { return -0.0; });
  HostTensor expected = y;
  ConvTensors tensors{.x = x.view(), .w = w.view(), .y = expected.view()};
  if (options.bias) tensors.bias = bias.view();
  reproducible_conv(problem,
                    {.activation = options.relu ? Activation::relu : Activation::none,
                     .accumulate = options.accumulate},
                    tensors);
  launch(plan, {.x = x.view().data(),
                .w = w.view().data(),
                .bias = options.bias ? bias.view().data() : nullptr,
                .y = y.view().data(),
                .relu = options.relu,
                .accumulate = options.accumulate,
                .vectors = options.vectors});
  if (!y.surroundings_untouched()) return -2;
  const auto computed = y.values(), bits = expected.values();
  for (std::size_t i = 0; i < computed.size(); ++i)
    if (!same_bits(computed[i], bits[i])) return static_cast<std::int64_t>(i);
  return -1;
}

void check_bits(Draw& draw, const ConvProblem& given, const FieldPlan& plan, std::uint32_t seed) {
  const ConvProblem problem = check(given);
  const FieldOptions options = draw.options();
  const Data data = all_data[draw.number(0, 3)];
  CAPTURE(seed, name(plan.kernel), to_string(problem), to_string(problem.dtype), options.bias,
          options.relu, options.accumulate, options.vectors, static_cast<int>(data), plan.threads_w,
          plan.threads_v, plan.tile_u, plan.outputs, plan.queue.taps, plan.queue.vectors,
          plan.queue.rows, plan.queue.kept_rows);
  CHECK(first_other(problem, plan, options, data, seed) == -1);
}

ConvProblem drawn(Draw& draw, bool of_one_channel) {
  ConvProblem p = draw.problem(draw.number(1, 3));
  p.dtype = drawn_dtype(p.dtype);
  if (of_one_channel) {
    p.c = 1;
    p.x_strides = draw.strides(p.x_extents()), p.w_strides = draw.strides(p.w_extents());
  }
  return p;
}

}  // namespace

TEST_CASE("fields in order, emulated: kernels that claim it have the specified bits") {
  std::uint32_t seed = 50000;
  for (const FieldKernel kernel : kernels) {
    const bool along_u = kernel == FieldKernel::columns || kernel == FieldKernel::queue;
    constexpr int wanted = 60 / static_cast<int>(step);
    int ran = 0;
    // Of those drawn, not every one is for the kernel.
    for (int tries = 0; ran < wanted && tries < 40 * wanted; ++tries) {
      Draw draw(++seed);
      const ConvProblem problem = drawn(draw, along_u ? !draw.one_in(10) : draw.one_in(2));
      FieldChoice choice = draw.choice(kernel);
      choice.in_order = choice.in_order || draw.one_in(2);
      const auto planned = plan(check(problem), choice);
      if (!planned || planned->kernel != kernel || !cuda::sums_in_order(*planned)) continue;
      ++ran;
      check_bits(draw, problem, *planned, seed);
    }
    CAPTURE(name(kernel));
    // Tensor cores have an order of their own.
    CHECK(ran == (kernel == FieldKernel::toeplitz ? 0 : wanted));
  }
}

TEST_CASE("fields in order, emulated: every cut of the queue has the specified bits") {
  std::uint32_t seed = 60000;
  for (const cuda::QueueCut& cut : cuda::queue_cuts)
    for (const Data data : all_data) {
      Draw draw(++seed);
      if (plumb_test::is_left_out(seed)) continue;
      ConvProblem p;
      p.dtype = drawn_dtype(draw.one_in(2) ? DType::f32 : DType::f64);
      if (!is_compiled(cut, static_cast<int>(size_in_bytes(p.dtype)))) continue;
      p.k = cut.filters, p.h = 12, p.w = 32 * 4 * cut.vectors + draw.number(0, 1) * 6;
      p.r = cut.taps, p.s = cut.along_w();
      p.padding.left = p.padding.right = cut.along_w() / 2;
      if (cut.kept_rows != 1 && cut.taps < 9)
        p.d = 4, p.t = cut.taps, p.padding.front = p.padding.back = cut.taps - 1;
      p.boundary = draw.boundary();
      const int number = static_cast<int>(&cut - cuda::queue_cuts) + 1;
      const auto planned = plan(check(p), {.kernel = FieldKernel::queue,
                                           .in_order = true,
                                           .threads = 32,
                                           .tile_u = draw.number(4, 9),
                                           .queue_cut = number});
      CAPTURE(number, to_string(p), to_string(p.dtype), static_cast<int>(data));
      REQUIRE(planned);
      CHECK(first_other(check(p), *planned, draw.options(), data, seed) == -1);
    }
}

TEST_CASE("fields in order, emulated: every field has a plan in order, with the specified bits") {
  for (std::uint32_t seed = 70000; seed < 70200; seed += step) {
    Draw draw(seed);
    const ConvProblem problem = drawn(draw, draw.one_in(3));
    const auto planned = plan(check(problem), {.in_order = true});
    CAPTURE(seed, to_string(problem));
    REQUIRE(planned);
    REQUIRE(cuda::sums_in_order(*planned));
    check_bits(draw, problem, *planned, seed);
  }
}

TEST_CASE("fields in order: which kernels a plan takes") {
  const auto planned = [](const char* text, DType dtype, FieldChoice choice) {
    ConvProblem problem = parse_problem(text).problem;
    problem.dtype = dtype;
    return plan(check(problem), choice);
  };
  const auto kernel = [&](const char* text, DType dtype, bool in_order) {
    const auto found = planned(text, dtype, {.in_order = in_order});
    REQUIRE(found);
    CHECK((!in_order || cuda::sums_in_order(*found)));
    return name(found->kernel);
  };
  const char* const volume = "mb1ic1id256ih256iw256oc1kd3kh3kw3pd1ph1pw1";
  const char* const components = "mb1ic3id256ih256iw256oc3kd3kh3kw3pd1ph1pw1";
  const char* const plane = "mb1ic1ih4096iw4096oc1kh31kw31ph15pw15";
  const char* const odd_volume = "mb1ic1id511ih509iw507oc1kd3kh3kw3pd1ph1pw1_padperiodic";
  const char* const line = "mb1ic1ih1iw67108864oc1kh1kw129ph0pw64";
  for (const bool in_order : {false, true}) CHECK(kernel(volume, DType::f32, in_order) == "queue");
  CHECK(kernel(components, DType::f32, false) == "queue");
  CHECK(kernel(components, DType::f32, true) == "tile");
  CHECK(kernel(odd_volume, DType::f32, false) == "columns");
  CHECK(kernel(odd_volume, DType::f32, true) == "queue");
  CHECK(kernel(plane, DType::f64, false) == "toeplitz");
  CHECK(kernel(plane, DType::f64, true) == "tile");
  CHECK(kernel(line, DType::f64, false) == "toeplitz");
  CHECK(kernel(line, DType::f64, true) == "line");
  // A kernel that is chosen is no way around it.
  CHECK(name(planned(plane, DType::f64, {.kernel = FieldKernel::toeplitz, .in_order = true})
                 ->kernel) == "tile");
  const auto tile = planned(plane, DType::f32, {.kernel = FieldKernel::tile});
  REQUIRE(tile);
  CHECK_FALSE(cuda::sums_in_order(*tile));
}
