// A JSON record that is written while the work goes on, so that what was done is there whatever
// ends the program.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "json_file.hpp"

namespace plumb::app {

/// Each write replaces the whole file at once: who reads it finds a complete JSON value, at any
/// time and after a kill. A terminal or a pipe gets the last write alone.
class RecordFile {
 public:
  using Record = std::function<nlohmann::ordered_json()>;

  /// An empty path: nothing is written. FileError where the file could not be.
  explicit RecordFile(std::string path);

  /// After each item of the work: writes the record as it is now, the first time and then at most
  /// every second, and so that writing takes no more than a twentieth of the time. What goes wrong
  /// is left to finish().
  void update(const Record& record);
  /// Writes the record. FileError as write_file.
  void finish(const Record& record);

 private:
  using Clock = std::chrono::steady_clock;
  std::string path_;
  bool replaced_;
  Clock::time_point next_{};
};

}  // namespace plumb::app
