// kokkos.conv.rows, whose inner loops are compiled for several instruction sets: each that this
// processor has, against the oracle, with small integers that every order of summation adds alike.
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <string>
#include <vector>

#include "plumb/plumb.hpp"
#include "plumb/problem_text.hpp"
#include "plumb/validate.hpp"
#include "support/forced_instruction_set.hpp"
#include "support/host_tensor.hpp"

using namespace plumb;
using namespace plumb_test;

namespace {

/// Rows of less than a granule, of several segments, and with a last segment that goes back;
/// filters that lie on every row of a block and on some; every boundary; one row for itself.
constexpr const char* problems[] = {
    "mb2ic2iw5oc3kw3pw1",
    "mb1ic1iw300oc1kw129pw64",
    "mb1ic1ih9iw131oc1kh3kw3ph1pw1",
    "mb1ic2ih6iw40oc2kh5kw2ph2padclamp",
    "mb1ic1ih3iw70oc1kh3kw9ph1pw4padreflect",
    "mb2ic4g2id4ih6iw20oc4kd3kh3kw3pd1ph1pw1padperiodic",
    "mb1ic1id5ih7iw150oc2kd2kh1kw4sd2sh1sw1ph0pw3padsymmetric",
    "mb1ic1ih11iw33oc1kh3kw3sh2sw1dh1dw2ph2pw3",
};

/// What the processor has no instructions for is left out.
std::vector<const char*> instruction_sets() {
  std::vector<const char*> available;
  for (const char* name : {"sse2", "avx2", "avx512"}) {
    const ForcedInstructionSet forced(name);
    try {
      if (Device::open("cpu").info().instruction_set == name) available.push_back(name);
    } catch (const Error&) {
      continue;
    }
  }
  return available;
}

/// How many of y's elements are not what the oracle says, added to what y held.
std::int64_t wrong_elements(const Device& device, const ConvProblem& problem, bool inf) {
  int next = 0;
  const auto small = [&] { return static_cast<double>(next++ * 7 % 11 - 5); };
  HostTensor x(problem.dtype, problem.x_extents()), w(problem.dtype, problem.w_extents());
  HostTensor y(problem.dtype, problem.y_extents());
  x.fill(small), w.fill(small), y.fill(small);
  if (inf) {
    Dims corner = w.extents();
    for (int i = 0; i < corner.rank(); ++i) corner[i] = 0;
    w.set(corner, std::numeric_limits<double>::infinity());
  }
  const std::vector<double> before = y.values();
  const std::vector<OracleTerm> oracle = conv_oracle(problem, x.view(), w.view());
  const bool is_double = problem.dtype == DType::f64;
  const ConvOptions options{
      .algorithm = is_double ? "kokkos.conv.rows.fp64" : "kokkos.conv.rows.fp32",
      .accumulate = true};
  Queue queue(device);
  const DeviceTensor device_x(queue, x), device_w(queue, w), device_y(queue, y);
  ConvPlan(device, problem, options)
      .execute(queue, {.x = device_x, .w = device_w, .bias = {}, .y = device_y});
  device_y.read_back(queue, y);
  const std::vector<double> after = y.values();
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const double expected = oracle[i].y + before[i];
    wrong += after[i] != expected && !(after[i] != after[i] && expected != expected);
  }
  return wrong;
}

}  // namespace

TEST_CASE("rows on every instruction set") {
  const std::vector<const char*> available = instruction_sets();
  for (const char* name : available) {
    const ForcedInstructionSet forced(name);
    const Device device = Device::open("kokkos");
    for (const char* text : problems)
      for (const DType dtype : {DType::f32, DType::f64})
        for (const bool inf : {false, true}) {
          ConvProblem problem = parse_problem(text).problem;
          problem.dtype = dtype;
          CAPTURE(name, text, to_string(dtype), inf);
          CHECK(wrong_elements(device, check(problem), inf) == 0);
        }
  }
}
