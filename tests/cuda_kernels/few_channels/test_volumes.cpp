// Few channels of volumes: planes of x that lie under several outputs are loaded once, planes
// outside of the volume are left out, and wide filters of one or two output channels are copied.
#ifdef PLUMB_TEST_CUDA
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "plumb/backend.hpp"
#include "support/absent_device.hpp"
#include "support/cuda_exact.hpp"
#include "support/devices.hpp"

using namespace plumb;

namespace {

bool of_windows(const ConvAlgorithm& algorithm) {
  return algorithm.name.starts_with("cuda.conv.few_channels") ||
         algorithm.name.starts_with("cuda.conv.streamed_filters");
}

/// The algorithm's result, or what the oracle says of the same data.
struct Results {
  std::vector<float> expected, met;

  Results(Queue& queue, const ConvAlgorithm& algorithm, const ConvProblem& problem,
          const std::vector<float>& pixels, const std::vector<float>& filters)
      : expected(plumb_test::oracle_result(problem, pixels, filters)), met(expected.size()) {
    const Device& device = queue.device();
    const Tensor x = plumb_test::uploaded(queue, pixels, problem.x_extents());
    const Tensor w = plumb_test::uploaded(queue, filters, problem.w_extents());
    Tensor y(device, DType::f32, problem.y_extents());
    ConvPlan(device, problem, {.math = Math::fp16, .algorithm = std::string(algorithm.name)})
        .execute(queue, {.x = x, .w = w, .y = y});
    copy(queue, y, TensorView(met.data(), problem.y_extents()));
    queue.synchronize();
  }
  std::int64_t wrong() const {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < met.size(); ++i)
      count += met[i] != expected[i] && !(std::isnan(met[i]) && std::isnan(expected[i]));
    return count;
  }
};

/// Tiles of these have one plane of y, or several, whose planes of x are shared, lie apart, or are
/// in part outside of the volume.
constexpr const char* volumes[] = {
    "mb2ic3id24ih40iw70oc5kd3kh3pd1ph1",          "mb1ic4id20ih64iw64oc8kd3kh3pd1ph1",
    "mb2ic2id33ih50iw80oc3kd5kh3kw5pd2ph1pw2",    "mb3ic3id16ih56iw56oc20kd3kh7sd1sh2pd1ph3",
    "mb2ic2id40ih30iw66oc6kd3kh3sd2sh1sw1pd2ph1", "mb1ic1id96ih64oc2kd7kh3pd3ph1",
    "mb2ic3id9ih12iw14oc4kd3kh3dd2dh0dw0pd3ph1",  "mb3ic5id4ih9iw11oc9kd4kh2kw3pd3ph0pw1",
    "mb2ic2id7ih10oc3kd1kh3sd3sh1sw1pd0ph1",      "mb2ic4id1ih20oc8kd3kh3pd1ph1"};

}  // namespace

TEST_CASE("cuda: few channels take volumes as they are") {
  const LoadedBackend& loaded = load_backend("cuda");
  REQUIRE(loaded.backend);  // there without a GPU
  const DeviceInfo hopper = plumb_test::hopper();
  int entries = 0;
  for (const ConvAlgorithm* algorithm : loaded.backend->conv_algorithms()) {
    if (!of_windows(*algorithm)) continue;
    CAPTURE(algorithm->name);
    ++entries;
    CHECK(algorithm->takes_depth);
    for (const char* text : volumes) {
      CAPTURE(text);
      ConvProblem problem = parse_problem(text).problem;
      if (algorithm->name.find("bf16") != std::string_view::npos) problem.dtype = DType::bf16;
      const PlanResult plan = algorithm->plan(problem, hopper);
      CHECK(plan.support.sentence == "");
      // The layout of filters serves any batch.
      problem.n = 50;
      CHECK(algorithm->plan(check(problem), hopper).filter_bytes == plan.filter_bytes);
      CHECK_FALSE(ask(*algorithm, problem, hopper).copies_input);
    }
  }
  CHECK(entries == 24);
}

TEST_CASE("cuda: few channels of volumes are exact, and keep Inf where planes are missing") {
  const Device device = plumb_test::device_or_skip("cuda");
  Queue queue(device);
  plumb_test::Random random(13);
  for (const char* text : volumes) {
    const ConvProblem problem = parse_problem(text).problem;
    const std::vector<float> pixels = plumb_test::integers(random, problem.x_extents());
    std::vector<float> filters = plumb_test::integers(random, problem.w_extents());
    for (const bool infinite : {false, true}) {
      // The last plane of the first filter meets the padding behind the volume.
      if (infinite)
        filters[static_cast<std::size_t>((problem.t - 1) * problem.r * problem.s)] =
            std::numeric_limits<float>::infinity();
      for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
        if (!of_windows(*algorithm) || !algorithm->plan(problem, device.info()).support) continue;
        CAPTURE(text, algorithm->name, infinite);
        CHECK(Results(queue, *algorithm, problem, pixels, filters).wrong() == 0);
      }
    }
  }
}

TEST_CASE("cuda: wide filters of one or two output channels are copied over columns") {
  const Device device = plumb_test::device_or_skip("cuda");
  Queue queue(device);
  plumb_test::Random random(17);
  int runs = 0;
  for (const char* text :
       {"mb1ic1ih300iw310oc1kh31ph15", "mb2ic1ih90iw77oc1kh30ph0", "mb3ic1ih40iw120oc2kh15ph7",
        "mb1ic3ih50iw61oc1kh5kw13ph2pw6", "mb2ic1ih33iw64oc1kh12kw12sh2sw2ph0pw0",
        "mb1ic1ih200iw17oc1kh1kw12ph0pw6"}) {
    const ConvProblem problem = parse_problem(text).problem;
    const std::vector<float> pixels = plumb_test::integers(random, problem.x_extents());
    const std::vector<float> filters = plumb_test::integers(random, problem.w_extents());
    for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
      if (!algorithm->name.starts_with("cuda.conv.interleaved") ||
          !algorithm->plan(problem, device.info()).support)
        continue;
      CAPTURE(text, algorithm->name);
      ++runs;
      CHECK(Results(queue, *algorithm, problem, pixels, filters).wrong() == 0);
    }
  }
  if (device.info().compute_major == 9) CHECK(runs >= 6);
}
#endif
