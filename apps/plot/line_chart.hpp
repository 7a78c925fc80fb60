// Lines over a common axis: panels one below the other, each with an axis of its own.
#pragma once

#include <string>
#include <vector>

#include "plot/axis.hpp"

namespace plumb::app {

struct Line {
  std::string name = {};
  std::vector<double> y = {};  ///< one for each x; what is no finite number is left out
};

struct LinePanel {
  std::string title = {};
  Scale scale = Scale::linear;
  /// Whether the axis of a linear scale begins at zero, and not below the smallest value.
  bool from_zero = true;
  std::vector<Line> lines = {};  ///< all panels' n-th lines have one colour
};

struct LineChart {
  std::string title = {}, subtitle = {};
  std::string x_name = {};
  std::vector<double> x = {};  ///< ascending, at least one
  std::vector<LinePanel> panels = {};
  double width = 860;  ///< pixels; the height follows
};

/// The picture as an SVG document. Each point has its values where the pointer rests on it, as long
/// as there are not more than 60.
std::string to_svg(const LineChart& chart);

}  // namespace plumb::app
