// Tables of enumerators and their names, searched both ways.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace plumb {

template <class Enum>
using Name = std::pair<Enum, std::string_view>;

template <class Enum, std::size_t count>
constexpr std::string_view name_of(const Name<Enum> (&table)[count], Enum value) {
  for (const auto& [enumerator, name] : table)
    if (enumerator == value) return name;
  return "?";
}

template <class Enum, std::size_t count>
constexpr std::optional<Enum> value_of(const Name<Enum> (&table)[count], std::string_view text) {
  for (const auto& [enumerator, name] : table)
    if (name == text) return enumerator;
  return std::nullopt;
}

}  // namespace plumb
