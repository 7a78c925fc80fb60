// Files that a test writes and reads, and what is said of those that are refused.
#pragma once

#include <unistd.h>
#include <zlib.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <string>

#include "formats/file.hpp"

namespace plumb_test {

namespace fs = std::filesystem;
using plumb::app::Bytes;
using plumb::app::FileError;

inline Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

/// A folder of its own for one test, gone at its end.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "plumb_test_XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder " + name);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const char* file) const { return (path_ / file).string(); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

inline void write_plain(const std::string& path, const Bytes& content) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(content.data()),
             static_cast<std::streamsize>(content.size()));
}

inline void write_gzip(const std::string& path, const Bytes& content) {
  gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(gzwrite(file, content.data(), static_cast<unsigned>(content.size())) ==
          static_cast<int>(content.size()));
  REQUIRE(gzclose(file) == Z_OK);
}

inline Bytes read_plain(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// FileError, whose message names the file and holds each of the texts.
inline void require_refused(const std::function<void()>& parse, const std::string& name,
                            std::initializer_list<const char*> texts) {
  std::string message;
  try {
    parse();
  } catch (const FileError& error) {
    message = error.what();
  }
  CHECK_THAT(message, Catch::Matchers::ContainsSubstring(name));
  for (const char* text : texts) CHECK_THAT(message, Catch::Matchers::ContainsSubstring(text));
  CHECK_THAT(message, !Catch::Matchers::ContainsSubstring("\n"));
}

}  // namespace plumb_test
