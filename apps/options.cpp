// Checks the values of options.
#include "options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>

#include "plumb/quote.hpp"

namespace plumb::app {
namespace {

constexpr std::uint64_t most_int64 = std::numeric_limits<std::int64_t>::max();

/// Reads the number that the text begins with, and takes it off; what it has of a number that T
/// cannot hold is taken off too.
template <class T>
std::errc take_number(std::string_view& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error;
}

/// The bytes of a unit, or 0 where it is none.
std::uint64_t unit_bytes(std::string_view unit) {
  std::string lower(unit);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower.empty() || lower == "b") return 1;
  constexpr std::string_view prefixes = "kmgtpe";
  const std::size_t power = prefixes.find(lower[0]);
  const std::string rest = lower.substr(1);
  if (power == prefixes.npos || !(rest.empty() || rest == "b" || rest == "ib")) return 0;
  return std::uint64_t{1} << (10 * (power + 1));
}

}  // namespace

CLI::Validator integer_in(std::uint64_t least, std::uint64_t most) {
  const auto check = [least, most](std::string& text) -> std::string {
    std::uint64_t value = 0;
    std::string_view rest = text;
    const std::errc error = take_number(rest, value);
    if (error == std::errc() && rest.empty() && value >= least && value <= most) {
      text = fmt::format("{}", value);
      return {};
    }
    const bool too_large =
        rest.empty() && (error == std::errc::result_out_of_range || value > most);
    return fmt::format("{}, expected an integer {}", plumb::quoted(text),
                       too_large ? fmt::format("from {} to {}", least, most)
                                 : fmt::format("of {} or more", least));
  };
  return {check, fmt::format(">={}", least)};
}

CLI::Validator number_in(Least least, double most) {
  const bool zero_too = least == Least::zero;
  const auto check = [zero_too, most](const std::string& text) -> std::string {
    double value = 0;
    std::string_view rest = text;
    const std::errc error = take_number(rest, value);
    if (error == std::errc() && rest.empty() && std::isfinite(value) && value <= most &&
        (zero_too ? value >= 0 : value > 0))
      return {};
    return fmt::format("{}, expected a number {}, {} at most", plumb::quoted(text),
                       zero_too ? "of 0 or more" : "above 0", most);
  };
  return {check, zero_too ? ">=0" : ">0"};
}

CLI::Validator byte_count() {
  const auto check = [](std::string& text) -> std::string {
    std::uint64_t number = 0;
    std::string_view unit = text;
    const std::errc error = take_number(unit, number);
    unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
    const std::uint64_t bytes = unit_bytes(unit);
    if (error == std::errc::invalid_argument || bytes == 0)
      return fmt::format("{}, expected bytes: an integer of 0 or more, or one with K, M, G or T",
                         plumb::quoted(text));
    if (error != std::errc() || number > most_int64 / bytes)
      return fmt::format("{}, expected {} bytes at most", plumb::quoted(text), most_int64);
    text = fmt::format("{}", number * bytes);
    return {};
  };
  return {check, "BYTES[K|M|G|T]"};
}

CLI::Validator one_of(std::vector<std::string> names) {
  std::string description = fmt::format("{{{}}}", fmt::join(names, ","));
  const auto check = [names = std::move(names)](const std::string& text) -> std::string {
    if (std::find(names.begin(), names.end(), text) != names.end()) return {};
    return fmt::format("{}, expected one of: {}", plumb::quoted(text), fmt::join(names, ", "));
  };
  return {check, std::move(description)};
}

CLI::Option* add_seed(CLI::App& command, std::uint64_t& seed, const std::string& help) {
  return add_integer(command, "--seed", seed, 0, help)->capture_default_str();
}

CLI::Option* add_seconds(CLI::App& command, const std::string& name, double& seconds,
                         const std::string& help) {
  constexpr double thirty_years = 1e9;
  return command.add_option(name, seconds, help)->check(number_in(Least::zero, thirty_years));
}

}  // namespace plumb::app
