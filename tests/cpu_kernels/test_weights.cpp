// Backward weights by sums of a fixed order: every instruction set, any number of threads, and what
// a lost part or a wrong tap would do.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <vector>

#include "all_tiers.hpp"
#include "conv_case.hpp"
#include "damaged_copy.hpp"

using namespace plumb;
using namespace plumb_test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr const char* names[] = {"cpu.conv.weights.fp32", "cpu.conv.weights.fp64",
                                 "cpu.conv.weights_wide.fp32", "cpu.conv.weights_wide.fp64"};

ConvProblem weights_problem(const char* text, DType dtype = DType::f32) {
  ConvProblem problem = parse_problem(text).problem;
  problem.direction = Direction::backward_weights;
  problem.dtype = dtype;
  return check(problem);
}

/// Both kinds of vectors, bands of some rows and of several images, several parts and blocks.
constexpr const char* texts[] = {
    "mb5ic1ih30oc4kh7",
    "mb3ic4ih20iw23oc16kh7",
    "mb2ic6ih33oc24kh5",
    "mb7ic20ih7oc70kh3ph1",
    "mb3ic40ih14iw13oc33kh1sh2",
    "mb2ic3ih41oc18kh7sh2ph3",
    "g6mb4ic6ih19iw21oc6kh3kw5ph1pw2",
    "g3mb2ic6ih17oc9kh3kw2sh2sw3dh1dw2ph2",
    "mb2ic2iw70oc3kw5pw2",
    "mb2ic2id6ih9iw8oc5kd3kh3kw2sd2pd1ph1",
    "mb1ic1ih60iw90oc1kh3",
    "mb60ic3ih5oc2kh2",
    // Planes for each filter column, several blocks of channels, parts of many images, no copy.
    "mb9ic70ih7oc40kh3ph1",
    "mb2ic300ih6oc9kh1",
    "mb22ic18ih28oc12kh1sh2",
    "mb3ic64ih9oc160kh1",
    // Rows turned where they lie, with padding, a stride and channels left over.
    "mb2ic70ih11iw13oc20kh3sh2ph1",
    // Images side by side, of rows shorter than a square that is transposed and longer ones: a
    // batch that leaves lanes empty, bands of some rows, padding of every kind, blocks of channels.
    "mb16ic3ih12iw9oc5kh3ph1",
    "mb31ic2ih5iw13oc7kh3kw5ph1pw4",
    "mb47ic1ih20iw35oc12kh7pw1",
    "mb16ic2ih31iw38oc20kh7sh3sw2ph3",
    "mb32ic2ih14iw21oc30kh5kw3sh3dw2ph1pw2",
    "g2mb30ic4ih6iw11oc10kh5ph2pw1",
    "mb31ic2id5ih7iw9oc4kd3kh3kw3pd1ph1pw1",
    "mb16ic16ih9oc24kh7ph3",
};

/// Weights and their bytes, by an algorithm.
struct Gradient {
  explicit Gradient(const ConvProblem& p)
      : problem(p),
        x(p.dtype, p.x_extents(), p.x_strides),
        dy(p.dtype, p.y_extents(), p.y_strides),
        dw(p.dtype, p.w_extents(), p.w_strides) {}
  void run(const Device& device, const char* algorithm) {
    Queue queue(device);
    ConvPlan(device, problem, {.math = Math::fp32, .algorithm = algorithm})
        .execute(queue, BackwardWeightsTensors{.x = x.view(), .dy = dy.view(), .dw = dw.view()});
  }
  ConvProblem problem;
  HostTensor x, dy, dw;
};

/// What is wrong with a copy of the algorithm.
enum class Fault { none, lost_part, tap_off_at_border };

/// What the copy computes in the place of the problem.
template <Fault fault>
ConvProblem damaged(ConvProblem p) {
  if (fault == Fault::lost_part) p.n -= 1;
  if (fault == Fault::tap_off_at_border && p.padding.left > 0) {
    --p.padding.left;
    ++p.padding.right;
  }
  return check(p);
}

const ConvAlgorithm* real = nullptr;

template <Fault fault>
constexpr ConvAlgorithm copy_with = {
    .name = "cpu.conv.weights.copy.fp32",
    .takes_depth = true,
    .accumulates = true,
    .takes_backward_weights = true,
    .plan = [](const ConvProblem& problem, const DeviceInfo& device) -> PlanResult {
      if (problem.direction == Direction::forward) return {{Reason::direction, "gradients alone"}};
      return real->plan(damaged<fault>(problem), device);
    },
    .launch =
        [](const ConvLaunch& launch, const KernelPlan* plan) {
          const ConvProblem problem = damaged<fault>(launch.problem);
          real->launch(with_problem(launch, problem), plan);
        },
};

std::set<Tier> tiers_that_caught(const ConvAlgorithm* copy) {
  return plumb_test::tiers_that_caught(
      copy,
      {weights_problem("mb3ic4ih7iw8oc6kh3ph1pw1"), weights_problem("mb5ic1ih20oc4kh5ph2pw2")},
      Placement::nchw);
}

}  // namespace

TEST_CASE("cpu weights: all tiers, on every instruction set, in every dtype and layout", "[long]") {
  check_all_tiers(
      names, texts, {Placement::nchw, Placement::nhwc, Placement::strided}, weights_problem,
      [](const ValidationCase& test, const Device& device, const ConvAlgorithm& algorithm,
         std::size_t) {
        CHECK(ask(algorithm, test.problem, device.info()).forward_convolutions == 0);
      },
      [](const ValidationRecord&, std::string_view, std::string_view) { return false; });
}

TEST_CASE("cpu weights: the same bits for any number of threads") {
  // The caller's setting, found at run time: tests are built without OpenMP.
  const auto set_threads =
      reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  const auto max_threads = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  REQUIRE(set_threads);
  REQUIRE(max_threads);
  const int before = max_threads();
  Random random(5);
  for (const char* text : texts) {
    Gradient data(weights_problem(text));
    data.x.fill([&] { return random.normal(); });
    data.dy.fill([&] { return random.normal(); });
    for (const char* name : names) {
      CAPTURE(text, name);
      std::vector<std::byte> first;
      for (const int threads : {1, 2, 3, 7}) {
        set_threads(threads);
        const Device device = Device::open("cpu");
        CHECK(device.info().units == threads);
        data.run(device, name);
        if (first.empty()) first = data.dw.bytes();
        CHECK(data.dw.bytes() == first);
      }
    }
  }
  set_threads(before);
}

TEST_CASE("cpu weights: a tap in the padding contributes nothing, even where dy is Inf") {
  const Device device = Device::open("cpu");
  for (const char* text : {"mb2ic1ih4oc1kh3ph1pw1", "mb32ic1ih4oc4kh3ph1pw1"})
    for (const char* name : names) {
      Gradient data(weights_problem(text));
      const auto images = static_cast<double>(data.problem.n);
      data.x.fill([] { return 1; });
      data.dy.fill([] { return 1; });
      data.dy.set({0, 0, 0, 0}, std::numeric_limits<double>::infinity());
      data.run(device, name);
      CAPTURE(text, name);
      // The first output has no terms in the filter's first row and column.
      CHECK(data.dw.at({0, 0, 0, 0}) == images * 9);
      CHECK(data.dw.at({0, 0, 0, 2}) == images * 9);
      CHECK(data.dw.at({0, 0, 0, 1}) == images * 12);
      CHECK(data.dw.at({0, 0, 1, 0}) == images * 12);
      CHECK(data.dw.at({0, 0, 1, 1}) == std::numeric_limits<double>::infinity());
      data.dy.set({0, 0, 1, 1}, -std::numeric_limits<double>::infinity());
      data.run(device, name);
      CHECK(data.dw.at({0, 0, 0, 0}) == -std::numeric_limits<double>::infinity());
      CHECK(std::isnan(data.dw.at({0, 0, 1, 1})));
    }
}

TEST_CASE("cpu weights: the bound has the depth of the sum's tree") {
  const Device device = Device::open("cpu");
  const ConvAlgorithm& weights = algorithm_of(device, names[0]);
  const ConvAlgorithm& channels = algorithm_of(device, names[2]);
  REQUIRE(weights.numerics.chain);
  REQUIRE(channels.numerics.chain);
  const ConvProblem large = weights_problem("mb10000ic1ih86oc4kh7");
  CHECK(static_cast<double>(large.terms()) == 64e6);
  const double chain = weights.numerics.chain(large);
  CHECK(chain > 1000);  // a band's positions
  CHECK(chain < 4000);
  // A band of whole rows, then bands, then parts.
  const ConvProblem wide = weights_problem("mb64ic256ih14oc256kh3ph1");
  CHECK(static_cast<double>(wide.terms()) == 64 * 196);
  CHECK(channels.numerics.chain(wide) < 450);
  CHECK(channels.numerics.chain(wide) > 392);
  const OracleTerm term{.y = 0, .magnitude = 1};
  Numerics flat = weights.numerics;
  flat.chain = nullptr;
  CHECK(std::isinf(conv_error_bound(flat, large, term, 0)));
  CHECK(conv_error_bound(weights.numerics, large, term, 0) < 4001 * 0x1p-24);
  // Where all positions are one chain, it is that of all terms.
  CHECK(weights.numerics.chain(weights_problem("mb1ic1ih4oc1kh3")) == 4);
}

TEST_CASE("cpu weights: a lost part and a tap that is off at the border are caught", "[faults]") {
  for (const char* name : {names[0], names[2]}) {
    CAPTURE(name);
    real = &algorithm_of(Device::open("cpu"), name);
    CHECK(tiers_that_caught(&copy_with<Fault::none>).empty());
    CHECK(tiers_that_caught(&copy_with<Fault::lost_part>).contains(Tier::exact));
    CHECK(tiers_that_caught(&copy_with<Fault::tap_off_at_border>).contains(Tier::exact));
  }
}

TEST_CASE("cpu weights: forward and backward data are refused by name") {
  const Device device = Device::open("cpu");
  ConvProblem problem = weights_problem("mb2ic3ih8oc4kh3");
  for (const Direction direction : {Direction::forward, Direction::backward_data}) {
    problem.direction = direction;
    const ConvCandidate answer = ask(algorithm_of(device, names[0]), check(problem), device.info());
    CHECK(answer.support.reason == Reason::direction);
    CHECK_THAT(answer.support.sentence, ContainsSubstring("expected backward weights"));
  }
}
