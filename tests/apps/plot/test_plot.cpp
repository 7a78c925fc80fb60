// Pictures: escaping, axes, and that no text of a chart lies on another or outside.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <regex>
#include <string>
#include <vector>

#include "bench_summary.hpp"
#include "ladder_rungs.hpp"
#include "plot/axis.hpp"
#include "plot/bar_chart.hpp"
#include "plot/line_chart.hpp"
#include "plot/sorted_bars.hpp"
#include "plot/svg.hpp"
#include "plot/timeline.hpp"
#include "progress.hpp"

using namespace plumb::app;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;

namespace {

struct TextBox {
  std::string text;
  double left, right, top, bottom;
};

/// The texts of a picture that are not turned, as large as text_width() takes them to be.
std::vector<TextBox> text_boxes(const std::string& svg) {
  static const std::regex pattern(
      "<text x=\"([^\"]+)\" y=\"([^\"]+)\" font-size=\"([^\"]+)\" font-weight=\"[^\"]+\" "
      "text-anchor=\"([^\"]+)\" class=\"[^\"]+\">([^<]*)</text>");
  std::vector<TextBox> boxes;
  for (std::sregex_iterator at(svg.begin(), svg.end(), pattern), end; at != end; ++at) {
    const std::smatch& match = *at;
    const double size = std::stod(match[3]), width = text_width(match[5].str(), size);
    const double anchored = match[4] == "start" ? 0 : match[4] == "middle" ? width / 2 : width;
    const double left = std::stod(match[1]) - anchored, baseline = std::stod(match[2]);
    boxes.push_back({match[5], left, left + width, baseline - 0.75 * size, baseline + 0.2 * size});
  }
  return boxes;
}

double attribute(const std::string& svg, const std::string& name) {
  std::smatch match;
  REQUIRE(std::regex_search(svg, match, std::regex(name + "=\"([0-9.]+)\"")));
  return std::stod(match[1]);
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

void require_legible(const std::string& svg) {
  const double width = attribute(svg, "width"), height = attribute(svg, "height");
  const std::vector<TextBox> boxes = text_boxes(svg);
  REQUIRE(!boxes.empty());
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const TextBox& a = boxes[i];
    INFO("'" << a.text << "'");
    CHECK((a.left >= 0 && a.right <= width && a.top >= 0 && a.bottom <= height));
    for (std::size_t j = i + 1; j < boxes.size(); ++j) {
      const TextBox& b = boxes[j];
      INFO("'" << b.text << "'");
      CHECK((a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top));
    }
  }
}

/// `panels` of bars that span three decades, one without a value, with the longest names there are.
BarChart chart_of(std::size_t categories, std::size_t group, std::size_t panels) {
  BarChart chart{.title = "Kernel times", .axis = "ms", .series = {"fp32", "fp16"}};
  for (std::size_t c = 0; c < categories; ++c)
    chart.categories.push_back("cuda.conv.shared_tile_constant.fp32.32x32." + std::to_string(c));
  for (std::size_t p = 0; p < panels; ++p) {
    BarPanel panel{.title = "layer " + std::to_string(p), .reference = Reference{0.31, "roofline"}};
    for (std::size_t c = 0; c < categories; ++c) {
      panel.bars.emplace_back();
      for (std::size_t b = 0; b < group; ++b)
        panel.bars.back().push_back(
            {std::pow(10.0, static_cast<double>((c + b) % 4) - 1), b, c % 3 == 0 ? "16x16" : ""});
    }
    panel.bars.back().back() = {.note = "needs 70,000 bytes of shared memory"};
    chart.panels.push_back(panel);
  }
  return chart;
}

}  // namespace

TEST_CASE("plot: text is escaped") {
  CHECK(xml_escaped("a<b & \"c\" > 'd'") == "a&lt;b &amp; &quot;c&quot; &gt; &#39;d&#39;");
  CHECK(xml_escaped("5 µs") == "5 µs");
  CHECK(xml_escaped(std::string("\0\x1b", 2)) == "\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(xml_escaped("\xff\xc3") == "\xef\xbf\xbd\xef\xbf\xbd");
  BarChart chart = chart_of(1, 1, 1);
  chart.title = "</text><script>";
  chart.categories = {"<&>"};
  const std::string svg = to_svg(chart);
  CHECK(svg.find("<script") == std::string::npos);
  CHECK_THAT(svg, ContainsSubstring("&lt;&amp;&gt;"));
}

TEST_CASE("plot: text is shortened in its middle, between characters") {
  CHECK(shortened("short", 12, 100) == "short");
  const std::string cut = shortened("cuda.conv.direct.fp32", 12, 90);
  CHECK(text_width(cut, 12) <= 90);
  CHECK(cut.substr(0, 4) == "cuda");
  CHECK(cut.substr(cut.size() - 2) == "32");
  CHECK_THAT(shortened("µµµµµµµµµµ", 12, 40), ContainsSubstring("…"));
  CHECK(xml_escaped(shortened("µµµµµµµµµµ", 12, 40)).find("\xef\xbf\xbd") == std::string::npos);
}

TEST_CASE("plot: numbers have three digits") {
  CHECK(short_number(0) == "0");
  CHECK(short_number(0.0012345) == "0.00123");
  CHECK(short_number(0.5) == "0.5");
  CHECK(short_number(1.234) == "1.23");
  CHECK(short_number(12.34) == "12.3");
  CHECK(short_number(1234.4) == "1234");
}

TEST_CASE("plot: axes end at round numbers") {
  const Axis linear(Scale::linear, 3, 13.2);
  CHECK(linear.low() == 0);
  CHECK_THAT(linear.high(), WithinRel(15.0, 1e-9));
  CHECK_THAT(linear.share(7.5), WithinRel(0.5, 1e-9));
  CHECK(linear.ticks(4) == std::vector<double>{0, 5, 10, 15});

  const Axis logarithmic(Scale::logarithmic, 0.3, 40);
  CHECK_THAT(logarithmic.low(), WithinRel(0.2, 1e-9));
  CHECK_THAT(logarithmic.high(), WithinRel(50.0, 1e-9));
  CHECK_THAT(logarithmic.share(std::sqrt(0.2 * 50)), WithinRel(0.5, 1e-9));
  CHECK(logarithmic.share(0) == 0);
  CHECK(logarithmic.share(100) == 1);
  CHECK(logarithmic.ticks(8).size() == 8);                  // 0.2 0.5 1 2 5 10 20 50
  CHECK(logarithmic.ticks(7).size() == 2);                  // 1 and 10
  CHECK(Axis(Scale::logarithmic, INFINITY, 0).high() > 0);  // no values at all

  const Axis between = Axis::between(0.815, 0.932);
  CHECK_THAT(between.low(), WithinRel(0.8, 1e-9));
  CHECK_THAT(between.high(), WithinRel(0.95, 1e-9));
  CHECK_THAT(between.share(0.875), WithinRel(0.5, 1e-9));
  CHECK(between.ticks(3).size() == 4);  // 0.8 0.85 0.9 0.95
  for (const double value : {0.0, -3.0, 0.9, 1e30}) {
    const Axis one = Axis::between(value, value);
    CHECK((one.low() <= value && value <= one.high() && one.low() < one.high()));
  }
  CHECK(Axis::between(INFINITY, -INFINITY).low() < Axis::between(INFINITY, -INFINITY).high());
}

TEST_CASE("plot: lines are legible, and go through their points alone") {
  for (const std::size_t points : {1, 2, 8, 60, 100, 1000}) {
    LineChart chart{.title = "plumb train", .subtitle = "a processor", .x_name = "epoch"};
    LinePanel loss{.title = "loss", .lines = {{.name = "training"}, {.name = "test"}}};
    LinePanel error{.title = "accuracy", .from_zero = false, .lines = {{.name = "training"}}};
    LinePanel drift{.title = "difference", .scale = Scale::logarithmic, .lines = {{.name = "a"}}};
    for (std::size_t i = 0; i < points; ++i) {
      chart.x.push_back(static_cast<double>(i + 1));
      loss.lines[0].y.push_back(0.5 / static_cast<double>(i + 1));
      loss.lines[1].y.push_back(0.6 / static_cast<double>(i + 1));
      error.lines[0].y.push_back(0.9);
      drift.lines[0].y.push_back(i % 3 == 0 ? 0 : 1e-7 * static_cast<double>(i));
    }
    chart.panels = {loss, error, drift};
    CAPTURE(points);
    const std::string svg = to_svg(chart);
    require_legible(svg);
    CHECK(count_of(svg, "<polyline") == (points > 1 ? 4 : 0));
    CHECK(count_of(svg, "<circle") == (points > 60 ? 0 : 4 * points));
  }
  LineChart gap{.title = "gap", .x_name = "step", .x = {1, 2, 3, 4, 5}};
  gap.panels = {{.title = "loss", .lines = {{"a", {1, 2, NAN, 4, 5}}}}};
  CHECK(count_of(to_svg(gap), "<polyline") == 2);
  CHECK(count_of(to_svg(gap), "<circle") == 4);
}

TEST_CASE("plot: lying bars are legible") {
  for (const std::size_t panels : {1, 2, 4})
    for (const std::size_t group : {1, 2}) {
      BarChart chart = chart_of(19, group, panels);
      chart.scale = group == 1 ? Scale::logarithmic : Scale::linear;
      const std::string svg = to_svg(chart);
      require_legible(svg);
      CHECK(count_of(svg, "<rect") == 1 + 2 + panels * (19 * group - 1));
      CHECK(count_of(svg, "class=\"reference\"") == 2 * panels);  // in the panel and in its head
      CHECK_THAT(svg, ContainsSubstring("prefers-color-scheme:dark"));
      CHECK_THAT(svg, ContainsSubstring("roofline 0.31"));
    }
}

TEST_CASE("plot: standing bars are legible") {
  BarChart chart = chart_of(4, 2, 4);
  chart.direction = BarChart::Direction::up;
  chart.categories = {"100", "1,000", "5,000", "10,000"};
  require_legible(to_svg(chart));
  CHECK(count_of(to_svg(chart), "<rect") == 1 + 2 + 4 * 7);
  chart.categories = {"cuda.conv.direct.fp32", "cuda.conv.implicit_gemm.fp32.16x16", "c", "d"};
  require_legible(to_svg(chart));
}

TEST_CASE("plot: a bar's length is its value's") {
  BarChart chart{.title = "t", .categories = {"a", "b", "c"}, .series = {"only"}};
  chart.panels = {{.bars = {{Bar{.value = 4}}, {Bar{.value = 1}}, {Bar{.value = INFINITY}}}}};
  const std::string svg = to_svg(chart);
  static const std::regex pattern("<rect [^>]*width=\"([^\"]+)\"[^>]*class=\"s0\"");
  std::vector<double> lengths;
  for (std::sregex_iterator at(svg.begin(), svg.end(), pattern), end; at != end; ++at)
    lengths.push_back(std::stod((*at)[1]));
  REQUIRE(lengths.size() == 2);
  CHECK_THAT(lengths[0] / lengths[1], WithinRel(4.0, 1e-3));
  CHECK_THAT(svg, ContainsSubstring(">inf<"));
}

TEST_CASE("plot: many values are drawn in order of size") {
  SortedBars chart{.title = "few200 on a device beside a peer"};
  SortedPanel ratios{.title = "time of the peer over ours: median 4.2, least 0.9",
                     .scale = Scale::logarithmic,
                     .reference = Reference{1, "as fast as the peer"}};
  for (int i = 0; i < 200; ++i)
    ratios.values.push_back({"problem " + std::to_string(i), 0.9 + (i * 37) % 200});
  ratios.values.push_back({"nothing", INFINITY});
  SortedPanel shares{.title = "share of the roofline", .values = {{"<one>", 61}, {"two", 20}}};
  chart.panels = {ratios, shares};
  const std::string svg = to_svg(chart);
  require_legible(svg);
  CHECK(count_of(svg, "class=\"s0\"") == 202);
  CHECK(count_of(svg, "class=\"reference\"") == 2);  // in the panel and in its head
  CHECK_THAT(svg, ContainsSubstring("200 problems, in order; logarithmic"));
  CHECK_THAT(svg, ContainsSubstring("&lt;one&gt;: 61"));
  CHECK(svg.find("two: 20") < svg.find("&lt;one&gt;: 61"));
  std::vector<double> heights;
  static const std::regex pattern("<rect [^>]*height=\"([^\"]+)\"[^>]*class=\"s0\"");
  for (std::sregex_iterator at(svg.begin(), svg.end(), pattern), end; at != end; ++at)
    heights.push_back(std::stod((*at)[1]));
  CHECK(std::is_sorted(heights.begin(), heights.begin() + 200));
  CHECK_THAT(heights[201] / heights[200], WithinRel(61.0 / 20, 1e-3));
  require_legible(to_svg(SortedBars{.title = "nothing", .panels = {{.title = "none"}}}));
}

TEST_CASE("plot: timelines are legible") {
  Timeline timeline{.title = "three streams", .series = {"copy in", "kernel", "copy out"}};
  for (int stream = 0; stream < 3; ++stream) {
    TimelineLane lane{.label = "stream " + std::to_string(stream)};
    for (int i = stream; i < 12; i += 3)
      for (std::size_t stage = 0; stage < 3; ++stage) {
        const double begin = 5 + 1e-3 * (i + static_cast<double>(stage));
        lane.spans.push_back({begin, begin + 1e-3, stage, std::to_string(i)});
      }
    timeline.lanes.push_back(lane);
  }
  const std::string svg = to_svg(timeline);
  require_legible(svg);
  CHECK(count_of(svg, "<rect") == 1 + 3 + 36);
  CHECK_THAT(svg, ContainsSubstring(">ms<"));
  timeline.lanes.clear();
  require_legible(to_svg(timeline));  // nothing happened
}

TEST_CASE("progress: the bar says when the work will be done") {
  CHECK_THAT(progress_line("work", 0, 10, 5), !ContainsSubstring("ETA"));
  CHECK_THAT(progress_line("work", 1, 10, 0.2), !ContainsSubstring("ETA"));
  CHECK_THAT(progress_line("work", 10, 10, 5), !ContainsSubstring("ETA"));
  CHECK(progress_line("work", 5, 10, 42) == "work [===============               ]  50% ETA 0:42");
  CHECK_THAT(progress_line("work", 1, 10, 60), ContainsSubstring(" 10% ETA 9:00"));
  CHECK_THAT(progress_line("work", 1, 1000, 60), ContainsSubstring("  0% ETA 16:39:00"));
  CHECK_THAT(progress_line("work", 0, 0, 5), ContainsSubstring("100%"));
  CHECK_THAT(progress_line("work", 20, 10, 5), ContainsSubstring("100%"));
}

TEST_CASE("the ladder of a CPU has the techniques that a CPU has") {
  const auto algorithms = plumb::conv_algorithms(plumb::Device::open("cpu"));
  std::vector<int> numbers;
  for (const Rung& rung : ladder_rungs())
    if (!is_elsewhere(rung, algorithms)) numbers.push_back(rung.number);
  CHECK(numbers == std::vector{8, 9, 10, 11, 18, 19});
  for (const plumb::ConvAlgorithm* algorithm : algorithms) {
    if (!algorithm->name.starts_with("cpu.")) continue;  // another library's
    // Younger than the ladder.
    if (algorithm->name.starts_with("cpu.conv.fields")) continue;
    if (algorithm->name.starts_with("cpu.conv.channels.")) continue;
    if (algorithm->name.starts_with("cpu.conv.images.")) continue;
    if (algorithm->name.starts_with("cpu.conv.tiles.")) continue;
    if (algorithm->name.starts_with("cpu.conv.weights")) continue;  // of gradients, and it of y
    CAPTURE(algorithm->name);
    CHECK(std::any_of(ladder_rungs().begin(), ladder_rungs().end(),
                      [&](const Rung& rung) { return is_variant(rung, *algorithm); }));
  }
}

TEST_CASE("plot: a bench of few problems draws every algorithm with its name and figures") {
  BenchCase bench;
  bench.test.name = "layer";
  bench.records.resize(2);
  bench.records[0].measurement.algorithm = "cpu.conv.a.fp32";
  bench.records[0].measurement.median_seconds = 2e-3;
  bench.records[0].roofline_fraction = 0.25;
  bench.records[1].measurement.algorithm = "cpu.conv.b.fp64";
  bench.records[1].measurement.failure = "wrong";
  bench.records[1].math = plumb::Math::fp64;
  bench.refusals.push_back({"cpu.conv.c.fp32", {plumb::Reason::geometry, "not for this"}});
  const std::string svg = picture_of({bench}, summary_of({bench}), "a bench");
  require_legible(svg);
  for (const char* text : {">layer<", ">cpu.conv.a.fp32<", ">cpu.conv.b.fp64<", ">cpu.conv.c.fp32<",
                           ">2.00 ms, 25 %<", ">failed<", ">geometry<"})
    CHECK_THAT(svg, ContainsSubstring(text));
}

TEST_CASE("bench: beside the fastest peer, and the fastest that is deterministic") {
  const auto record = [](const char* name, double seconds, bool peer, bool deterministic) {
    BenchRecord made{.peer = peer, .deterministic = deterministic};
    made.measurement.algorithm = name;
    made.measurement.median_seconds = seconds;
    return made;
  };
  BenchCase bench;
  bench.test.name = "layer";
  bench.records = {record("ours", 1, false, true),    record("best", 10, true, false),
                   record("repeats", 70, true, true), record("slower", 80, true, true),
                   record("rough", 2, true, true),    record("failed", 1, true, true)};
  bench.records[4].math = plumb::Math::tf32;
  bench.records[5].measurement.failure = "wrong";
  compare_with_peers(bench.records);
  const BenchRecord& ours = bench.records.front();
  CHECK(ours.compared_with == "best");
  CHECK(ours.speed_over_peer == 10);
  CHECK(ours.deterministic_peer == "repeats");
  CHECK(ours.speed_over_deterministic_peer == 70);
  CHECK(bench.records[1].compared_with.empty());
  const std::string text = to_string(summary_of({bench}));
  CHECK_THAT(text, ContainsSubstring("1 beside a peer: 10.00 x"));
  CHECK_THAT(text, ContainsSubstring("1 beside a deterministic peer: 70.00 x"));
  // Where the fastest is deterministic it is said once.
  bench.records[1].deterministic = true;
  bench.records[0] = record("ours", 1, false, true);
  compare_with_peers(bench.records);
  CHECK(bench.records[0].deterministic_peer == "best");
  CHECK_THAT(to_string(summary_of({bench})), !ContainsSubstring("deterministic"));
}

TEST_CASE("plot: sorted bars have labels where there is room, and at the ends otherwise") {
  const auto name = [](int i) { return std::string("p").append(std::to_string(i)); };
  SortedBars chart{.title = "many", .panels = {{.title = "values"}}};
  for (int i = 0; i < 20; ++i) chart.panels[0].values.push_back({name(i), i + 1.0});
  for (int i = 0; i < 20; ++i) CHECK_THAT(to_svg(chart), ContainsSubstring(name(i).append(" ")));
  for (int i = 20; i < 200; ++i) chart.panels[0].values.push_back({name(i), i + 1.0});
  const std::string svg = to_svg(chart);
  for (const char* text : {">p0 1.00<", ">p100 101<", ">p199 200<"})
    CHECK_THAT(svg, ContainsSubstring(text));
  CHECK_THAT(svg, !ContainsSubstring(">p50 "));
}
