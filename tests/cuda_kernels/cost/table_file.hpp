// The values of a table of costs, in memory and in the header that has them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace plumb_test {

struct Constant {
  std::string name;
  bool fixed;            ///< a comment says so, or it is 0
  std::size_t at, size;  ///< of its number in the header
  double written;        ///< the number that stands there
};

/// A header whose numbers, in their order, are the doubles of a table.
class TableFile {
 public:
  /// Error where the header has not as many numbers as there are values.
  TableFile(std::filesystem::path path, std::span<double> values);

  const std::vector<Constant>& constants() const { return constants_; }
  std::span<double> values() const { return values_; }
  const std::filesystem::path& path() const { return path_; }
  /// Writes the values that differ into the header.
  void save() const;

 private:
  std::filesystem::path path_;
  std::string text_;
  std::vector<Constant> constants_;
  std::span<double> values_;
};

}  // namespace plumb_test
