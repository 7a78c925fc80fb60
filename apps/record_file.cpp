// Writes a growing record often enough, and no more often.
#include "record_file.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace plumb::app {

RecordFile::RecordFile(std::string path) : path_(std::move(path)), replaced_(false) {
  if (path_.empty()) return;
  require_writable(path_);
  replaced_ = is_replaced(path_);
  // Once: what /dev/stdout leads to is another file when the first write has replaced it.
  std::error_code ignored;
  const auto followed = std::filesystem::canonical(path_, ignored);
  if (replaced_ && !followed.empty()) path_ = followed.string();
}

void RecordFile::update(const Record& record) {
  const auto begin = Clock::now();
  if (!replaced_ || begin < next_) return;
  try {
    write_json(path_, record());
  } catch (const FileError&) {
    // A disk that is full now may not be at the end.
  }
  const auto end = Clock::now();
  next_ = end + std::max<Clock::duration>(std::chrono::seconds(1), 20 * (end - begin));
}

void RecordFile::finish(const Record& record) {
  if (!path_.empty()) write_json(path_, record());
}

}  // namespace plumb::app
