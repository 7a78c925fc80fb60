// Edit distance between a name that is not known and those that are.
#include "plumb/did_you_mean.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <vector>

namespace plumb {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same(char a, char b) { return lower(a) == lower(b); }

/// Letters missing, added, replaced or swapped with their neighbour.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::array<std::vector<std::size_t>, 3> rows;  // of the prefixes of a, by turns
  for (auto& row : rows) row.resize(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    auto &row = rows[i % 3], &above = rows[(i + 2) % 3], &second = rows[(i + 1) % 3];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool equal = same(a[i - 1], b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (equal ? 0 : 1)});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
        row[j] = std::min(row[j], second[j - 2] + 1);
    }
  }
  return rows[a.size() % 3][b.size()];
}

/// Whether the longer of the two begins with the other, which says enough of it to be meant.
bool begins(std::string_view given, std::string_view name) {
  const std::size_t shorter = std::min(given.size(), name.size());
  return shorter >= 3 && given.size() <= 2 * name.size() &&
         std::equal(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(shorter),
                    name.begin(), same);
}

/// The distance of a name that is near, or nothing.
std::optional<std::size_t> distance_if_near(std::string_view given, std::string_view name) {
  if (given.empty() || name.empty() || !same(given[0], name[0])) return std::nullopt;
  const std::size_t longer = std::max(given.size(), name.size());
  const std::size_t most = std::max<std::size_t>(1, longer / 3);
  const bool prefix = begins(given, name);
  if (!prefix && longer - std::min(given.size(), name.size()) > most) return std::nullopt;
  const std::size_t distance = edit_distance(given, name);
  return prefix || distance <= most ? std::optional(distance) : std::nullopt;
}

}  // namespace

std::string did_you_mean(std::string_view given, std::span<const std::string_view> names) {
  std::string_view nearest;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const std::string_view name : names) {
    const auto distance = distance_if_near(given, name);
    if (!distance || *distance >= least) continue;
    least = *distance;
    nearest = name;
  }
  return nearest.empty() ? "" : "; did you mean '" + std::string(nearest) + "'?";
}

}  // namespace plumb
