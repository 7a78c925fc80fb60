// Lines over a common axis.
#include "plot/line_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plot/svg.hpp"

namespace plumb::app {
namespace {

constexpr double margin = 16, axis_width = 52, panel_height = 190, panel_gap = 34;
constexpr std::size_t max_dots = 60;

/// The smallest and the largest finite value; on a logarithmic scale of those above 0.
struct Range {
  double low = INFINITY, high = -INFINITY;
};

Range range_of(const LinePanel& panel) {
  Range range;
  for (const Line& line : panel.lines)
    for (const double y : line.y) {
      if (!std::isfinite(y) || (panel.scale == Scale::logarithmic && !(y > 0))) continue;
      range.low = std::min(range.low, y);
      range.high = std::max(range.high, y);
    }
  return range.low <= range.high ? range : Range{1, 1};
}

Axis axis_of(const LinePanel& panel) {
  const Range range = range_of(panel);
  if (panel.scale == Scale::linear && !panel.from_zero) return Axis::between(range.low, range.high);
  return {panel.scale, range.low, range.high};
}

/// Where the panels' common axis lies.
struct Across {
  double left, width;
  const std::vector<double>& x;

  double at(double value) const {
    const double length = x.back() - x.front();
    return length > 0 ? left + (value - x.front()) / length * width : left + width / 2;
  }
};

/// Values of x to mark, all of them or every second, fifth, tenth, ...
std::vector<double> marks(const std::vector<double>& x) {
  std::size_t stride = 1;
  for (const std::size_t next : {2u, 5u, 10u, 20u, 50u, 100u, 200u, 500u, 1000u})
    if (x.size() / stride > 12) stride = next;
  std::vector<double> result;
  for (std::size_t i = stride - 1; i < x.size(); i += stride) result.push_back(x[i]);
  return result;
}

void draw_line(SvgCanvas& canvas, const LineChart& chart, const Line& line, const Axis& axis,
               const Across& across, double top, std::size_t series) {
  std::vector<Point> points;
  const auto flush = [&] {
    if (points.size() > 1) canvas.polyline(points, series);
    points.clear();
  };
  for (std::size_t i = 0; i < chart.x.size() && i < line.y.size(); ++i) {
    if (!std::isfinite(line.y[i])) {
      flush();
      continue;
    }
    points.push_back({across.at(chart.x[i]), top + panel_height * (1 - axis.share(line.y[i]))});
    if (chart.x.size() <= max_dots)
      canvas.dot(
          points.back(), series,
          fmt::format("{}, {} {:g}: {:.4g}", line.name, chart.x_name, chart.x[i], line.y[i]));
  }
  flush();
}

/// Returns the height used.
double draw_panel(SvgCanvas& canvas, const LineChart& chart, const LinePanel& panel,
                  const Across& across, double y) {
  canvas.text(margin, y + 12, panel.title, TextStyle::label);
  std::vector<std::string> names;
  for (const Line& line : panel.lines) names.push_back(line.name);
  const double beside = margin + text_width(panel.title, label_size) + 24;
  if (names.size() > 1)
    draw_legend(canvas, beside, y - 1, chart.width - margin - beside, names.data(), names.size());
  const double top = y + 26, bottom = top + panel_height;
  const Axis axis = axis_of(panel);
  for (const double tick : axis.ticks(6)) {
    const double at = top + panel_height * (1 - axis.share(tick));
    canvas.grid_line(across.left, at, across.left + across.width, at);
    canvas.text(across.left - 6, at + 4, fmt::format("{:.4g}", tick), TextStyle::muted,
                Anchor::end);
  }
  for (const double x : marks(chart.x))
    canvas.text(across.at(x), bottom + 15, fmt::format("{:g}", x), TextStyle::muted,
                Anchor::middle);
  for (std::size_t i = 0; i < panel.lines.size(); ++i)
    draw_line(canvas, chart, panel.lines[i], axis, across, top, i);
  return 26 + panel_height + panel_gap;
}

}  // namespace

std::string to_svg(const LineChart& chart) {
  SvgCanvas canvas(chart.width);
  const double inner = chart.width - 2 * margin;
  double y = margin;
  canvas.text(margin, y + 14, shortened(chart.title, title_size, inner), TextStyle::title);
  y += 26;
  if (!chart.subtitle.empty()) {
    canvas.text(margin, y + 8, shortened(chart.subtitle, small_size, inner), TextStyle::muted);
    y += 20;
  }
  y += 8;
  // Points at the ends have their marks inside the picture.
  const Across across{margin + axis_width, inner - axis_width - 14, chart.x};
  for (const LinePanel& panel : chart.panels) y += draw_panel(canvas, chart, panel, across, y);
  canvas.text(across.left + across.width, y - 1, chart.x_name, TextStyle::muted, Anchor::end);
  return canvas.document(y + margin / 2, chart.title);
}

}  // namespace plumb::app
