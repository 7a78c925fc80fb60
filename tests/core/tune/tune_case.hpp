// What the tests of tuning share: a cache in a folder that goes away, a small problem, and options
// that are quick.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "plumb/plumb.hpp"
#include "plumb/tune.hpp"

namespace plumb_test::tuning {

using namespace plumb;
namespace fs = std::filesystem;

/// Sets (or, null, unsets) an environment variable for one scope.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Setting() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// A folder that goes away, with the cache in it.
class CacheFolder {
 public:
  CacheFolder() : folder_(make()), setting_("PLUMB_TUNE_CACHE", file().c_str()) {}
  ~CacheFolder() { fs::remove_all(folder_); }
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;
  const fs::path& folder() const { return folder_; }
  fs::path file() const { return folder_ / "tune"; }

 private:
  static fs::path make() {
    std::string name = (fs::temp_directory_path() / "plumb-tune-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    return name;
  }
  fs::path folder_;
  Setting setting_;
};

inline std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// Every file of its own: one that is rewritten within a clock tick looks unchanged.
inline void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// FNV-1a, as the file's last line has it.
inline std::string sealed(const std::string& body, int entries) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : body) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  char line[64];
  std::snprintf(line, sizeof line, "end %d %016llx\n", entries,
                static_cast<unsigned long long>(hash));
  return body + line;
}

inline ConvProblem problem_of(const char* text) { return parse_problem(text).problem; }
inline ConvProblem small() { return problem_of("mb2ic3ih9iw10oc4kh3"); }

/// Whatever else the machine does meanwhile: times are kept however they scatter.
constexpr double any = std::numeric_limits<double>::infinity();
inline const TuneOptions quick{.measure = {.min_samples = 3,
                                           .max_samples = 3,
                                           .warm_up_seconds = 0,
                                           .cold_bytes = 0,
                                           .check = false,
                                           .scatter_limit = any,
                                           .estimate_limit = any}};

inline const ConvCandidate& chosen(const std::vector<ConvCandidate>& all) {
  return *std::find_if(all.begin(), all.end(), [](const auto& c) { return c.chosen; });
}

}  // namespace plumb_test::tuning
