// What lying and standing bars share.
#pragma once

#include <string>

#include "plot/bar_chart.hpp"
#include "plot/svg.hpp"

namespace plumb::app {

inline constexpr double chart_margin = 16;

/// Whether a bar can be drawn at all.
bool is_drawn(const Bar& bar);
/// "12.3 16x16": the value, where there is one, and the note.
std::string bar_label(const Bar& bar);
/// What the pointer shows: category, series, value.
std::string bar_tooltip(const BarChart& chart, std::size_t category, const Bar& bar);
/// Over the panel's bars and its reference.
Axis axis_of(const BarChart& chart, const BarPanel& panel);
/// The most bars that a category has in any panel.
std::size_t bars_in_group(const BarChart& chart);
bool any_reference(const BarChart& chart);

/// How panels are set beside and under each other.
struct Grid {
  std::size_t columns = 1, rows = 1;
  double panel_width = 0;
};
Grid grid_of(std::size_t panels, double width, double min_panel_width, double gap);

/// A panel's title, and under it what its reference line stands for.
inline constexpr double panel_title_height = 18, reference_label_height = 15;
void draw_panel_head(SvgCanvas& canvas, const BarPanel& panel, double x, double y, double width);

/// The panels from `y` down; they return where the next thing may be drawn.
double draw_bars_across(SvgCanvas& canvas, const BarChart& chart, double y);
double draw_bars_up(SvgCanvas& canvas, const BarChart& chart, double y);

}  // namespace plumb::app
