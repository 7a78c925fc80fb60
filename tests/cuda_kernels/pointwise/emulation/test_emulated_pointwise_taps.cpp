// The sources of the kernel for few terms on the host, where no GPU is: gathers, products, packed
// filters and stores of every arithmetic and layout, held against the oracle.
#include <catch2/catch_test_macros.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cuda_kernels/pointwise/classes.hpp"
#include "pointwise_taps_emulated.hpp"
#include "support/sanitized.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::emulation;
using cuda::PointwiseClass;
using cuda::TapsOutput;

namespace {

constexpr const auto& classes = pointwise_classes;
constexpr Placing placings[] = {Placing::planes, Placing::channels_last, Placing::mirrored};

}  // namespace

TEST_CASE("pointwise_taps, emulated: a layer of speech, of every arithmetic") {
  // Ten taps, stride 5, planes of odd length, so that each filter's begins elsewhere.
  for (const PointwiseClass& of : classes)
    for (const bool relu : {false, true}) {
      CAPTURE(name(of), relu);
      TapsEmulated convolution("mb2ic1ih1iw4000oc80oh1ow799kh1kw10sh1sw5ph0pw0",
                               {.of = of, .bias = true, .relu = relu});
      CHECK(convolution.output() == TapsOutput::planes);
      CHECK(convolution.run() == "");
    }
}

TEST_CASE("pointwise_taps, emulated: every arithmetic and layout, few and many terms") {
  unsigned turn = 0;
  for (const PointwiseClass& of : classes)
    for (const Placing x : placings)
      for (const Placing y : placings)
        for (const char* text :
             {"mb2ic3ih20iw21oc96kh4sh4ph0", "mb2ic1ih9iw11oc5kh3ph1", "mb2ic3ih13oc70kh3ph1",
              "mb1ic3ih24iw31oc20kh4kw5sh2sw3ph2pw1", "mb3ic7ih8oc33kh3kw3ph1",
              "mb2ic64ih7oc72kh1ph0", "mb2ic2ih30iw17oc24kh3kw1dh3ph2"}) {
          if (is_left_out(turn++)) continue;
          CAPTURE(name(of), static_cast<int>(x), static_cast<int>(y), text);
          CHECK(TapsEmulated(text, {.of = of, .x = x, .y = y, .bias = true}).run() == "");
        }
}

TEST_CASE("pointwise_taps, emulated: outputs leave in vectors of pixels or of filters, or alone") {
  struct Case {
    const char* text;
    Placing y;
    bool accumulate;
    TapsOutput output;
  };
  for (const Case& of :
       {Case{"mb3ic3ih37iw33oc20kh3ph1", Placing::planes, false, TapsOutput::planes},
        Case{"mb5ic3ih13iw11oc20kh3ph1", Placing::planes, false, TapsOutput::planes},
        Case{"mb5ic3ih7oc20kh3ph1", Placing::planes, false, TapsOutput::elements},
        Case{"mb1ic3ih7oc20kh3ph1", Placing::planes, false, TapsOutput::planes},
        Case{"mb1ic3ih1oc20kh3ph1", Placing::planes, false, TapsOutput::planes},
        Case{"mb3ic3ih37iw33oc20kh3ph1", Placing::planes, true, TapsOutput::elements},
        Case{"mb3ic3ih37iw33oc20kh3ph1", Placing::channels_last, false, TapsOutput::filters},
        Case{"mb3ic3ih37iw33oc20kh3ph1", Placing::channels_last, true, TapsOutput::filters},
        Case{"mb3ic3ih9iw13oc21kh3ph1", Placing::channels_last, false, TapsOutput::elements},
        Case{"mb3ic3ih9iw13oc1kh3ph1", Placing::channels_last, false, TapsOutput::planes},
        Case{"mb3ic3ih9iw13oc20kh3ph1", Placing::mirrored, true, TapsOutput::elements}})
    for (const PointwiseClass& arithmetic :
         {cuda::pointwise_class_fp16, cuda::pointwise_class_tf32}) {
      CAPTURE(name(arithmetic), of.text, static_cast<int>(of.y), of.accumulate);
      TapsEmulated convolution(
          of.text, {.of = arithmetic, .y = of.y, .bias = true, .accumulate = of.accumulate});
      if (arithmetic == cuda::pointwise_class_fp16) CHECK(convolution.output() == of.output);
      CHECK(convolution.run() == "");
    }
}

TEST_CASE("pointwise_taps, emulated: planes of every length beside vectors") {
  for (const PointwiseClass& of : {cuda::pointwise_class_fp16, cuda::pointwise_class_tf32})
    for (int columns = 128; columns < 146; ++columns) {
      std::ostringstream text;
      text << "mb9ic1ih1iw" << columns << "oc19kh1kw1";
      CAPTURE(name(of), text.str());
      TapsEmulated convolution(text.str(), {.of = of});
      CHECK(convolution.output() == TapsOutput::planes);
      CHECK(convolution.run() == "");
    }
}

TEST_CASE("pointwise_taps, emulated: one to three axes, planes and depth") {
  for (const PointwiseClass& of : classes)
    for (const Placing placing : placings)
      for (const char* text : {"mb2ic4iw300oc70kw9pw4", "mb2ic2id4ih9iw5oc17kd3kh3kw3pd1ph1pw1",
                               "mb2ic1id5ih6iw7oc66kd4kh3kw2sd1sh2sw1pd1ph1pw1",
                               "mb1ic3id3ih16iw17oc40kd1kh3kw3ph1pw1"}) {
        CAPTURE(name(of), static_cast<int>(placing), text);
        CHECK(
            TapsEmulated(text, {.of = of, .x = placing, .y = placing, .accumulate = true}).run() ==
            "");
        CHECK(TapsEmulated(text, {.of = of, .x = placing, .y = placing}).run() == "");
      }
}

TEST_CASE(
    "pointwise_taps, emulated: groups of filters, slices of a batch, filters of backward data") {
  for (const PointwiseClass& of : classes)
    for (const int group_chunks : {1, 2, 3, 20}) {
      CAPTURE(name(of), group_chunks);
      CHECK(
          TapsEmulated("mb3ic3ih23iw21oc150kh3ph1",
                       {.of = of, .group_chunks = group_chunks, .bias = true, .images_at_once = 2})
              .run() == "");
    }
  for (const PointwiseClass& of : classes)
    for (const Placing placing : placings)
      CHECK(TapsEmulated("mb2ic5ih12oc41kh3kw2ph1", {.of = of,
                                                     .x = placing,
                                                     .y = placing,
                                                     .shifted = placing != Placing::mirrored,
                                                     .exchanged = true})
                .run() == "");
}

TEST_CASE("pointwise_taps, emulated: filters are packed to the same bytes for every N") {
  for (const PointwiseClass& of : classes)
    for (const char* layer : {"ic1ih9oc72kh3ph1", "ic3ih9oc7kh4sh4ph0", "ic64ih9oc9kh1"}) {
      std::vector<char> first;
      for (const int n : {1, 2, 40}) {
        CAPTURE(name(of), layer, n);
        const std::vector<char> packed =
            TapsEmulated("mb" + std::to_string(n) + layer, {.of = of}).packed_filters();
        if (n == 1) first = packed;
        CHECK(packed == first);
      }
    }
}

TEST_CASE("pointwise_taps, emulated: values of any kind stay within their bound") {
  for (const PointwiseClass& of : classes)
    for (const Placing placing : placings)
      for (const Data data : {Data::normal, Data::far_apart, Data::infinite})
        for (const char* text : {"mb2ic3ih12iw13oc40kh3ph1", "mb2ic3ih17oc33kh4sh4ph0"}) {
          CAPTURE(name(of), static_cast<int>(placing), static_cast<int>(data), text);
          CHECK(TapsEmulated(text, {.of = of,
                                    .x = placing,
                                    .y = placing,
                                    .data = data,
                                    .bias = true,
                                    .accumulate = data == Data::infinite})
                    .run() == "");
        }
  for (const Data data : {Data::of_any_size, Data::largest, Data::large_products})
    CHECK(TapsEmulated("mb2ic3ih12oc24kh3ph1", {.of = cuda::pointwise_class_tf32x3, .data = data})
              .run() == "");
}

TEST_CASE("pointwise_taps, emulated: three products are as accurate as fp32") {
  // A sum of one term has no other error than that of its product.
  CHECK(TapsEmulated("mb2ic1ih9oc80kh1",
                     {.of = cuda::pointwise_class_tf32x3, .data = Data::normal, .share = 0.5})
            .run() == "");
}

namespace {

/// Problems of few terms, most with many filters, pixels, strides and padding of any number.
class RandomTaps {
 public:
  explicit RandomTaps(std::uint32_t seed) : random_(seed) {}

  int number(int least, int most) { return static_cast<int>(random_.integer(least, most)); }
  bool coin() { return number(0, 1) == 1; }
  std::string text() {
    std::ostringstream text;
    const bool is_line = number(0, 2) == 0;
    const int rows = is_line ? 1 : number(1, 5), columns = number(1, is_line ? 12 : 5);
    const int channels = number(1, cuda::max_taps_terms / (rows * columns));
    text << "mb" << number(1, 4) << "ic" << channels << "oc" << number(1, coin() ? 200 : 70);
    axis(text, 'h', rows, is_line ? 1 : 30);
    axis(text, 'w', columns, is_line ? 1500 : 40);
    return text.str();
  }
  TapsOptions options() {
    const Data data = number(0, 3) == 0 ? Data::infinite : Data::integers;
    const Placing x = placings[number(0, 2)];
    return {.of = classes[number(0, 3)],
            .x = x,
            .y = coin() ? Placing::planes : placings[number(0, 2)],
            .group_chunks = number(0, 3),
            .data = data,
            .bias = coin(),
            .relu = data == Data::integers && coin(),
            .accumulate = number(0, 3) == 0,
            .shifted = x != Placing::mirrored && number(0, 4) == 0,  // a copy is dense
            .exchanged = coin(),
            .images_at_once = number(0, 2)};
  }

 private:
  void axis(std::ostringstream& text, char of, int taps, int most) {
    const int dilation = taps > 1 && number(0, 3) == 0 ? number(1, 2) : 0;  // beside one
    const int span = (taps - 1) * (dilation + 1) + 1, padding = number(0, 1) * number(0, taps - 1);
    text << 'i' << of << (most == 1 ? span : number(span, span + most)) << 'k' << of << taps;
    text << 's' << of << number(1, coin() ? 5 : 1) << 'p' << of << padding << 'd' << of << dilation;
  }
  Random random_;
};

}  // namespace

TEST_CASE("pointwise_taps, emulated: random problems") {
  RandomTaps random(7);
  const int problems = is_sanitized ? 20 : 300;
  for (int i = 0; i < problems; ++i) {
    const std::string text = random.text();
    const TapsOptions options = random.options();
    CAPTURE(i, name(options.of), text, static_cast<int>(options.x), static_cast<int>(options.y),
            static_cast<int>(options.data), options.accumulate, options.shifted,
            options.images_at_once, options.group_chunks);
    CHECK(TapsEmulated(text, options, static_cast<std::uint32_t>(i)).run() == "");
  }
}

TEST_CASE("pointwise_taps, emulated: damaged plans are found") {
  const auto is_found = [](const auto& damage) {
    TapsEmulated convolution("mb2ic3ih19oc72kh3ph1", {.group_chunks = 1});
    damage(convolution.plan());
    return convolution.run() != "";
  };
  CHECK_FALSE(is_found([](const cuda::TapsPlan&) {}));
  CHECK(is_found([](cuda::TapsPlan& plan) { --plan.cut.groups; }));
  CHECK(is_found([](cuda::TapsPlan& plan) { plan.filters.terms -= 1; }));
}
