// Distributed against the whole problem on one rank, for random problems on random grids.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "spread_case.hpp"

using namespace plumb;
using namespace plumb_test;

namespace {

/// As many as have been computed; those that a grid cannot take are refused on every rank alike.
struct Counts {
  int computed = 0, refused = 0;
};

/// Where two results first differ; empty where all numbers are the same, of which 0 and -0 are, or
/// with `bits` all bits.
std::string difference(const SpreadResult& result, bool bits) {
  const std::vector<double>&a = result.values, &b = result.expected;
  if (a.size() != b.size()) return "there are " + std::to_string(a.size()) + " values";
  for (std::size_t i = 0; i < a.size(); ++i)
    if (bits ? std::memcmp(&a[i], &b[i], sizeof(double)) != 0 : a[i] != b[i])
      return "value " + std::to_string(i) + " of " + std::to_string(a.size()) + " is " +
             std::to_string(a[i]) + "; expected " + std::to_string(b[i]);
  return {};
}

bool takes_any(SpreadCase&) { return true; }

/// So many, or what PLUMB_MPI_TEST_CASES says, where a run is to be short.
int cases_to_run(int cases) {
  const char* const said = std::getenv("PLUMB_MPI_TEST_CASES");
  return said && *said ? std::min(cases, std::max(1, std::atoi(said))) : cases;
}

/// Compares results of random problems that `adjust` has changed, and says it takes.
template <class Compare>
Counts for_random_cases(Direction direction, int cases, bool integers, const Compare& compare,
                        bool (*adjust)(SpreadCase&) = takes_any) {
  const Device device = test_device();
  cases = cases_to_run(cases);
  Counts counts;
  for (std::uint32_t seed = 1; counts.computed < cases; ++seed) {
    REQUIRE(seed < 40u * static_cast<unsigned>(cases));
    std::optional<SpreadCase> spread = random_case(seed, world_size(), direction);
    if (!spread || !adjust(*spread)) continue;
    const WholeTensors before = whole_tensors(*spread, integers);
    WholeTensors whole = before;
    compute_whole(device, *spread, whole);
    INFO(spread->text() << ", rank " << world_rank());
    try {
      const SpreadResult result =
          compute_spread(device, *spread, before, whole, seed % 4 == 0 ? 3 : 1);
      REQUIRE(result.surroundings_untouched);
      compare(result, *spread);
      ++counts.computed;
    } catch (const Error& e) {
      INFO(e.what());
      const std::string what = e.what();
      REQUIRE((what.find("thinner than the halo") != std::string::npos ||
               what.find("a block of one plane") != std::string::npos ||
               what.find("gets none of the") != std::string::npos ||
               what.find("expected an element a part") != std::string::npos));
      ++counts.refused;
    }
  }
  return counts;
}

}  // namespace

TEST_CASE("sums that are exact are the same on any grid") {
  const auto direction =
      GENERATE(Direction::forward, Direction::backward_data, Direction::backward_weights);
  const Counts counts =
      for_random_cases(direction, 200, true, [](const SpreadResult& result, const SpreadCase&) {
        REQUIRE(difference(result, false) == "");
      });
  CHECK(counts.refused < 3 * counts.computed);
}

TEST_CASE("an algorithm that keeps its order gives the bits of one rank") {
  // Of a gradient with a boundary the sums of a fold are in the order of one rank's too.
  const auto direction = GENERATE(Direction::forward, Direction::backward_data);
  for_random_cases(
      direction, 60, false,
      [](const SpreadResult& result, const SpreadCase&) {
        REQUIRE(difference(result, true) == "");
      },
      [](SpreadCase& spread) {
        spread.options.conv.algorithm =
            test_device().id() == host ? "cpu.conv.direct.fp64" : "cuda.conv.direct.fp64";
        // The order of its sums does not depend on the image's size; under a depth, what is done
        // around it chooses between two orders.
        return spread.problem.dtype == DType::f64 && !spread.problem.has_depth();
      });
}

TEST_CASE("what is reproducible has the bits of one rank", "[reproducible]") {
  if (test_device().info().instruction_set == "sse2") SKIP("no FMA");
  const auto direction =
      GENERATE(Direction::forward, Direction::backward_data, Direction::backward_weights);
  for_random_cases(
      direction, 200, false,
      [](const SpreadResult& result, const SpreadCase&) {
        REQUIRE(difference(result, true) == "");
      },
      [](SpreadCase& spread) {
        ConvProblem& problem = spread.problem;
        if (problem.direction == Direction::backward_weights) {
          if (spread.seed % 3 == 0) problem.dtype = DType::f16;
          // Rows so long that the sum has several segments.
          if (spread.seed % 5 == 0 && spread.options.sizes.w.empty()) problem.w += 1600;
        }
        return spread.options.conv.reproducible = true;
      });
}

TEST_CASE("gradients by the weights differ from one rank's by the rounding of sums") {
  for_random_cases(
      Direction::backward_weights, 60, false,
      [](const SpreadResult& result, const SpreadCase& spread) {
        const double terms = static_cast<double>(check(spread.problem).terms()) + 2;
        const double unit = spread.problem.dtype == DType::f64 ? 0x1p-53 : 0x1p-24;
        REQUIRE(result.values.size() == result.expected.size());
        for (std::size_t i = 0; i < result.values.size(); ++i)
          REQUIRE(std::abs(result.values[i] - result.expected[i]) <= 60 * terms * unit);
      });
}
