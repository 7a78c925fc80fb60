// The wide kernel's sources on the host, where no GPU is: repacking, pipeline, products and
// epilogue of every arithmetic, held against the oracle.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "class_name.hpp"
#include "support/sanitized.hpp"
#include "wide_emulated.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::emulation;
using plumb::cuda::wide_class_bf16;
using plumb::cuda::wide_class_fp16;
using plumb::cuda::wide_class_fp16x3;
using plumb::cuda::wide_class_tf32;
using plumb::cuda::wide_class_tf32x3;
using plumb::cuda::WideClass;

namespace {

constexpr const auto& classes = wide_classes;

}  // namespace

TEST_CASE("wide, emulated: repacked x has its elements, halves of 22 bits, and zeros") {
  for (const WideClass& of : {wide_class_fp16, wide_class_fp16x3})
    for (const Placing x : {Placing::planes, Placing::mirrored}) {
      CAPTURE(name(of), static_cast<int>(x));
      WideEmulated convolution("g2mb2ic270ih9iw10oc40kh3ph1",
                               {.of = of, .x = x, .data = Data::normal});
      const cuda::WidePlan& plan = convolution.plan();
      const std::vector<char> met =
          repacked_input(convolution.run_of(convolution.x().view().data()));
      const auto half = [&](std::int64_t at) {
        Half value;
        std::memcpy(&value.bits, met.data() + at, 2);
        return static_cast<double>(static_cast<float>(value));
      };
      int wrong = 0;
      for (std::int64_t n = 0; n < 2; ++n) {
        int scale = 0;
        if (of.products == 3)
          std::memcpy(&scale, met.data() + plan.workspace.scales + 4 * n, sizeof(int));
        for (int pixel = 0; pixel < 90; ++pixel)
          for (int group = 0; group < 2; ++group)
            for (int c = 0; c < plan.input.group_channels; ++c) {
              const std::int64_t at = n * plan.input.image_bytes() +
                                      pixel * plan.input.pixel_bytes() +
                                      2 * (group * plan.input.group_channels + c);
              const double expected =
                  c < 135 ? convolution.x().at({n, group * 135 + c, pixel / 10, pixel % 10}) : 0;
              double value = half(at);
              if (of.products == 3) value += half(at + plan.input.pixel_bytes() / 2) * 0x1p-11;
              value = std::ldexp(value, -(scale >> 2));  // a word of WideScale
              const double bound = of.products == 3 ? 0x1p-22 * std::abs(expected) : 0;
              wrong += !(std::abs(value - expected) <= bound);
            }
      }
      CHECK(wrong == 0);
    }
}

TEST_CASE("wide, emulated: every arithmetic, of x with channels innermost and in planes") {
  unsigned turn = 0;
  for (const WideClass& of : classes)
    for (const Placing x : {Placing::channels_last, Placing::planes, Placing::mirrored})
      for (const char* text : {"mb2ic72ih5iw6oc40kh3ph1", "mb3ic16ih6iw5oc24kh3ph1sh2",
                               "mb2ic8id4ih3iw5oc8kd3kh3kw3pd1ph1pw1", "mb2ic40iw30oc72kw5pw2",
                               "mb1ic13ih4iw5oc9kh3ph1", "mb2ic1ih6iw7oc70kh3ph1"}) {
        if (is_left_out(turn++)) continue;
        CAPTURE(name(of), static_cast<int>(x), text);
        CHECK(WideEmulated(text, {.of = of, .x = x, .bias = true}).run() == "");
      }
}

TEST_CASE("wide, emulated: groups, joined and not, with few and with odd channels") {
  unsigned turn = 0;
  for (const WideClass& of : classes)
    for (const Placing x : {Placing::channels_last, Placing::planes})
      for (const char* text :
           {"g2mb2ic128ih4iw5oc144kh3ph1", "g8mb2ic32ih5iw4oc64kh3ph1", "g6mb1ic18ih5iw4oc12kh3ph1",
            "g24mb2ic24ih5iw6oc24kh3ph1", "g3mb1ic201ih4iw4oc15kh1ph0", "g2mb1ic80ih4iw3oc6kh3ph1"})
        for (const int splits : {1, 2}) {
          if (is_left_out(turn++)) continue;
          CAPTURE(name(of), static_cast<int>(x), text, splits);
          CHECK(WideEmulated(text, {.of = of,
                                    .x = x,
                                    .choice = {.shape = 5, .splits = splits},
                                    .relu = true,
                                    .accumulate = true})
                    .run() == "");
        }
}

TEST_CASE("wide, emulated: each of the tiles, with splits, vectors and elements") {
  unsigned turn = 0;
  for (const WideClass& of : classes)
    for (const int shape : emulated_shapes)
      for (const int splits : {1, 3}) {
        if (is_left_out(turn++)) continue;
        if (!cuda::has_wide_shape(of, false, shape)) continue;
        CAPTURE(name(of), shape, splits);
        const WideOptions options{.of = of, .choice = {.shape = shape, .splits = splits}};
        CHECK(WideEmulated("mb3ic72ih7iw8oc136kh3ph1", options).run() == "");
        WideOptions planes = options;
        planes.y = Placing::planes, planes.accumulate = true, planes.bias = true;
        CHECK(WideEmulated("mb3ic72ih7iw8oc71kh3ph1", planes).run() == "");
      }
}

TEST_CASE("wide, emulated: planes of y are written in vectors of 16 and of 8 bytes, and not") {
  unsigned turn = 0;
  for (const WideClass& of : classes)
    for (const char* text :
         {"mb3ic24ih4iw6oc40kh3ph1", "mb3ic24ih6oc71kh3ph1", "mb3ic24ih6iw5oc40kh3ph1",
          "mb3ic24ih7oc40kh3ph1", "mb2ic24id2ih2iw4oc24kd1kh1kw1pd0ph0pw0"})
      for (const Data data : {Data::integers, Data::infinite}) {
        if (is_left_out(turn++, 3)) continue;
        CAPTURE(name(of), text, static_cast<int>(data));
        const WideOptions options{.of = of,
                                  .y = Placing::planes,
                                  .choice = {.shape = 5},
                                  .data = data,
                                  .bias = true,
                                  .accumulate = data == Data::integers};
        CHECK(WideEmulated(text, options).run() == "");
      }
}

TEST_CASE("wide, emulated: taps of folded axes are channels, of every layout and boundary") {
  unsigned turn = 0;
  // Strides beyond the copy engine's, taps beside, between and over each other, beyond the image,
  // joined groups, one to three axes.
  for (const WideClass& of : classes)
    for (const Placing x : {Placing::channels_last, Placing::planes, Placing::mirrored})
      for (const char* text :
           {"mb2ic3ih22iw31oc40kh10kw9sh10sw11ph0", "mb2ic3ih9iw10oc24kh4sh4ph0",
            "mb1ic5ih9iw8oc9kh3ph1", "mb2ic3ih13iw11oc16kh5sh2ph2dh1", "g2mb2ic6ih8oc10kh4sh3ph1",
            "g6mb1ic6ih7iw9oc12kh3sh2ph1", "mb2ic3id4ih6iw9oc17kd2kh3kw4sd2sh3sw4pd0ph0pw1",
            "mb2ic1iw60oc20kw12sw10pw3", "mb1ic1iw6500oc8kw4sw3pw1", "mb1ic2ih70iw9oc8kh3ph1",
            "mb1ic20ih40iw30oc8kh3ph1"})
        for (const int axes : {1, 2, 3, 7}) {
          if (is_left_out(turn++, 7)) continue;
          const WideOptions options{
              .of = of, .x = x, .choice = {.shape = 5}, .folded_axes = axes, .bias = true};
          const WideEmulated convolution(text, options);
          const ConvProblem product =
              cuda::wide_product(convolution.problem(), convolution.plan().filters.fold);
          if (std::max(product.stride.h, product.stride.w) > cuda::max_im2col_step) continue;
          CAPTURE(name(of), static_cast<int>(x), text, axes);
          CHECK(WideEmulated(text, options).run() == "");
        }
}

TEST_CASE("wide, emulated: folded outputs that come out NaN are summed by the definition") {
  for (const WideClass& of : classes)
    for (const char* text : {"mb2ic3ih13iw11oc16kh5sh2ph2dh1", "g2mb1ic4ih9iw8oc6kh3ph1"})
      for (const int axes : {1, 2, 3})
        for (const int splits : {1, 2}) {
          CAPTURE(name(of), text, axes, splits);
          WideOptions options{.of = of, .choice = {.shape = 5, .splits = splits}};
          options.folded_axes = axes, options.data = Data::infinite;
          options.y = splits > 1 ? Placing::planes : Placing::channels_last;
          CHECK(WideEmulated(text, options).run() == "");
        }
}

TEST_CASE("wide, emulated: planes of y from splits are written in vectors, and not") {
  for (const WideClass& of : classes)
    for (const char* text :
         {"mb3ic24ih4iw6oc40kh3ph1", "mb3ic24ih6oc71kh3ph1", "mb3ic24ih6iw5oc40kh3ph1",
          "mb3ic24ih7oc40kh3ph1", "g2mb2ic24id2ih2iw4oc10kd1kh1kw1pd0ph0pw0"})
      for (const Data data : {Data::integers, Data::infinite}) {
        CAPTURE(name(of), text, static_cast<int>(data));
        const WideOptions options{.of = of,
                                  .y = Placing::planes,
                                  .choice = {.shape = 5, .splits = 2},
                                  .data = data,
                                  .bias = true,
                                  .relu = data == Data::integers,
                                  .accumulate = data == Data::integers};
        CHECK(WideEmulated(text, options).run() == "");
      }
}

TEST_CASE("wide, emulated: an x that is not aligned is repacked some images at a time") {
  for (const WideClass& of : classes) {
    CAPTURE(name(of));
    const WideOptions options{.of = of, .accumulate = true, .shifted = true, .images_at_once = 2};
    CHECK(WideEmulated("mb5ic24ih5iw6oc40kh3ph1", options).run() == "");
    WideOptions split = options;
    split.choice.splits = 2, split.shifted = false, split.x = Placing::planes;
    CHECK(WideEmulated("mb5ic24ih5iw6oc40kh3ph1", split).run() == "");
  }
}

TEST_CASE("wide, emulated: planes under one tap are operands as they lie") {
  unsigned turn = 0;
  // Images that end within a tile and within a copy, channels that end within a step, several
  // steps.
  for (const WideClass& of : classes)
    for (const Placing y : {Placing::planes, Placing::channels_last})
      for (const char* text :
           {"mb3ic64ih8iw9oc40kh1ph0", "mb2ic200ih8iw25oc136kh1ph0", "mb3ic24iw136oc72kw1",
            "mb2ic72id2ih4iw10oc9kd1kh1kw1", "mb1ic128ih16iw17oc64kh1ph0"})
        for (const int shape : emulated_shapes)
          for (const Data data : {Data::integers, Data::infinite}) {
            if (of.scales() || !cuda::has_wide_shape(of, true, shape)) continue;
            // NaN and Inf go through what all tiles share.
            if (data == Data::infinite && shape != emulated_shapes[1]) continue;
            if (is_left_out(turn++, 11)) continue;
            CAPTURE(name(of), static_cast<int>(y), text, shape, static_cast<int>(data));
            WideOptions options{.of = of,
                                .x = Placing::planes,
                                .y = y,
                                .choice = {.shape = shape},
                                .across = 1,
                                .data = data,
                                .bias = true,
                                // Otherwise the copy engine stores y.
                                .accumulate = y == Placing::channels_last};
            const WideEmulated convolution(text, options);
            CHECK(convolution.plan().across);
            CHECK(WideEmulated(text, options).run() == "");
            options.shifted = true;  // which is repacked
            if (shape == emulated_shapes[1]) CHECK(WideEmulated(text, options).run() == "");
          }
}

TEST_CASE("wide, emulated: planes of f32 that begin at 16 bytes are operands as they lie") {
  for (const WideClass& of : {wide_class_tf32, wide_class_tf32x3})
    for (const char* text : {"mb3ic40ih14oc40kh1ph0", "mb2ic40ih7oc40kh1ph0"}) {
      CAPTURE(name(of), text);
      const WideOptions options{
          .of = of, .x = Placing::planes, .y = Placing::planes, .across = 1, .data = Data::normal};
      const WideEmulated convolution(text, options);
      CHECK(convolution.plan().across.has_value() == (convolution.problem().h == 14));
      CHECK(WideEmulated(text, options).run() == "");
    }
}

// What copies of the sources with a planted fault are run by.
TEST_CASE("wide, emulated: one image of planes under one tap") {
  CHECK(WideEmulated("mb1ic64ih8iw9oc40kh1ph0",
                     {.x = Placing::planes, .choice = {.shape = 5}, .across = 1})
            .run() == "");
}
TEST_CASE("wide, emulated: one image that goes through registers") {
  for (const Placing x : {Placing::channels_last, Placing::planes})
    for (const Data data : {Data::normal, Data::large_products}) {
      const WideOptions options{
          .of = wide_class_tf32x3, .x = x, .choice = {.shape = 5}, .across = 1, .data = data};
      CHECK(WideEmulated("mb1ic64ih8iw9oc40kh1ph0", options).run(0.5) == "");
    }
}
TEST_CASE("wide, emulated: one image of a few folded channels") {
  CHECK(WideEmulated("mb1ic3ih13iw11oc16kh5sh2ph2",
                     {.x = Placing::planes, .choice = {.shape = 5}, .folded_axes = 3})
            .run() == "");
}

TEST_CASE("wide, emulated: tiles whose outputs are boxes") {
  // A block has several tiles, whose boxes take turns in shared memory.
  for (const WideClass& of : {wide_class_fp16, wide_class_tf32})
    for (const Placing placing : {Placing::channels_last, Placing::planes}) {
      CAPTURE(name(of), static_cast<int>(placing));
      const WideOptions options{
          .of = of, .x = placing, .y = placing, .choice = {.shape = 5}, .across = 1};
      CHECK(WideEmulated("mb3ic8ih20iw20oc72kh1ph0", options).run() == "");
      CHECK(WideEmulated("mb1ic8iw2oc1kw1", options).run() == "");
    }
}

TEST_CASE("wide, emulated: sums lie within the bound, those of three products well within") {
  for (const WideClass& of : classes) {
    CAPTURE(name(of));
    const WideOptions options{.of = of, .data = Data::normal, .bias = true, .accumulate = true};
    CHECK(WideEmulated("mb2ic72ih5iw6oc40kh3ph1", options).run() == "");
    CHECK(WideEmulated("mb2ic16ih5iw6oc40kh1ph0", options).run(0.5) == "");
  }
}

TEST_CASE("wide, emulated: what halves do not hold is summed by the definition") {
  for (const WideClass& of : {wide_class_fp16x3, wide_class_tf32x3})
    for (const Data data :
         {Data::far_apart, Data::of_any_size, Data::largest, Data::large_products})
      for (const int splits : {1, 2}) {
        CAPTURE(name(of), static_cast<int>(data), splits);
        const WideOptions options{.of = of,
                                  .x = Placing::planes,
                                  .y = splits == 1 ? Placing::channels_last : Placing::planes,
                                  .choice = {.shape = 5, .splits = splits},
                                  .data = data};
        CHECK(WideEmulated("mb2ic24ih4iw5oc16kh3ph1", options).run() == "");
        CHECK(WideEmulated("mb2ic4ih4iw5oc16kh1ph0", options).run() == "");
      }
}

TEST_CASE("wide, emulated: NaN and Inf come out where the definition has them") {
  for (const WideClass& of : classes)
    for (const char* text : {"mb2ic24ih4iw5oc16kh3ph1", "g4mb2ic16ih4iw5oc16kh3ph1"})
      for (const int splits : {1, 2}) {
        CAPTURE(name(of), text, splits);
        CHECK(
            WideEmulated(
                text, {.of = of, .choice = {.shape = 5, .splits = splits}, .data = Data::infinite})
                .run() == "");
      }
}

TEST_CASE("wide, emulated: planted faults show") {
  const auto is_caught = [](const char* text, EmulatedFault fault, int splits, Data data,
                            int folded_axes = 0, const WideClass& of = wide_class_fp16x3) {
    return !WideEmulated(text, {.of = of,
                                .choice = {.shape = 5, .splits = splits},
                                .folded_axes = folded_axes,
                                .data = data,
                                .fault = fault})
                .run()
                .empty();
  };
  const char* const many = "mb2ic72ih5iw6oc40kh3ph1";
  CHECK_FALSE(is_caught(many, EmulatedFault::none, 2, Data::integers));
  CHECK(is_caught(many, EmulatedFault::wrong_swizzle, 1, Data::integers));
  CHECK(is_caught(many, EmulatedFault::stale_stage, 1, Data::integers));
  CHECK(is_caught(many, EmulatedFault::lost_split, 2, Data::integers));
  // Small integers have no low halves.
  CHECK_FALSE(is_caught("mb2ic16ih5iw6oc40kh1ph0", EmulatedFault::none, 1, Data::normal));
  CHECK(is_caught("mb2ic16ih5iw6oc40kh1ph0", EmulatedFault::low_twice, 1, Data::normal));
  for (const int splits : {1, 2})
    CHECK(is_caught("mb2ic4ih4iw5oc16kh1ph0", EmulatedFault::kept_small, splits, Data::far_apart));
  const char* const groups = "g2mb2ic144ih4iw5oc40kh3ph1";
  CHECK_FALSE(is_caught(groups, EmulatedFault::none, 1, Data::integers));
  CHECK(is_caught(groups, EmulatedFault::wrong_group, 1, Data::integers));
  const char* const patches = "mb2ic3ih8iw12oc24kh4sh4ph0";
  CHECK_FALSE(is_caught(patches, EmulatedFault::none, 1, Data::integers, 3));
  CHECK(is_caught(patches, EmulatedFault::wrong_term, 1, Data::integers, 3));
  // Through registers.
  CHECK_FALSE(is_caught(many, EmulatedFault::none, 1, Data::integers, 0, wide_class_tf32x3));
  for (const EmulatedFault fault : {EmulatedFault::wrong_swizzle, EmulatedFault::stale_stage,
                                    EmulatedFault::stale_fragment, EmulatedFault::swapped_terms})
    CHECK(is_caught(many, fault, 1, Data::integers, 0, wide_class_tf32x3));
  CHECK_FALSE(is_caught("mb2ic16ih5iw6oc40kh1ph0", EmulatedFault::none, 1, Data::normal, 0,
                        wide_class_tf32x3));
  CHECK(is_caught("mb2ic16ih5iw6oc40kh1ph0", EmulatedFault::lost_low, 1, Data::normal, 0,
                  wide_class_tf32x3));
}
