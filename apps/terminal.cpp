// Asks the terminal for its size, and breaks lines.
#include "terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace plumb::app {

std::size_t terminal_columns() {
  constexpr std::size_t least = 20, usual = 80;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return std::max<std::size_t>(size.ws_col, least);
  const char* columns = std::getenv("COLUMNS");
  const int value = columns ? std::atoi(columns) : 0;
  return value > 0 ? std::max(static_cast<std::size_t>(value), least) : usual;
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t first_indent,
                    std::size_t indent) {
  std::string lines, line(first_indent, ' ');
  bool empty = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (!empty && line.size() + 1 + word.size() > width) {
      lines += line + "\n";
      line.assign(indent, ' ');
      empty = true;
    }
    if (!empty) line += ' ';
    line += word;
    empty = false;
  }
  return lines + line + "\n";
}

}  // namespace plumb::app
