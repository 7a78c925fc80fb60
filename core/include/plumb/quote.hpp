// Messages show text from outside in quotes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "plumb/export.h"

namespace plumb {

/// Returns `text` in single quotes, for a message about what a caller, a file or the environment
/// gave: it is valid UTF-8 and printable, whatever the bytes are. A backslash, control characters,
/// characters that change the direction of a line, and bytes that are no UTF-8 are escaped as in C
/// (`\n`, `\x1b`, `\u202e`). If there are more than `characters` characters, the first of them are
/// shown, with the size of the whole in bytes behind the closing quote: `'aaa...' (the first 3 of
/// 1000 bytes)`. The result has at most 8 * `characters` bytes and a constant more. Throws
/// std::bad_alloc.
PLUMB_API std::string quoted(std::string_view text, std::size_t characters = 80);

}  // namespace plumb
