// The sources of grouped/ on the host, where no GPU is: every shape, layout and cut, held against
// the oracle.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "grouped_emulated.hpp"
#include "support/sanitized.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::emulation;
using cuda::GroupedFault;
using cuda::GroupedInput;
using cuda::GroupedOutput;

namespace {

constexpr Placing placings[] = {Placing::channels_last, Placing::planes, Placing::mirrored};
constexpr DType types[] = {DType::f16, DType::bf16, DType::f32};

}  // namespace

TEST_CASE("grouped, emulated: one image of every layout") {
  for (const Placing x : placings)
    for (const Placing y : placings) {
      CAPTURE(static_cast<int>(x), static_cast<int>(y));
      CHECK(GroupedEmulated("mb1g4ic64ih7oc64kh3ph1", {.x = x, .y = y}).run() == "");
    }
}

TEST_CASE("grouped, emulated: channels and filters of a group from 1 to 64, equal and not") {
  unsigned turn = 0;
  for (const DType stored : types)
    for (const Placing placing : placings)
      for (const char* text :
           {"mb2g32ic128ih6oc128kh3ph1", "mb2g16ic128ih6oc128kh3ph1", "mb2g8ic128ih6oc128kh3ph1",
            "mb1g4ic128ih6oc128kh3ph1", "mb1g2ic128ih5oc128kh3ph1", "mb2g16ic32ih6oc32kh3ph1",
            "mb2g5ic5ih6oc10kh3ph1", "mb2g6ic6ih6oc6kh3ph1", "mb2g3ic9ih6oc15kh3ph1",
            "mb2g4ic40ih6oc8kh3ph1", "mb2g4ic8ih6oc40kh3ph1", "mb1g2ic6ih5oc126kh3ph1",
            "mb1g7ic77ih5oc91kh3ph1", "mb1g3ic192ih4oc6kh3ph1", "mb1g2ic2ih4oc2kh3ph1"}) {
        if (is_left_out(turn++, 7)) continue;
        CAPTURE(to_string(stored), static_cast<int>(placing), text);
        CHECK(GroupedEmulated(text, {.stored = stored, .x = placing, .y = placing, .bias = true})
                  .run() == "");
      }
}

TEST_CASE("grouped, emulated: every way to read x and to write y") {
  struct Case {
    const char* text;
    Placing placing;
    GroupedInput input;
    int x_run;
    GroupedOutput output;
    int y_run;
  };
  constexpr Placing last = Placing::channels_last, planes = Placing::planes,
                    mirrored = Placing::mirrored;
  using In = GroupedInput;
  using Out = GroupedOutput;
  for (const Case& of : {Case{"mb2g4ic64ih8oc64kh3ph1", last, In::units, 1, Out::filters, 1},
                         Case{"mb2g4ic64ih8oc64kh3ph1", planes, In::runs, 8, Out::runs, 8},
                         Case{"mb2g4ic64ih12oc64kh3ph1", planes, In::runs, 4, Out::runs, 8},
                         Case{"mb2g4ic64ih14oc64kh3ph1", planes, In::runs, 2, Out::runs, 4},
                         Case{"mb2g4ic64ih7oc64kh3ph1", planes, In::runs, 1, Out::runs, 1},
                         Case{"mb2g4ic64ih10iw11oc64kh3ph1", planes, In::runs, 1, Out::runs, 2},
                         Case{"mb2g3ic30ih8oc30kh3ph1", last, In::runs, 1, Out::runs, 1},
                         Case{"mb2g4ic64ih8oc64kh3ph1", mirrored, In::runs, 1, Out::runs, 1}})
    for (const bool accumulate : {false, true})
      for (const DType stored : {DType::f16, DType::f32}) {
        // 16 bytes are half as many pixels of f32.
        const int most = stored == DType::f32 ? 4 : 8;
        GroupedEmulated convolution(
            of.text, {.stored = stored,
                      .x = of.placing,
                      .y = of.placing,
                      .choice = {.images = 1, .rows = 64, .columns = 64, .bands = false},
                      .bias = true,
                      .relu = !accumulate,
                      .accumulate = accumulate});
        CAPTURE(of.text, static_cast<int>(of.placing), accumulate, to_string(stored));
        const cuda::GroupedCut& cut = convolution.plan().cut;
        CHECK(cut.input == of.input);
        CHECK(cut.x_run == std::min(of.x_run, most));
        CHECK(cut.output == of.output);
        CHECK(cut.y_run == std::min(of.y_run, most));
        CHECK(convolution.run() == "");
      }
}

TEST_CASE("grouped, emulated: filters, strides, dilations and paddings of any size, one axis") {
  unsigned turn = 0;
  for (const Placing placing : placings)
    for (const char* text :
         {"mb2g4ic32ih9iw11oc32kh1", "mb2g4ic32ih9iw11oc32kh1sh2", "mb2g8ic32ih12oc32kh3ph1sh2",
          "mb2g4ic64ih13iw10oc64kh5ph2sh3sw2", "mb2g2ic32ih16oc32kh3kw5ph2pw4dh1dw2",
          "mb2g4ic16ih12iw12oc16kh3ph4pw0sh2dh2", "mb1g4ic16ih20iw3oc16kh7kw2ph5pw1",
          "mb2g4ic32iw40oc32kw7pw3", "mb2g4ic32iw41oc32kw3pw1sw2", "mb1g2ic16ih1iw1oc16kh3ph1",
          "mb1g2ic16ih3iw3oc16kh1ph6", "mb3g4ic16ih5oc16kh3sh9", "mb1g4ic32ih30oc32kh11ph5"}) {
      if (is_left_out(turn++)) continue;
      CAPTURE(static_cast<int>(placing), text);
      CHECK(GroupedEmulated(text, {.x = placing, .y = placing, .accumulate = true}).run() == "");
    }
}

TEST_CASE("grouped, emulated: every cut") {
  unsigned turn = 0;
  for (const Placing placing : {Placing::channels_last, Placing::planes})
    for (const char* text : {"mb3g16ic64ih9iw10oc64kh3ph1", "mb3g4ic64ih9iw10oc64kh3ph1",
                             "mb3g2ic64ih9iw10oc64kh3ph1sh2", "mb3g6ic36ih9iw10oc48kh3ph1"})
      for (const int strips : {1, 2, 3})
        for (const cuda::GroupedChoice& of :
             {cuda::GroupedChoice{.images = 1, .rows = 9, .columns = 10},
              cuda::GroupedChoice{.images = 2, .rows = 9, .columns = 10},
              cuda::GroupedChoice{.images = 3, .rows = 9, .columns = 10},
              cuda::GroupedChoice{.rows = 2, .columns = 10},
              cuda::GroupedChoice{.rows = 4, .columns = 8},
              cuda::GroupedChoice{.rows = 1, .columns = 3}})
          for (const int warps : {1, 8}) {
            if (is_left_out(turn++, 7)) continue;
            cuda::GroupedChoice choice = of;
            choice.strips = strips, choice.warps = warps, choice.blocks = warps == 1 ? 1 : 2;
            CAPTURE(static_cast<int>(placing), text, strips, of.images, of.rows, of.columns, warps);
            CHECK(GroupedEmulated(text, {.x = placing, .y = placing, .choice = choice}).run() ==
                  "");
          }
}

TEST_CASE("grouped, emulated: bands, of every number of units, rows and columns") {
  unsigned turn = 0;
  for (const DType stored : types)
    for (const Placing placing : placings)
      for (const char* text :
           {"mb2g16ic64ih9iw10oc64kh3ph1", "mb2g8ic64ih8iw16oc64kh3ph1", "mb2g4ic64ih7oc64kh3ph1",
            "mb2g2ic64ih5iw9oc64kh3ph1", "mb1g4ic32ih11iw9oc32kh3kw1ph1pw0",
            "mb3g8ic32ih4iw13oc32kh3kw2ph1pw1sh1sw2", "mb2g8ic64ih9iw20oc64kh3kw5ph1pw4dh0dw1",
            "mb2g6ic6ih9iw10oc6kh3ph1", "mb1g8ic32ih4iw3oc32kh3ph1"})
        for (const cuda::GroupedChoice& of :
             {cuda::GroupedChoice{}, cuda::GroupedChoice{.images = 2, .rows = 16, .columns = 64},
              cuda::GroupedChoice{.rows = 4, .columns = 8},
              cuda::GroupedChoice{.rows = 5, .columns = 6}}) {
          if (is_left_out(turn++, 5)) continue;
          cuda::GroupedChoice choice = of;
          choice.bands = true;
          GroupedEmulated convolution(text, {.stored = stored,
                                             .x = placing,
                                             .y = placing,
                                             .choice = choice,
                                             .bias = true,
                                             .accumulate = turn % 3 == 0});
          CAPTURE(to_string(stored), static_cast<int>(placing), text, of.rows, of.columns);
          CHECK(convolution.plan().cut.bands);
          CHECK(convolution.run() == "");
        }
}

TEST_CASE("grouped, emulated: an output has the same bits with bands and without") {
  for (const DType stored : types)
    for (const char* text : {"mb2g16ic64ih9iw10oc64kh3ph1", "mb2g4ic64ih8oc64kh3ph1",
                             "mb2g2ic64ih7oc64kh3ph1", "mb2g6ic6ih6oc6kh3ph1"}) {
      std::vector<char> outputs[2];
      for (const bool bands : {false, true}) {
        GroupedEmulated convolution(
            text, {.stored = stored, .choice = {.bands = bands}, .data = Data::normal});
        CAPTURE(to_string(stored), text, bands);
        CHECK(convolution.run() == "");
        outputs[bands ? 1 : 0] = convolution.outputs();
      }
      CHECK(outputs[0] == outputs[1]);
    }
}

TEST_CASE("grouped, emulated: x that is not aligned, filters of backward data") {
  for (const DType stored : types)
    for (const Placing placing : {Placing::channels_last, Placing::planes})
      for (const char* text : {"mb2g4ic64ih8oc64kh3ph1", "mb2g16ic64ih8oc64kh3ph1"}) {
        CAPTURE(to_string(stored), static_cast<int>(placing), text);
        CHECK(GroupedEmulated(text, {.stored = stored, .x = placing, .y = placing, .shifted = true})
                  .run() == "");
        CHECK(
            GroupedEmulated(text, {.stored = stored, .x = placing, .y = placing, .exchanged = true})
                .run() == "");
      }
}

TEST_CASE("grouped, emulated: filters are packed to the same bytes for every N") {
  for (const char* of_groups : {"g32ic128oc128", "g4ic64oc64", "g3ic9oc15", "g2ic128oc128"}) {
    std::vector<char> first;
    for (const int n : {1, 2, 40}) {
      std::ostringstream text;
      text << "mb" << n << of_groups << "ih9kh3ph1";
      CAPTURE(text.str());
      const std::vector<char> packed = GroupedEmulated(text.str(), {}).packed_filters();
      if (n == 1) first = packed;
      CHECK(packed == first);
    }
  }
}

TEST_CASE("grouped, emulated: values of any kind stay within their bound") {
  for (const DType stored : types)
    for (const Placing placing : placings)
      for (const Data data : {Data::normal, Data::far_apart, Data::infinite})
        for (const char* text : {"mb2g8ic32ih6oc32kh3ph1", "mb2g4ic64ih8oc64kh3ph1",
                                 "mb2g2ic64ih5oc64kh3ph1", "mb2g5ic15ih6oc20kh3ph1"}) {
          CAPTURE(to_string(stored), static_cast<int>(placing), static_cast<int>(data), text);
          CHECK(GroupedEmulated(text, {.stored = stored,
                                       .x = placing,
                                       .y = placing,
                                       .data = data,
                                       .bias = true,
                                       .accumulate = data == Data::infinite})
                    .run() == "");
        }
}

namespace {

/// Groups of few channels, images, filters, strides, dilations and paddings of any size.
class RandomGroups {
 public:
  explicit RandomGroups(std::uint32_t seed) : random_(seed) {}

  int number(int least, int most) { return static_cast<int>(random_.integer(least, most)); }
  bool coin() { return number(0, 1) == 1; }
  int of_group(int most) {
    const int lot = number(0, 3);
    return lot == 0 ? 1 << number(0, 4 + most / 32) : number(1, lot == 1 ? most : 12);
  }
  /// Groups of f32 are of half as many channels: filters fit shared memory.
  std::string text(DType stored) {
    const int most = stored == DType::f32 ? 16 : 33;
    const int groups = number(2, 9), c = of_group(most), k = coin() ? c : of_group(most);
    std::ostringstream text;
    text << "mb" << number(1, 3) << 'g' << groups << "ic" << groups * c << "oc" << groups * k;
    for (const char axis : {'h', 'w'}) {
      const int taps = number(1, 4), dilation = number(0, 3) == 0 ? number(2, 3) : 1;
      const int padding = number(0, 3), reach = (taps - 1) * dilation + 1;
      text << 'i' << axis << std::max(number(1, 17), reach - 2 * padding) << 'k' << axis << taps
           << 'p' << axis << padding << 'd' << axis << dilation - 1;
      text << 's' << axis << (number(0, 2) == 0 ? number(2, 3) : 1);
    }
    return text.str();
  }
  GroupedOptions options() {
    const Data data = number(0, 3) == 0 ? Data::infinite : Data::integers;
    const Placing x = placings[number(0, 2)];
    return {.stored = types[number(0, 2)],
            .x = x,
            .y = placings[number(0, 2)],
            .choice = coin() ? cuda::GroupedChoice{}
                             : cuda::GroupedChoice{.strips = number(0, 2),
                                                   .images = number(0, 2),
                                                   .rows = number(0, 5),
                                                   .columns = number(0, 9),
                                                   .warps = number(1, 8)},
            .data = data,
            .bias = coin(),
            .relu = data == Data::integers && coin(),
            .accumulate = coin(),
            .shifted = x != Placing::mirrored && number(0, 4) == 0,  // a copy is dense
            .exchanged = coin()};
  }

 private:
  Random random_;
};

/// Whether a fault of the kernel shows in a problem's outputs.
bool is_caught(const char* text, const GroupedOptions& options) {
  try {
    return GroupedEmulated(text, options).run() != "";
  } catch (const std::runtime_error&) {  // an operand that tensor cores would not round
    return true;
  }
}

}  // namespace

TEST_CASE("grouped, emulated: random problems") {
  RandomGroups random(7);
  const int problems = is_sanitized ? 20 : 300;
  for (int i = 0; i < problems; ++i) {
    const GroupedOptions options = random.options();
    const std::string text = random.text(options.stored);
    const cuda::GroupedChoice& choice = options.choice;
    CAPTURE(i, to_string(options.stored), text, static_cast<int>(options.x),
            static_cast<int>(options.y), static_cast<int>(options.data), options.accumulate,
            options.shifted, choice.strips, choice.images, choice.rows, choice.columns,
            choice.warps);
    CHECK(GroupedEmulated(text, options, static_cast<std::uint32_t>(i)).run() == "");
  }
}

TEST_CASE("grouped, emulated: planted faults are caught") {
  using enum GroupedFault;
  for (const Placing placing : {Placing::channels_last, Placing::planes})
    for (const GroupedFault fault :
         {none, wrong_tap, wrong_unit, padding_of_ones, lost_strip, exchanged_terms}) {
      CAPTURE(static_cast<int>(placing), static_cast<int>(fault));
      CHECK(is_caught("mb2g8ic64ih7oc64kh3ph1", {.x = placing, .y = placing, .fault = fault}) ==
            (fault != none));
    }
  for (const char* text : {"mb2g8ic64ih7oc64kh3ph1", "mb2g4ic64ih7oc64kh3ph1"})
    for (const GroupedFault fault : {none, wrong_row, exchanged_terms, lost_strip, wrong_tap})
      CHECK(is_caught(text, {.choice = {.bands = true}, .fault = fault}) == (fault != none));
  for (const GroupedFault fault : {none, unrounded})
    CHECK(is_caught("mb2g8ic64ih7oc64kh3ph1",
                    {.stored = DType::f32, .data = Data::normal, .fault = fault}) ==
          (fault != none));
  // Copies are those of channels side by side. What is stale is the tile before.
  for (const GroupedFault fault : {none, stale_patch})
    CHECK(is_caught("mb2g4ic64ih7oc64kh3ph1",
                    {.choice = {.images = 1, .rows = 3, .columns = 7, .blocks = 1},
                     .fault = fault}) == (fault != none));
  // So few pixels that what is written behind y is within its 16 guarded elements.
  for (const GroupedFault fault : {none, unmasked})
    CHECK(is_caught("mb1g2ic2iw63oc2kw1",
                    {.x = Placing::planes, .y = Placing::planes, .fault = fault}) ==
          (fault != none));
}

TEST_CASE("grouped, emulated: damaged plans are found") {
  const auto is_found = [](const auto& damage) {
    GroupedEmulated convolution("mb2g4ic64ih14oc64kh3ph1",
                                {.choice = {.strips = 1, .images = 1, .rows = 5, .columns = 14}});
    damage(convolution.plan());
    return convolution.run() != "";
  };
  CHECK_FALSE(is_found([](const cuda::GroupedPlan&) {}));
  CHECK(is_found([](cuda::GroupedPlan& plan) { --plan.cut.parts; }));
  CHECK(is_found([](cuda::GroupedPlan& plan) { --plan.cut.tiles_p; }));
  CHECK(is_found([](cuda::GroupedPlan& plan) { plan.cut.row_units -= 9; }));
}
