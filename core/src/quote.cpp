// Quotes text from outside: escapes what a terminal would act on, and cuts what is long.
#include "plumb/quote.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace plumb {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  ///< 0: no UTF-8 begins here
};

/// The first character of a text that is not empty. Longer forms than need be, surrogates, and what
/// lies beyond U+10FFFF are no UTF-8.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc0 || lead >= 0xf8 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0xffu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (code < least[bytes] || surrogate || code > 0x10ffff) return {};
  return {code, bytes};
}

/// Control characters beyond ASCII, and those that begin a line or turn around what stands in it.
bool changes_the_line(std::uint32_t code) {
  return (code >= 0x80 && code < 0xa0) || code == 0x61c || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

void append_escaped(std::string& shown, const Character& character, std::string_view bytes) {
  switch (character.code) {
    case '\\': shown += "\\\\"; return;
    case '\n': shown += "\\n"; return;
    case '\r': shown += "\\r"; return;
    case '\t': shown += "\\t"; return;
    default: break;
  }
  if (character.code < 0x20 || character.code == 0x7f)
    fmt::format_to(std::back_inserter(shown), "\\x{:02x}", character.code);
  else if (changes_the_line(character.code))
    fmt::format_to(std::back_inserter(shown), "\\u{:04x}", character.code);
  else
    shown += bytes;
}

}  // namespace

std::string quoted(std::string_view text, std::size_t characters) {
  std::string shown = "'";
  std::size_t position = 0;
  for (std::size_t count = 0; position < text.size() && count < characters; ++count) {
    const std::string_view rest = text.substr(position);
    const Character character = first_character(rest);
    if (character.bytes == 0)
      fmt::format_to(std::back_inserter(shown), "\\x{:02x}", static_cast<unsigned char>(rest[0]));
    else
      append_escaped(shown, character, rest.substr(0, character.bytes));
    position += std::max<std::size_t>(character.bytes, 1);
  }
  if (position == text.size()) return shown + "'";
  return shown + fmt::format("...' (the first {} of {} bytes)", position, text.size());
}

}  // namespace plumb
