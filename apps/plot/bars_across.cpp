// Lying bars: the categories' names stand once at the left, and panels beside each other share
// them.
#include <fmt/format.h>

#include <algorithm>

#include "plot/bar_layout.hpp"

namespace plumb::app {
namespace {

constexpr double panel_gap = 18, min_panel_width = 150, tick_labels_height = 18;

struct Rows {
  double top = 0;
  double height = 0;      ///< of one category
  double bar_height = 0;  ///< of one of its bars
  std::size_t count = 0;
  double top_of(std::size_t category) const { return top + static_cast<double>(category) * height; }
  double bottom() const { return top_of(count); }
};

/// The names at the left take what they need, and at most a little less than half.
double names_width(const BarChart& chart) {
  double widest = 0;
  for (const std::string& name : chart.categories)
    widest = std::max(widest, text_width(name, label_size));
  return std::min(widest, 0.45 * chart.width);
}

/// Room behind the longest bar for the widest label.
double label_room(const BarPanel& panel, double width) {
  double widest = 0;
  for (const auto& group : panel.bars)
    for (const Bar& bar : group)
      if (is_drawn(bar)) widest = std::max(widest, text_width(bar_label(bar), small_size));
  return std::min(widest + 6, 0.55 * width);
}

/// Calls `draw(category, bar, y)` for each bar of the panel; `y` is its upper edge.
template <class Draw>
void for_each_bar(const BarPanel& panel, const Rows& rows, const Draw& draw) {
  for (std::size_t category = 0; category < std::min(rows.count, panel.bars.size()); ++category) {
    const auto& group = panel.bars[category];
    double y = rows.top_of(category) +
               (rows.height - rows.bar_height * static_cast<double>(group.size())) / 2;
    for (const Bar& bar : group) {
      draw(category, bar, y);
      y += rows.bar_height;
    }
  }
}

/// Grid, boxes, reference line, labels: what may cover what, in this order.
void draw_panel(SvgCanvas& canvas, const BarChart& chart, const BarPanel& panel, const Rows& rows,
                double x, double width) {
  const Axis axis = axis_of(chart, panel);
  const double room = label_room(panel, width), length = width - room;
  const auto length_of = [&](double value) { return axis.share(value) * length; };
  for (const double tick : axis.ticks(static_cast<int>(length / 36))) {
    const double at = x + length_of(tick);
    canvas.grid_line(at, rows.top, at, rows.bottom());
    canvas.text(at, rows.bottom() + 13, fmt::format("{:g}", tick), TextStyle::muted,
                Anchor::middle);
  }
  for_each_bar(panel, rows, [&](std::size_t category, const Bar& bar, double y) {
    if (is_drawn(bar))
      canvas.box(x, y, std::max(length_of(*bar.value), 1.0), rows.bar_height - 1, bar.series,
                 bar_tooltip(chart, category, bar));
  });
  if (panel.reference) {
    const double at = x + length_of(panel.reference->value);
    canvas.reference_line(at, rows.top - 2, at, rows.bottom());
  }
  for_each_bar(panel, rows, [&](std::size_t, const Bar& bar, double y) {
    const bool drawn = is_drawn(bar);
    canvas.text(x + (drawn ? length_of(*bar.value) : 0) + 4, y + rows.bar_height / 2 + 3.5,
                shortened(bar_label(bar), small_size, (drawn ? room : width) - 4),
                drawn ? TextStyle::small : TextStyle::muted);
  });
}

}  // namespace

double draw_bars_across(SvgCanvas& canvas, const BarChart& chart, double y) {
  const double names = names_width(chart);
  const double left = chart_margin + (names > 0 ? names + 8 : 0);
  const Grid grid =
      grid_of(chart.panels.size(), chart.width - chart_margin - left, min_panel_width, panel_gap);
  const std::size_t group = bars_in_group(chart);
  Rows rows;
  rows.bar_height = group == 1 ? 15 : 13;
  rows.height = rows.bar_height * static_cast<double>(group) + (group == 1 ? 5 : 9);
  rows.count = chart.categories.size();
  for (std::size_t row = 0; row < grid.rows; ++row) {
    rows.top = y + panel_title_height + (any_reference(chart) ? reference_label_height + 6 : 4);
    for (std::size_t category = 0; category < rows.count; ++category)
      canvas.text(left - 8, rows.top_of(category) + rows.height / 2 + 4,
                  shortened(chart.categories[category], label_size, names), TextStyle::label,
                  Anchor::end);
    for (std::size_t column = 0; column < grid.columns; ++column) {
      const std::size_t index = row * grid.columns + column;
      if (index >= chart.panels.size()) break;
      const double x = left + static_cast<double>(column) * (grid.panel_width + panel_gap);
      draw_panel_head(canvas, chart.panels[index], x, y, grid.panel_width);
      draw_panel(canvas, chart, chart.panels[index], rows, x, grid.panel_width);
    }
    y = rows.bottom() + tick_labels_height + 12;
  }
  return y;
}

}  // namespace plumb::app
