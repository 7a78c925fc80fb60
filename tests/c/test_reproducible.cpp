// Reproducible convolutions from C: the option, what an explanation says, and the struct as it was
// before it had the option.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstddef>
#include <cstring>

#include "c_case.hpp"
#include "support/devices.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::c;

namespace {

plumb_conv_problem_nd small() {
  plumb_conv_problem_nd problem;
  REQUIRE(plumb_conv_problem_nd_init(&problem) == PLUMB_OK);
  problem.n = 2, problem.c = 3, problem.h = 9, problem.w = 8;
  problem.k = 4, problem.r = 3, problem.s = 3;
  return problem;
}

}  // namespace

TEST_CASE("c: reproducible leaves the algorithms that say so") {
  const Device cpu = Device::open("cpu");
  if (cpu.info().instruction_set == "sse2") SKIP("no FMA");
  plumb_device* device = nullptr;
  REQUIRE(plumb_device_open("cpu", nullptr, &device) == PLUMB_OK);
  const plumb_conv_problem_nd problem = small();
  plumb_conv_options_nd options;
  REQUIRE(plumb_conv_options_nd_init(&options) == PLUMB_OK);
  CHECK(options.reproducible == 0);
  options.reproducible = 1;
  plumb_explanation* explanation = nullptr;
  REQUIRE(plumb_explain_nd(device, &problem, &options, &explanation) == PLUMB_OK);
  std::size_t entries = 0, refused = 0, left = 0;
  REQUIRE(plumb_explanation_size(explanation, &entries) == PLUMB_OK);
  for (std::size_t i = 0; i < entries; ++i) {
    plumb_candidate candidate;
    std::int32_t reproducible = -1, invariant = -1;
    REQUIRE(plumb_explanation_entry(explanation, i, &candidate) == PLUMB_OK);
    REQUIRE(plumb_explanation_promises(explanation, i, &reproducible, &invariant) == PLUMB_OK);
    const bool runs = std::strcmp(candidate.reason, "none") == 0;
    refused += std::strcmp(candidate.reason, "not_reproducible") == 0;
    left += runs;
    if (runs) CHECK(reproducible == 1);
    if (std::strcmp(candidate.algorithm, "cpu.conv.fields.fp32") == 0) {
      CHECK(reproducible == 0);
      CHECK(invariant == 1);
    }
  }
  CHECK(left > 0);
  CHECK(refused > 0);
  std::int32_t unread = 0;
  CHECK(plumb_explanation_promises(explanation, entries, &unread, &unread) ==
        PLUMB_INVALID_ARGUMENT);
  CHECK(plumb_explanation_promises(explanation, 0, nullptr, &unread) == PLUMB_INVALID_ARGUMENT);
  plumb_explanation_destroy(explanation);
  plumb_device_close(device);
}

TEST_CASE("c: options of the size before reproducible are understood, and shorter ones refused") {
  plumb_device* device = nullptr;
  REQUIRE(plumb_device_open("cpu", nullptr, &device) == PLUMB_OK);
  const plumb_conv_problem_nd problem = small();
  plumb_conv_options_nd options;
  REQUIRE(plumb_conv_options_nd_init(&options) == PLUMB_OK);
  options.struct_size = offsetof(plumb_conv_options_nd, reproducible);
  options.reproducible = 0x5a5a5a5a;  // beyond what the program has
  options.algorithm = "cpu.conv.im2col.fp32";
  plumb_plan* plan = nullptr;
  CHECK(plumb_plan_create_nd(device, &problem, &options, &plan) == PLUMB_OK);
  plumb_plan_destroy(plan);
  plan = nullptr;
  options.struct_size -= 4;
  CHECK(plumb_plan_create_nd(device, &problem, &options, &plan) == PLUMB_INVALID_ARGUMENT);
  CHECK_THAT(plumb_last_message(), Catch::Matchers::ContainsSubstring("struct_size"));
  plumb_device_close(device);
}
