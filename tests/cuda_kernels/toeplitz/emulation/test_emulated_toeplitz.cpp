// The Toeplitz kernel's sources on the host, where no GPU is: pipeline, scales, products, borders
// and what fp16 cannot hold, in each mode, held against the oracle.
#include <catch2/catch_test_macros.hpp>

#include "support/sanitized.hpp"
#include "toeplitz_emulated.hpp"

using namespace plumb_test;
using namespace plumb_test::emulation;

TEST_CASE("toeplitz, emulated: planes, with each boundary along each axis") {
  for (const char* text :
       {"mb1ic1id11ih35iw70oc1kd3kh3kw3pd1ph1pw1", "mb1ic1id9ih20iw66oc1kd3kh5kw7pd1ph2pw3padclamp",
        "mb1ic1id10ih18iw20oc1kd5kh3kw3pd2ph1pw1padperiodic",
        "mb1ic1id5ih6iw90oc1kd4kh2kw9pd2ph1pw4padreflect",
        "mb2ic1id8ih5iw7oc1kd5kh4kw5pd2ph2pw2padsymmetric",
        "mb1ic1id9ih33iw65oc1kd3kh5kw7pd1ph2pw3padzeros/reflect/symmetric",
        "mb1ic1id20ih40iw72oc1kd3kh3kw3pd0ph0pw0"}) {
    CAPTURE(text);
    CHECK(ToeplitzEmulated(text, {}).run() == "");
  }
}

TEST_CASE("toeplitz, emulated: planes of tiles inside of the image, aligned and not") {
  for (const char* text :
       {"mb1ic1id24ih70iw208oc1kd3kh3kw3pd1ph1pw1", "mb1ic1id20ih67iw207oc1kd2kh3kw5pd0ph1pw2"}) {
    CAPTURE(text);
    CHECK(ToeplitzEmulated(text, {.products = 1}).run() == "");
  }
}

TEST_CASE("toeplitz, emulated: planes of several channels, filters, images and parts") {
  for (const char* text :
       {"mb2ic2id9ih17iw40oc3kd3kh3kw5pd1ph1pw2", "mb1ic1id8ih12iw20oc1kd9kh9kw9pd4ph4pw4",
        "mb1ic1id9ih12iw20oc1kd6kh17kw15pd3ph8pw7padperiodic",
        "mb1ic1id4ih60iw30oc1kd2kh50kw4pd1ph25pw2"}) {
    CAPTURE(text);
    CHECK(ToeplitzEmulated(text, {.blocks = 1}).run() == "");
  }
}

TEST_CASE("toeplitz, emulated: rows and lines") {
  for (const char* text :
       {"mb1ic1ih140iw90oc1kh9ph4", "mb2ic2ih30iw70oc2kh5kw3ph2pw1padreflect",
        "mb1ic1id9ih30iw40oc1kd3kh5kw7pd1ph2pw3padclamp", "mb1ic1iw700oc1kw33pw16padperiodic",
        "mb3ic2ih3iw540oc2kh1kw65ph0pw32", "mb1ic1ih70iw150oc1kh9ph4padperiodic",
        "mb1ic2ih20iw61oc1kh3kw30ph1pw29padsymmetric", "mb2ic1ih9iw33oc1kh4kw40ph2pw39padreflect",
        "mb1ic1ih2iw1100oc1kh1kw65ph0pw32padsymmetric"}) {
    CAPTURE(text);
    const bool line = std::string(text).find("kh") == std::string::npos ||
                      std::string(text).find("kh1kw") != std::string::npos;
    const ToeplitzMode mode = line ? ToeplitzMode::line : ToeplitzMode::rows;
    CHECK(ToeplitzEmulated(text, {.mode = mode}).run() == "");
  }
}

TEST_CASE("toeplitz, emulated: strides, bias, ReLU and sums that go on") {
  const char* const text = "mb2ic1id9ih18iw30oc2kd3kh3kw3pd1ph1pw1padclamp";
  CHECK(ToeplitzEmulated(text, {.x = Placing::mirrored, .y = Placing::mirrored, .bias = true})
            .run() == "");
  CHECK(ToeplitzEmulated(text, {.bias = true, .relu = true, .accumulate = true}).run() == "");
}

TEST_CASE(
    "toeplitz, emulated: sums lie within the bound, and what halves do not hold is summed anew") {
  for (const char* text : {"mb1ic2id9ih18iw70oc1kd3kh5kw5pd1ph2pw2", "mb1ic1ih40iw70oc1kh9ph4"})
    for (const int products : {1, 3})
      for (const Data data : {Data::normal, Data::far_apart, Data::infinite}) {
        CAPTURE(text, products, static_cast<int>(data));
        const bool planes = std::string(text).find("id") != std::string::npos;
        CHECK(ToeplitzEmulated(text, {.mode = planes ? ToeplitzMode::planes : ToeplitzMode::rows,
                                      .products = products,
                                      .data = data})
                  .run() == "");
      }
}

TEST_CASE("toeplitz, emulated: planted faults show") {
  const auto is_caught = [](EmulatedFault fault, Data data) {
    // Small integers have no low halves, and many terms a bound that these lie within.
    const char* const text = fault == EmulatedFault::lost_low
                                 ? "mb1ic1id9ih6iw20oc1kd2kh2kw2pd0ph0pw0"
                                 : "mb1ic4id8ih5iw7oc1kd3kh2kw3pd1ph1pw1padperiodic";
    return !ToeplitzEmulated(text, {.data = data, .blocks = 1, .fault = fault}).run().empty();
  };
  CHECK_FALSE(is_caught(EmulatedFault::none, Data::integers));
  CHECK(is_caught(EmulatedFault::wrong_wrap, Data::integers));
  CHECK(is_caught(EmulatedFault::lost_low, Data::normal));
  CHECK(is_caught(EmulatedFault::dropped_pass, Data::integers));
  CHECK_FALSE(is_caught(EmulatedFault::none, Data::normal));
  CHECK(is_caught(EmulatedFault::stale_scale, Data::normal));
  CHECK(is_caught(EmulatedFault::kept_small, Data::of_any_size));
  CHECK(is_caught(EmulatedFault::stale_plane, Data::integers));
}
