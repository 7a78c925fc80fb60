#include "windows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "plumb/error.hpp"

namespace plumb::mpi {
namespace {

using std::int64_t;

int64_t floor_quotient(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
int64_t ceil_quotient(int64_t a, int64_t b) { return -floor_quotient(-a, b); }

/// Sources [low, high] of an axis that goes on beyond its edges as `boundary` says, in runs.
std::vector<Run> runs_of(int64_t low, int64_t high, int64_t extent, Boundary boundary,
                         const Cuts& cuts) {
  const auto shown = [&](int64_t at) { return boundary_index(boundary, at, extent); };
  std::vector<Run> runs;
  for (int64_t at = low; at <= high; at += runs.back().count) {
    const int64_t source = shown(at);
    Run run{.part = part_of(cuts, source), .at = at - low, .source = source, .step = 1, .count = 1};
    if (at >= 0 && at < extent) {  // as it lies, up to the end of the part
      run.count = std::min(high + 1, cuts[static_cast<std::size_t>(run.part) + 1]) - at;
    } else {
      const int64_t end = at < 0 ? std::min<int64_t>(0, high + 1) : high + 1;
      if (at + 1 < end) run.step = shown(at + 1) - source;
      while (at + run.count < end && shown(at + run.count) == source + run.count * run.step &&
             part_of(cuts, shown(at + run.count)) == run.part)
        ++run.count;
      if (run.count == 1) run.step = 1;
    }
    runs.push_back(run);
  }
  return runs;
}

/// The whole of an axis that is not cut, with its own padding and boundary.
Window uncut_window(const Axis& axis, int64_t extent, int64_t targets) {
  return {.begin = 0,
          .count = targets,
          .length = extent,
          .before = axis.before,
          .after = axis.after,
          .boundary = axis.boundary,
          .runs = {{.part = 0, .at = 0, .source = 0, .step = 1, .count = extent}}};
}

Window forward_window(const Axis& axis, int64_t begin, int64_t end) {
  Window window{.begin = begin, .count = end - begin};
  if (begin >= end) return window;
  int64_t low = begin * axis.stride - axis.before;
  int64_t high = (end - 1) * axis.stride - axis.before + axis.reach() - 1;
  if (axis.boundary == Boundary::zeros) {
    window.before = std::max<int64_t>(0, -low);
    window.after = std::max<int64_t>(0, high - (axis.in - 1));
    low = std::max<int64_t>(low, 0);
    high = std::min(high, axis.in - 1);
  }
  window.length = high - low + 1;
  window.runs = runs_of(low, high, axis.in, axis.boundary, axis.x);
  return window;
}

/// Nothing where no output has a term of these targets and `needed` is false.
std::optional<Window> backward_window(const Axis& axis, int64_t begin, int64_t end, bool needed) {
  Window window{.begin = begin, .count = end - begin};
  if (begin >= end) return window;
  int64_t low =
      std::max<int64_t>(0, ceil_quotient(begin + axis.before - (axis.reach() - 1), axis.stride));
  int64_t high = std::min(axis.out - 1, floor_quotient(end - 1 + axis.before, axis.stride));
  if (low > high && !needed) return std::nullopt;
  // The window of the first output may not begin behind the first target: padding is not negative.
  low = std::min({low, axis.out - 1, floor_quotient(begin + axis.before, axis.stride)});
  high = std::max(high, low);
  window.length = high - low + 1;
  window.before = axis.before - low * axis.stride + begin;
  window.after = std::max<int64_t>(
      0, (window.length - 1) * axis.stride + axis.reach() - window.count - window.before);
  window.runs = runs_of(low, high, axis.out, Boundary::zeros, axis.y);
  return window;
}

/// Splits targets [begin, end) into an interior whose window lies in `part` and what is around it.
/// `window` makes a window of a range; that of a part of a range is a part of its window.
template <class MakeWindow>
void split(AxisTargets& targets, int64_t begin, int64_t end, int part, const MakeWindow& window) {
  targets.whole = window(begin, end);
  if (targets.whole.lies_in(part)) {
    targets.interior = targets.whole;
    return;
  }
  int64_t first = begin, last = end;
  while (first < end && !window(first, first + 1).lies_in(part)) ++first;
  while (last > first && !window(last - 1, last).lies_in(part)) --last;
  while (first < last && !window(first, last).lies_in(part)) ++first;
  if (first >= last) {
    targets.interior = {.begin = begin};
    targets.sides.push_back(targets.whole);
    return;
  }
  targets.interior = window(first, last);
  if (begin < first) targets.sides.push_back(window(begin, first));
  if (last < end) targets.sides.push_back(window(last, end));
}

/// Whether it is no problem of Plumb's: a depth of 1 under a filter of depth 1 is none, and has no
/// padding. It comes of a stride that passes a target over, along the depth.
bool has_lost_depth(const Axis& axis, const Window& window) {
  return axis.is_depth && axis.taps == 1 && window.count == 1 && window.before > 0;
}

/// Targets that are passed over go with their neighbours.
void join_lost_depths(AxisTargets& targets, const Axis& axis) {
  bool any = has_lost_depth(axis, targets.interior);
  for (const Window& side : targets.sides) any = any || has_lost_depth(axis, side);
  if (!any) return;
  if (has_lost_depth(axis, targets.whole))
    throw Error(
        ErrorCode::unsupported,
        fmt::format("distributed: a block of one plane, {}, which no window of the stride {} "
                    "reaches; expected blocks of at least 2 along the depth",
                    targets.whole.begin, axis.stride));
  targets.interior = {.begin = targets.whole.begin};
  targets.sides = {targets.whole};
}

/// Images outwards from `at` up to `end`, in runs as core's fold has them.
void add_images(AxisTargets& targets, const Axis& axis, int part, int64_t at, int64_t end,
                int64_t step) {
  const auto shown = [&](int64_t index) { return boundary_index(axis.boundary, index, axis.in); };
  while (at != end) {
    const int64_t first = shown(at);
    if (part_of(axis.x, first) != part) {
      at += step;
      continue;
    }
    int64_t count = 1, change = 0;
    if (at + step != end) change = shown(at + step) - first;
    if (change == 1 || change == -1)
      while (at + count * step != end && shown(at + count * step) == first + count * change &&
             part_of(axis.x, shown(at + count * step)) == part)
        ++count;
    const int64_t begin = step > 0 ? at : at - (count - 1);
    std::optional<Window> window = backward_window(axis, begin, begin + count, false);
    // In the order of the coordinates, whichever way is outwards.
    const int64_t shows = step > 0 ? first : first + (count - 1) * change;
    if (window)
      targets.images.push_back({*std::move(window), shows, count > 1 ? change * step : 1});
    at += count * step;
  }
}

}  // namespace

AxisTargets forward_targets(const Axis& axis, int part) {
  AxisTargets targets;
  if (!axis.is_cut()) {
    targets.interior = targets.whole = uncut_window(axis, axis.in, axis.out);
    return targets;
  }
  const auto i = static_cast<std::size_t>(part);
  split(targets, axis.y[i], axis.y[i + 1], part,
        [&](int64_t begin, int64_t end) { return forward_window(axis, begin, end); });
  return targets;
}

AxisTargets backward_targets(const Axis& axis, int part, bool folds) {
  AxisTargets targets;
  if (!axis.is_cut() && !(folds && axis.boundary != Boundary::zeros)) {
    targets.interior = targets.whole = uncut_window(axis, axis.out, axis.in);
    return targets;
  }
  const auto i = static_cast<std::size_t>(part);
  split(targets, axis.x[i], axis.x[i + 1], part,
        [&](int64_t begin, int64_t end) { return *backward_window(axis, begin, end, true); });
  join_lost_depths(targets, axis);
  if (axis.boundary != Boundary::zeros) {
    add_images(targets, axis, part, -1, -axis.before - 1, -1);
    add_images(targets, axis, part, axis.in, axis.in + axis.after, 1);
  }
  return targets;
}

void check_halos(const Axis& axis, bool backward) {
  if (!axis.is_cut()) return;
  const Cuts& sources = backward ? axis.y : axis.x;
  const auto width = [&](int part) {
    const auto i = static_cast<std::size_t>(part);
    return sources[i + 1] - sources[i];
  };
  // The halo on one side comes from one part, the next one, and is no wider than that.
  const auto check = [&](int part, const Run* begin, const Run* end) {
    int other = part;
    for (const Run* run = begin; run != end; ++run) {
      const bool around = run->part == part && axis.boundary == Boundary::periodic;
      if (run->part == part && !around) continue;
      const int apart = std::abs(run->part - part);
      if (!around && std::min(apart, axis.parts() - apart) == 1 &&
          (other == part || other == run->part)) {
        other = run->part;
        continue;
      }
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("distributed: blocks thinner than the halo: part {} of {} along the {} "
                      "needs elements of {} from part {}, beyond the next one, which has "
                      "{}; expected fewer parts",
                      part, axis.parts(), axis.name, backward ? "dy" : "x", run->part,
                      width(other == part ? run->part : other)));
    }
  };
  for (int part = 0; part < axis.parts(); ++part) {
    const AxisTargets targets =
        backward ? backward_targets(axis, part, true) : forward_targets(axis, part);
    const std::vector<Run>& runs = targets.whole.runs;
    const Run *const begin = runs.data(), *const end = begin + runs.size();
    // Its own elements as they lie: the longest run of them.
    const Run* own = nullptr;
    for (const Run* run = begin; run != end; ++run)
      if (run->part == part && run->step == 1 && (!own || run->count > own->count)) own = run;
    check(part, begin, own ? own : end);
    if (own) check(part, own + 1, end);
    for (const AxisTargets::Image& image : targets.images) {
      const std::vector<Run>& seen = image.window.runs;
      for (const Run& run : seen)
        if (run.part != part) check(part, &run, &run + 1);
    }
  }
}

}  // namespace plumb::mpi
