// Reads and writes the text of the tuning cache.
#include "cache_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "plumb/problem_text.hpp"
#include "plumb/version.hpp"

namespace plumb {
namespace {

constexpr std::string_view magic = "plumb tune cache ";
constexpr std::string_view first_line = "plumb tune cache 1\n";

/// FNV-1a (Fowler, Noll and Vo): for accidents, not for attackers.
std::uint64_t checksum(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

/// Names from drivers may hold anything; here they are part of a line.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return text;
}

/// Strides along extents of one have no say, and count as 0.
std::string strides_text(const Extents& extents, const Strides& strides) {
  Strides known = strides;
  for (int i = 0; i < extents.rank(); ++i)
    if (extents[i] <= 1) known[i] = 0;
  return fmt::format("{}", fmt::join(known, ","));
}

/// Takes lines off the front of a text.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  bool done() const { return rest_.empty(); }
  int number() const { return number_; }
  /// The rest of the next line, where it begins with `word` and a space.
  std::optional<std::string_view> take(std::string_view word) {
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos || end <= word.size() || !rest_.starts_with(word) ||
        rest_[word.size()] != ' ')
      return std::nullopt;
    const std::string_view line = rest_.substr(word.size() + 1, end - word.size() - 1);
    rest_.remove_prefix(end + 1);
    ++number_;
    return line;
  }

 private:
  std::string_view rest_;
  int number_ = 2;  ///< of the next line; the first names the format
};

std::optional<TunedTime> parse_time(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || space + 1 == line.size()) return std::nullopt;
  double seconds = 0;
  const char* end = line.data() + space;
  const auto [stop, error] = std::from_chars(line.data(), end, seconds);
  if (error != std::errc{} || stop != end || !(seconds > 0)) return std::nullopt;
  return TunedTime{std::string(line.substr(space + 1)), seconds};
}

ParsedTuneCache damaged(std::string sentence) {
  return {.entries = {}, .damage = std::move(sentence)};
}

}  // namespace

TuneKey tune_key(const DeviceInfo& device, const ConvProblem& problem) {
  return {
      .problem = fmt::format("{} {} x {} w {} y {}", to_string(problem.dtype), to_string(problem),
                             strides_text(problem.x_extents(), problem.x_strides),
                             strides_text(problem.w_extents(), problem.w_strides),
                             strides_text(problem.y_extents(), problem.y_strides)),
      .device = one_line(
          fmt::format("{}, {}, {} units", device.name, device.instruction_set, device.units)),
      .software = fmt::format("plumb {}, driver {}", version, device.driver_version)};
}

std::string write_tune_cache(const std::vector<TuneEntry>& entries) {
  std::string text(first_line);
  for (const TuneEntry& entry : entries) {
    text += fmt::format("problem {}\ndevice {}\nsoftware {}\n", entry.key.problem, entry.key.device,
                        entry.key.software);
    for (const TunedTime& time : entry.times)
      text += fmt::format("seconds {:.6g} {}\n", time.seconds, time.algorithm);
  }
  return sealed_tune_cache(std::move(text), entries.size());
}

std::string sealed_tune_cache(std::string text, std::size_t entries) {
  text += fmt::format("end {} {:016x}\n", entries, checksum(text));
  return text;
}

ParsedTuneCache parse_tune_cache(std::string_view text) {
  if (text.empty()) return {};
  if (!text.starts_with(first_line)) {
    const std::size_t common = std::min(magic.size(), text.size());
    ParsedTuneCache other = damaged(
        "its first line is not 'plumb tune cache 1': not a tuning cache, or one of another "
        "version of Plumb");
    other.ours = text.substr(0, common) == magic.substr(0, common);
    return other;
  }
  const std::size_t last_line = std::max(text.rfind('\n', text.size() - 2) + 1, first_line.size());
  const std::string_view body = text.substr(0, last_line);
  Lines lines(body.substr(first_line.size()));
  ParsedTuneCache parsed;
  while (!lines.done()) {
    TuneEntry entry;
    for (const auto& [word, field] : {std::pair{"problem", &entry.key.problem},
                                      {"device", &entry.key.device},
                                      {"software", &entry.key.software}}) {
      const auto line = lines.take(word);
      if (!line) return damaged(fmt::format("line {}: expected '{} ...'", lines.number(), word));
      *field = *line;
    }
    while (const auto line = lines.take("seconds")) {
      const auto time = parse_time(*line);
      if (!time)
        return damaged(
            fmt::format("line {}: expected 'seconds TIME ALGORITHM'", lines.number() - 1));
      entry.times.push_back(*time);
    }
    parsed.entries.push_back(std::move(entry));
  }
  if (text != sealed_tune_cache(std::string(body), parsed.entries.size()))
    return damaged("its last line is not the number of entries and the checksum of what is there");
  return parsed;
}

}  // namespace plumb
