// Results as JSON files. The parser is a large header: only what writes results includes this.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "formats/file.hpp"

namespace plumb::app {

/// Indented, in the order of the keys, with a newline at the end. FileError as write_file.
inline void write_json(const std::string& path, const nlohmann::ordered_json& value) {
  // Names from drivers and file systems need not be UTF-8.
  const std::string text =
      value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  write_text(path, text);
}

}  // namespace plumb::app
