// A timeline: lanes beside each other over one axis of time, and what happened when in each.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace plumb::app {

struct TimelineSpan {
  double begin_seconds = 0, end_seconds = 0;
  std::size_t series = 0;
  std::string label = {};  ///< shown inside where it fits, and where the pointer rests
};

struct TimelineLane {
  std::string label = {};
  std::vector<TimelineSpan> spans = {};
};

struct Timeline {
  std::string title = {};
  std::vector<std::string> series = {};  ///< named in a legend
  std::vector<TimelineLane> lanes = {};
  double width = 860;  ///< pixels; the height follows
};

/// The picture as an SVG document; the axis begins at the first span's beginning.
std::string to_svg(const Timeline& timeline);

}  // namespace plumb::app
