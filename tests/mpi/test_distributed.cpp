// Distributed against the whole problem on one rank, for random problems on random grids.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "spread_case.hpp"

using namespace plumb;
using namespace plumb_test;

namespace {

constexpr Boundary boundaries[] = {Boundary::zeros, Boundary::periodic, Boundary::reflect,
                                   Boundary::symmetric, Boundary::clamp};

/// As many as have been computed; those that a grid cannot take are refused on every rank alike.
struct Counts {
  int computed = 0, refused = 0;
  std::array<int, std::size(boundaries)> of_boundary{};  ///< with padding along such an axis
  bool ended_early = false;
};

/// How many problems a run is to compute: at least so many in all, and with each boundary.
struct Goal {
  int all = 0, of_each_boundary = 0;
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

/// A number from the environment that makes a run shorter, or `otherwise`.
int shortened_by(const char* name, int otherwise) {
  const char* const said = std::getenv(name);
  return said && *said ? std::min(otherwise, std::max(1, std::atoi(said))) : otherwise;
}

/// The boundaries that a problem's windows meet.
std::array<bool, std::size(boundaries)> boundaries_of(const ConvProblem& problem) {
  std::array<bool, std::size(boundaries)> met{};
  const auto axis = [&](Boundary boundary, std::int64_t before, std::int64_t after) {
    if (before + after > 0) met[static_cast<std::size_t>(boundary)] = true;
  };
  const Padding& padding = problem.padding;
  axis(problem.boundary.d, padding.front, padding.back);
  axis(problem.boundary.h, padding.top, padding.bottom);
  axis(problem.boundary.w, padding.left, padding.right);
  return met;
}

/// Counts towards a goal, the same on every rank.
class Progress {
 public:
  explicit Progress(const Goal& goal)
      : goal_{shortened_by("PLUMB_MPI_TEST_CASES", goal.all),
              shortened_by("PLUMB_MPI_TEST_CASES", goal.of_each_boundary)},
        limit_(shortened_by("PLUMB_MPI_TEST_SECONDS", 1 << 20)) {}
  bool is_reached() const { return counts.computed >= goal_.all && !lacks_any(); }
  /// Whether it brings the goal nearer.
  bool wants(const ConvProblem& problem) const {
    if (counts.computed < goal_.all) return true;
    const auto met = boundaries_of(problem);
    for (std::size_t i = 0; i < met.size(); ++i)
      if (met[i] && counts.of_boundary[i] < goal_.of_each_boundary) return true;
    return false;
  }
  void count(const ConvProblem& problem) {
    ++counts.computed;
    const auto met = boundaries_of(problem);
    for (std::size_t i = 0; i < met.size(); ++i) counts.of_boundary[i] += met[i] ? 1 : 0;
  }
  /// Rank 0's clock, so that all ranks end at the same problem.
  bool is_out_of_time() {
    int late = MPI_Wtime() - begin_ > limit_ ? 1 : 0;
    MPI_Bcast(&late, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return counts.ended_early = late != 0;
  }
  unsigned seeds() const {
    return 100u * static_cast<unsigned>(std::max(goal_.all, goal_.of_each_boundary));
  }
  Counts counts;

 private:
  bool lacks_any() const {
    return *std::min_element(counts.of_boundary.begin(), counts.of_boundary.end()) <
           goal_.of_each_boundary;
  }
  Goal goal_;
  double limit_, begin_ = MPI_Wtime();
};

/// A line that says what was compared.
void report(Direction direction, const Counts& counts) {
  if (world_rank() != 0) return;
  const Device device = test_device();
  std::printf("same bits: %s, %d ranks, first on %s (%s), %d problems",
              std::string(to_string(direction)).c_str(), world_size(),
              to_string(device.id()).c_str(), device.info().name.c_str(), counts.computed);
  for (std::size_t i = 0; i < counts.of_boundary.size(); ++i)
    std::printf(", %d %s", counts.of_boundary[i], std::string(to_string(boundaries[i])).c_str());
  std::printf("%s\n", counts.ended_early ? " (out of time)" : "");
  std::fflush(stdout);
}

/// Compares results of random problems that `adjust` has changed, and says it takes.
template <class Compare>
Counts for_random_cases(Direction direction, const Goal& goal, bool integers,
                        const Compare& compare, bool (*adjust)(SpreadCase&) = takes_any) {
  const Device device = test_device();
  Progress progress(goal);
  Counts& counts = progress.counts;
  for (std::uint32_t seed = 1; !progress.is_reached() && !progress.is_out_of_time(); ++seed) {
    REQUIRE(seed < progress.seeds());
    std::optional<SpreadCase> spread = random_case(seed, world_size(), direction);
    if (!spread || !adjust(*spread) || !progress.wants(spread->problem)) continue;
    const WholeTensors before = whole_tensors(*spread, integers);
    WholeTensors whole = before;
    compute_whole(device, *spread, whole);
    INFO(spread->text() << ", rank " << world_rank());
    try {
      const SpreadResult result =
          compute_spread(device, *spread, before, whole, seed % 4 == 0 ? 3 : 1);
      REQUIRE(result.surroundings_untouched);
      compare(result, *spread);
      progress.count(spread->problem);
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
  const Counts counts = for_random_cases(direction, {.all = 200}, true,
                                         [](const SpreadResult& result, const SpreadCase&) {
                                           REQUIRE(difference(result, false) == "");
                                         });
  CHECK(counts.refused < 3 * counts.computed);
}

TEST_CASE("an algorithm that keeps its order gives the bits of one rank") {
  // Of a gradient with a boundary the sums of a fold are in the order of one rank's too.
  const auto direction = GENERATE(Direction::forward, Direction::backward_data);
  for_random_cases(
      direction, {.all = 60}, false,
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
  const Counts counts = for_random_cases(
      direction, {.of_each_boundary = 200}, false,
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
  report(direction, counts);
}

TEST_CASE("gradients by the weights differ from one rank's by the rounding of sums") {
  for_random_cases(
      Direction::backward_weights, {.all = 60}, false,
      [](const SpreadResult& result, const SpreadCase& spread) {
        const double terms = static_cast<double>(check(spread.problem).terms()) + 2;
        const double unit = spread.problem.dtype == DType::f64 ? 0x1p-53 : 0x1p-24;
        REQUIRE(result.values.size() == result.expected.size());
        for (std::size_t i = 0; i < result.values.size(); ++i)
          REQUIRE(std::abs(result.values[i] - result.expected[i]) <= 60 * terms * unit);
      });
}
