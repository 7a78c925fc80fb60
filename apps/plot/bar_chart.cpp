// The parts of a bar chart that do not depend on the bars' direction.
#include "plot/bar_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plot/bar_layout.hpp"

namespace plumb::app {

bool is_drawn(const Bar& bar) { return bar.value && std::isfinite(*bar.value); }

std::string bar_label(const Bar& bar) {
  if (!bar.value) return bar.note;
  const std::string value = short_number(*bar.value);
  return bar.note.empty() ? value : value + " " + bar.note;
}

std::string bar_tooltip(const BarChart& chart, std::size_t category, const Bar& bar) {
  std::string text = category < chart.categories.size() ? chart.categories[category] : "";
  if (chart.series.size() > 1 && bar.series < chart.series.size())
    text += ", " + chart.series[bar.series];
  return fmt::format("{}: {:.6g}{}{}", text, *bar.value, bar.note.empty() ? "" : " ", bar.note);
}

Axis axis_of(const BarChart& chart, const BarPanel& panel) {
  double smallest = INFINITY, largest = 0;
  const auto take = [&](double value) {
    if (chart.scale == Scale::logarithmic && value <= 0) return;
    smallest = std::min(smallest, value);
    largest = std::max(largest, value);
  };
  for (const auto& group : panel.bars)
    for (const Bar& bar : group)
      if (is_drawn(bar)) take(*bar.value);
  if (panel.reference) take(panel.reference->value);
  return Axis(chart.scale, smallest, largest);
}

std::size_t bars_in_group(const BarChart& chart) {
  std::size_t most = 1;
  for (const BarPanel& panel : chart.panels)
    for (const auto& group : panel.bars) most = std::max(most, group.size());
  return most;
}

bool any_reference(const BarChart& chart) {
  return std::any_of(chart.panels.begin(), chart.panels.end(),
                     [](const BarPanel& panel) { return panel.reference.has_value(); });
}

Grid grid_of(std::size_t panels, double width, double min_panel_width, double gap) {
  Grid grid;
  panels = std::max<std::size_t>(1, panels);
  const double fit = std::floor((width + gap) / (min_panel_width + gap));
  grid.columns = std::clamp<std::size_t>(static_cast<std::size_t>(std::max(1.0, fit)), 1, panels);
  grid.rows = (panels + grid.columns - 1) / grid.columns;
  grid.columns = (panels + grid.rows - 1) / grid.rows;
  const auto columns = static_cast<double>(grid.columns);
  grid.panel_width = (width - gap * (columns - 1)) / columns;
  return grid;
}

void draw_panel_head(SvgCanvas& canvas, const BarPanel& panel, double x, double y, double width) {
  canvas.text(x, y + 12, shortened(panel.title, label_size, width), TextStyle::label);
  if (!panel.reference) return;
  constexpr double sample = 20;
  const double middle = y + panel_title_height + 6;
  canvas.reference_line(x, middle, x + sample, middle);
  const std::string label =
      fmt::format("{} {}", panel.reference->label, short_number(panel.reference->value));
  canvas.text(x + sample + 5, middle + 4, shortened(label, small_size, width - sample - 5),
              TextStyle::muted);
}

std::string to_svg(const BarChart& chart) {
  SvgCanvas canvas(chart.width);
  const double inner_width = chart.width - 2 * chart_margin;
  double y = chart_margin;
  canvas.text(chart_margin, y + 14, shortened(chart.title, title_size, inner_width),
              TextStyle::title);
  y += 26;
  if (!chart.axis.empty()) {
    const std::string axis =
        chart.axis + (chart.scale == Scale::logarithmic ? ", logarithmic" : "");
    canvas.text(chart_margin, y + 10, shortened(axis, small_size, inner_width), TextStyle::muted);
    y += 18;
  }
  if (chart.series.size() > 1)
    y +=
        draw_legend(canvas, chart_margin, y, inner_width, chart.series.data(), chart.series.size());
  y += 8;
  y = chart.direction == BarChart::Direction::across ? draw_bars_across(canvas, chart, y)
                                                     : draw_bars_up(canvas, chart, y);
  return canvas.document(y + chart_margin, chart.title);
}

}  // namespace plumb::app
