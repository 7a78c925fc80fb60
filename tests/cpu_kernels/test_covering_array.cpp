// Every three values of the parameters at their edges meet in some case, and every algorithm of the
// CPU is right on it, with each instruction set.
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>

#include "support/covering.hpp"
#include "support/forced_instruction_set.hpp"
#include "support/sanitized.hpp"

using namespace plumb;

namespace {

const std::vector<plumb_test::Assignment>& cases() {
  static const auto all = plumb_test::covering_array(2e5);
  return all;
}

}  // namespace

TEST_CASE("covering array: no triple of edge values is missing", "[covering]") {
  if (plumb_test::is_sanitized) SKIP("it counts cases, and runs nothing of the library");
  const plumb_test::Triples triples = plumb_test::count_triples(cases());
  fmt::print("covering array: {} cases of {} parameters; {} triples, {} possible, {} covered\n",
             cases().size(), plumb_test::parameters().size(), triples.all, triples.possible,
             triples.covered);
  CHECK(triples.possible > 50000);
  CHECK(triples.covered == triples.possible);
  // Each case is there for a triple of its own: without the last one something is missing.
  auto fewer = cases();
  fewer.pop_back();
  CHECK(plumb_test::count_triples(fewer).covered < triples.possible);
}

TEST_CASE("covering array: the CPU is exact on every case", "[covering]") {
  int validated = 0;
  constexpr std::size_t share = plumb_test::is_thread_sanitized ? 9
                                : plumb_test::is_sanitized      ? 3
                                                                : 1;
  for (const char* name : {"sse2", "avx2", "avx512"}) {
    const plumb_test::ForcedInstructionSet forced(name);
    const Device cpu = Device::open("cpu");
    if (cpu.info().instruction_set != name) continue;  // this machine lacks it
    Validator validator(cpu);
    ValidationOptions options{.tiers = {Tier::exact}};
    int runs = 0;
    for (std::size_t i = 0; i < cases().size(); i += share) {
      options.guard = i % 2 == 0 ? GuardPages::behind : GuardPages::before;
      options.threads = 1 + static_cast<int>(i % 16 == 15);
      const ValidationCase test = plumb_test::case_of(cases()[i]);
      for (const ValidationRecord& record : validator(conv_algorithms(cpu), test, options)) {
        if (record.verdict == Verdict::unsupported) continue;
        ++runs;
        if (record.verdict == Verdict::fail)
          FAIL_CHECK(name << ", case " << i << ": " << record.algorithm << " on " << record.problem
                          << " " << to_string(record.dtype) << ": " << record.sentence);
      }
    }
    fmt::print("covering array: {} runs with {}\n", runs, name);
    validated += runs;
  }
  REQUIRE(validated > 0);
}
