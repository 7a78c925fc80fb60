// Text that fits the terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plumb::app {

/// Columns of standard output: the terminal's own, what COLUMNS says, or 80.
std::size_t terminal_columns();

/// The text in lines of at most `width` columns, broken at spaces, with so many spaces before the
/// first and the other lines. A word that is wider gets a line to itself. Ends in a newline.
std::string wrapped(std::string_view text, std::size_t width, std::size_t first_indent,
                    std::size_t indent);

}  // namespace plumb::app
