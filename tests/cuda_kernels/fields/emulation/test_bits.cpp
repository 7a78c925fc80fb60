// The bits of CUDA's field kernels, and of backward weights by the tree, on the host: where a
// kernel claims the specified order, its results are those of the plain loop, bit for bit.
#include <map>

#include "cuda_kernels/fields/emulation/weights_tree_on_host.hpp"
#include "emulation.hpp"
#include "field_case.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::emulation;

namespace {

bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

/// Runs a plan on normal data, and says whether y has the specified bits.
bool has_bits(const ConvProblem& given, const FieldPlan& plan, std::uint32_t seed, bool bias,
              bool accumulate) {
  const ConvProblem problem = check(given);
  Random random(seed);
  HostTensor x(problem.dtype, problem.x_extents(), problem.x_strides),
      w(problem.dtype, problem.w_extents(), problem.w_strides), b(problem.dtype, {problem.k}),
      y(problem.dtype, problem.y_extents(), problem.y_strides);
  for (HostTensor* tensor : {&x, &w, &b, &y}) tensor->fill([&] { return random.normal(); });
  HostTensor expected = y;
  ConvTensors tensors{.x = x.view(), .w = w.view(), .y = expected.view()};
  if (bias) tensors.bias = b.view();
  reproducible_conv(problem, {.accumulate = accumulate}, tensors);
  const cuda::FieldCall call{.x = x.view().data(),
                             .w = w.view().data(),
                             .bias = bias ? b.view().data() : nullptr,
                             .y = y.view().data(),
                             .accumulate = accumulate};
  if (problem.dtype == DType::f32)
    cuda::launch_fields_f32(plan, call, nullptr);
  else
    cuda::launch_fields_f64(plan, call, nullptr);
  const auto values = y.values(), bits = expected.values();
  return std::equal(values.begin(), values.end(), bits.begin(), same_bits);
}

constexpr FieldKernel kernels[] = {FieldKernel::tile, FieldKernel::line, FieldKernel::columns,
                                   FieldKernel::queue, FieldKernel::toeplitz};

}  // namespace

TEST_CASE("fields emulated: plans that claim the specified order have its bits") {
  std::map<int, int> seen;  // runs by kernel
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    Random random(seed);
    const auto number = [&](int low, int high) {
      return static_cast<int>(random.integer(low, high));
    };
    ConvProblem p;
    p.dtype = number(0, 1) ? DType::f32 : DType::f64;
    p.n = number(1, 2), p.c = number(0, 2) ? 1 : number(2, 6), p.k = number(1, 5);
    const int taps = 3 + 2 * number(0, 2), rank = number(1, 3);
    p.w = number(20, 150), p.s = number(0, 2) ? taps : number(1, 12),
    p.padding.left = p.padding.right = p.s / 2;
    if (rank > 1) p.h = number(10, 30), p.r = taps, p.padding.top = p.padding.bottom = taps / 2;
    if (rank > 2) p.d = number(9, 14), p.t = taps, p.padding.front = p.padding.back = taps / 2;
    if (number(0, 1)) p.boundary = Boundary::periodic;
    const FieldKernel kernel = kernels[number(0, 4)];
    const auto planned = plan(check(p), {.kernel = kernel});
    if (!planned || planned->kernel != kernel) continue;
    if (!cuda::sums_in_order(*planned)) continue;
    ++seen[static_cast<int>(kernel)];
    CAPTURE(seed, static_cast<int>(kernel), to_string(p), to_string(p.dtype));
    CHECK(has_bits(p, *planned, seed, number(0, 1), number(0, 2) == 0));
  }
  // Others have them too, where the data do not tell, or without a bias: that is no claim.
  CHECK(seen[static_cast<int>(FieldKernel::line)] >= 10);
}

TEST_CASE("weights_tree on the host: the bits of the plain loop") {
  for (const char* text : {"mb3ic2ih70iw80oc2kh3ph1", "g2mb2ic4ih9iw38oc6kh3sh2ph1",
                           "mb2ic2id6ih5iw6oc3kd2kh3kw3pd1ph1", "mb2ic1ih1iw9000oc1kh1kw5pw2dw1",
                           "mb70ic1ih7iw5oc2kh2"})
    for (const DType dtype : {DType::f32, DType::f64})
      for (const bool accumulate : {false, true}) {
        ConvProblem problem = parse_problem(text).problem;
        problem.direction = Direction::backward_weights;
        problem.dtype = dtype;
        problem = check(problem);
        Random random(7);
        HostTensor x(dtype, problem.x_extents()), dy(dtype, problem.y_extents()),
            dw(dtype, problem.w_extents());
        for (HostTensor* tensor : {&x, &dy, &dw}) tensor->fill([&] { return random.normal(); });
        HostTensor expected = dw;
        reproducible_conv(problem, {.accumulate = accumulate},
                          {.x = x.view(), .w = dy.view(), .y = expected.view()});
        for (const std::int64_t parts : {1, 3, 64}) {
          HostTensor result = dw;
          weights_tree_on_host(problem, x.view().data(), dy.view().data(), result.view().data(),
                               accumulate, parts);
          CAPTURE(text, to_string(dtype), accumulate, parts);
          CHECK(result.values() == expected.values());
        }
      }
}
