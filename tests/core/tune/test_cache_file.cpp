// The file of the tuning cache beside others' files: modes, links, and what is left behind.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "plumb/plumb.hpp"
#include "plumb/tune.hpp"
#include "support/obstacles.hpp"

using namespace plumb;
using namespace plumb_test;
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

/// Tuning does its work, and the cache stays as it is, for a reason that says so.
void require_not_kept(const char* words) {
  const TuneResult result = tune_once("mb1ic1ih7oc1kh3");
  CHECK(result.cache_path.empty());
  CHECK_FALSE(result.measurements.contestants.empty());
  CHECK_THAT(result.cache_sentence, ContainsSubstring(words));
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

TEST_CASE("the tuning cache that cannot be written stays as it was, and nothing is left") {
  const TuneFolder folder;
  require_tuned("mb1ic1ih5oc1kh3");
  const std::string before = content(folder.file());
  const fs::path lock = folder / "tune.lock";
  REQUIRE(chmod(lock.c_str(), 0666) == 0);
  {
    const SmallDisk disk(16);
    require_not_kept("cannot be written: File too large");
  }
  REQUIRE(chmod(folder.file().c_str(), 0444) == 0);
  REQUIRE(chmod(folder.file().parent_path().c_str(), 0777) == 0);
  {
    const Nobody nobody;
    require_not_kept("cannot be written: Permission denied");
  }
  REQUIRE(chmod(folder.file().c_str(), 0666) == 0);
  REQUIRE(chmod(folder.file().parent_path().c_str(), 0555) == 0);
  {
    const Nobody nobody;
    require_not_kept("cannot be created: Permission denied");
  }
  REQUIRE(chmod(folder.file().parent_path().c_str(), 0777) == 0);
  CHECK(content(folder.file()) == before);
  CHECK(folder.files() == 2);
}

TEST_CASE("the tuning cache of another user keeps its owner, or gives its group no rights") {
  if (geteuid() != 0) SKIP("only root gives files away");
  const TuneFolder folder;
  require_tuned("mb1ic1ih5oc1kh3");
  REQUIRE(chown(folder.file().c_str(), 65534, 65534) == 0);
  REQUIRE(chmod(folder.file().c_str(), 0640) == 0);
  require_tuned("mb1ic1ih6oc1kh3");
  struct stat status {};
  REQUIRE(stat(folder.file().c_str(), &status) == 0);
  CHECK(status.st_uid == 65534);
  CHECK(status.st_gid == 65534);
  CHECK(mode_of(folder.file()) == 0640);

  REQUIRE(chown(folder.file().c_str(), 0, 12345) == 0);
  REQUIRE(chmod(folder.file().c_str(), 0666) == 0);
  REQUIRE(chmod((folder / "tune.lock").c_str(), 0666) == 0);
  REQUIRE(chmod(folder.file().parent_path().c_str(), 0777) == 0);
  {
    const Nobody nobody;
    require_tuned("mb1ic1ih7oc1kh3");
  }
  REQUIRE(stat(folder.file().c_str(), &status) == 0);
  CHECK(status.st_uid == 65534);
  CHECK(status.st_gid != 12345);
  CHECK(mode_of(folder.file()) == 0606);
}

TEST_CASE("the tuning cache where no file can lie, or one that is none") {
  const TuneFolder folder;
  std::ofstream(folder / "plain") << "text";
  const auto at = [&](const fs::path& path, const char* words) {
    setenv("PLUMB_TUNE_CACHE", path.c_str(), 1);
    require_not_kept(words);
  };
  at(folder / "plain/tune", "cannot be created: Not a directory");
  at(folder / "new/", "is not a regular file");
  std::ofstream(folder / "large") << "plumb";
  fs::resize_file(folder / "large", (std::uintmax_t{1} << 26) + 1);
  at(folder / "large", "has 67108865 bytes, more than any tuning cache");
  CHECK_THAT(tune_cache_report(Device::open("cpu")).sentence, ContainsSubstring("67108865 bytes"));
  CHECK(content(folder / "plain") == "text");
}

TEST_CASE("the tuning cache is found by names without a folder and through absolute links") {
  const TuneFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.file().parent_path());
  setenv("PLUMB_TUNE_CACHE", "tune", 1);
  const bool tuned = !tune_once("mb1ic1ih5oc1kh3").cache_path.empty();
  fs::create_symlink("tune", "near");
  setenv("PLUMB_TUNE_CACHE", "near", 1);
  const bool through_link = !tune_once("mb1ic1ih6oc1kh3").cache_path.empty();
  fs::current_path(before);
  CHECK(tuned);
  CHECK(through_link);
  fs::create_symlink(folder.file(), folder / "far");
  setenv("PLUMB_TUNE_CACHE", (folder / "far").c_str(), 1);
  require_tuned("mb1ic1ih7oc1kh3");
  CHECK(tune_cache_report(Device::open("cpu")).problems == 3);
  CHECK(fs::is_symlink(folder / "far"));
}

TEST_CASE("the tuning cache waits for who holds its lock") {
  const TuneFolder folder;
  require_tuned("mb1ic1ih5oc1kh3");
  const int lock = open((folder / "tune.lock").c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(lock >= 0);
  REQUIRE(flock(lock, LOCK_EX) == 0);
  std::thread holder([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    flock(lock, LOCK_UN);
  });
  const auto begin = std::chrono::steady_clock::now();
  const TuneResult result = tune_once("mb1ic1ih6oc1kh3");
  const auto waited = std::chrono::steady_clock::now() - begin;
  holder.join();
  close(lock);
  CHECK(result.cache_path == folder.file());
  CHECK(waited >= std::chrono::milliseconds(150));
  CHECK(tune_cache_report(Device::open("cpu")).problems == 2);
}
