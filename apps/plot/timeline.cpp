// Lanes of spans over one axis of time.
#include "plot/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plot/axis.hpp"
#include "plot/svg.hpp"

namespace plumb::app {
namespace {

constexpr double margin = 16, lane_height = 22, lane_gap = 6;

struct Period {
  double begin = INFINITY, end = -INFINITY;
};

Period period_of(const Timeline& timeline) {
  Period period;
  for (const TimelineLane& lane : timeline.lanes)
    for (const TimelineSpan& span : lane.spans) {
      period.begin = std::min(period.begin, span.begin_seconds);
      period.end = std::max(period.end, span.end_seconds);
    }
  return period.end > period.begin ? period : Period{0, 1};
}

/// A unit in which the length of the axis is a handy number.
struct Unit {
  double per_second = 1;
  const char* name = "s";
};

Unit unit_of(double seconds) {
  if (seconds < 1e-3) return {1e6, "µs"};
  if (seconds < 1) return {1e3, "ms"};
  return {};
}

void draw_lane(SvgCanvas& canvas, const Timeline& timeline, const TimelineLane& lane,
               const Period& period, const Unit& unit, double left, double width, double y) {
  const auto x_of = [&](double seconds) {
    return left + (seconds - period.begin) / (period.end - period.begin) * width;
  };
  for (const TimelineSpan& span : lane.spans) {
    const double x = x_of(span.begin_seconds);
    const double length = std::max(x_of(span.end_seconds) - x, 0.5);
    const std::string series =
        span.series < timeline.series.size() ? timeline.series[span.series] : "";
    canvas.box(x, y, length, lane_height, span.series,
               fmt::format("{} {}: {:.4g} to {:.4g} {}", series, span.label,
                           (span.begin_seconds - period.begin) * unit.per_second,
                           (span.end_seconds - period.begin) * unit.per_second, unit.name));
    if (text_width(span.label, small_size) + 6 <= length)
      canvas.text(x + length / 2, y + lane_height / 2 + 4, span.label, TextStyle::small,
                  Anchor::middle);
  }
}

}  // namespace

std::string to_svg(const Timeline& timeline) {
  SvgCanvas canvas(timeline.width);
  const double inner = timeline.width - 2 * margin;
  double y = margin;
  canvas.text(margin, y + 14, shortened(timeline.title, title_size, inner), TextStyle::title);
  y += 28;
  y += draw_legend(canvas, margin, y, inner, timeline.series.data(), timeline.series.size()) + 8;

  double names = 0;
  for (const TimelineLane& lane : timeline.lanes)
    names = std::max(names, text_width(lane.label, label_size));
  names = std::min(names, 0.4 * timeline.width);
  const double left = margin + names + 8, width = timeline.width - margin - 12 - left;
  const Period period = period_of(timeline);
  const Unit unit = unit_of(period.end - period.begin);
  const double length = (period.end - period.begin) * unit.per_second;
  const double bottom = y + static_cast<double>(timeline.lanes.size()) * (lane_height + lane_gap);

  for (const double tick : Axis(Scale::linear, 0, length).ticks(10)) {
    if (tick > length * (1 + 1e-9)) break;
    const double x = left + tick / length * width;
    canvas.grid_line(x, y - 4, x, bottom);
    canvas.text(x, bottom + 13, fmt::format("{:g}", tick), TextStyle::muted, Anchor::middle);
  }
  for (const TimelineLane& lane : timeline.lanes) {
    canvas.text(left - 8, y + lane_height / 2 + 4, shortened(lane.label, label_size, names),
                TextStyle::label, Anchor::end);
    draw_lane(canvas, timeline, lane, period, unit, left, width, y);
    y += lane_height + lane_gap;
  }
  canvas.text(left + width, bottom + 29, unit.name, TextStyle::muted, Anchor::end);
  return canvas.document(bottom + 34 + margin / 2, timeline.title);
}

}  // namespace plumb::app
