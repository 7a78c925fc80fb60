// Estimates: what is chosen by them is hardly slower than the fastest, over all recorded problems;
// and on another chip they scale by that chip's ceilings.
#ifdef PLUMB_TEST_CUDA
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <span>
#include <string>
#include <vector>

#include "plumb/backend.hpp"
#include "plumb/conv.hpp"
#include "plumb/problem_text.hpp"
#include "records.hpp"
#include "regret.hpp"

using namespace plumb;
using namespace plumb_test;

namespace {

std::span<const ConvAlgorithm* const> cuda_algorithms() {
  const LoadedBackend& loaded = load_backend("cuda");
  REQUIRE(loaded.backend);
  return loaded.backend->conv_algorithms();
}

/// Whether the build has the kernels of an H200, which the records are of.
bool has_wgmma() {
  const ConvProblem problem = parse_problem("mb100ic3ih64oc24kh7").problem;
  return std::ranges::any_of(cuda_algorithms(), [&](const ConvAlgorithm* algorithm) {
    return algorithm->name == "cuda.conv.interleaved.fp16x3" &&
           algorithm->plan(problem, recorded_device()).support;
  });
}

/// The algorithms that some record has times of. Others, cuda.conv.wide.* as yet, are judged by the
/// records that they were fitted to.
std::vector<const ConvAlgorithm*> recorded_algorithms(
    const std::vector<RecordedProblem>& recorded) {
  std::vector<const ConvAlgorithm*> all;
  for (const ConvAlgorithm* algorithm : cuda_algorithms())
    if (std::ranges::any_of(recorded, [&](const RecordedProblem& one) {
          return one.seconds.contains(std::string(algorithm->name));
        }))
      all.push_back(algorithm);
  return all;
}

}  // namespace

TEST_CASE("cuda: what is chosen by estimates is hardly slower than the fastest", "[costs]") {
  if (!has_wgmma()) SKIP("a build without code for sm_90a");
  const std::vector<RecordedProblem> recorded = recorded_problems(PLUMB_RESULTS);
  const std::vector<const ConvAlgorithm*> judged = recorded_algorithms(recorded);
  CHECK(judged.size() >= 40);
  std::vector<std::vector<Candidate>> candidates;
  for (const RecordedProblem& one : recorded)
    candidates.push_back(candidates_of(one, judged, recorded_device()));
  const std::vector<Regret> all = regrets(recorded, candidates);
  INFO(to_string(all, 10));
  CHECK(all.size() == 4);
  for (const Regret& one : all) {
    CAPTURE(one.arithmetic);
    CHECK(one.choices.size() >= 30);  // a class that judged nothing fails
    CHECK(one.geometric_mean() <= 1.05);
    CHECK(one.worst() <= 1.3);
    // What is chosen has a time, but for a few.
    CHECK(50 * one.untimed.size() <= one.choices.size());
  }
}

TEST_CASE("cuda: estimates of large problems scale by a chip's ceilings", "[costs]") {
  const auto [text, dtype] =
      GENERATE(table<const char*, DType>({{"mb2000ic4ih40oc16kh7", DType::f32},
                                          {"mb500ic3ih224oc64kh3ph1", DType::f16},
                                          {"mb64ic16ih512oc32kh5", DType::bf16},
                                          {"mb8ic1ih4096oc2kh3ph1", DType::f32}}));
  CAPTURE(text);
  ConvProblem problem = parse_problem(text).problem;
  problem.dtype = dtype;
  problem = check(problem);
  DeviceInfo slow = recorded_device(), few = recorded_device();
  slow.nominal_bytes_per_second /= 2;
  slow.nominal_fp32_flop_per_second /= 2;
  // As many multiprocessors as half of them, at the same clock.
  few.units /= 2;
  few.nominal_bytes_per_second /= 2;
  few.nominal_fp32_flop_per_second /= 2;
  int judged = 0;
  for (const ConvAlgorithm* algorithm : cuda_algorithms()) {
    if (algorithm->forced_only || algorithm->provider) continue;
    const PlanResult fast = algorithm->plan(problem, recorded_device());
    if (!fast.support) continue;
    CAPTURE(algorithm->name);
    ++judged;
    for (const DeviceInfo& other : {slow, few}) {
      const double ratio = algorithm->plan(problem, other).estimate_seconds / fast.estimate_seconds;
      CAPTURE(other.units);
      CHECK(ratio > 1.7);
      CHECK(ratio < 2.3);
    }
  }
  CHECK(judged >= 10);
}

TEST_CASE("cuda: a launch takes as long on any chip", "[costs]") {
  const ConvProblem tiny = parse_problem("mb1ic1ih4oc1kh1").problem;
  DeviceInfo slow = recorded_device();
  slow.nominal_bytes_per_second /= 2;
  slow.nominal_fp32_flop_per_second /= 2;
  for (const ConvAlgorithm* algorithm : cuda_algorithms()) {
    if (algorithm->forced_only || algorithm->provider ||
        !algorithm->plan(tiny, recorded_device()).support)
      continue;
    CAPTURE(algorithm->name);
    CHECK(algorithm->plan(tiny, recorded_device()).estimate_seconds > 2e-6);
    CHECK(algorithm->plan(tiny, slow).estimate_seconds <
          2 * algorithm->plan(tiny, recorded_device()).estimate_seconds);
  }
}
#endif
