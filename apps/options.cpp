// Checks the values of options.
#include "options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>

#include "plumb/did_you_mean.hpp"
#include "plumb/quote.hpp"

namespace plumb::app {
namespace {

constexpr std::uint64_t max_int64 = std::numeric_limits<std::int64_t>::max();

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

CLI::Validator integer_in(std::int64_t least, std::uint64_t most) {
  const bool any_sign = least == std::numeric_limits<std::int64_t>::min();
  const auto check = [least, most, any_sign](std::string& text) -> std::string {
    std::uint64_t magnitude = 0;
    std::int64_t below_zero = 0;
    std::string_view rest = text;
    const bool negative = text.starts_with('-');
    const std::errc error = negative ? take_number(rest, below_zero) : take_number(rest, magnitude);
    const bool is_integer = error != std::errc::invalid_argument && rest.empty();
    const bool large_enough = negative
                                  ? below_zero >= least
                                  : least <= 0 || magnitude >= static_cast<std::uint64_t>(least);
    if (is_integer && error == std::errc() && large_enough && (negative || magnitude <= most)) {
      text = negative ? fmt::format("{}", below_zero) : fmt::format("{}", magnitude);
      return {};
    }
    const bool too_far =
        is_integer && (any_sign || (!negative && (error != std::errc() || magnitude > most)));
    const std::string range = too_far    ? fmt::format(" from {} to {}", least, most)
                              : any_sign ? ""
                                         : fmt::format(" of {} or more", least);
    return fmt::format("{}, expected an integer{}", plumb::quoted(text), range);
  };
  return {check, any_sign ? "" : fmt::format(">={}", least)};
}

namespace {

CLI::Validator checked_number(double least, double most, bool above) {
  const auto check = [least, most, above](const std::string& text) -> std::string {
    double value = 0;
    std::string_view rest = text;
    const std::errc error = take_number(rest, value);
    if (error == std::errc() && rest.empty() && std::isfinite(value) && value <= most &&
        (above ? value > least : value >= least))
      return {};
    return fmt::format("{}, expected a number {} {}, {} at most", plumb::quoted(text),
                       above ? "above" : "from", least, most);
  };
  return {check, fmt::format("{}{}", above ? ">" : ">=", least)};
}

}  // namespace

CLI::Validator number_in(double least, double most) { return checked_number(least, most, false); }

CLI::Validator number_above(double bound, double most) { return checked_number(bound, most, true); }

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
    if (error != std::errc() || number > max_int64 / bytes)
      return fmt::format("{}, expected {} bytes at most", plumb::quoted(text), max_int64);
    text = fmt::format("{}", number * bytes);
    return {};
  };
  return {check, "BYTES[K|M|G|T]"};
}

CLI::Validator one_of(std::vector<std::string> names) {
  std::string description = fmt::format("{{{}}}", fmt::join(names, ","));
  const auto check = [names = std::move(names)](const std::string& text) -> std::string {
    if (std::find(names.begin(), names.end(), text) != names.end()) return {};
    return fmt::format(
        "{}, expected one of: {}{}", plumb::quoted(text), fmt::join(names, ", "),
        did_you_mean(text, std::vector<std::string_view>(names.begin(), names.end())));
  };
  return {check, std::move(description)};
}

CLI::Option* add_reproducible(CLI::App& command, bool& reproducible) {
  return command.add_flag("--reproducible", reproducible,
                          "Give the bits that docs/numerics.md specifies, the same on every device "
                          "and for any number of threads, batch and layout");
}

CLI::Option* add_seed(CLI::App& command, std::uint64_t& seed, const std::string& help) {
  return add_integer(command, "--seed", seed, 0, help)->capture_default_str();
}

std::string to_string(const Share& share) { return fmt::format("{}/{}", share.part, share.of); }

CLI::Option* add_share(CLI::App& command, Share& share, const std::string& help) {
  const auto take = [&share](const std::string& text) {
    std::string_view rest = text;
    const bool has_part = take_number(rest, share.part) == std::errc() && rest.starts_with('/');
    rest.remove_prefix(has_part ? 1 : 0);
    if (has_part && take_number(rest, share.of) == std::errc() && rest.empty() && share.part >= 1 &&
        share.part <= share.of)
      return;
    throw CLI::ValidationError(
        "--share",
        fmt::format("{}, expected PART/OF with 1 <= PART <= OF, like 2/4", plumb::quoted(text)));
  };
  return command.add_option_function<std::string>("--share", take, help)->type_name("PART/OF");
}

CLI::Option* add_seconds(CLI::App& command, const std::string& name, double& seconds,
                         const std::string& help) {
  constexpr double thirty_years = 1e9;
  return command.add_option(name, seconds, help)->check(number_in(0, thirty_years));
}

}  // namespace plumb::app
