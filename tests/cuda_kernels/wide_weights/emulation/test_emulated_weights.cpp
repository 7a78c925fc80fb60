// The sources of wide_weights/ on the host, where no GPU is: repacking, pipeline, products across
// the stages, and sums of the splits of every arithmetic, held against the oracle.
#include <catch2/catch_test_macros.hpp>

#include "cuda_kernels/wide/emulation/class_name.hpp"
#include "support/sanitized.hpp"
#include "weights_emulated.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::emulation;
using plumb::cuda::wide_class_bf16;
using plumb::cuda::wide_class_fp16;
using plumb::cuda::wide_class_fp16_scaled;
using plumb::cuda::wide_class_fp16x3;
using plumb::cuda::wide_class_tf32;
using plumb::cuda::wide_class_tf32x3;
using plumb::cuda::WideClass;

namespace {

constexpr WideClass classes[] = {wide_class_fp16,   wide_class_bf16, wide_class_fp16_scaled,
                                 wide_class_fp16x3, wide_class_tf32, wide_class_tf32x3};
constexpr WideClass by_wgmma[] = {wide_class_fp16, wide_class_bf16, wide_class_fp16_scaled,
                                  wide_class_fp16x3};
constexpr WideClass in_registers[] = {wide_class_tf32, wide_class_tf32x3};

}  // namespace

TEST_CASE("wide weights, emulated: every arithmetic, of tensors of any layout") {
  unsigned turn = 0;
  for (const WideClass& of : classes)
    for (const Placing placing : {Placing::channels_last, Placing::planes, Placing::mirrored})
      for (const char* text :
           {"mb2ic72ih5iw6oc40kh3ph1", "mb3ic16ih6iw5oc24kh3ph1sh2",
            "mb2ic8id4ih3iw5oc8kd3kh3kw3pd1ph1pw1", "mb2ic40iw70oc72kw5pw2",
            "mb1ic13ih4iw5oc9kh3ph1", "mb2ic1ih6iw7oc70kh3ph1",
            "mb2ic16id3ih5iw4oc8kd3kh2kw1pd0ph0pw0", "mb2ic8ih9iw11oc16kh3dh1ph2sh3"}) {
        if (is_left_out(turn++)) continue;
        CAPTURE(name(of), static_cast<int>(placing), text);
        CHECK(WideWeightsEmulated(text, {.of = of, .x = placing, .dy = placing, .dw = placing})
                  .run() == "");
      }
}

TEST_CASE("wide weights, emulated: one tensor as it lies, the other repacked") {
  for (const WideClass& of : classes)
    for (const Placing x : {Placing::channels_last, Placing::planes}) {
      CAPTURE(name(of), static_cast<int>(x));
      WideWeightsOptions options{.of = of, .x = x, .accumulate = true};
      options.dy = x == Placing::planes ? Placing::channels_last : Placing::planes;
      CHECK(WideWeightsEmulated("mb3ic72ih5iw6oc40kh3ph1", options).run() == "");
    }
}

TEST_CASE("wide weights, emulated: groups, joined and not, with few and with odd channels") {
  unsigned turn = 0;
  for (const WideClass& of : classes)
    for (const Placing x : {Placing::channels_last, Placing::planes})
      for (const char* text :
           {"g2mb2ic128ih4iw5oc144kh3ph1", "g8mb2ic32ih5iw4oc64kh3ph1", "g6mb1ic18ih5iw4oc12kh3ph1",
            "g24mb2ic24ih5iw6oc24kh3ph1", "g3mb1ic201ih4iw4oc15kh1ph0", "g2mb1ic80ih4iw3oc6kh3ph1"})
        for (const int splits : {1, 2}) {
          if (is_left_out(turn++, 7)) continue;
          CAPTURE(name(of), static_cast<int>(x), text, splits);
          WideWeightsOptions options{.of = of, .x = x, .dy = x, .dw = x, .accumulate = true};
          options.choice.shape = 5, options.choice.splits = splits;
          CHECK(WideWeightsEmulated(text, options).run() == "");
        }
}

TEST_CASE("wide weights, emulated: each of the tiles, whole and in part, with splits") {
  unsigned turn = 0;
  for (const WideClass& of : classes)
    for (int shape = 0; shape < cuda::wide_shape_count; ++shape)
      for (const int splits : {1, 2}) {
        if (!cuda::wide_weights_has(cuda::wide_shapes[shape], cuda::moves_sums(of))) continue;
        if (is_left_out(turn++, 7)) continue;
        CAPTURE(name(of), shape, splits);
        WideWeightsOptions options{.of = of};
        options.choice.shape = shape, options.choice.splits = splits;
        CHECK(WideWeightsEmulated("mb4ic136ih5iw6oc264kh1kw2ph0pw0", options).run() == "");
        // Each of a warp's products is a barrier here, which takes the host long.
        if (cuda::weights_in_registers(of) && splits != 2) continue;
        CHECK(WideWeightsEmulated("mb3ic72ih6iw7oc71kh2kw1ph0", options).run() == "");
      }
}

TEST_CASE("wide weights, emulated: sums of one split are stored in dw as they are") {
  unsigned turn = 0;
  for (const WideClass& of : by_wgmma)
    for (int shape = 0; shape < cuda::wide_shape_count; ++shape) {
      if (!cuda::wide_weights_has(cuda::wide_shapes[shape], cuda::moves_sums(of))) continue;
      if (is_left_out(turn++, 3)) continue;
      for (const char* text :
           {"mb4ic136ih5iw6oc264kh1kw2ph0pw0", "mb3ic72ih6iw7oc71kh2kw1ph0",
            "g2mb1ic144ih4iw5oc160kh1ph0", "mb1ic64id2ih4iw5oc40kd2kh3kw2pd0ph1pw1"}) {
        CAPTURE(name(of), shape, text);
        WideWeightsOptions options{.of = of, .dw = Placing::channels_last};
        options.choice.shape = shape;
        WideWeightsEmulated gradient(text, options);
        CHECK(gradient.plan().can_store_directly());
        CHECK(gradient.run() == "");
        if (shape != 3) continue;
        options.values = Data::normal;
        CHECK(WideWeightsEmulated(text, options).run() == "");
        options.accumulate = true;
        CHECK(WideWeightsEmulated(text, options).run() == "");
      }
    }
}

TEST_CASE("wide weights, emulated: what is stored as it is is NaN where the definition has it") {
  unsigned turn = 0;
  for (const WideClass& of : by_wgmma)
    for (const char* text : {"mb2ic24ih4iw5oc16kh3ph1", "mb1ic72ih4iw5oc140kh3ph1"})
      for (const std::uint32_t seed : {1u, 2u, 3u}) {
        if (is_left_out(turn++, 11)) continue;
        CAPTURE(name(of), text, seed);
        WideWeightsOptions options{
            .of = of, .dw = Placing::channels_last, .values = Data::infinite};
        CHECK(WideWeightsEmulated(text, options, seed).run() == "");
        options.choice.shape = 6;
        if (cuda::wide_weights_has(cuda::wide_shapes[6], cuda::moves_sums(of)))
          CHECK(WideWeightsEmulated(text, options, seed).run() == "");
      }
}

TEST_CASE("wide weights, emulated: sums go to dw of any layout, in vectors, lines or one by one") {
  unsigned turn = 0;
  // Many taps are more than lines have room for; channels that are no multiple of four, no vectors.
  for (const WideClass& of : classes)
    for (const Placing dw : {Placing::channels_last, Placing::planes, Placing::mirrored})
      for (const char* text : {"mb2ic72ih5iw6oc9kh3ph1", "mb1ic68ih9oc9kh7ph3",
                               "mb2ic130ih5iw6oc9kh1kw2ph0", "mb1ic1100ih3oc3kh1ph0"})
        for (const int splits : {2, 9}) {
          if (is_left_out(turn++, 7)) continue;
          CAPTURE(name(of), text, static_cast<int>(dw), splits);
          WideWeightsOptions options{.of = of, .dw = dw, .accumulate = splits == 2};
          options.choice.shape = 5, options.choice.splits = splits;
          CHECK(WideWeightsEmulated(text, options).run() == "");
        }
}

TEST_CASE("wide weights, emulated: blocks add several filters, of which the last has fewer") {
  unsigned turn = 0;
  for (const WideClass& of : {wide_class_fp16, wide_class_fp16x3, wide_class_tf32})
    for (const Placing dw : {Placing::channels_last, Placing::planes, Placing::mirrored})
      for (const Data values : {Data::integers, Data::infinite}) {
        if (is_left_out(turn++)) continue;
        CAPTURE(name(of), static_cast<int>(dw), static_cast<int>(values));
        WideWeightsOptions options{.of = of, .dw = dw, .values = values};
        options.accumulate = true;
        options.choice.shape = 5, options.choice.splits = 2;
        CHECK(WideWeightsEmulated("mb1ic72ih9oc514kh3ph1", options).run() == "");
      }
}

TEST_CASE("wide weights, emulated: without an image the gradient is zeros, or what was there") {
  for (const WideClass& of : classes)
    for (const bool accumulate : {false, true}) {
      CAPTURE(name(of), accumulate);
      WideWeightsOptions options{.of = of, .x = Placing::planes, .accumulate = accumulate};
      CHECK(WideWeightsEmulated("mb0ic72ih5iw6oc40kh3ph1", options).run() == "");
    }
}

TEST_CASE("wide weights, emulated: many splits are added in chains and a tree") {
  unsigned turn = 0;
  for (const WideClass& of : classes)
    for (const int splits : {8, 9, 20}) {
      if (is_left_out(turn++, 2)) continue;
      CAPTURE(name(of), splits);
      WideWeightsOptions options{.of = of};
      options.choice.shape = 5, options.choice.splits = splits;
      CHECK(WideWeightsEmulated("mb20ic72ih8oc40kh1ph0", options).run() == "");
    }
}

TEST_CASE("wide weights, emulated: sums that move go over many runs of steps") {
  for (const WideClass& of : classes) {
    CAPTURE(name(of));
    WideWeightsOptions options{.of = of};
    options.choice.shape = 5;
    // Half of a step's pixels make a run after twice as many of them.
    options.choice.splits = cuda::weights_parts(of) == 2 ? 1 : 2;
    CHECK(WideWeightsEmulated("mb3ic8ih42oc8kh1ph0", options).run() == "");
    options.values = Data::normal;
    CHECK(WideWeightsEmulated("mb3ic8ih42oc8kh1ph0", options).run() == "");
  }
}

TEST_CASE("wide weights, emulated: taps of folded axes are channels") {
  unsigned turn = 0;
  for (const WideClass& of : classes)
    for (const Placing x : {Placing::channels_last, Placing::planes})
      for (const char* text :
           {"mb2ic3ih22iw31oc40kh10kw9sh10sw11ph0", "mb2ic3ih9iw10oc24kh4sh4ph0",
            "mb2ic3ih13iw11oc16kh5sh2ph2dh1", "g2mb2ic6ih8oc10kh4sh3ph1",
            "mb2ic3id4ih6iw9oc17kd2kh3kw4sd2sh3sw4pd0ph0pw1", "mb2ic1iw60oc20kw12sw10pw3"})
        for (const int axes : {1, 2, 3, 7}) {
          if (is_left_out(turn++, 7)) continue;
          WideWeightsOptions options{.of = of, .x = x, .dw = x};
          options.choice.shape = 5, options.choice.folded_axes = axes;
          const WideWeightsEmulated gradient(text, options);
          const ConvProblem product =
              cuda::wide_product(gradient.plan().x.image, gradient.plan().x.channels.fold);
          if (std::max(product.stride.h, product.stride.w) > cuda::max_im2col_step) continue;
          CAPTURE(name(of), static_cast<int>(x), text, axes);
          CHECK(WideWeightsEmulated(text, options).run() == "");
        }
}

TEST_CASE("wide weights, emulated: tensors that are not aligned are repacked") {
  for (const WideClass& of : classes) {
    CAPTURE(name(of));
    const WideWeightsOptions options{.of = of, .accumulate = true, .shifted = true};
    CHECK(WideWeightsEmulated("mb5ic24ih5iw6oc40kh3ph1", options).run() == "");
  }
}

TEST_CASE("wide weights, emulated: sums lie within the bound") {
  for (const WideClass& of : classes)
    for (const int splits : {1, 2}) {
      CAPTURE(name(of), splits);
      WideWeightsOptions options{.of = of, .values = Data::normal, .accumulate = true};
      options.choice.splits = splits;
      CHECK(WideWeightsEmulated("mb2ic72ih5iw6oc40kh3ph1", options).run() == "");
      CHECK(WideWeightsEmulated("mb1ic16ih5iw6oc40kh1ph0", options).run(0.75) == "");
    }
}

TEST_CASE("wide weights, emulated: what halves do not hold is summed by the definition") {
  for (const WideClass& of : {wide_class_fp16_scaled, wide_class_fp16x3})
    for (const int splits : {1, 2}) {
      WideWeightsOptions options{.of = of, .x = Placing::planes, .values = Data::far_apart};
      options.choice.shape = 5, options.choice.splits = splits;
      CAPTURE(name(of), splits);
      CHECK(WideWeightsEmulated("mb2ic12ih4iw5oc8kh2kw1ph0", options).run() == "");
    }
}

TEST_CASE("wide weights, emulated: NaN and Inf come out where the definition has them") {
  unsigned turn = 0;
  for (const WideClass& of : classes)
    for (const char* text : {"mb2ic24ih4iw5oc16kh3ph1", "g4mb2ic16ih4iw5oc16kh3ph1",
                             "mb2ic24ih4iw5oc16kh2ph0", "mb2ic3ih13iw11oc16kh5sh2ph2dh1"})
      for (const int splits : {1, 2})
        for (const std::uint32_t seed : {1u, 2u, 3u}) {
          if (is_left_out(turn++, 11)) continue;
          CAPTURE(name(of), text, splits, seed);
          WideWeightsOptions options{.of = of, .values = Data::infinite};
          options.choice.shape = 5, options.choice.splits = splits;
          if (std::string(text).find("ic3") != std::string::npos) options.choice.folded_axes = 1;
          CHECK(WideWeightsEmulated(text, options, seed).run() == "");
        }
}

TEST_CASE("wide weights, emulated: fragments of TF32 meet no bank of shared memory twice") {
  CHECK(bank_conflicts(false) == 1);
  CHECK(bank_conflicts(true) == 1);
}

TEST_CASE("wide weights, emulated: planes under one tap are read as they lie") {
  unsigned turn = 0;
  for (const WideClass& of : in_registers)
    for (const char* text :
         {"mb4ic136ih6oc264kh1ph0", "mb3ic72ih6iw10oc40kh1ph0", "mb2ic40iw68oc72kw1pw0",
          "mb5ic1id2ih4iw5oc33kd1kh1kw1pd0ph0pw0", "mb1ic33ih8iw9oc1kh1ph0"})
      for (const int shape : {3, 4, 5, 6})
        for (const int splits : {1, 3}) {
          if (splits == 1 && shape != 5) continue;
          if (is_left_out(turn++, 11)) continue;
          CAPTURE(name(of), text, shape, splits);
          WideWeightsOptions options{.of = of, .x = Placing::planes, .dy = Placing::planes};
          options.choice.shape = shape, options.choice.splits = splits;
          WideWeightsEmulated gradient(text, options);
          CHECK(gradient.plan().across);
          CHECK(gradient.run() == "");
          options.values = Data::normal, options.accumulate = true;
          if (shape == 5) CHECK(WideWeightsEmulated(text, options).run() == "");
          options.values = Data::infinite;
          if (shape == 5) CHECK(WideWeightsEmulated(text, options).run() == "");
        }
}

TEST_CASE("wide weights, emulated: planes that are not aligned, or lie otherwise, are repacked") {
  for (const WideClass& of : in_registers) {
    CAPTURE(name(of));
    WideWeightsOptions options{.of = of, .x = Placing::planes, .dy = Placing::planes};
    options.choice.splits = 12;  // of 9 steps in workspace: some have none
    options.shifted = true;
    WideWeightsEmulated shifted("mb12ic40ih4iw6oc40kh1ph0", options);
    CHECK(shifted.plan().across);
    CHECK(shifted.run() == "");
    options.shifted = false;
    // Two images of odd planes; a stride; one of the tensors in pixel rows.
    for (const char* text : {"mb2ic40ih5iw5oc40kh1ph0", "mb2ic40ih8oc40kh1ph0sh2"}) {
      WideWeightsEmulated other(text, options);
      CHECK_FALSE(other.plan().across);
      CHECK(other.run() == "");
    }
    options.dy = Placing::channels_last;
    WideWeightsEmulated mixed("mb2ic40ih4iw6oc40kh1ph0", options);
    CHECK_FALSE(mixed.plan().across);
    CHECK(mixed.run() == "");
  }
}

TEST_CASE("wide weights, emulated: random gradients") {
  Random random(20);
  const auto number = [&](int least, int most) {
    return static_cast<int>(random.integer(least, most));
  };
  const auto placing = [&] { return static_cast<Placing>(number(0, 2)); };
  for (int i = 0; i < (plumb_test::is_sanitized ? 20 : 120); ++i) {
    const int groups = number(0, 3) == 0 ? 2 : 1;
    std::string text;
    const auto add = [&](const char* name, int value) {
      text.append(name).append(std::to_string(value));
    };
    add("g", groups), add("mb", number(1, 4));
    add("ic", groups * (number(0, 1) == 0 ? 8 * number(1, 10) : number(1, 70))),
        add("oc", groups * number(1, 80));
    add("ih", number(6, 9)), add("iw", number(6, 10));
    add("kh", number(1, 3)), add("kw", number(1, 3));
    add("sh", number(1, 3)), add("sw", number(1, 2)), add("dh", number(0, 1));
    add("ph", number(0, 2)), add("pw", number(0, 1));
    WideWeightsOptions options{.of = classes[number(0, 5)]};
    options.x = placing(), options.dy = placing(), options.dw = placing();
    options.accumulate = number(0, 1) == 1;
    options.choice.shape = number(3, 6), options.choice.splits = number(1, 4);
    if (number(0, 2) == 0) options.values = Data::infinite;
    CAPTURE(name(options.of), text, static_cast<int>(options.x), static_cast<int>(options.dy),
            options.choice.shape, options.choice.splits, static_cast<int>(options.values));
    CHECK(WideWeightsEmulated(text, options, static_cast<std::uint32_t>(i)).run() == "");
  }
}

TEST_CASE("wide weights, emulated: three products of TF32 hold values of any size") {
  for (const Data values :
       {Data::far_apart, Data::of_any_size, Data::largest, Data::large_products})
    for (const Placing placing : {Placing::channels_last, Placing::planes}) {
      WideWeightsOptions options{
          .of = wide_class_tf32x3, .x = placing, .dy = placing, .values = values};
      options.choice.shape = 5;
      CAPTURE(static_cast<int>(values), static_cast<int>(placing));
      CHECK(WideWeightsEmulated("mb2ic12ih4iw5oc8kh2kw1ph0", options).run() == "");
      CHECK(WideWeightsEmulated("mb2ic12ih4iw5oc8kh1ph0", options).run() == "");
    }
}

TEST_CASE("wide weights, emulated: planted faults show") {
  WideWeightsOptions options;
  const auto is_caught = [&](const char* text, WeightsMistake mistake, int splits,
                             Data values = Data::integers) {
    options.values = values, options.mistake = mistake, options.choice.splits = splits;
    return !WideWeightsEmulated(text, options).run().empty();
  };
  const char *const many = "mb4ic72ih5iw6oc72kh1kw2ph0pw0", *const few = "mb1ic16ih4iw5oc40kh1ph0";
  for (const WideClass& of : {wide_class_fp16x3, wide_class_tf32x3}) {
    options.of = of;
    CHECK_FALSE(is_caught(many, WeightsMistake::none, 2));
    CHECK(is_caught(many, WeightsMistake::lost_split, 2));
    CHECK(is_caught(many, WeightsMistake::wrong_tap, 1));
    CHECK(is_caught(many, WeightsMistake::stale_stage, 1));
    CHECK_FALSE(is_caught(few, WeightsMistake::none, 1, Data::normal));
  }
  options.of = wide_class_fp16x3;
  CHECK(is_caught(many, WeightsMistake::wrong_stride, 1));
  {
    options.dw = Placing::channels_last;
    const char* const padded = "mb2ic24ih4iw5oc16kh3ph1";
    CHECK_FALSE(is_caught(padded, WeightsMistake::none, 1, Data::infinite));
    CHECK(is_caught(padded, WeightsMistake::lost_doubt, 1, Data::infinite));
    options.dw = Placing::planes;
  }
  // Small integers have no low halves.
  CHECK(is_caught(few, WeightsMistake::low_twice, 1, Data::normal));
  options.of = wide_class_tf32x3;
  for (const Placing placing : {Placing::channels_last, Placing::planes}) {
    options.x = options.dy = placing;
    const char* const text = placing == Placing::planes ? "mb4ic72ih5iw4oc72kh1ph0" : many;
    CHECK(is_caught(text, WeightsMistake::stale_fragment, 1));
    CHECK(is_caught(text, WeightsMistake::swapped_pixels, 1));
    CHECK(is_caught(few, WeightsMistake::lost_low, 1, Data::normal));
  }
}
