#include "table_file.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>
#include <utility>

namespace plumb_test {

TableFile::TableFile(std::filesystem::path path, std::span<double> values)
    : path_(std::move(path)), values_(values) {
  std::ifstream stream(path_);
  text_.assign(std::istreambuf_iterator<char>(stream), {});
  static const std::regex number(R"((\w+) =\s+(-?[0-9][0-9.]*(?:e-?[0-9]+)?)(?=[;,}]))");
  for (auto met = std::sregex_iterator(text_.begin(), text_.end(), number);
       met != std::sregex_iterator(); ++met) {
    const auto at = static_cast<std::size_t>(met->position(2));
    const std::string line = text_.substr(at, text_.find('\n', at) - at);
    const double written = std::stod((*met)[2]);
    // A comment of its own says for all that follow.
    const std::size_t from_here = text_.rfind("// Fixed:", at), free = text_.rfind("// Free:", at);
    const bool below =
        from_here != std::string::npos && (free == std::string::npos || free < from_here);
    const bool fixed = below || line.find("///< fixed") != std::string::npos || written == 0;
    constants_.push_back({(*met)[1], fixed, at, static_cast<std::size_t>(met->length(2)), written});
  }
  if (constants_.size() != values_.size())
    throw std::runtime_error(fmt::format("{}: {} numbers; the table has {}", path_.string(),
                                         constants_.size(), values_.size()));
}

void TableFile::save() const {
  std::string text = text_;
  for (std::size_t i = constants_.size(); i-- > 0;) {
    const Constant& one = constants_[i];
    if (values_[i] != one.written) text.replace(one.at, one.size, fmt::format("{}", values_[i]));
  }
  std::ofstream(path_) << text;
}

}  // namespace plumb_test
