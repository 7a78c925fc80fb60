// Tiles whose steps the blocks of a cluster share, on the host.
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <string>
#include <vector>

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

/// Convolves in clusters, and says what is wrong.
std::string run(const char* text, WideOptions options, int blocks) {
  options.choice.cluster = blocks;
  WideEmulated convolution(text, options);
  const cuda::WideTiles& tiles = convolution.plan().tiles;
  if (tiles.cluster != blocks) return "no clusters of so many blocks";
  if (tiles.whole() == tiles.tiles()) return "no tile of a cluster";
  return convolution.run();
}

}  // namespace

TEST_CASE("wide, emulated: blocks of a cluster share a tile's steps, in every class") {
  unsigned turn = 0;
  for (const WideClass& of : classes)
    for (const int shape : emulated_shapes) {
      if (!cuda::has_wide_shape(of, false, shape)) continue;
      const int blocks = 2 << turn % 3;
      if (is_left_out(turn++)) continue;
      CAPTURE(name(of), blocks, shape);
      const WideOptions options{.of = of, .choice = {.shape = shape}, .bias = true};
      CHECK(run("mb3ic72ih7iw8oc136kh3ph1", options, blocks) == "");
      WideOptions planes = options;
      planes.y = Placing::planes, planes.accumulate = true, planes.relu = true;
      CHECK(run("mb2ic24ih7iw8oc71kh3ph1", planes, blocks) == "");
    }
}

TEST_CASE("wide, emulated: clusters share the tiles behind the last whole wave") {
  // Tiles of 128x64: blocks have one or two by themselves, and then none or one with others.
  const struct {
    const char* text;
    int blocks, at_once, whole, tiles;
  } cases[] = {{"mb5ic40ih10oc72kh3ph1", 2, 4, 8, 8},   {"mb5ic40ih10oc40kh3ph1", 2, 4, 4, 4},
               {"mb5ic72ih11oc40kh3ph1", 2, 4, 4, 5},   {"mb6ic72ih11oc40kh3ph1", 2, 4, 4, 6},
               {"mb9ic72ih11oc40kh3ph1", 2, 4, 8, 9},   {"mb9ic72ih11oc40kh3ph1", 4, 8, 8, 9},
               {"mb9ic72ih11oc72kh3ph1", 4, 8, 16, 18}, {"mb7ic72ih11oc40kh3ph1", 4, 8, 7, 7}};
  for (const auto& [text, blocks, at_once, whole, tiles] : cases) {
    CAPTURE(text, blocks, at_once);
    WideOptions options{.choice = {.shape = 5, .cluster = blocks}};
    options.cluster_blocks = at_once;
    WideEmulated convolution(text, options);
    CHECK(convolution.plan().tiles.tiles() == tiles);
    CHECK(convolution.plan().tiles.whole() == whole);
    CHECK(convolution.run() == "");
  }
}

TEST_CASE("wide, emulated: clusters of few images at a time, and of x that is repacked") {
  for (const WideClass& of : classes) {
    CAPTURE(name(of));
    WideOptions options{.of = of, .x = Placing::planes, .choice = {.shape = 5}};
    options.images_at_once = 2, options.accumulate = true;
    CHECK(run("mb5ic72ih9iw10oc40kh3ph1", options, 2) == "");
    options.x = Placing::channels_last, options.shifted = true;
    CHECK(run("mb5ic72ih9iw10oc40kh3ph1", options, 4) == "");
  }
}

TEST_CASE("wide, emulated: NaN, Inf and what halves do not hold, of clusters") {
  for (const WideClass& of : classes)
    for (const char* text : {"mb2ic72ih4iw5oc16kh3ph1", "g4mb2ic16ih4iw5oc16kh3ph1"})
      for (const int blocks : {2, 4}) {
        CAPTURE(name(of), text, blocks);
        CHECK(run(text, {.of = of, .choice = {.shape = 5}, .data = Data::infinite}, blocks) == "");
      }
  for (const WideClass& of : {wide_class_fp16x3, wide_class_tf32x3})
    for (const Data data :
         {Data::far_apart, Data::of_any_size, Data::largest, Data::large_products, Data::normal})
      for (const int blocks : {2, 4}) {
        CAPTURE(name(of), static_cast<int>(data), blocks);
        CHECK(run("mb2ic24ih4iw5oc16kh3ph1", {.of = of, .choice = {.shape = 5}, .data = data},
                  blocks) == "");
      }
}

TEST_CASE("wide, emulated: random problems in clusters") {
  std::mt19937 random(20261129);
  const auto one_of = [&](std::initializer_list<int> all) {
    return all.begin()[random() % all.size()];
  };
  for (int i = 0; i < 40; ++i) {
    const WideClass of = classes[random() % std::size(classes)];
    const int taps = one_of({1, 3, 5}), groups = one_of({1, 1, 2});
    const std::string text =
        fmt::format("g{}mb{}ic{}ih{}iw{}oc{}kh{}ph{}sh{}", groups, one_of({1, 2, 5}),
                    groups * one_of({13, 64, 72, 200}), one_of({5, 7, 14}), one_of({5, 8, 13}),
                    groups * one_of({8, 40, 71, 136}), taps, taps / 2, one_of({1, 1, 2}));
    WideOptions options{
        .of = of,
        .x = i % 3 == 0 ? Placing::planes : Placing::channels_last,
        .y = i % 2 == 0 ? Placing::planes : Placing::channels_last,
        .choice = {.shape = one_of({3, 5})},
        // BF16 does not hold sums of so many integers.
        .data = i % 4 == 0 || of.stored == DType::bf16 ? Data::normal : Data::integers,
        .bias = random() % 2 == 0,
        .relu = random() % 2 == 0,
        .accumulate = random() % 2 == 0};
    const int blocks = one_of({2, 4, 8});
    options.choice.cluster = blocks, options.cluster_blocks = blocks * one_of({1, 2, 16});
    WideEmulated convolution(text, options, static_cast<std::uint32_t>(i));
    CAPTURE(i, text, name(of), blocks, options.cluster_blocks, options.choice.shape,
            convolution.plan().tiles.whole(), convolution.plan().tiles.tiles());
    if (!is_left_out(static_cast<unsigned>(i))) CHECK(convolution.run() == "");
  }
}

TEST_CASE("wide, emulated: sums of a cluster have one order, whichever block adds them") {
  // Equal pixels: of each filter all outputs are the same sum, which other warps' blocks add.
  constexpr int channels = 512, pixels = 128, filters = 8;
  for (const int blocks : {2, 4, 8}) {
    CAPTURE(blocks);
    const WideEmulated convolution(
        "mb1ic512ih8iw16oc8kh1ph0",
        {.of = wide_class_tf32, .choice = {.shape = 5, .cluster = blocks}, .data = Data::normal});
    REQUIRE(convolution.plan().tiles.cluster == blocks);
    std::vector<float> x(channels * pixels), y(filters * pixels);
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (int i = 0; i < channels * pixels; ++i)
      x[i] = i < channels ? normal(random) : x[i - channels];
    WideRun run = convolution.run_of(x.data());
    run.bias = nullptr, run.y = y.data();
    run_wide(run);
    int others = 0;
    for (int i = filters; i < filters * pixels; ++i) others += y[i] != y[i - filters];
    CHECK(others == 0);
  }
}

TEST_CASE("wide, emulated: a split that a cluster loses shows") {
  const auto is_caught = [](EmulatedFault fault, int blocks) {
    WideOptions options{
        .of = wide_class_fp16x3, .choice = {.shape = 5, .cluster = blocks}, .fault = fault};
    return !WideEmulated("mb2ic72ih5iw6oc40kh3ph1", options).run().empty();
  };
  for (const int blocks : {2, 4, 8}) {
    CAPTURE(blocks);
    CHECK_FALSE(is_caught(EmulatedFault::none, blocks));
    CHECK(is_caught(EmulatedFault::lost_split, blocks));
  }
}
