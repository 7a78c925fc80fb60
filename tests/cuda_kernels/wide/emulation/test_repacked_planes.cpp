// Planes of x that are repacked in vectors, on the host.
#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "support/sanitized.hpp"
#include "wide_emulated.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::emulation;
using plumb::cuda::wide_class_bf16;
using plumb::cuda::wide_class_fp16;
using plumb::cuda::wide_class_tf32;
using plumb::cuda::wide_class_tf32x3;
using plumb::cuda::WideClass;

namespace {

/// Returns how many elements of the repacked x are not those of x, or zeros behind its channels.
int wrong_elements(const WideEmulated& convolution, const void* x) {
  const ConvProblem& p = convolution.problem();
  const cuda::WideInput& input = convolution.plan().input;
  const auto bytes = static_cast<std::int64_t>(size_in_bytes(p.dtype));
  const std::vector<char> met = repacked_input(convolution.run_of(x));
  int wrong = 0;
  for (std::int64_t n = 0; n < p.n; ++n)
    for (std::int64_t pixel = 0; pixel < p.h * p.w; ++pixel)
      for (std::int64_t c = 0; c < input.plane_channels(); ++c) {
        const char zeros[4] = {};
        const char* expected = zeros;
        if (c < p.c)
          expected = static_cast<const char*>(x) +
                     (n * p.x_strides[0] + c * p.x_strides[1] + pixel) * bytes;
        const char* const at =
            met.data() + n * input.image_bytes() + pixel * input.pixel_bytes() + c * bytes;
        wrong += std::memcmp(at, expected, static_cast<std::size_t>(bytes)) != 0;
      }
  return wrong;
}

}  // namespace

TEST_CASE("wide, emulated: planes are repacked in vectors of 16, 8 and 4 bytes") {
  struct Case {
    const char* text;
    WideClass of;
    int vector;
  };
  const Case cases[] = {
      {"mb2ic70ih16iw24oc8kh3ph1", wide_class_fp16, 16},  // several tiles of pixels and channels
      {"mb2ic130ih14oc8kh3ph1", wide_class_fp16, 8},      // a tile that is filled in part
      {"mb3ic9ih6iw5oc8kh3ph1", wide_class_bf16, 4},      // fewer channels than a tile's
      {"mb2ic16ih7oc8kh3ph1", wide_class_fp16, 0},        // planes of odd length
      {"mb2ic67ih10iw14oc8kh3ph1", wide_class_tf32, 16},  //
      {"mb2ic13ih6iw5oc8kh3ph1", wide_class_tf32, 8},     //
      {"mb2ic70ih9iw9oc8kh3ph1", wide_class_tf32x3, 4},   //
      {"mb2ic33id3ih4iw2oc8kd3kh3kw1ph1", wide_class_tf32, 16},  // volumes
  };
  unsigned turn = 0;
  for (const auto& [text, of, vector] : cases) {
    if (is_left_out(turn++)) continue;
    CAPTURE(text);
    WideEmulated convolution(text, {.of = of, .x = Placing::planes, .bias = true});
    CHECK(convolution.plan().input.plane_vector == vector);
    if (!convolution.problem().has_depth())
      CHECK(wrong_elements(convolution, convolution.x().view().data()) == 0);
    CHECK(convolution.run() == "");
  }
}

TEST_CASE("wide, emulated: planes that begin behind an aligned address have smaller vectors") {
  for (const WideClass& of : {wide_class_fp16, wide_class_tf32}) {
    CHECK(WideEmulated("mb2ic24ih8oc8kh3ph1",
                       {.of = of, .x = Placing::planes, .data = Data::normal, .shifted = true})
              .run() == "");
  }
}
