// Standing bars: for a few categories with short names.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plot/bar_layout.hpp"

namespace plumb::app {
namespace {

constexpr double panel_gap = 26, min_panel_width = 260, plot_height = 220;
constexpr double tick_labels_width = 44, turned_degrees = -35, longest_turned = 170;
const double turned_sine = std::sin(35 * M_PI / 180), turned_cosine = std::cos(35 * M_PI / 180);

/// Where the bars of one panel stand.
struct Plot {
  double left = 0, top = 0, width = 0;
  std::size_t categories = 1;
  double bottom() const { return top + plot_height; }
  double group_width() const { return width / static_cast<double>(categories); }
  double middle_of(std::size_t category) const {
    return left + (static_cast<double>(category) + 0.5) * group_width();
  }
};

double widest_name(const BarChart& chart) {
  double widest = 0;
  for (const std::string& name : chart.categories)
    widest = std::max(widest, text_width(name, label_size));
  return widest;
}

/// Names that do not fit under their bars are turned, and then reach to the left of them.
bool names_are_turned(const BarChart& chart, double group_width) {
  return widest_name(chart) > group_width - 6;
}

void draw_names(SvgCanvas& canvas, const BarChart& chart, const Plot& plot) {
  const bool turned = names_are_turned(chart, plot.group_width());
  for (std::size_t category = 0; category < chart.categories.size(); ++category) {
    const double x = plot.middle_of(category);
    const std::string& name = chart.categories[category];
    if (turned)
      canvas.text(x + 4, plot.bottom() + 14, shortened(name, label_size, longest_turned),
                  TextStyle::label, Anchor::end, turned_degrees);
    else
      canvas.text(x, plot.bottom() + 16, name, TextStyle::label, Anchor::middle);
  }
}

/// Room above the highest bar for labels, which are turned upright where they are wider than bars.
double label_room(const BarPanel& panel, double bar_width) {
  double widest = 0;
  for (const auto& group : panel.bars)
    for (const Bar& bar : group)
      if (is_drawn(bar)) widest = std::max(widest, text_width(bar_label(bar), small_size));
  return widest <= bar_width ? 18 : std::min(widest + 8, 0.5 * plot_height);
}

double bar_width(const BarChart& chart, const Plot& plot) {
  constexpr double widest = 60, share_of_group = 0.84;
  return std::min(widest,
                  share_of_group * plot.group_width() / static_cast<double>(bars_in_group(chart)));
}

/// Calls `draw(category, bar, x)` for each bar of the panel; `x` is its left edge.
template <class Draw>
void for_each_bar(const BarPanel& panel, const Plot& plot, double width, const Draw& draw) {
  for (std::size_t category = 0; category < std::min(plot.categories, panel.bars.size());
       ++category) {
    const auto& group = panel.bars[category];
    double x = plot.middle_of(category) - width * static_cast<double>(group.size()) / 2;
    for (const Bar& bar : group) {
      draw(category, bar, x);
      x += width;
    }
  }
}

/// Above its bar, upright where it is wider than that.
void draw_label(SvgCanvas& canvas, const Bar& bar, double middle, double top, double width,
                double room) {
  const TextStyle style = is_drawn(bar) ? TextStyle::small : TextStyle::muted;
  const std::string label = bar_label(bar);
  if (text_width(label, small_size) <= width)
    canvas.text(middle, top - 4, label, style, Anchor::middle);
  else
    canvas.text(middle + 4, top - 4, shortened(label, small_size, room), style, Anchor::start, -90);
}

/// Grid, boxes, reference line, labels: what may cover what, in this order.
void draw_panel(SvgCanvas& canvas, const BarChart& chart, const BarPanel& panel, const Plot& plot) {
  const Axis axis = axis_of(chart, panel);
  const double width = bar_width(chart, plot), room = label_room(panel, width);
  const auto height_of = [&](double value) { return axis.share(value) * (plot_height - room); };
  for (const double tick : axis.ticks(7)) {
    const double y = plot.bottom() - height_of(tick);
    canvas.grid_line(plot.left, y, plot.left + plot.width, y);
    canvas.text(plot.left - 6, y + 4, fmt::format("{:g}", tick), TextStyle::muted, Anchor::end);
  }
  for_each_bar(panel, plot, width, [&](std::size_t category, const Bar& bar, double x) {
    if (!is_drawn(bar)) return;
    const double height = std::max(height_of(*bar.value), 1.0);
    canvas.box(x, plot.bottom() - height, width - 1, height, bar.series,
               bar_tooltip(chart, category, bar));
  });
  if (panel.reference) {
    const double y = plot.bottom() - height_of(panel.reference->value);
    canvas.reference_line(plot.left, y, plot.left + plot.width, y);
  }
  for_each_bar(panel, plot, width, [&](std::size_t, const Bar& bar, double x) {
    const double height = is_drawn(bar) ? height_of(*bar.value) : 0;
    draw_label(canvas, bar, x + width / 2, plot.bottom() - height, width,
               (is_drawn(bar) ? room : plot_height) - 4);
  });
  draw_names(canvas, chart, plot);
}

}  // namespace

double draw_bars_up(SvgCanvas& canvas, const BarChart& chart, double y) {
  const double inner = chart.width - 2 * chart_margin;
  const Grid grid = grid_of(chart.panels.size(), inner, min_panel_width, panel_gap);
  Plot plot;
  plot.categories = std::max<std::size_t>(1, chart.categories.size());
  plot.width = grid.panel_width - tick_labels_width;
  double left = tick_labels_width, names_height = 22;
  if (names_are_turned(chart, plot.group_width())) {
    const double longest = std::min(widest_name(chart), longest_turned);
    names_height = longest * turned_sine + 24;
    const double overhang = longest * turned_cosine - plot.group_width() / 2;
    left = std::max(left, overhang);
    plot.width = grid.panel_width - left;
  }
  for (std::size_t row = 0; row < grid.rows; ++row) {
    plot.top = y + panel_title_height + (any_reference(chart) ? reference_label_height + 6 : 4);
    for (std::size_t column = 0; column < grid.columns; ++column) {
      const std::size_t index = row * grid.columns + column;
      if (index >= chart.panels.size()) break;
      const double x = chart_margin + static_cast<double>(column) * (grid.panel_width + panel_gap);
      plot.left = x + left;
      draw_panel_head(canvas, chart.panels[index], x, y, grid.panel_width);
      draw_panel(canvas, chart, chart.panels[index], plot);
    }
    y = plot.bottom() + names_height + 12;
  }
  return y;
}

}  // namespace plumb::app
