// Few channels in scaled products: the scale of a tile is that of the tile before as long as it
// fits.
#ifdef PLUMB_TEST_CUDA
#include <cmath>
#include <limits>

#include "cuda_exact.hpp"
#include "devices.hpp"

using namespace plumb;
using plumb_test::forcing;

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

}  // namespace

TEST_CASE("cuda: a scale that does not fit the next tile is not kept") {
  const Device device = plumb_test::device_or_skip("cuda");
  Queue queue(device);
  const ScaledImages images;
  const Tensor x = plumb_test::uploaded(queue, images.x, images.all.x_extents());
  const Tensor w = plumb_test::uploaded(queue, images.w, images.all.w_extents());
  Tensor y(device, DType::f32, images.all.y_extents());
  std::vector<float> result(images.expected.size());
  int found = 0;
  for (const ConvAlgorithm* algorithm : conv_algorithms(device)) {
    if (algorithm->name.find("fp16x3") == std::string_view::npos) continue;
    CAPTURE(algorithm->name);
    ++found;
    if (!algorithm->supports(images.all, device.info())) {
      // On devices without wgmma, or without code for it.
      CHECK(algorithm->name == "cuda.conv.streamed_filters.fp16x3");
      continue;
    }
    ConvPlan(device, images.all, forcing(*algorithm)).execute(queue, {.x = x, .w = w, .y = y});
    copy(queue, y, TensorView(result.data(), images.all.y_extents()));
    queue.synchronize();
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < result.size(); ++i)
      wrong += result[i] != images.expected[i] &&
               !(std::isnan(result[i]) && std::isnan(images.expected[i]));
    CHECK(wrong == 0);
  }
  CHECK(found == 5);
}
#endif
