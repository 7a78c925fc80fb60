// Bar charts: panels that share their categories, bars lying or standing, alone or in groups.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "plot/axis.hpp"

namespace plumb::app {

/// One bar, or the reason why there is none.
struct Bar {
  std::optional<double> value = {};
  std::size_t series = 0;  ///< its colour, and its name in the legend
  std::string note = {};   ///< behind the value, or in its place where there is none
};

/// A line across all bars of a panel.
struct Reference {
  double value = 0;
  std::string label = {};  ///< "roofline"; the value is added
};

struct BarPanel {
  std::string title = {};
  std::vector<std::vector<Bar>> bars = {};  ///< of each category, in its order
  std::optional<Reference> reference = {};
};

struct BarChart {
  enum class Direction { across, up };

  std::string title = {};
  std::string axis = {};  ///< what the values are: "kernel time, ms"
  Scale scale = Scale::linear;
  Direction direction = Direction::across;
  std::vector<std::string> categories = {};
  std::vector<std::string> series = {};  ///< a legend is drawn where there are two or more
  /// Beside each other as far as the width allows, each with an axis of its own.
  std::vector<BarPanel> panels = {};
  double width = 860;  ///< pixels; the height follows
};

/// The picture as an SVG document. Bars of values that are not finite are left out like missing
/// ones, with the value as text.
std::string to_svg(const BarChart& chart);

}  // namespace plumb::app
