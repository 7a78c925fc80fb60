// Problems that memory does not hold, and the roofline, which is of memory or of arithmetic.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <vector>

#include "measure_case.hpp"

using namespace plumb;
using namespace plumb_test::measuring;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Matches;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::WithinRel;

TEST_CASE("a problem that memory does not hold is refused with the bytes, before it is allocated") {
  const Device cpu = Device::open("cpu");
  REQUIRE(fits_in_memory(cpu, problem_of("mb2ic3ih9oc4kh3")));
  const ConvProblem huge = problem_of("mb1ic64ih100000iw100000oc1kh1");  // 2.6 TB
  const Support support = fits_in_memory(cpu, huge);
  REQUIRE(support.reason == Reason::too_large);
  REQUIRE_THAT(support.sentence, Matches("measuring needs [0-9]{13,} bytes on cpu; [0-9]+ are "
                                         "free, of which it may use 90 %"));
  // The workspace counts, too.
  const std::size_t all = cpu.info().memory_bytes;
  REQUIRE(fits_in_memory(cpu, problem_of("mb2ic3ih9oc4kh3"), all).reason == Reason::too_large);
  const auto refused = [&](const auto& work) {
    try {
      work();
      FAIL("was not refused");
    } catch (const Error& error) {
      REQUIRE(error.reason() == Reason::too_large);
      REQUIRE_THAT(error.what(), ContainsSubstring("bytes on cpu"));
    }
  };
  const ConvPlan plan(cpu, check(huge), {.algorithm = "cpu.conv.im2col.fp64"});
  refused([&] { measure({&plan, 1}, few); });
  refused([&] { fit_to_memory(cpu, huge); });
}

TEST_CASE("a batch is cut to what memory holds") {
  const Device cpu = Device::open("cpu");
  const ConvProblem small = problem_of("mb5ic3ih9oc4kh3");
  REQUIRE(fit_to_memory(cpu, small) == small);
  ConvProblem large = problem_of("mb2ic4ih512oc4kh3");
  large.n = std::int64_t{1} << 28;  // a petabyte
  const ConvProblem cut = fit_to_memory(cpu, large);
  REQUIRE(cut.n > 0);
  REQUIRE(cut.bytes() < static_cast<double>(cpu.info().memory_bytes));
  large = problem_of("mb1ic1048576ih4096oc1kh1");  // 70 TB an image
  REQUIRE_THROWS_MATCHES(fit_to_memory(cpu, large), Error,
                         MessageMatches(ContainsSubstring("not one image")));
}

TEST_CASE("the roofline is the slower of memory and arithmetic") {
  const DeviceCeilings ceilings{.bytes_per_second = 1e12,
                                .fp64_flop_per_second = 1e12,
                                .fp32_flop_per_second = 2e12,
                                .tf32_flop_per_second = 8e12,
                                .fp16_flop_per_second = 16e12};
  ConvProblem dense = problem_of("mb4ic256ih14oc256kh3ph1");
  // In three products of fp16, or by FMAs where those are faster.
  REQUIRE_THAT(roofline_seconds(ceilings, dense, Math::fp32),
               WithinRel(3 * dense.flop() / 16e12, 1e-12));
  DeviceCeilings slow_halves = ceilings;
  slow_halves.fp16_flop_per_second = 5e12;
  REQUIRE_THAT(roofline_seconds(slow_halves, dense, Math::fp32),
               WithinRel(dense.flop() / 2e12, 1e-12));
  REQUIRE_THAT(roofline_seconds(ceilings, dense, Math::fp64),
               WithinRel(dense.flop() / 1e12, 1e-12));
  REQUIRE_THAT(roofline_seconds(ceilings, dense, Math::tf32),
               WithinRel(dense.flop() / 8e12, 1e-12));
  // There is no bf16 here: what is more accurate may serve.
  REQUIRE_THAT(roofline_seconds(ceilings, dense, Math::bf16),
               WithinRel(dense.flop() / 8e12, 1e-12));
  dense.dtype = DType::f16;  // products of stored halves round nothing
  REQUIRE_THAT(roofline_seconds(ceilings, dense, Math::fp32),
               WithinRel(dense.flop() / 16e12, 1e-12));
  dense.dtype = DType::bf16;  // as fast as what is more accurate, where there is no bf16
  REQUIRE_THAT(roofline_seconds(ceilings, dense, Math::fp32),
               WithinRel(dense.flop() / 8e12, 1e-12));
  REQUIRE(roofline_seconds({}, dense, Math::fp32) == 0);  // nothing is known of the device
  // What is pooled is not written.
  ConvProblem first = problem_of("mb100ic1ih86oc4kh7");
  const double bytes = first.bytes();
  first = problem_of("mb100ic1ih86oc4kh7_poolmax2x2");
  REQUIRE(first.bytes() == bytes - 100 * 4 * (80 * 80 - 40 * 40) * 4);
  const ConvProblem thin = problem_of("mb4ic256ih14oc1kh1");
  REQUIRE_THAT(roofline_seconds(ceilings, thin, Math::fp32), WithinRel(thin.bytes() / 1e12, 1e-12));
}
