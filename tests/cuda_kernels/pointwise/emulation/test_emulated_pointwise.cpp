// The pointwise kernel's sources on the host, where no GPU is: loads, products, packed filters and
// stores of every arithmetic and layout, held against the oracle.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cuda_kernels/pointwise/classes.hpp"
#include "pointwise_emulated.hpp"
#include "support/sanitized.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::emulation;
using cuda::PointwiseClass;
using cuda::PointwiseFault;
using cuda::PointwiseInput;
using cuda::PointwiseOutput;

namespace {

constexpr const auto& classes = pointwise_classes;
constexpr Placing placings[] = {Placing::channels_last, Placing::planes, Placing::mirrored};

}  // namespace

TEST_CASE("pointwise, emulated: one image of every layout") {
  for (const Placing x : placings)
    for (const Placing y : placings) {
      CAPTURE(static_cast<int>(x), static_cast<int>(y));
      CHECK(PointwiseEmulated("mb1ic64ih8oc32kh1", {.x = x, .y = y}).run() == "");
    }
}

TEST_CASE(
    "pointwise, emulated: every arithmetic and layout, C and K that are multiples of nothing") {
  for (const PointwiseClass& of : classes)
    for (const Placing x : placings)
      for (const Placing y : placings)
        for (const char* text :
             {"mb3ic1ih5iw7oc1kh1", "mb2ic2ih7oc3kh1", "mb2ic3ih7oc17kh1", "mb2ic17ih6oc2kh1",
              "mb1ic96ih10iw6oc40kh1", "mb2ic40ih9iw8oc96kh1", "mb5ic33iw1oc72kw1"}) {
          CAPTURE(name(of), static_cast<int>(x), static_cast<int>(y), text);
          CHECK(PointwiseEmulated(text, {.of = of, .x = x, .y = y, .bias = true}).run() == "");
        }
}

TEST_CASE("pointwise, emulated: every way to read x and to write y") {
  struct Case {
    const char* text;
    Placing x, y;
    PointwiseInput input;
    PointwiseOutput output;
  };
  constexpr Placing last = Placing::channels_last, planes = Placing::planes,
                    mirrored = Placing::mirrored;
  using In = PointwiseInput;
  using Out = PointwiseOutput;
  for (const Case& of :
       {Case{"mb2ic72ih8oc40kh1", last, last, In::rows, Out::filters},
        Case{"mb2ic72ih8oc40kh1", planes, planes, In::planes, Out::pixels},
        Case{"mb2ic72ih8oc40kh1", last, planes, In::rows, Out::pixels},
        Case{"mb2ic72ih8oc40kh1", planes, last, In::planes, Out::filters},
        Case{"mb3ic72ih6oc40kh1", planes, planes, In::half_planes, Out::half_pixels},
        Case{"mb3ic72ih7oc40kh1", planes, planes, In::elements, Out::elements},
        Case{"mb3ic70ih7oc36kh1", last, last, In::elements, Out::elements},
        Case{"mb3ic72ih7oc2kh1", last, last, In::rows, Out::filters},
        Case{"mb3ic72ih8oc40kh1", mirrored, mirrored, In::elements, Out::elements}})
    for (const bool accumulate : {false, true}) {
      PointwiseEmulated convolution(
          of.text,
          {.x = of.x, .y = of.y, .bias = true, .relu = !accumulate, .accumulate = accumulate});
      CAPTURE(of.text, static_cast<int>(of.x), static_cast<int>(of.y), accumulate);
      CHECK(convolution.input() == of.input);
      CHECK(convolution.output() == of.output);
      CHECK(convolution.run() == "");
    }
}

TEST_CASE(
    "pointwise, emulated: one pixel, one image of a pixel each, strides, one and three axes") {
  for (const PointwiseClass& of : classes)
    for (const Placing placing : placings)
      for (const char* text :
           {"mb1ic24ih1oc40kh1", "mb70ic20ih1oc12kh1", "mb2ic16ih9iw8oc24kh1sh2",
            "mb2ic16ih9iw8oc24kh1sh3sw2", "mb3ic20iw37oc9kw1", "mb2ic24id3ih4iw5oc16kd1kh1kw1",
            "mb2ic8id5ih4iw4oc16kd1kh1kw1sd2sh1sw1"}) {
        CAPTURE(name(of), static_cast<int>(placing), text);
        CHECK(PointwiseEmulated(text, {.of = of, .x = placing, .y = placing, .accumulate = true})
                  .run() == "");
      }
}

TEST_CASE("pointwise, emulated: filters shared out to blocks and to warps in every way") {
  unsigned turn = 0;
  for (const PointwiseClass& of : {cuda::pointwise_class_fp16, cuda::pointwise_class_tf32x3})
    for (const char* text : {"mb2ic24ih9oc200kh1", "mb2ic80ih9oc136kh1"})
      for (const int group_chunks : {1, 2, 3, 7})
        for (const int warps_n : {1, 2, 3, 4, 6, 12}) {
          if (is_left_out(turn++)) continue;
          CAPTURE(name(of), text, group_chunks, warps_n);
          PointwiseEmulated convolution(
              text, {.of = of, .choice = {.group_chunks = group_chunks, .warps_n = warps_n}});
          CHECK(convolution.plan().cut.warps_n == warps_n);
          CHECK(convolution.run() == "");
        }
}

TEST_CASE("pointwise, emulated: warps that hold all channels of a tile, in every arithmetic") {
  unsigned turn = 0;
  for (const PointwiseClass& of : classes)
    for (const Placing x : {Placing::channels_last, Placing::planes})
      for (const Placing y : placings)
        for (const char* text : {"mb1ic8ih8oc40kh1", "mb3ic32ih6oc72kh1", "mb2ic40ih16oc100kh1",
                                 "mb1ic64ih24iw50oc40kh1", "mb2ic64ih9iw16oc70kh1sh2",
                                 "mb2ic24id3ih4iw8oc40kd1kh1kw1"})
          for (const int warps_n : {1, 2, 4}) {
            if (is_left_out(turn++, 7)) continue;
            CAPTURE(name(of), static_cast<int>(x), static_cast<int>(y), text, warps_n);
            PointwiseEmulated convolution(text, {.of = of,
                                                 .x = x,
                                                 .y = y,
                                                 .choice = {.warps_n = warps_n, .holds = true},
                                                 .bias = true,
                                                 .relu = warps_n == 2,
                                                 .accumulate = warps_n == 4});
            CHECK(convolution.plan().cut.holds ==
                  (convolution.input() != PointwiseInput::elements));
            CHECK(convolution.run() == "");
          }
  // x that is not aligned, though it was planned as if it were; slices; groups of chunks.
  for (const PointwiseClass& of : classes)
    for (const Placing placing : {Placing::channels_last, Placing::planes})
      for (const bool shifted : {false, true}) {
        CAPTURE(name(of), static_cast<int>(placing), shifted);
        PointwiseEmulated convolution("mb5ic48ih8oc104kh1",
                                      {.of = of,
                                       .x = placing,
                                       .y = placing,
                                       .choice = {.group_chunks = 2, .warps_n = 1, .holds = true},
                                       .shifted = shifted,
                                       .images_at_once = 2});
        CHECK(convolution.plan().cut.holds);
        CHECK(convolution.run() == "");
      }
}

TEST_CASE("pointwise, emulated: many channels, many filters, many tiles") {
  for (const PointwiseClass& of : classes)
    for (const Placing placing : {Placing::channels_last, Placing::planes})
      for (const char* text : {"mb2ic320ih5oc96kh1", "mb1ic64ih40iw41oc8kh1", "mb1ic16ih7oc600kh1",
                               "mb1ic32ih64oc16kh1"}) {
        CAPTURE(name(of), static_cast<int>(placing), text);
        CHECK(PointwiseEmulated(text, {.of = of, .x = placing, .y = placing}).run() == "");
      }
}

TEST_CASE("pointwise, emulated: what is not aligned, and slices of a batch") {
  for (const PointwiseClass& of : classes)
    for (const Placing placing : {Placing::channels_last, Placing::planes}) {
      CAPTURE(name(of), static_cast<int>(placing));
      CHECK(PointwiseEmulated("mb3ic64ih8oc24kh1",
                              {.of = of, .x = placing, .y = placing, .shifted = true})
                .run() == "");
      CHECK(PointwiseEmulated(
                "mb5ic24ih6iw8oc24kh1",
                {.of = of, .x = placing, .y = placing, .accumulate = true, .images_at_once = 2})
                .run() == "");
    }
}

TEST_CASE("pointwise, emulated: filters of backward data, whose channels are outermost") {
  for (const PointwiseClass& of : classes)
    for (const Placing placing : placings) {
      CAPTURE(name(of), static_cast<int>(placing));
      CHECK(PointwiseEmulated("mb2ic72ih6oc41kh1",
                              {.of = of, .x = placing, .y = placing, .exchanged = true})
                .run() == "");
    }
}

TEST_CASE("pointwise, emulated: filters are packed to the same bytes for every N") {
  for (const PointwiseClass& of : classes)
    for (const int c : {1, 7, 64, 97})
      for (const int k : {1, 8, 9, 72})
        for (const char* pixels : {"ih1", "ih7", "ih9sh2"}) {
          std::vector<char> first;
          for (const int n : {1, 2, 40}) {
            std::ostringstream text;
            text << "mb" << n << "ic" << c << "oc" << k << "kh1" << pixels;
            CAPTURE(name(of), text.str());
            const PointwiseEmulated convolution(text.str(), {.of = of});
            const std::vector<char> packed = convolution.packed_filters();
            if (n == 1) first = packed;
            CHECK(packed == first);
          }
        }
}

TEST_CASE("pointwise, emulated: values of any kind stay within their bound") {
  for (const PointwiseClass& of : classes)
    for (const Placing placing : {Placing::channels_last, Placing::planes})
      for (const Data data : {Data::normal, Data::far_apart, Data::infinite})
        for (const char* text : {"mb2ic72ih6oc40kh1", "mb3ic5ih7oc3kh1"}) {
          CAPTURE(name(of), static_cast<int>(placing), static_cast<int>(data), text);
          CHECK(PointwiseEmulated(text, {.of = of,
                                         .x = placing,
                                         .y = placing,
                                         .data = data,
                                         .bias = true,
                                         .accumulate = data == Data::infinite})
                    .run() == "");
        }
  // Halves hold values of any size; what is not finite, or nearly so, is summed by the definition.
  for (const Data data : {Data::of_any_size, Data::largest, Data::large_products})
    for (const Placing placing : placings) {
      CAPTURE(static_cast<int>(placing), static_cast<int>(data));
      CHECK(PointwiseEmulated(
                "mb2ic40ih5oc24kh1",
                {.of = cuda::pointwise_class_tf32x3, .x = placing, .y = placing, .data = data})
                .run() == "");
    }
}

TEST_CASE("pointwise, emulated: three products are as accurate as fp32") {
  // A sum of one term has no other error than that of its product.
  CHECK(PointwiseEmulated("mb2ic1ih9oc8kh1",
                          {.of = cuda::pointwise_class_tf32x3, .data = Data::normal, .share = 0.5})
            .run() == "");
}

TEST_CASE("pointwise, emulated: three products of one image") {
  for (const Data data : {Data::normal, Data::large_products})
    CHECK(PointwiseEmulated("mb1ic4ih5oc8kh1", {.of = cuda::pointwise_class_tf32x3, .data = data})
              .run() == "");
}

namespace {

/// Problems of few and many channels and filters, pixels and strides of any number.
class RandomPoints {
 public:
  explicit RandomPoints(std::uint32_t seed) : random_(seed) {}

  int number(int least, int most) { return static_cast<int>(random_.integer(least, most)); }
  bool coin() { return number(0, 1) == 1; }
  int channels() {
    const int lot = number(0, 4);
    return lot == 0 ? number(1, 9) : lot == 1 ? 8 * number(1, 20) : number(1, lot == 2 ? 200 : 70);
  }
  std::string text() {
    std::ostringstream text;
    text << "mb" << number(1, 4) << "ic" << channels() << "oc" << channels();
    for (const char axis : {'h', 'w'}) {
      text << 'i' << axis << number(1, 12) << 'k' << axis << 1;
      if (number(0, 4) == 0) text << 's' << axis << number(2, 3);
    }
    return text.str();
  }
  PointwiseOptions options() {
    const Data data = number(0, 3) == 0 ? Data::infinite : Data::integers;
    const Placing x = placings[number(0, 2)];
    return {.of = classes[number(0, 3)],
            .x = x,
            .y = placings[number(0, 2)],
            .choice = {.holds = coin()},
            .data = data,
            .bias = coin(),
            .relu = data == Data::integers && coin(),
            .accumulate = coin(),
            .shifted = x != Placing::mirrored && number(0, 4) == 0,  // a copy is dense
            .exchanged = coin(),
            .images_at_once = number(0, 2)};
  }

 private:
  Random random_;
};

/// Whether a fault of the kernel shows in a problem's outputs.
bool is_caught(const char* text, const PointwiseOptions& options) {
  return PointwiseEmulated(text, options).run() != "";
}

}  // namespace

TEST_CASE("pointwise, emulated: random problems") {
  RandomPoints random(5);
  const int problems = is_sanitized ? 20 : 400;
  for (int i = 0; i < problems; ++i) {
    const std::string text = random.text();
    const PointwiseOptions options = random.options();
    CAPTURE(i, name(options.of), text, static_cast<int>(options.x), static_cast<int>(options.y),
            static_cast<int>(options.data), options.accumulate, options.shifted,
            options.images_at_once, options.choice.holds == true);
    CHECK(PointwiseEmulated(text, options, static_cast<std::uint32_t>(i)).run() == "");
  }
}

TEST_CASE("pointwise, emulated: planted faults are caught") {
  using enum PointwiseFault;
  const auto expected = [](const char* text, PointwiseFault fault, Placing placing) {
    return is_caught(text, {.x = placing, .y = placing, .fault = fault});
  };
  for (const Placing placing : {Placing::channels_last, Placing::planes})
    for (const PointwiseFault fault :
         {none, swapped_terms, stale_fragment, lost_chunk, lost_pixel}) {
      CAPTURE(static_cast<int>(placing), static_cast<int>(fault));
      CHECK(expected("mb2ic96ih7oc72kh1", fault, placing) == (fault != none));
    }
  // Of two rounds of tiles, where a warp holds each.
  for (const Placing placing : {Placing::channels_last, Placing::planes})
    for (const PointwiseFault fault :
         {none, swapped_terms, stale_fragment, lost_chunk, lost_pixel}) {
      // Vectors of pixels are there as a whole.
      if (placing == Placing::planes && fault == lost_pixel) continue;
      CAPTURE(static_cast<int>(placing), static_cast<int>(fault));
      const PointwiseOptions options{
          .x = placing, .y = placing, .choice = {.warps_n = 1, .holds = true}, .fault = fault};
      CHECK(is_caught("mb2ic40ih28oc72kh1", options) == (fault != none));
    }
  // So few pixels and filters that what is written behind y is within its 16 guarded elements.
  for (const PointwiseFault fault : {none, unmasked})
    CHECK(expected("mb1ic16iw57oc2kw1", fault, Placing::channels_last) == (fault != none));
  // Of few terms, so that a lost low half is beyond their bound. Small integers have none.
  for (const PointwiseFault fault : {none, lost_low, low_twice}) {
    CAPTURE(static_cast<int>(fault));
    const PointwiseOptions options{
        .of = cuda::pointwise_class_tf32x3, .data = Data::normal, .fault = fault};
    CHECK(is_caught("mb2ic4ih9oc8kh1", options) == (fault != none));
  }
}

TEST_CASE("pointwise, emulated: damaged plans are found") {
  const auto is_found = [](const auto& damage) {
    PointwiseEmulated convolution("mb2ic96ih9oc72kh1", {.choice = {.group_chunks = 1}});
    damage(convolution.plan());
    return convolution.run() != "";
  };
  CHECK_FALSE(is_found([](const cuda::PointwisePlan&) {}));
  CHECK(is_found([](cuda::PointwisePlan& plan) { --plan.cut.groups; }));
  CHECK(is_found([](cuda::PointwisePlan& plan) { plan.filters.units -= 1; }));
}
