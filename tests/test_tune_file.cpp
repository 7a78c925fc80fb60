// The file of the tuning cache beside others' files: modes, links, and what is left behind.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "plumb/plumb.hpp"
#include "plumb/tune.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

/// A folder for one test, in which PLUMB_TUNE_CACHE names the file `tune`.
class TuneFolder {
 public:
  TuneFolder() {
    std::string name = (fs::temp_directory_path() / "plumb-tune-file-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path_ = name;
    if (const char* before = std::getenv("PLUMB_TUNE_CACHE")) before_ = before;
    setenv("PLUMB_TUNE_CACHE", file().c_str(), 1);
  }
  ~TuneFolder() {
    before_.empty() ? unsetenv("PLUMB_TUNE_CACHE") : setenv("PLUMB_TUNE_CACHE", before_.c_str(), 1);
    fs::remove_all(path_);
  }
  TuneFolder(const TuneFolder&) = delete;
  TuneFolder& operator=(const TuneFolder&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }
  fs::path file() const { return path_ / "tune"; }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(path_), {}); }

 private:
  fs::path path_;
  std::string before_;
};

TuneResult tune_once(const char* problem) {
  return tune(Device::open("cpu"), parse_problem(problem).problem,
              {.measure = {.min_samples = 3,
                           .max_samples = 3,
                           .warm_up_seconds = 0,
                           .cold_bytes = 0,
                           .check = false}});
}

void require_tuned(const char* problem) {
  const TuneResult result = tune_once(problem);
  INFO(result.cache_sentence);
  REQUIRE_FALSE(result.cache_path.empty());
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

}  // namespace

TEST_CASE("the tuning cache keeps its mode") {
  const TuneFolder folder;
  const mode_t before = umask(022);
  require_tuned("mb1ic1ih5oc1kh3");
  CHECK(mode_of(folder.file()) == 0644);
  REQUIRE(chmod(folder.file().c_str(), 0600) == 0);
  require_tuned("mb1ic1ih6oc1kh3");
  umask(before);
  CHECK(mode_of(folder.file()) == 0600);
  CHECK(tune_cache_report(Device::open("cpu")).problems == 2);
}

TEST_CASE("the tuning cache writes through no link that was planted beside it") {
  const TuneFolder folder;
  std::ofstream(folder / "victim") << "kept";
  // The name that a temporary file had, as everybody could know.
  fs::create_symlink("victim", folder / fmt::format("tune.tmp-{}", getpid()));
  require_tuned("mb1ic1ih5oc1kh3");
  CHECK(content(folder / "victim") == "kept");
  CHECK(folder.files() == 4);  // with the cache and its lock
  fs::remove(folder / "tune.lock");
  fs::create_symlink("elsewhere", folder / "tune.lock");
  const TuneResult result = tune_once("mb1ic1ih6oc1kh3");
  CHECK(result.cache_path.empty());
  CHECK_THAT(result.cache_sentence, ContainsSubstring("tune.lock': cannot be opened"));
  CHECK_FALSE(fs::exists(folder / "elsewhere"));
}

TEST_CASE("the tuning cache lies where a link leads, also one that dangles") {
  const TuneFolder folder;
  fs::create_directory(folder / "sub");
  fs::create_symlink("sub/there", folder.file());
  for (const char* problem : {"mb1ic1ih5oc1kh3", "mb1ic1ih6oc1kh3"}) {
    require_tuned(problem);
    CHECK(fs::is_symlink(folder.file()));
    CHECK(fs::is_regular_file(folder / "sub/there"));
  }
  CHECK(tune_cache_report(Device::open("cpu")).problems == 2);
  fs::remove(folder.file());
  fs::create_symlink("tune", folder.file());
  const TuneResult circle = tune_once("mb1ic1ih5oc1kh3");
  CHECK(circle.cache_path.empty());
  CHECK_THAT(circle.cache_sentence, ContainsSubstring("symbolic links"));
}
