// Draws values in order of size.
#include "plot/sorted_bars.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plot/bar_layout.hpp"

namespace plumb::app {
namespace {

constexpr double panel_gap = 30, min_panel_width = 300, plot_height = 240;
constexpr double tick_labels_width = 44, names_height = 22;

std::vector<NamedValue> in_order(std::vector<NamedValue> values) {
  std::erase_if(values, [](const NamedValue& one) { return !std::isfinite(one.value); });
  std::stable_sort(values.begin(), values.end(),
                   [](const auto& a, const auto& b) { return a.value < b.value; });
  return values;
}

Axis axis_over(const SortedPanel& panel, const std::vector<NamedValue>& sorted) {
  double smallest = INFINITY, largest = 0;
  const auto take = [&](double value) {
    if (panel.scale == Scale::logarithmic && value <= 0) return;
    smallest = std::min(smallest, value);
    largest = std::max(largest, value);
  };
  for (const NamedValue& one : sorted) take(one.value);
  if (panel.reference) take(panel.reference->value);
  return Axis(panel.scale, smallest, largest);
}

/// The bars that get their names: all where they are wide enough, otherwise those at the ends and
/// the one in the middle.
std::vector<std::size_t> labelled(std::size_t count, double step) {
  if (count == 0) return {};
  std::vector<std::size_t> bars;
  if (step >= small_size + 2)
    for (std::size_t i = 0; i < count; ++i) bars.push_back(i);
  else
    bars = {0, count / 2, count - 1};
  return bars;
}

/// Upright: above a low bar, in a high one.
void draw_label(SvgCanvas& canvas, const NamedValue& one, double middle, double bottom,
                double height) {
  const bool above = height < plot_height / 2;
  const std::string label = fmt::format("{} {}", one.name, short_number(one.value));
  canvas.text(middle + 4, bottom - height + (above ? -4 : 4),
              shortened(label, small_size, plot_height / 2 - 8), TextStyle::small,
              above ? Anchor::start : Anchor::end, -90);
}

void draw_panel(SvgCanvas& canvas, const SortedPanel& panel, double x, double y, double width) {
  draw_panel_head(canvas, {.title = panel.title, .reference = panel.reference}, x, y, width);
  const double left = x + tick_labels_width, plot_width = width - tick_labels_width;
  const double bottom = y + panel_title_height + reference_label_height + 8 + plot_height;
  const std::vector<NamedValue> sorted = in_order(panel.values);
  const Axis axis = axis_over(panel, sorted);
  const auto height_of = [&](double value) { return axis.share(value) * plot_height; };
  for (const double tick : axis.ticks(9)) {
    const double at = bottom - height_of(tick);
    canvas.grid_line(left, at, left + plot_width, at);
    canvas.text(left - 6, at + 4, fmt::format("{:g}", tick), TextStyle::muted, Anchor::end);
  }
  const double step = plot_width / static_cast<double>(std::max<std::size_t>(1, sorted.size()));
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double height = std::max(height_of(sorted[i].value), 1.0);
    canvas.box(left + static_cast<double>(i) * step, bottom - height, step * 0.9, height, 0,
               fmt::format("{}: {:.4g}", sorted[i].name, sorted[i].value));
  }
  if (panel.reference) {
    const double at = bottom - height_of(panel.reference->value);
    canvas.reference_line(left, at, left + plot_width, at);
  }
  for (const std::size_t i : labelled(sorted.size(), step))
    draw_label(canvas, sorted[i], left + (static_cast<double>(i) + 0.45) * step, bottom,
               height_of(sorted[i].value));
  canvas.text(left, bottom + 16,
              fmt::format("{} problems, in order{}", sorted.size(),
                          panel.scale == Scale::logarithmic ? "; logarithmic" : ""),
              TextStyle::muted);
}

}  // namespace

std::string to_svg(const SortedBars& chart) {
  SvgCanvas canvas(chart.width);
  const double inner_width = chart.width - 2 * chart_margin;
  canvas.text(chart_margin, chart_margin + 14, shortened(chart.title, title_size, inner_width),
              TextStyle::title);
  const Grid grid = grid_of(chart.panels.size(), inner_width, min_panel_width, panel_gap);
  const double row_height =
      panel_title_height + reference_label_height + 8 + plot_height + names_height + 12;
  const double top = chart_margin + 34;
  for (std::size_t i = 0; i < chart.panels.size(); ++i)
    draw_panel(
        canvas, chart.panels[i],
        chart_margin + static_cast<double>(i % grid.columns) * (grid.panel_width + panel_gap),
        top + static_cast<double>(i / grid.columns) * row_height, grid.panel_width);
  return canvas.document(top + static_cast<double>(grid.rows) * row_height + chart_margin,
                         chart.title);
}

}  // namespace plumb::app
