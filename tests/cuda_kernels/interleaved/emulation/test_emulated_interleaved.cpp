// The interleaved kernels' sources on the host, where no GPU is: rows and vectors of outputs, held
// against the oracle.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <utility>

#include "interleaved_emulated.hpp"
#include "support/sanitized.hpp"

using namespace plumb_test;
using namespace plumb_test::emulation;

namespace {

constexpr std::array all_kinds = {InterleavedKind::fp16x3, InterleavedKind::fp16,
                                  InterleavedKind::bf16, InterleavedKind::fp16_scaled};

/// Draws numbers as texts of problems have them.
auto drawing(Random& random) {
  return [&random](int least, int most) {
    return std::to_string(static_cast<int>(random.integer(least, most)));
  };
}

}  // namespace

TEST_CASE("interleaved, emulated: filters innermost, in vectors") {
  for (const InterleavedKind kind : all_kinds)
    for (const int rows : {1, 2, 4}) {
      CAPTURE(static_cast<int>(kind), rows);
      // Filters of the last group that are not there, rows that are not, and positions between
      // rows.
      const char* const text = rows == 1   ? "mb2ic3ih15iw21oc72kh3kw3ph1pw1"
                               : rows == 2 ? "mb2ic3ih15iw21oc40kh3kw3sh2sw2ph1pw1"
                                           : "mb2ic3ih15iw21oc16kh3kw3ph1pw1";
      InterleavedEmulated conv(text, {.kind = kind, .rows = rows, .bias = true});
      CHECK(conv.run() == "");
      CHECK(conv.stored_vectors());
    }
}

TEST_CASE("interleaved, emulated: first layers of networks") {
  for (const InterleavedKind kind : {InterleavedKind::fp16, InterleavedKind::fp16_scaled})
    for (const char* text :
         {"mb1ic3ih30iw44oc64kh7kw7sh2sw2ph3pw3", "mb1ic3ih20iw40oc32kh3kw3sh2sw2ph1pw1",
          "mb1ic3ih24iw40oc96kh4kw4sh4sw4", "mb1ic3ih12iw34oc64kh3kw3ph1pw1",
          "mb2ic4ih9iw14oc48kh3kw3sh2sw2ph1pw1", "mb1ic3ih17iw23oc24kh3kw3sh2sw2ph1pw1"}) {
      CAPTURE(static_cast<int>(kind), text);
      InterleavedEmulated conv(text, {.kind = kind, .bias = true, .relu = true});
      CHECK(conv.run() == "");
      CHECK(conv.stored_vectors());
    }
}

TEST_CASE("interleaved, emulated: pixels with gaps, and y that no vector fits") {
  const char* const text = "mb2ic3ih9iw13oc24kh3kw3ph1pw1";
  struct Case {
    int gap, shift;
    bool vectors;
  };
  for (const auto [gap, shift, vectors] :
       {Case{8, 0, true}, Case{4, 0, false}, Case{0, 8, true}, Case{0, 1, false}}) {
    CAPTURE(gap, shift);
    InterleavedEmulated conv(text, {.y_gap = gap, .y_shift = shift});
    CHECK(conv.run() == "");
    CHECK(conv.stored_vectors() == vectors);
  }
  InterleavedEmulated odd("mb2ic3ih9iw13oc20kh3kw3ph1pw1", {});
  CHECK(odd.run() == "");
  CHECK_FALSE(odd.stored_vectors());
}

TEST_CASE("interleaved, emulated: vectors are read without bank conflicts, of four rows with two") {
  for (const int bytes : {2, 4})
    for (const int rows : {1, 2, 4}) {
      CAPTURE(bytes, rows);
      CHECK(bank_conflicts(bytes, rows) == (rows == 4 ? 2 : 1));
    }
}

TEST_CASE("interleaved, emulated: random problems") {
  Random random(7);
  const auto draw = drawing(random);
  int vectors = 0;
  for (int i = 0; i < 24; ++i) {
    const int of_vector = i % 4 == 1 || i % 4 == 2 ? 8 : 4;  // all_kinds' types
    const int k = of_vector * static_cast<int>(random.integer(1, 12));
    const std::string pad_h = draw(0, 1), pad_w = draw(0, 2);
    const std::string text = "mb" + draw(1, 3) + "ic" + draw(1, 9) + "ih" + draw(5, 14) + "iw" +
                             draw(5, 22) + "oc" + std::to_string(k) + "kh" + draw(1, 4) + "kw" +
                             draw(1, 5) + "sh" + draw(1, 3) + "sw" + draw(1, 3) + "ph" + pad_h +
                             "pw" + pad_w;
    CAPTURE(i, text);
    InterleavedEmulated conv(text,
                             {.kind = all_kinds[static_cast<std::size_t>(i % 4)],
                              .x = i % 3 == 0 ? Placing::planes : Placing::channels_last,
                              .y_gap = i % 5 == 0 ? of_vector : 0,
                              .data = i % 6 == 0 ? Data::infinite : Data::integers,
                              .bias = i % 2 == 0,
                              .relu = i % 8 < 4,
                              .blocks = 1 + i % 3},
                             static_cast<std::uint32_t>(i));
    CHECK(conv.run() == "");
    vectors += conv.stored_vectors() ? 1 : 0;
  }
  CHECK(vectors >= 16);
}

TEST_CASE("interleaved, emulated: planes and mirrored tensors") {
  for (const InterleavedKind kind : all_kinds)
    for (const Placing y : {Placing::planes, Placing::mirrored}) {
      CAPTURE(static_cast<int>(kind), static_cast<int>(y));
      InterleavedEmulated conv("mb2ic5ih12iw18oc40kh5kw5sh2sw2ph2pw2",
                               {.kind = kind, .x = y, .y = y, .bias = true, .relu = true});
      CHECK(conv.run() == "");
      CHECK_FALSE(conv.stored_vectors());
    }
}

TEST_CASE("interleaved, emulated: channels in chunks") {
  struct Case {
    const char* text;
    int rows, columns, chunks;
  };
  unsigned turn = 0;
  std::set<std::pair<int, bool>> met;  // passes of a tile, and whether filters stream
  for (const auto& [text, rows, columns, chunks] :
       {Case{"mb3ic11ih9iw10oc6kh3kw3ph1pw1", 2, 2, 2},
        Case{"mb1ic35ih24iw40oc7kh5kw4ph4pw3", 4, 2, 3},
        Case{"mb1ic9ih24iw20oc5kh2kw2ph1pw1", 8, 1, 5},
        Case{"mb1ic16ih16iw24oc9kh7kw9ph6pw8", 4, 1, 2},
        Case{"mb2ic16ih26iw24oc16kh7kw7ph6pw6", 2, 2, 2},
        Case{"mb4ic40ih5iw5oc40kh3kw3ph1pw1", 1, 1, 3},
        Case{"mb1ic13ih53iw45oc3kh5kw5sh2sw2", 2, 2, 4}})
    for (const InterleavedKind kind : all_kinds) {
      CAPTURE(text, static_cast<int>(kind));
      InterleavedEmulated conv(text, {.kind = kind,
                                      .x = Placing::planes,
                                      .y = Placing::planes,
                                      .rows = rows,
                                      .columns = columns,
                                      .chunks = chunks,
                                      .bias = true,
                                      .relu = chunks % 2 == 0,
                                      .blocks = chunks % 2 + 1,
                                      .units = kind == InterleavedKind::bf16 ? 132 : 1});
      met.emplace(conv.tile().passes(), conv.tile().streams());
      if (!is_left_out(turn++, 3)) CHECK(conv.run() == "");
    }
  CHECK(met.size() == 3);  // filters of a tile of one pass do not stream
}

TEST_CASE("interleaved, emulated: chunks of filters innermost, and mirrored") {
  unsigned turn = 0;
  for (const InterleavedKind kind : all_kinds)
    for (const Placing placing : {Placing::channels_last, Placing::mirrored}) {
      if (is_left_out(turn++, 3)) continue;
      CAPTURE(static_cast<int>(kind), static_cast<int>(placing));
      InterleavedEmulated conv(
          "mb3ic20ih13iw15oc16kh3kw5ph1pw2",
          {.kind = kind, .x = placing, .y = placing, .rows = 4, .chunks = 3, .bias = true});
      CHECK(conv.run() == "");
      CHECK(conv.stored_vectors() == (placing == Placing::channels_last));
    }
}

TEST_CASE("interleaved, emulated: chunks of other magnitudes, and what halves do not hold") {
  unsigned turn = 0;
  for (const InterleavedKind kind : {InterleavedKind::fp16x3, InterleavedKind::fp16_scaled}) {
    // Exponents up to 16, 48 and 80 apart: beyond 64 a tile is summed by the definition.
    for (const int between : {4, 12, 20})
      for (const int chunks : {3, 5}) {
        if (is_left_out(turn++)) continue;
        CAPTURE(static_cast<int>(kind), between, chunks);
        InterleavedEmulated conv("mb3ic5ih9iw12oc5kh4kw3ph3pw2", {.kind = kind,
                                                                  .x = Placing::planes,
                                                                  .y = Placing::planes,
                                                                  .rows = 2,
                                                                  .columns = 2,
                                                                  .chunks = chunks,
                                                                  .between = between,
                                                                  .data = Data::normal,
                                                                  .bias = true,
                                                                  .blocks = 1});
        CHECK(conv.run() == "");
      }
  }
  for (const InterleavedKind kind : all_kinds)
    for (const Data data : {Data::normal, Data::far_apart, Data::infinite}) {
      if (is_left_out(turn++)) continue;
      CAPTURE(static_cast<int>(kind), static_cast<int>(data));
      InterleavedEmulated conv("mb2ic10ih10iw14oc9kh3kw3ph2pw2", {.kind = kind,
                                                                  .x = Placing::planes,
                                                                  .y = Placing::planes,
                                                                  .rows = 4,
                                                                  .chunks = 3,
                                                                  .data = data,
                                                                  .bias = true});
      CHECK(conv.run() == "");
    }
}

TEST_CASE("interleaved, emulated: zeros that meet Inf in one of the chunks") {
  for (const InterleavedKind kind : all_kinds)
    for (const int channel : {0, 4, 9}) {
      CAPTURE(static_cast<int>(kind), channel);
      InterleavedEmulated conv("mb1ic10ih10iw14oc9kh3kw3ph2pw2", {.kind = kind,
                                                                  .x = Placing::planes,
                                                                  .y = Placing::planes,
                                                                  .rows = 4,
                                                                  .chunks = 3,
                                                                  .infinite_channel = channel});
      CHECK(conv.run() == "");
    }
}

TEST_CASE("interleaved, emulated: random problems of many channels, as planned") {
  Random random(11);
  const auto draw = drawing(random);
  int chunked = 0;
  for (int i = 0; i < 16; ++i) {
    const std::string text = "mb" + draw(1, 2) + "ic" + draw(16, 60) + "ih" + draw(5, 11) + "iw" +
                             draw(5, 16) + "oc" + draw(1, 20) + "kh" + draw(1, 4) + "kw" +
                             draw(1, 5) + "sh" + draw(1, 2) + "sw" + draw(1, 2) + "ph" +
                             draw(0, 1) + "pw" + draw(0, 2);
    CAPTURE(i, text);
    InterleavedEmulated conv(text,
                             {.kind = all_kinds[static_cast<std::size_t>(i % 4)],
                              .x = i % 3 == 0 ? Placing::channels_last : Placing::planes,
                              .y = i % 3 == 1 ? Placing::channels_last : Placing::planes,
                              .data = i % 6 == 0 ? Data::infinite : Data::integers,
                              .bias = i % 2 == 0,
                              .relu = i % 8 < 4,
                              .blocks = 1 + i % 3},
                             static_cast<std::uint32_t>(i));
    // Images so small that a tile has one pass, with filters that would have to stream.
    if (conv.tile().seconds == 0) continue;
    CHECK(conv.run() == "");
    chunked += conv.layout().chunks > 1 ? 1 : 0;
  }
  CHECK(chunked >= 6);
}

TEST_CASE("interleaved, emulated: strides of backward data are rows and columns of outputs") {
  struct Case {
    const char* text;
    int rows, columns, chunks = 1;
  };
  unsigned turn = 0;
  for (const auto& [text, rows, columns, chunks] :
       {Case{"mb3ic4ih13iw18oc28kh3kw3sh2sw2pw1", 4, 2},
        Case{"mb2ic3ih14iw15oc9kh7kw7sh2sw2ph3", 2, 2},
        Case{"mb2ic5ih12iw20oc11kh2kw5sh2sw1pw2", 4, 1},
        Case{"mb2ic6ih9iw21oc10kh4kw6sh1sw2ph2pw3", 4, 2},
        // Phases without a tap; pixels of dx that no window reaches, on either side.
        Case{"mb2ic11ih15iw16oc7kh1kw1sh2sw2", 2, 2},
        Case{"mb1ic2ih19iw17oc6kh3kw2sh4sw2ph0pw1", 8, 2},
        Case{"mb2ic3ih9iw12oc5oh6ow8kh2kw3sh2sw2ph2pw3", 2, 2},
        Case{"mb1ic16ih10iw12oc20kh3kw3sh2sw2ph1pw1", 2, 2, 3},
        Case{"mb1ic10ih8iw10oc12kh5kw4sh2sw2ph2pw2", 2, 2, 2}})
    for (const InterleavedKind kind : all_kinds) {
      const Data data = (turn + turn / 4) % 2 == 0 ? Data::integers : Data::infinite;
      if (is_left_out(turn++, 7)) continue;
      CAPTURE(text, static_cast<int>(kind), static_cast<int>(data));
      InterleavedEmulated conv(std::string(text) + "dirbwd_d", {.kind = kind,
                                                                .x = Placing::planes,
                                                                .y = Placing::planes,
                                                                .rows = rows,
                                                                .columns = columns,
                                                                .chunks = chunks,
                                                                .data = data,
                                                                .bias = true,
                                                                .relu = rows == 4});
      CHECK(conv.run() == "");
    }
}

TEST_CASE("interleaved, emulated: backward data as planned") {
  Random random(5);
  const auto draw = drawing(random);
  constexpr std::array placings = {Placing::planes, Placing::channels_last, Placing::mirrored};
  constexpr std::array data = {Data::integers, Data::normal, Data::infinite, Data::far_apart};
  const int problems = is_sanitized ? 5 : 40;
  int ran = 0;
  for (int i = 0; i < problems; ++i) {
    const bool columns = i % 4 != 3;
    const std::string text =
        "mb" + draw(1, 3) + "ic" + draw(1, 18) + "ih" + draw(6, 14) + "iw" + draw(7, 24) + "oc" +
        draw(1, 40) + "kh" + draw(1, 6) + "kw" + draw(1, 7) + "sh" + (columns ? draw(1, 2) : "4") +
        "sw" + (columns ? "2" : "1") + "ph" + draw(0, 3) + "pw" + draw(0, 3) + "dirbwd_d";
    CAPTURE(i, text);
    InterleavedEmulated conv(text,
                             {.kind = all_kinds[static_cast<std::size_t>(i % 4)],
                              .x = placings[static_cast<std::size_t>(i % 3)],
                              .y = columns ? placings[static_cast<std::size_t>(i % 2 * 2)]
                                           : placings[static_cast<std::size_t>(i % 3)],
                              .data = data[static_cast<std::size_t>(i / 4 % 4)],
                              .bias = i % 2 == 0,
                              .relu = i % 8 < 4,
                              .blocks = 1 + i % 3},
                             static_cast<std::uint32_t>(i));
    if (conv.tile().seconds == 0) continue;
    CHECK(conv.run() == "");
    ++ran;
  }
  CHECK(ran >= problems * 3 / 4);
}

TEST_CASE("interleaved, emulated: what halves do not hold, and zeros that meet Inf") {
  for (const InterleavedKind kind : all_kinds)
    for (const Data data : {Data::normal, Data::far_apart, Data::infinite}) {
      CAPTURE(static_cast<int>(kind), static_cast<int>(data));
      InterleavedEmulated conv("mb2ic3ih10iw14oc64kh3kw3ph1pw1",
                               {.kind = kind, .data = data, .bias = true});
      CHECK(conv.run() == "");
      CHECK(conv.stored_vectors());
    }
}
