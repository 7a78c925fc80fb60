// The patch kernel's sources on the host, where no GPU is: patches, shifts, products in turns and
// epilogue of every arithmetic, held against the oracle.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "cuda_kernels/wide/emulation/class_name.hpp"
#include "patch_emulated.hpp"
#include "support/sanitized.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::emulation;
using plumb::cuda::wide_class_bf16;
using plumb::cuda::wide_class_fp16;
using plumb::cuda::wide_class_tf32;
using plumb::cuda::WideClass;

namespace {

constexpr WideClass classes[] = {wide_class_fp16, wide_class_bf16, wide_class_tf32};

/// Whether a fault of the kernel shows in a problem's outputs.
bool is_caught(const char* text, const cuda::PatchChoice& choice, EmulatedPatchFault fault,
               Placing y = Placing::channels_last) {
  return PatchEmulated(text, {.y = y, .choice = choice, .fault = fault}).run() != "";
}

}  // namespace

TEST_CASE("patch, emulated: one image under 3x3") {
  CHECK(PatchEmulated("mb1ic64ih9iw11oc64kh3ph1", {}).run() == "");
}

TEST_CASE("patch, emulated: every arithmetic, of x with channels innermost and in planes") {
  for (const WideClass& of : classes)
    for (const Placing x : {Placing::channels_last, Placing::planes, Placing::mirrored})
      for (const char* text :
           {"mb2ic72ih5iw6oc40kh3ph1", "mb2ic8id3ih3iw5oc8kd3kh3kw3pd1ph1pw1",
            "mb2ic40iw20oc72kw5pw2", "mb1ic13ih4iw5oc9kh3ph1", "mb2ic24ih5iw6oc24kh1ph0"}) {
        CAPTURE(name(of), static_cast<int>(x), text);
        CHECK(PatchEmulated(text, {.of = of, .x = x, .bias = true}).run() == "");
      }
}

TEST_CASE("patch, emulated: taps apart, paddings of all widths, and depth with a stride") {
  for (const WideClass& of : classes)
    for (const char* text :
         {"mb1ic40ih13iw11oc24kh3ph2dh1", "mb2ic16ih9iw12oc16kh5kw2ph4pw0",
          "mb2ic16ih9iw12oc16kh2kw5ph0pw4dw1", "mb1ic16ih3iw4oc16kh5kw7ph6pw5",
          "mb1ic16ih12iw9oc16kh3kw4ph1pw2dh3dw1", "mb2ic24id7ih5iw6oc16kd3kh2kw3pd1ph0pw2sd2sh1sw1",
          "mb1ic16id5ih4iw3oc8kd3kh1kw1pd2ph0pw0dd1"}) {
      CAPTURE(name(of), text);
      CHECK(PatchEmulated(text, {.of = of, .accumulate = true}).run() == "");
    }
}

TEST_CASE("patch, emulated: groups, joined and not, with few and with odd channels") {
  for (const WideClass& of : classes)
    for (const Placing x : {Placing::channels_last, Placing::planes})
      for (const char* text : {"g2mb2ic128ih4iw5oc144kh3ph1", "g8mb2ic32ih5iw4oc64kh3ph1",
                               "g6mb1ic18ih5iw4oc12kh3ph1", "g3mb2ic201ih4iw4oc15kh1ph0"}) {
        CAPTURE(name(of), static_cast<int>(x), text);
        CHECK(PatchEmulated(text, {.of = of, .x = x, .relu = true, .accumulate = true}).run() ==
              "");
      }
}

TEST_CASE("patch, emulated: every number of positions, of one image and of several") {
  unsigned turn = 0;
  struct Tile {
    const char* text;
    cuda::PatchChoice choice;
    int n8_tiles;
  };
  for (const Tile& tile :
       {Tile{"mb2ic40ih9iw29oc70kh3ph1", {.rows = 7, .columns = 29}, 27},
        Tile{"mb2ic40ih7iw28oc16kh3ph1", {.rows = 7, .columns = 28}, 26},
        Tile{"mb1ic40ih9iw56oc16kh3ph1", {.rows = 4, .columns = 56}, 29},
        Tile{"mb5ic40ih7oc136kh3ph1", {.images = 4, .rows = 7, .columns = 7}, 31},
        Tile{"mb2ic40ih16iw15oc16kh3ph1", {.rows = 16, .columns = 15}, 32},
        Tile{"mb1ic40ih2iw300oc16kh3ph1", {.rows = 1, .columns = 100}, 16},
        Tile{"mb3ic40ih6iw5oc16kh3ph1", {.images = 2, .rows = 6, .columns = 5}, 16}})
    for (const WideClass& of : classes)
      for (const Placing y : {Placing::channels_last, Placing::planes}) {
        if (is_left_out(turn++)) continue;
        CAPTURE(name(of), tile.text, static_cast<int>(y));
        PatchEmulated convolution(tile.text,
                                  {.of = of, .y = y, .choice = tile.choice, .bias = true});
        CHECK(cuda::patch_n8_tiles[convolution.plan().tiles.kernel] == tile.n8_tiles);
        CHECK(convolution.run() == "");
      }
}

TEST_CASE("patch, emulated: y of every layout, and what is not aligned") {
  unsigned turn = 0;
  for (const WideClass& of : classes)
    for (const Placing y : {Placing::channels_last, Placing::planes, Placing::mirrored})
      for (const char* text :
           {"mb3ic24ih4iw6oc40kh3ph1", "mb3ic24ih6oc71kh3ph1", "mb3ic24ih7iw8oc1kh3ph1"})
        for (const Data data : {Data::integers, Data::infinite}) {
          if (is_left_out(turn++)) continue;
          CAPTURE(name(of), text, static_cast<int>(y), static_cast<int>(data));
          const PatchOptions options{.of = of,
                                     .y = y,
                                     .data = data,
                                     .bias = true,
                                     .relu = data == Data::integers,
                                     .accumulate = true};
          CHECK(PatchEmulated(text, options).run() == "");
        }
}

TEST_CASE("patch, emulated: x that is not aligned, and images that are repacked in turns") {
  for (const WideClass& of : classes) {
    CAPTURE(name(of));
    CHECK(PatchEmulated("mb3ic64ih5iw6oc24kh3ph1", {.of = of, .shifted = true}).run() == "");
    CHECK(PatchEmulated("mb5ic24ih5iw6oc24kh3ph1",
                        {.of = of, .x = Placing::planes, .images_at_once = 2})
              .run() == "");
  }
}

TEST_CASE("patch, emulated: planes under one tap are operands as they lie") {
  unsigned turn = 0;
  // Images that end within a tile and within a copy, channels that end within a patch, several
  // patches.
  for (const WideClass& of : {wide_class_fp16, wide_class_bf16})
    for (const Placing y : {Placing::planes, Placing::channels_last, Placing::mirrored})
      for (const char* text :
           {"mb3ic64ih8iw9oc40kh1ph0", "mb2ic200ih8iw25oc136kh1ph0", "mb3ic24iw136oc72kw1",
            "mb2ic72id2ih4iw10oc9kd1kh1kw1", "mb1ic128ih16iw17oc64kh1ph0"})
        for (const int columns : {0, 64, 128, 256})
          for (const Data data : {Data::integers, Data::infinite}) {
            if (columns > 0 && (of != wide_class_fp16 || y == Placing::mirrored)) continue;
            if (is_left_out(turn++, 11)) continue;
            CAPTURE(name(of), static_cast<int>(y), text, columns, static_cast<int>(data));
            PatchOptions options{.of = of,
                                 .x = Placing::planes,
                                 .y = y,
                                 .choice = {.columns = columns, .across = 1},
                                 .data = data,
                                 .bias = true,
                                 .accumulate = data == Data::integers};
            const PatchEmulated convolution(text, options);
            CHECK(convolution.plan().across);
            CHECK(PatchEmulated(text, options).run() == "");
            options.shifted = true;  // which is repacked
            if (columns == 0) CHECK(PatchEmulated(text, options).run() == "");
          }
  // Of f32, of several taps, with channels innermost and of odd planes they are not.
  const PatchOptions planes{.x = Placing::planes, .choice = {.across = 1}};
  CHECK(PatchEmulated("mb2ic24ih8oc24kh1ph0", planes).plan().across);
  CHECK_FALSE(PatchEmulated("mb2ic24ih8oc24kh3ph1", planes).plan().across);
  CHECK_FALSE(PatchEmulated("mb2ic24ih7oc24kh1ph0", planes).plan().across);
  CHECK_FALSE(PatchEmulated("mb2ic24ih8oc24kh1ph0", {.choice = {.across = 1}}).plan().across);
  PatchOptions tf32 = planes;
  tf32.of = wide_class_tf32;
  CHECK_FALSE(PatchEmulated("mb2ic24ih8oc24kh1ph0", tf32).plan().across);
}

TEST_CASE("patch, emulated: strides of rows, of columns and of both, in one to three dimensions") {
  unsigned turn = 0;
  // Odd and even paddings and extents, dilations that share a factor with the stride and that do
  // not, strides beyond the filter, phases without a pixel, one tap, several blocks of channels.
  for (const char* text : {"mb2ic72ih9iw11oc40kh3ph1sh2",
                           "mb2ic72ih10iw12oc40kh3ph1sh2",
                           "mb2ic40ih9iw8oc24kh3ph0sh2",
                           "mb2ic40ih9iw11oc24kh3kw3ph1pw1sh2sw1",
                           "mb2ic40ih9iw11oc24kh3kw3ph1pw1sh1sw2",
                           "mb2ic24ih11iw13oc24kh3ph2dh1sh2",
                           "mb2ic24ih13iw12oc24kh3ph3dh2sh2",
                           "mb2ic24ih13iw14oc24kh3ph2dh1sh3",
                           "mb2ic24ih13iw14oc24kh5ph2sh3",
                           "mb1ic16ih14iw15oc16kh7ph3sh2",
                           "mb2ic24ih12iw13oc24kh3kw5ph2pw1sh3sw2",
                           "mb2ic72ih9iw10oc40kh1ph0sh2",
                           "mb2ic40ih11iw10oc24kh1ph0sh3",
                           "mb2ic24ih9oc24kh2ph0sh3",
                           "mb2ic24ih3iw1oc24kh3ph2sh2",
                           "mb2ic24ih1iw2oc24kh4ph3sh2",
                           "mb3ic72iw25oc40kw3sw2",
                           "mb2ic40iw31oc24kw7pw3sw3",
                           "mb2ic40iw30oc24kw4pw1dw1sw2",
                           "mb2ic24id5ih7iw9oc24kd3kh3kw3pd1ph1pw1sd2sh2sw2",
                           "mb1ic40id4ih6iw5oc24kd2kh3kw2pd0ph1pw1sd1sh2sw3",
                           "mb5ic24ih13oc24kh3ph1sh2",
                           "g2mb2ic144ih9iw10oc80kh3ph1sh2",
                           "g6mb2ic18ih9iw8oc12kh3ph1sh2"})
    for (const WideClass& of : classes)
      for (const Placing x : {Placing::channels_last, Placing::planes, Placing::mirrored}) {
        if (is_left_out(turn++)) continue;
        const Placing y = turn % 2 ? Placing::channels_last : Placing::planes;
        CAPTURE(name(of), static_cast<int>(x), static_cast<int>(y), text);
        CHECK(PatchEmulated(text, {.of = of, .x = x, .y = y, .bias = true, .accumulate = true})
                  .run() == "");
        const Data data = turn % 2 ? Data::infinite : Data::normal;
        CHECK(PatchEmulated(text, {.of = of, .x = x, .y = y, .data = data}).run() == "");
      }
  CHECK(PatchEmulated("mb3ic64ih9iw10oc24kh3ph1sh2", {.shifted = true}).run() == "");
  CHECK(PatchEmulated("mb5ic24ih9iw10oc24kh3ph1sh2", {.x = Placing::planes, .images_at_once = 2})
            .run() == "");
}

TEST_CASE("patch, emulated: channels that fill half of a step, or hardly more") {
  unsigned turn = 0;
  for (const WideClass& of : classes) {
    const int half = of.step_channels() / 2;
    for (const int channels : {1, half - 1, half, half + 1, 2 * half, 2 * half + 1})
      for (const char* stride : {"", "sh2"})
        for (const Placing x : {Placing::channels_last, Placing::planes}) {
          const std::string text =
              "mb2ic" + std::to_string(channels) + "ih9iw12oc24kh3ph1" + stride;
          CAPTURE(name(of), text, static_cast<int>(x));
          const PatchEmulated convolution(text, {.of = of, .x = x});
          CHECK(convolution.plan().tiles.half_steps == (channels <= half));
          if (is_left_out(turn++)) continue;
          CHECK(PatchEmulated(text, {.of = of, .x = x, .bias = true}).run() == "");
        }
  }
}

TEST_CASE("patch, emulated: under strides parts of lines and of columns, and several images") {
  unsigned turn = 0;
  struct Tile {
    const char* text;
    cuda::PatchChoice choice;
  };
  for (const Tile& tile :
       {Tile{"mb2ic16ih17iw57oc70kh3ph1sh2", {.rows = 4, .columns = 29}},
        Tile{"mb2ic16ih17iw57oc70kh3ph1sh2", {.rows = 9, .columns = 10}},
        Tile{"mb1ic16ih18iw112oc16kh3ph1sh2", {.rows = 4, .columns = 56}},
        Tile{"mb5ic16ih14oc136kh3ph1sh2", {.images = 4, .rows = 7, .columns = 7}},
        Tile{"mb3ic72ih13iw11oc16kh3ph1sh2", {.images = 2, .rows = 7, .columns = 6}},
        Tile{"mb3ic72ih13iw11oc16kh5ph2dh1sh3", {.images = 2, .rows = 3, .columns = 3}},
        Tile{"mb1ic16ih5iw500oc16kh3ph1sh2", {.rows = 1, .columns = 250}}})
    for (const WideClass& of : classes)
      for (const Placing y : {Placing::channels_last, Placing::planes}) {
        if (is_left_out(turn++)) continue;
        CAPTURE(name(of), tile.text, static_cast<int>(y), tile.choice.columns);
        CHECK(PatchEmulated(tile.text, {.of = of, .y = y, .choice = tile.choice}).run() == "");
      }
}

TEST_CASE("patch, emulated: values of any kind stay within their bound") {
  unsigned turn = 0;
  for (const WideClass& of : classes)
    for (const Data data : {Data::normal, Data::far_apart, Data::infinite}) {
      if (is_left_out(turn++)) continue;
      CAPTURE(name(of), static_cast<int>(data));
      CHECK(PatchEmulated("mb2ic72ih9iw8oc72kh3ph1", {.of = of, .data = data}).run() == "");
      CHECK(PatchEmulated("g2mb2ic36ih9iw8oc40kh3ph1", {.of = of, .data = data, .bias = true})
                .run() == "");
    }
}

TEST_CASE("patch, emulated: filters that stay, and those that stream") {
  PatchEmulated stays("mb4ic64ih9oc64kh3ph1", {}), streams("mb4ic64ih9oc72kh3ph1", {}),
      many("mb2ic72ih9oc64kh5ph2", {});
  CHECK(stays.plan().tiles.keeps_filters);
  CHECK_FALSE(streams.plan().tiles.keeps_filters);
  CHECK_FALSE(many.plan().tiles.keeps_filters);
  CHECK(stays.run() == "");
  CHECK(streams.run() == "");
  CHECK(many.run() == "");
}

namespace {

/// Problems of paddings up to beyond the filter, dilations, groups, few and odd channels.
class RandomPatches {
 public:
  /// Of strides up to `most`.
  RandomPatches(std::uint32_t seed, int most) : random_(seed), most_stride_(most) {}

  int number(int least, int most) { return static_cast<int>(random_.integer(least, most)); }
  bool coin() { return number(0, 1) == 1; }
  std::string text() {
    const int more = most_stride_ > 1 ? 6 : 0;  // so that strides leave outputs
    const int groups = number(0, 3) == 0 ? number(2, 3) : 1;
    std::ostringstream text;
    if (groups > 1) text << 'g' << groups;
    text << "mb" << number(1, 3);
    for (const char* name : {"ic", "oc"}) text << name << groups * number(1, 72 / (2 * groups - 1));
    for (const char axis : {'h', 'w'}) {
      const int extent = number(1, (axis == 'h' ? 8 : 10) + more), taps = number(1, 4),
                apart = number(0, 2);
      const int reach = (taps - 1) * (apart + 1);
      const int padding = number(std::max(0, (reach + 2 - extent) / 2), reach + 1);
      for (const auto& [letter, value] :
           {std::pair{'i', extent}, {'k', taps}, {'p', padding}, {'d', apart}})
        text << letter << axis << value;
      if (most_stride_ > 1) text << 's' << axis << number(1, most_stride_);
    }
    return text.str();
  }
  PatchOptions options() {
    constexpr Placing placings[] = {Placing::channels_last, Placing::planes, Placing::mirrored};
    const Data data = number(0, 3) == 0 ? Data::infinite : Data::integers;
    return {.of = classes[number(0, 2)],
            .x = placings[number(0, 2)],
            .y = placings[number(0, 2)],
            .data = data,
            .bias = coin(),
            .relu = data == Data::integers && coin(),
            .accumulate = coin()};
  }

 private:
  Random random_;
  int most_stride_;
};

void check_random(RandomPatches random) {
  const int problems = is_sanitized ? 10 : 200;
  for (int i = 0; i < problems; ++i) {
    const std::string text = random.text();
    const PatchOptions options = random.options();
    CAPTURE(i, name(options.of), text, static_cast<int>(options.x), static_cast<int>(options.y),
            static_cast<int>(options.data), options.accumulate);
    CHECK(PatchEmulated(text, options, static_cast<std::uint32_t>(i)).run() == "");
  }
}

}  // namespace

TEST_CASE("patch, emulated: random problems") { check_random({11, 1}); }

TEST_CASE("patch, emulated: random problems of strides up to 3") { check_random({12, 3}); }

TEST_CASE("patch, emulated: planted faults are caught") {
  using enum EmulatedPatchFault;
  // Two blocks of channels, and images whose padding lies behind each other.
  const char *const blocks = "mb2ic72ih9iw11oc24kh3ph1", *const images = "mb5ic16ih7oc24kh3ph1";
  const cuda::PatchChoice of_blocks{.rows = 5, .columns = 11},
      of_images{.images = 2, .rows = 7, .columns = 7};
  CHECK_FALSE(is_caught(blocks, of_blocks, none));
  CHECK_FALSE(is_caught(images, of_images, none));
  for (const EmulatedPatchFault fault :
       {wrong_shift, stale_patch, lost_stage, missed_column, no_zeros}) {
    CAPTURE(static_cast<int>(fault));
    if (fault != no_zeros) CHECK(is_caught(blocks, of_blocks, fault));
    if (fault != stale_patch) CHECK(is_caught(images, of_images, fault));
  }
  // Strides of both, of columns alone, and of phases of one tap.
  for (const char* text : {"mb2ic72ih9iw11oc24kh3ph1sh2", "mb2ic24ih9iw11oc24kh3kw3ph1pw1sh1sw2",
                           "mb2ic24iw31oc24kw3pw0sw3"})
    for (const EmulatedPatchFault fault :
         {none, lost_stage, lost_phase, other_phase, wrong_begin}) {
      CAPTURE(text, static_cast<int>(fault));
      CHECK(is_caught(text, {}, fault) == (fault != none));
    }
  const char* const lines = "mb2ic72ih8iw10oc24kh3ph1";  // of planes, stored in vectors
  for (const EmulatedPatchFault fault : {none, missed_column})
    CHECK(is_caught(lines, {.rows = 4, .columns = 10}, fault, Placing::planes) == (fault != none));
  for (const EmulatedPatchFault fault : {none, stale_patch, lost_stage, missed_column}) {
    CAPTURE(static_cast<int>(fault));
    const PatchEmulated convolution(
        "mb2ic72ih8iw16oc24kh1ph0",
        {.x = Placing::planes, .choice = {.columns = 128, .across = 1}, .fault = fault});
    CHECK(convolution.plan().across);
    CHECK((PatchEmulated(
               convolution.problem(),
               {.x = Placing::planes, .choice = {.columns = 128, .across = 1}, .fault = fault}, 1)
               .run() == "") == (fault == none));
  }
}
