// The sources of wide_mma/ on the host, where no GPU is: copies that come as late as they may,
// fragments, products and stores of every arithmetic and layout, held against the oracle.
#include <catch2/catch_test_macros.hpp>
#include <sstream>
#include <string>

#include "support/sanitized.hpp"
#include "wide_mma_emulated.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::emulation;
using cuda::WideClass;
using cuda::WideMmaFault;

namespace {

constexpr WideClass classes[] = {cuda::wide_class_fp16, cuda::wide_class_bf16,
                                 cuda::wide_class_tf32, cuda::wide_class_fp64};
constexpr Placing placings[] = {Placing::channels_last, Placing::planes, Placing::mirrored};

std::string name(const WideClass& of) { return std::string(to_string(of.stored)); }

}  // namespace

TEST_CASE("wide_mma, emulated: every arithmetic and layout of x and y") {
  for (const WideClass& of : classes)
    for (const Placing x : placings)
      for (const Placing y : placings) {
        CAPTURE(name(of), static_cast<int>(x), static_cast<int>(y));
        CHECK(WideMmaEmulated("mb2ic24ih6iw8oc40kh3ph1", {.of = of, .x = x, .y = y, .bias = true})
                  .run() == "");
      }
}

TEST_CASE("wide_mma, emulated: every tile, several of them, many steps") {
  for (const WideClass& of : classes)
    for (int shape = 0; shape < cuda::wide_mma_shape_count; ++shape) {
      if (!cuda::has_wide_mma_shape(of, shape)) continue;
      for (const Placing placing : {Placing::channels_last, Placing::planes})
        for (const char* text :
             {"mb1ic64ih1oc64kh1", "mb2ic136ih9oc136kh1", "mb1ic72ih12oc72kh3"}) {
          CAPTURE(name(of), shape, static_cast<int>(placing), text);
          CHECK(
              WideMmaEmulated(text, {.of = of, .x = placing, .y = placing, .shape = shape}).run() ==
              "");
        }
    }
}

TEST_CASE("wide_mma, emulated: C and K that are multiples of nothing, tiny sizes") {
  for (const WideClass& of : classes)
    for (const Placing placing : placings)
      for (const char* text : {"mb1ic1ih1oc1kh1", "mb3ic17ih5iw7oc3kh1", "mb1ic33ih5oc17kh3ph1",
                               "mb2ic3ih4oc67kh2", "mb5ic20iw1oc9kw1", "mb1ic65ih3oc65kh3ph1"}) {
        CAPTURE(name(of), static_cast<int>(placing), text);
        CHECK(WideMmaEmulated(text, {.of = of, .x = placing, .y = placing, .accumulate = true})
                  .run() == "");
      }
}

TEST_CASE("wide_mma, emulated: strides, dilations, paddings, one and three dimensions") {
  for (const WideClass& of : classes)
    for (const Placing placing : {Placing::channels_last, Placing::planes})
      for (const char* text :
           {"mb2ic24ih9iw11oc16kh3sh2ph1", "mb1ic16ih9iw12oc24kh2kw4dh1dw2ph1pw3",
            "mb1ic40ih13oc8kh5sh3ph2", "mb1ic16ih7iw30oc8kh1kw7sw11pw3", "mb2ic24iw40oc16kw5pw2",
            "mb2ic16id4ih5iw6oc8kd3kh3kw3pd1ph1pw1", "mb1ic8id5ih4iw4oc16kd2kh1kw2sd2sh1sw1dd1",
            "mb1ic16ih3oc8kh3ph4"}) {
        CAPTURE(name(of), static_cast<int>(placing), text);
        CHECK(WideMmaEmulated(text,
                              {.of = of, .x = placing, .y = placing, .bias = true, .relu = true})
                  .run() == "");
      }
}

TEST_CASE("wide_mma, emulated: groups, joined and by themselves") {
  for (const WideClass& of : classes)
    for (const Placing placing : placings)
      for (const char* text : {"g2mb2ic64ih5oc48kh3ph1", "g3mb1ic27ih5oc6kh2",
                               "g8mb1ic32ih6oc32kh3ph1", "g2mb1ic160ih4oc150kh1"}) {
        CAPTURE(name(of), static_cast<int>(placing), text);
        CHECK(WideMmaEmulated(text, {.of = of, .x = placing, .y = placing, .bias = true}).run() ==
              "");
      }
}

TEST_CASE("wide_mma, emulated: x is read as it lies, or in parts of a batch through workspace") {
  for (const WideClass& of : classes) {
    CAPTURE(name(of));
    const char* const text = "mb5ic24ih6iw5oc24kh3ph1";
    WideMmaEmulated as_it_lies(text, {.of = of});
    CHECK_FALSE(as_it_lies.plan().input.repacks);
    CHECK(as_it_lies.run() == "");
    CHECK(WideMmaEmulated(text, {.of = of, .shifted = true, .images_at_once = 2}).run() == "");
    WideMmaEmulated planes(text, {.of = of, .x = Placing::planes, .images_at_once = 2});
    CHECK(planes.plan().input.repacks);
    CHECK(planes.run() == "");
    // What lies behind a pixel's channels is nobody's.
    const int unit = of.unit();
    WideMmaEmulated gaps("mb2ic21ih6oc16kh3ph1", {.of = of, .gap = (unit - 21 % unit) % unit});
    CHECK_FALSE(gaps.plan().input.repacks);
    CHECK(gaps.run() == "");
  }
}

TEST_CASE("wide_mma, emulated: parts of the reduction, of every arithmetic and layout of y") {
  for (const WideClass& of : classes)
    for (const Placing y : placings)
      for (const int splits : {2, 3, 7, 100})
        for (const char* text : {"mb2ic80ih5iw6oc44kh3ph1", "g2mb3ic80ih4oc72kh1kw2"}) {
          CAPTURE(name(of), static_cast<int>(y), splits, text);
          CHECK(WideMmaEmulated(text, {.of = of,
                                       .y = y,
                                       .splits = splits,
                                       .data = splits == 3 ? Data::infinite : Data::integers,
                                       .bias = true,
                                       .relu = splits == 2,
                                       .accumulate = splits == 7})
                    .run() == "");
        }
  // As planned, and in parts of a batch.
  for (const WideClass& of : classes) {
    const char* const text = "mb3ic72ih5iw6oc40kh3ph1";
    WideMmaEmulated planned(text, {.of = of, .x = Placing::planes, .splits = 0});
    CHECK(planned.plan().tiles.splits > 1);
    CHECK(planned.run() == "");
    CHECK(WideMmaEmulated(text, {.of = of, .splits = 5, .shifted = true, .images_at_once = 2})
              .run() == "");
  }
}

TEST_CASE("wide_mma, emulated: filters of backward data, whose channels are outermost") {
  for (const WideClass& of : classes)
    for (const char* text : {"mb2ic72ih6oc41kh3ph1", "mb1ic16id3ih4iw5oc24kd2kh3kw1"}) {
      CAPTURE(name(of), text);
      CHECK(WideMmaEmulated(text, {.of = of, .exchanged = true}).run() == "");
    }
}

TEST_CASE("wide_mma, emulated: values of any kind stay within their bound") {
  for (const WideClass& of : classes)
    for (const Placing placing : {Placing::channels_last, Placing::planes})
      for (const Data data : {Data::normal, Data::far_apart, Data::infinite})
        for (const char* text :
             {"mb2ic72ih6oc40kh3ph1", "mb3ic5ih7oc3kh3ph2", "g2mb1ic24ih6oc16kh3"}) {
          CAPTURE(name(of), static_cast<int>(placing), static_cast<int>(data), text);
          CHECK(WideMmaEmulated(text, {.of = of,
                                       .x = placing,
                                       .y = placing,
                                       .data = data,
                                       .bias = true,
                                       .accumulate = data == Data::infinite})
                    .run() == "");
        }
}

namespace {

/// Problems of few and many channels and filters, of any geometry.
class RandomWide {
 public:
  explicit RandomWide(std::uint32_t seed) : random_(seed) {}

  int number(int least, int most) { return static_cast<int>(random_.integer(least, most)); }
  bool coin() { return number(0, 1) == 1; }
  int channels(int groups) {
    const int lot = number(0, 2);
    return groups * (lot == 0   ? number(1, 9)
                     : lot == 1 ? 8 * number(1, 12 / groups)
                                : number(1, 70 / groups));
  }
  std::string text() {
    std::ostringstream text;
    const int groups = number(0, 3) == 0 ? number(2, 4) : 1, rank = number(1, 3);
    text << 'g' << groups << "mb" << number(1, 3) << "ic" << channels(groups) << "oc"
         << channels(groups);
    for (const char axis : std::string("whd").substr(0, static_cast<std::size_t>(rank))) {
      const int taps = number(1, rank == 3 ? 2 : 4), dilation = number(0, 3) == 0 ? 2 : 1;
      const int reach = (taps - 1) * dilation + 1;
      text << 'i' << axis << reach + number(0, rank == 3 ? 3 : 7) << 'k' << axis << taps;
      text << 'd' << axis << dilation - 1;
      text << 'p' << axis << (coin() && reach > 1 ? number(0, reach) : 0);
      text << 's' << axis << (number(0, 3) == 0 ? number(2, 4) : 1);
    }
    return text.str();
  }
  WideMmaOptions options() {
    const Data data = number(0, 3) == 0 ? Data::infinite : Data::integers;
    const WideClass of = classes[number(0, 3)];
    const Placing x = placings[number(0, 2)];
    return {.of = of,
            .x = x,
            .y = placings[number(0, 2)],
            .shape = of.stored == DType::f64 ? -1 : number(0, 1),
            .splits = number(0, 3),
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
bool is_caught(const char* text, const WideMmaOptions& options) {
  return WideMmaEmulated(text, options).run() != "";
}

}  // namespace

TEST_CASE("wide_mma, emulated: random problems") {
  constexpr int problems = is_sanitized ? 20 : 150;
  for (int i = 0; i < problems; ++i) {
    RandomWide random(static_cast<std::uint32_t>(i));
    const std::string text = random.text();
    const WideMmaOptions options = random.options();
    CAPTURE(i, name(options.of), text, static_cast<int>(options.x), static_cast<int>(options.y),
            static_cast<int>(options.data), options.accumulate, options.shifted,
            options.images_at_once, options.shape, options.splits);
    CHECK(WideMmaEmulated(text, options, static_cast<std::uint32_t>(i)).run() == "");
  }
}

TEST_CASE("wide_mma, emulated: planted faults are caught") {
  using enum WideMmaFault;
  for (const WideClass& of : {cuda::wide_class_fp16, cuda::wide_class_fp64})
    for (const Placing placing : {Placing::channels_last, Placing::planes})
      for (const WideMmaFault fault :
           {none, stale_stage, early, wrong_swizzle, wrong_tap, lost_pixel}) {
        CAPTURE(name(of), static_cast<int>(placing), static_cast<int>(fault));
        // Without padding: there a NaN that is read from an empty stage would be summed anew.
        CHECK(is_caught("mb2ic96ih9oc72kh3",
                        {.of = of, .x = placing, .y = placing, .fault = fault}) == (fault != none));
      }
  for (const WideMmaFault fault : {none, lost_split})
    CHECK(is_caught("mb2ic96ih9oc72kh3", {.splits = 3, .fault = fault}) == (fault != none));
  // Of two filters, so that what is written behind y is within its 16 guarded elements.
  for (const WideMmaFault fault : {none, unmasked})
    CHECK(is_caught("mb2ic16ih7oc2kh1", {.fault = fault}) == (fault != none));
}

TEST_CASE("wide_mma, emulated: damaged plans are found") {
  const auto is_found = [](const auto& damage) {
    WideMmaEmulated convolution("mb3ic96ih9oc72kh3", {.shape = 1});
    damage(convolution.plan());
    return convolution.run() != "";
  };
  CHECK_FALSE(is_found([](const cuda::WideMmaPlan&) {}));
  CHECK(is_found([](cuda::WideMmaPlan& plan) { --plan.tiles.n_tiles; }));
  CHECK(is_found([](cuda::WideMmaPlan& plan) { --plan.tiles.m_tiles; }));
  CHECK(is_found([](cuda::WideMmaPlan& plan) { --plan.filters.channel_blocks; }));
}
