// Few channels: the scale of a tile is that of the tile before as long as it fits, images may lie
// apart, filters are packed for any batch, and those that stream are planned for devices with and
// without wgmma.
#ifdef PLUMB_TEST_CUDA
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>
#include <map>

#include "plumb/backend.hpp"
#include "plumb/suites.hpp"
#include "support/absent_device.hpp"
#include "support/cuda_exact.hpp"
#include "support/devices.hpp"

using namespace plumb;
using plumb_test::ampere, plumb_test::hopper;

namespace {

/// Images that are all the same but for a power of two, which stays for a stretch of them: y is
/// that of one image times the power, to the bit. `odd_one` holds an infinity besides.
struct ScaledImages {
  static constexpr std::int64_t count = 100'000, stretch = 700, odd_one = 77'777;
  ConvProblem one = parse_problem("mb1ic1ih12oc4kh7").problem, all = one;
  std::vector<float> x, w, expected;

  ScaledImages() {
    all.n = count;
    all = check(all);
    plumb_test::Random random(7);
    const std::vector<float> image = plumb_test::integers(random, one.x_extents());
    w = plumb_test::integers(random, one.w_extents());
    const std::vector<float> result = plumb_test::oracle_result(one, image, w);
    int exponent = 0;
    for (std::int64_t n = 0; n < count; ++n) {
      if (n % stretch == 0) exponent = static_cast<int>(random.integer(-45, 45));
      for (const float value : image) x.push_back(std::ldexp(value, exponent));
      for (const float value : result) expected.push_back(std::ldexp(value, exponent));
    }
    std::vector<float> odd(image.size());
    const auto first = static_cast<std::ptrdiff_t>(odd_one * image.size());
    std::copy_n(x.begin() + first, image.size(), odd.begin());
    odd[40] = std::numeric_limits<float>::infinity();
    std::copy(odd.begin(), odd.end(), x.begin() + first);
    const std::vector<float> of_odd = plumb_test::oracle_result(one, odd, w);
    std::copy(of_odd.begin(), of_odd.end(),
              expected.begin() + static_cast<std::ptrdiff_t>(odd_one * result.size()));
  }
};

/// Problems of the suites `four` and `few200`, in types that few channels are stored as.
std::vector<ConvProblem> stored_problems() {
  std::vector<NamedProblem> named = suite("four");
  const std::vector<NamedProblem> family = suite("few200");
  for (std::size_t i = 0; i < family.size(); i += 4) named.push_back(family[i]);
  std::vector<ConvProblem> problems;
  for (const NamedProblem& one : named)
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      problems.push_back(one.problem);
      problems.back().dtype = dtype;
    }
  return problems;
}

const ConvAlgorithm& named(const std::string& name) {
  const LoadedBackend& loaded = load_backend("cuda");
  REQUIRE(loaded.backend);
  for (const ConvAlgorithm* algorithm : loaded.backend->conv_algorithms())
    if (algorithm->name == name) return *algorithm;
  FAIL("no " << name);
  throw;
}
const ConvAlgorithm& streamed(const std::string& variant) {
  return named("cuda.conv.streamed_filters." + variant);
}

}  // namespace

TEST_CASE("cuda: few channels: a tile that outgrows the last tile's scale gets its own") {
  const Device device = plumb_test::device_or_skip("cuda");
  Queue queue(device);
  const ScaledImages images;
  const Tensor x = plumb_test::uploaded(queue, images.x, images.all.x_extents());
  const Tensor w = plumb_test::uploaded(queue, images.w, images.all.w_extents());
  Tensor y(device, DType::f32, images.all.y_extents());
  std::vector<float> result(images.expected.size());
  int found = 0;
  for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
    const auto in_name = [&](const char* part) {
      return algorithm->name.find(part) != std::string_view::npos;
    };
    if (!in_name("fp16x3") && !in_name("fp16_scaled")) continue;
    CAPTURE(algorithm->name);
    ++found;
    REQUIRE(algorithm->plan(images.all, device.info()).support.sentence == "");
    ConvPlan(device, images.all, {.math = Math::tf32, .algorithm = std::string(algorithm->name)})
        .execute(queue, {.x = x, .w = w, .y = y});
    copy(queue, y, TensorView(result.data(), images.all.y_extents()));
    queue.synchronize();
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < result.size(); ++i)
      wrong += result[i] != images.expected[i] &&
               !(std::isnan(result[i]) && std::isnan(images.expected[i]));
    CHECK(wrong == 0);
  }
  CHECK(found == 14);
}

TEST_CASE("cuda: images may lie farther apart than their channels reach") {
  const Device device = plumb_test::device_or_skip("cuda");
  Queue queue(device);
  // The first channels of twice as many. Tiles are several images, and their planes are such that
  // rows of x follow each other in them.
  ConvProblem problem = parse_problem("mb2000ic4ih8iw12oc6kh3").problem;
  const Extents all_channels{problem.n, 2 * problem.c, problem.h, problem.w};
  problem.x_strides = dense_strides(all_channels);
  plumb_test::Random random(11);
  const std::vector<float> pixels = plumb_test::integers(random, all_channels);
  const std::vector<float> filters = plumb_test::integers(random, problem.w_extents());
  const std::vector<float> expected = plumb_test::oracle_result(problem, pixels, filters);
  const Tensor x = plumb_test::uploaded(queue, pixels, all_channels);
  const Tensor w = plumb_test::uploaded(queue, filters, problem.w_extents());
  int streamed = 0;
  for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
    if (!algorithm->name.starts_with("cuda.") || !algorithm->plan(problem, device.info()).support)
      continue;
    CAPTURE(algorithm->name);
    streamed += algorithm->name.find("streamed_filters") != std::string_view::npos;
    Tensor y(device, DType::f32, problem.y_extents());
    ConvPlan(device, problem, {.math = Math::fp16, .algorithm = std::string(algorithm->name)})
        .execute(queue, {.x = slice(x.view(), 1, 0, problem.c), .w = w, .y = y});
    std::vector<float> result(expected.size());
    copy(queue, y, TensorView(result.data(), problem.y_extents()));
    queue.synchronize();
    CHECK(result == expected);
  }
  CHECK(streamed == 6);
}

TEST_CASE("cuda: few channels' packed filters depend on no batch and on no strides of w") {
  const LoadedBackend& loaded = load_backend("cuda");
  REQUIRE(loaded.backend);  // there without a GPU
  const std::vector<ConvProblem> problems = stored_problems();
  int entries = 0;
  for (const ConvAlgorithm* algorithm : loaded.backend->conv_algorithms()) {
    if (!algorithm->name.starts_with("cuda.conv.few_channels")) continue;
    CAPTURE(algorithm->name);
    ++entries;
    REQUIRE(algorithm->pack_filters);
    int packed = 0;
    for (const DeviceInfo& device : {hopper(), ampere()})
      for (const ConvProblem& problem : problems) {
        CAPTURE(to_string(problem), to_string(problem.dtype), device.compute_major);
        if (!algorithm->plan(problem, device).support) continue;
        ++packed;
        const std::size_t bytes = algorithm->plan(problem, device).filter_bytes;
        const auto dense = static_cast<std::size_t>(element_count(problem.w_extents())) *
                           size_in_bytes(problem.dtype);
        CHECK(bytes > dense);
        ConvProblem other = problem;
        other.w_strides = {problem.terms(), problem.r * problem.s, 1, problem.r};
        for (const std::int64_t images : {0, 1, 2, 7, 100, 3000}) {
          other.n = images;
          CHECK(algorithm->plan(other, device).filter_bytes == bytes);
          if (images > 0) CHECK(algorithm->plan(other, device).support);
        }
      }
    CHECK(packed > 48);
  }
  CHECK(entries == 16);
}

TEST_CASE("cuda: streamed filters are planned for devices with and without wgmma") {
  DeviceInfo small = ampere();
  small.shared_memory_bytes = 99 << 10;
  for (const char* text :
       {"mb3ic3ih20oc4kh7", "mb1ic16ih86iw118oc48kh9", "mb2ic8ih9iw340oc58kh1kw11sh2sw2",
        "mb9ic1ih64oc1kh3", "mb4ic15ih84oc64kh8_poolmax2x2", "mb1ic8ih40oc200kh15"})
    for (const std::string arithmetic : {"fp16x3", "tf32", "fp16", "bf16"}) {
      ConvProblem problem = parse_problem(text).problem;
      problem.dtype = arithmetic == "bf16" ? DType::bf16 : DType::f32;
      const ConvAlgorithm& best = streamed(arithmetic);
      const ConvAlgorithm& plain = streamed(arithmetic + ".sm80");
      CAPTURE(text, arithmetic);
      CHECK_FALSE(best.forced_only);
      CHECK(plain.forced_only);
      // Filters are packed, and lie behind that as they are.
      const auto least = static_cast<std::size_t>(problem.k * problem.terms());
      for (const DeviceInfo& device : {ampere(), small, hopper()}) {
        CAPTURE(device.compute_major, device.shared_memory_bytes);
        for (const ConvAlgorithm* algorithm : {&best, &plain}) {
          CHECK(algorithm->plan(problem, device).support.sentence == "");
          CHECK(algorithm->plan(problem, device).filter_bytes > 4 * least);
          CHECK(algorithm->plan(problem, device).estimate_seconds > 0);
          // The layout serves any batch.
          ConvProblem larger = problem;
          larger.n = 1000;
          CHECK(algorithm->plan(check(larger), device).filter_bytes ==
                algorithm->plan(problem, device).filter_bytes);
        }
      }
      // Without wgmma there is one way to multiply, and filters of one layout.
      for (const DeviceInfo& device : {ampere(), small})
        CHECK(best.plan(problem, device).filter_bytes == plain.plan(problem, device).filter_bytes);
    }
}

TEST_CASE("cuda: interleaved filters want wgmma, and name what they refuse") {
  using Entry = std::pair<const char*, DType>;
  const auto entry = GENERATE(
      Entry{"interleaved.fp16x3", DType::f32}, Entry{"interleaved_half.fp16_scaled", DType::f32},
      Entry{"interleaved_half.fp16", DType::f16}, Entry{"interleaved_half.bf16", DType::bf16});
  const DType dtype = entry.second;
  CAPTURE(entry.first);
  const ConvAlgorithm& algorithm = named(std::string("cuda.conv.") + entry.first);
  const auto stored = [dtype](ConvProblem of) {
    of.dtype = dtype;
    return of;
  };
  const ConvProblem problem = stored(parse_problem("mb9ic3ih64oc24kh7").problem);
  for (const DeviceInfo& device : {ampere(), hopper()})
    if (const Support asked = algorithm.plan(problem, device).support; !asked) {
      CHECK(asked.reason == Reason::device_limit);
      CHECK(asked.sentence.find("sm_90a") != std::string::npos);
    }
  CHECK_FALSE(algorithm.plan(problem, ampere()).support);
  if (!algorithm.plan(problem, hopper()).support) SKIP("a build without code for sm_90a");
  for (const auto& [text, named] : std::vector<std::pair<const char*, const char*>>{
           {"g2mb1ic4ih8oc6kh3", "2 groups"},
           {"mb1ic3ih30oc8kh3_poolmax2x2", "pools"},
           {"mb1ic2ih19oc3kh3dh1", "dilation 2x2"},
           {"mb1ic33ih8oc65kh3", "33 channels"},
           {"mb1ic257ih8oc6kh3", "257 channels"},
           {"mb1ic3ih64oc6kh3sh5", "stride 5x5"},
           {"mb1ic1ih99oc6kh65", "65x65"},
           {"mb1ic15ih70oc60kh17", "terms"},
           {"mb1ic1ih12oc9000kh3", "groups of filters"}}) {
    CAPTURE(text);
    const Support refused = algorithm.plan(stored(parse_problem(text).problem), hopper()).support;
    CHECK(refused.reason == Reason::geometry);
    CHECK(refused.sentence.find(named) != std::string::npos);
  }
  int runs = 0;
  for (const NamedProblem& one : suite("few200")) {
    CAPTURE(one.name);
    const ConvProblem of_suite = stored(one.problem);
    if (!algorithm.plan(of_suite, hopper()).support) continue;
    ++runs;
    const std::size_t bytes = algorithm.plan(of_suite, hopper()).filter_bytes;
    CHECK(bytes >
          size_in_bytes(dtype) * static_cast<std::size_t>(element_count(of_suite.w_extents())));
    for (const std::int64_t images : {1, 100}) {
      ConvProblem other = of_suite;
      other.n = images;
      other = check(other);
      CHECK(algorithm.plan(other, hopper()).filter_bytes == bytes);
      CHECK(algorithm.plan(other, hopper()).support.sentence == "");
      CHECK(algorithm.plan(other, hopper()).estimate_seconds > 0);
    }
  }
  CHECK(runs == 200);
}

TEST_CASE("cuda: interleaved filters of any channels fill their products") {
  const ConvAlgorithm& algorithm = named("cuda.conv.interleaved.fp16x3");
  // Two slots of sixteen terms of up to 64 filters, in high and low parts.
  constexpr std::size_t slice_bytes = 2 * 64 * 16 * 2 * 2;
  const std::map<std::string, std::size_t> slices{
      {"few200_101", 7},    // 11x4 of five channels, as four and one: as five of eight it were 11
      {"few200_174", 13},   // 11x11 of three, for two rows, as two and one: as six of eight 17
      {"few200_039", 21},   // 7x7 of thirteen, as eight, four and one: as eight and five 25
      {"few200_098", 18}};  // 6x6 of sixteen
  std::size_t met = 0;
  for (const NamedProblem& one : suite("few200")) {
    const auto known = slices.find(one.name);
    if (known == slices.end()) continue;
    if (!algorithm.plan(one.problem, hopper()).support) SKIP("a build without code for sm_90a");
    CAPTURE(one.name);
    ++met;
    const std::size_t packed =
        algorithm.plan(one.problem, hopper()).filter_bytes -
        sizeof(float) * static_cast<std::size_t>(element_count(one.problem.w_extents()));
    CHECK(packed / slice_bytes == known->second);
  }
  CHECK(met == slices.size());
}

TEST_CASE("cuda: streamed filters want a block for each of their groups") {
  const ConvProblem many = parse_problem("mb1ic1ih12oc4000kh3").problem;
  for (const char* name : {"fp16x3", "fp16x3.sm80"}) {
    DeviceInfo device = ampere();
    const Support refused = streamed(name).plan(many, device).support;
    CHECK(refused.reason == Reason::geometry);
    CHECK(refused.sentence.find("groups") != std::string::npos);
    device.units = 500;
    CHECK(streamed(name).plan(many, device).support.sentence == "");
  }
}
#endif
