// The tuning cache: what is wrong with it gets in nobody's way, and nothing is lost where several
// processes write it at once.
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tune_case.hpp"

using namespace plumb;
using namespace plumb_test::tuning;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The same cache with `from` replaced wherever it stands, and its checksum right again.
std::string edited(std::string text, const std::string& from, const std::string& to) {
  REQUIRE(text.find(from) != std::string::npos);
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return sealed(text.substr(0, text.rfind("end ")), 1);
}

}  // namespace

TEST_CASE("a cache of other software, another device or another format is passed over") {
  const CacheFolder cache;
  const Device cpu = Device::open("cpu");
  tune(cpu, small(), quick);
  const std::string tuned = content(cache.file());
  int count = 0;
  const auto sees = [&](const std::string& text, const char* words, std::size_t stale) {
    const std::string path = cache.folder() / ("other" + std::to_string(count++));
    write(path, text);
    const Setting setting("PLUMB_TUNE_CACHE", path.c_str());
    const TunedTimes times = tuned_times(cpu, small());
    REQUIRE(times.times.empty());
    REQUIRE_THAT(times.sentence, ContainsSubstring(words));
    REQUIRE(tune_cache_report(cpu).stale == stale);
    REQUIRE_FALSE(chosen(explain(cpu, small())).measured_seconds);
  };
  sees(edited(tuned, "driver 0", "driver 12345"), "driver 12345", 1);
  sees(edited(tuned, "software plumb ", "software plumb 99."), "plumb 99.", 1);
  sees(edited(tuned, "device ", "device Abacus "), "not tuned on", 0);
  sees(edited(tuned, "plumb tune cache 1", "plumb tune cache 2"), "another version", 0);
  sees("to whom it may concern\n", "not a tuning cache", 0);
  // Tuning again takes the place of what is stale.
  const std::string path = cache.folder() / "stale";
  write(path, edited(tuned, "driver 0", "driver 12345"));
  const Setting setting("PLUMB_TUNE_CACHE", path.c_str());
  REQUIRE(tune(cpu, small(), quick).cache_path == path);
  REQUIRE(content(path).find("12345") == std::string::npos);
  REQUIRE(tune_cache_report(cpu).problems == 1);
}

TEST_CASE("a cache with any byte missing or changed is ignored, with a reason") {
  const CacheFolder cache;
  const Device cpu = Device::open("cpu");
  TuneOptions options = quick;
  options.math = Math::fp64;  // fewer lines, fewer bytes
  tune(cpu, small(), options);
  const std::string good = content(cache.file());
  const auto ignored = [&](const std::string& text, const std::string& name) {
    const std::string path = cache.folder() / name;
    write(path, text);
    const Setting setting("PLUMB_TUNE_CACHE", path.c_str());
    const TunedTimes times = tuned_times(cpu, small());
    REQUIRE(times.times.empty());
    REQUIRE_FALSE(times.sentence.empty());
    REQUIRE_FALSE(tune_cache_report(cpu).sentence.empty());
    fs::remove(path);
  };
  for (std::size_t i = 0; i < good.size(); ++i) {
    CAPTURE(i);
    if (i > 0) ignored(good.substr(0, i), "cut" + std::to_string(i));
    std::string changed = good;
    changed[i] = static_cast<char>(changed[i] ^ (1 + static_cast<int>(i) % 255));
    ignored(changed, "changed" + std::to_string(i));
    ignored(good.substr(0, i) + good.substr(i + 1), "without" + std::to_string(i));
  }
  ignored(good + good, "twice");
  // Sealed as it should be, and still no cache.
  const std::string body = good.substr(0, good.rfind("end "));
  for (const char* line : {"seconds fast cpu.conv.x\n", "seconds 1\n", "seconds -1 cpu.conv.x\n",
                           "seconds nan cpu.conv.x\n", "hours 1 cpu.conv.x\n", "problem p\n", "\n"})
    ignored(sealed(body + line, 1), "line");
  // A plan is made whatever stands there; tuning puts a cache in the place of a damaged one.
  write(cache.file(), good.substr(0, good.size() / 2));
  ConvPlan(cpu, small());
  const TuneResult result = tune(cpu, small(), quick);
  REQUIRE(result.cache_path == cache.file());
  REQUIRE_THAT(result.cache_sentence, ContainsSubstring("has been replaced"));
  REQUIRE(tune_cache_report(cpu).problems == 1);
}

TEST_CASE("where no cache can be, tuning says so and does its work") {
  const CacheFolder cache;
  const Device cpu = Device::open("cpu");
  const auto nowhere = [&](const std::string& path, const char* words) {
    const Setting setting("PLUMB_TUNE_CACHE", path.c_str());
    REQUIRE(tuned_times(cpu, small()).times.empty());
    const TuneResult result = tune(cpu, small(), quick);
    REQUIRE(result.cache_path.empty());
    REQUIRE_THAT(result.cache_sentence, ContainsSubstring(words));
    REQUIRE_FALSE(result.measurements.contestants.empty());
  };
  nowhere("/proc/plumb/tune", "cannot be opened");
  nowhere("/dev/null", "");
  nowhere(cache.folder(), "not a regular file");
  const std::string letter = cache.folder() / "letter";
  write(letter, "to whom it may concern\n");
  nowhere(letter, "left alone");
  REQUIRE(content(letter) == "to whom it may concern\n");
  REQUIRE(mkfifo((cache.folder() / "pipe").c_str(), 0600) == 0);
  nowhere(cache.folder() / "pipe", "not a regular file");

  const Setting unset("PLUMB_TUNE_CACHE", nullptr), no_home("HOME", nullptr);
  const Setting relative("XDG_CACHE_HOME", "cache");
  REQUIRE(tune(cpu, small(), quick).cache_path.empty());
  REQUIRE_THAT(tune_cache_report(cpu).sentence, ContainsSubstring("XDG_CACHE_HOME"));
}

TEST_CASE("the cache is where XDG says, and only tuning writes it") {
  const CacheFolder cache;
  const Device cpu = Device::open("cpu");
  const Setting unset("PLUMB_TUNE_CACHE", nullptr);
  const Setting home("HOME", (cache.folder() / "home").c_str());
  {
    const Setting no_xdg("XDG_CACHE_HOME", nullptr);
    REQUIRE(tune_cache_report(cpu).path == cache.folder() / "home/.cache/plumb/tune");
  }
  const Setting xdg("XDG_CACHE_HOME", (cache.folder() / "xdg").c_str());
  ConvPlan(cpu, small());
  TuneOptions unwritten = quick;
  unwritten.write = false;
  REQUIRE(tune(cpu, small(), unwritten).cache_path.empty());
  REQUIRE(fs::is_empty(cache.folder()));
  REQUIRE(tune(cpu, small(), quick).cache_path == cache.folder() / "xdg/plumb/tune");
  REQUIRE_FALSE(fs::exists(cache.folder() / "home"));
}

namespace {

constexpr int writers = 4, problems_of_a_writer = 5;

ConvProblem problem_of_writer(int writer, int problem) {
  ConvProblem made = small();
  made.n = 1 + writer * problems_of_a_writer + problem;
  return made;
}

void tune_all_of(int writer) {
  const Device cpu = Device::open("cpu");
  for (int i = 0; i < problems_of_a_writer; ++i)
    if (tune(cpu, problem_of_writer(writer, i), quick).cache_path.empty()) std::abort();
}

}  // namespace

TEST_CASE("one of several processes that tune at once", "[.tune-writer]") {
  tune_all_of(std::atoi(std::getenv("PLUMB_TEST_WRITER")));
}

TEST_CASE("several processes and threads tune at once, and nothing is lost") {
  const CacheFolder cache;
  std::vector<pid_t> children;
  for (int writer = 0; writer < writers; ++writer) {
    const Setting which("PLUMB_TEST_WRITER", std::to_string(writer).c_str());
    const Setting one_thread("OMP_NUM_THREADS",
                             std::to_string(Device::open("cpu").info().units).c_str());
    char program[] = "/proc/self/exe", filter[] = "[.tune-writer]";
    char* arguments[] = {program, filter, nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    pid_t child = 0;
    REQUIRE(posix_spawn(&child, program, &actions, nullptr, arguments, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    children.push_back(child);
  }
  std::thread beside([] { tune_all_of(writers); });
  tune_all_of(writers + 1);
  beside.join();
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
  const Device cpu = Device::open("cpu");
  REQUIRE(tune_cache_report(cpu).problems == (writers + 2) * problems_of_a_writer);
  for (int writer = 0; writer < writers + 2; ++writer)
    for (int i = 0; i < problems_of_a_writer; ++i)
      REQUIRE_FALSE(tuned_times(cpu, problem_of_writer(writer, i)).times.empty());
  for (const auto& entry : fs::directory_iterator(cache.folder()))
    REQUIRE(entry.path().string().find(".tmp-") == std::string::npos);
}
