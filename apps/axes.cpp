#include "axes.hpp"

#include <fmt/format.h>

#include <string_view>

#include "errors.hpp"
#include "options.hpp"

namespace plumb::app {
namespace {

constexpr std::string_view axis_names[] = {"width", "height, width", "depth, height, width"};
constexpr std::string_view side_names[] = {"left, right", "top, left, bottom, right",
                                           "front, top, left, back, bottom, right"};

/// "1 (all axes) or 2 (height, width)"
std::string expected(int axes, const char* everywhere, bool sides) {
  std::string text = fmt::format("1 ({})", everywhere);
  if (axes > 1) text += fmt::format("{} {} ({})", sides ? "," : " or", axes, axis_names[axes - 1]);
  if (sides) text += fmt::format(" or {} ({})", 2 * axes, side_names[axes - 1]);
  return text;
}

[[noreturn]] void refuse(const char* option, std::size_t given, const std::string& expected) {
  throw UsageError(fmt::format("{}: {} values, expected {}", option, given, expected));
}

/// The value of the axis that is `from_last` before the width, or what stands for one there is not.
template <class T>
T along(const std::vector<T>& values, int axes, int from_last, T otherwise) {
  if (from_last >= axes) return otherwise;
  return values.size() == 1 ? values[0] : values[static_cast<std::size_t>(axes - 1 - from_last)];
}

}  // namespace

CLI::Option* add_boundary(CLI::App& command, std::vector<std::string>& names) {
  return command
      .add_option("--boundary", names,
                  "What lies in the padding: zeros, periodic, reflect (the edge not repeated), "
                  "symmetric (the edge repeated) or clamp; one value, or one an axis: "
                  "[depth,]height,width")
      ->delimiter(',')
      ->expected(1, 3)
      ->check(one_of({"zeros", "periodic", "reflect", "symmetric", "clamp"}));
}

Triple along_axes(const char* option, const std::vector<std::int64_t>& values, int axes) {
  if (values.size() != 1 && values.size() != static_cast<std::size_t>(axes))
    refuse(option, values.size(), expected(axes, "all axes", false));
  return {along<std::int64_t>(values, axes, 2, 1), along<std::int64_t>(values, axes, 1, 1),
          along<std::int64_t>(values, axes, 0, 1)};
}

Padding on_sides(const char* option, const std::vector<std::int64_t>& values, int axes) {
  const auto count = static_cast<std::size_t>(axes);
  if (values.size() != 1 && values.size() != count && values.size() != 2 * count)
    refuse(option, values.size(), expected(axes, "all sides", true));
  const bool each = values.size() == 2 * count;
  const std::vector<std::int64_t> before(values.begin(),
                                         each ? values.begin() + axes : values.end());
  const std::vector<std::int64_t> behind(each ? values.begin() + axes : values.begin(),
                                         values.end());
  const auto at = [axes](const std::vector<std::int64_t>& side, int from_last) {
    return along<std::int64_t>(side, axes, from_last, 0);
  };
  return {at(before, 2), at(before, 1), at(before, 0), at(behind, 2), at(behind, 1), at(behind, 0)};
}

Boundaries boundaries_of(const std::vector<std::string>& names, int axes) {
  if (names.empty()) return {};
  if (names.size() != 1 && names.size() != static_cast<std::size_t>(axes))
    refuse("--boundary", names.size(), expected(axes, "all axes", false));
  std::vector<Boundary> values;
  for (const std::string& name : names) values.push_back(*parse_boundary(name));
  return {along(values, axes, 2, Boundary::zeros), along(values, axes, 1, Boundary::zeros),
          along(values, axes, 0, Boundary::zeros)};
}

}  // namespace plumb::app
