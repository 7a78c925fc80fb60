// Many values at a glance: panels of thin bars, each panel's in order of size.
#pragma once

#include <string>
#include <vector>

#include "plot/bar_chart.hpp"

namespace plumb::app {

struct NamedValue {
  std::string name;  ///< at its bar where there is room, and where the pointer rests
  double value = 0;
};

struct SortedPanel {
  std::string title = {};  ///< "median 4.3, least 1.1"
  Scale scale = Scale::linear;
  std::vector<NamedValue> values = {};  ///< in any order; what is not finite is left out
  std::optional<Reference> reference = {};
};

struct SortedBars {
  std::string title = {};
  std::vector<SortedPanel> panels = {};  ///< beside each other
  double width = 860;                    ///< pixels; the height follows
};

/// The picture as an SVG document.
std::string to_svg(const SortedBars& chart);

}  // namespace plumb::app
