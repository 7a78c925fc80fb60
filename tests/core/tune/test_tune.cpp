// Tuning and its cache: times come back, choose plans, and nothing that is wrong with the file
// gets in anybody's way.
#include "plumb/tune.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <thread>

#include "support/devices.hpp"
#include "support/written_to.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
namespace fs = std::filesystem;

namespace {

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

std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// Every file of its own: one that is rewritten within a clock tick looks unchanged.
void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// FNV-1a, as the file's last line has it.
std::string sealed(const std::string& body, int entries) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : body) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  char line[64];
  std::snprintf(line, sizeof line, "end %d %016llx\n", entries,
                static_cast<unsigned long long>(hash));
  return body + line;
}

/// The same cache with `from` replaced wherever it stands, and its checksum right again.
std::string edited(std::string text, const std::string& from, const std::string& to) {
  REQUIRE(text.find(from) != std::string::npos);
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return sealed(text.substr(0, text.rfind("end ")), 1);
}

ConvProblem problem_of(const char* text) { return parse_problem(text).problem; }
ConvProblem small() { return problem_of("mb2ic3ih9iw10oc4kh3"); }

/// Whatever else the machine does meanwhile: times are kept however they scatter.
constexpr double any = std::numeric_limits<double>::infinity();
const TuneOptions quick{.measure = {.min_samples = 3,
                                    .max_samples = 3,
                                    .warm_up_seconds = 0,
                                    .cold_bytes = 0,
                                    .check = false,
                                    .scatter_limit = any,
                                    .estimate_limit = any}};

const ConvCandidate& chosen(const std::vector<ConvCandidate>& all) {
  return *std::find_if(all.begin(), all.end(), [](const auto& c) { return c.chosen; });
}

/// A cache in which one algorithm of the CPU takes a nanosecond and all others a second.
void write_times(const fs::path& path, const std::string& tuned, const std::string& fastest) {
  std::istringstream lines(tuned.substr(0, tuned.rfind("end ")));
  std::string body;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("seconds ")) {
      const std::string name = line.substr(line.rfind(' ') + 1);
      line = (name == fastest ? "seconds 1e-09 " : "seconds 1 ") + name;
    }
    body += line + "\n";
  }
  write(path, sealed(body, 1));
}

}  // namespace

TEST_CASE("every algorithm is timed or says why not, and the times come back") {
  const CacheFolder cache;
  for (const Device& device : plumb_test::all_devices()) {
    fs::remove(cache.file());
    REQUIRE(tuned_times(device, small()).times.empty());
    const TuneResult result = tune(device, small(), quick);
    REQUIRE(result.cache_path == cache.file());
    REQUIRE(result.cache_sentence.empty());
    REQUIRE(result.algorithms.size() == conv_algorithms(device).size());
    const TunedTimes tuned = tuned_times(device, small());
    REQUIRE(tuned.sentence.empty());
    std::size_t timed = 0;
    for (const TunedAlgorithm& one : result.algorithms) {
      CAPTURE(one.algorithm, one.measurement.failure);
      REQUIRE(one.support.sentence.empty() == static_cast<bool>(one.support));
      if (!one.support) continue;
      REQUIRE(one.measurement.algorithm == one.algorithm);
      REQUIRE(one.measurement.median_seconds > 0);
      REQUIRE(tuned.times[timed].algorithm == one.algorithm);
      const double kept = tuned.times[timed++].seconds, seen = one.measurement.median_seconds;
      REQUIRE(std::abs(kept - seen) < 1e-5 * seen);
    }
    REQUIRE(timed == tuned.times.size());
    // The plan takes the fastest of those that its options allow.
    const auto candidates = explain(device, small());
    for (const ConvCandidate& candidate : candidates) {
      CAPTURE(candidate.algorithm);
      // What the options rule out has been timed all the same where it could run.
      const bool ruled_out = candidate.support.reason == Reason::math;
      REQUIRE((candidate.support || ruled_out) == candidate.measured_seconds.has_value());
      if (candidate.support)
        REQUIRE(*candidate.measured_seconds >= *chosen(candidates).measured_seconds);
    }
    REQUIRE(tune_cache_report(device).problems == 1);
    // Another problem, type or order in memory is not tuned by that.
    ConvProblem other = small();
    other.dtype = DType::f64;
    REQUIRE_THAT(tuned_times(device, other).sentence, ContainsSubstring("not tuned on"));
    other = validation_case("", small(), Placement::nhwc).problem;
    REQUIRE(tuned_times(device, other).times.empty());
  }
}

TEST_CASE("plans take the tuned choice that their options allow") {
  const CacheFolder cache;
  const Device cpu = Device::open("cpu");
  tune(cpu, small(), quick);
  const std::string tuned = content(cache.file());
  const auto all = explain(cpu, small(), {.math = Math::fp16});
  int allowed = 0;
  for (const ConvCandidate& candidate : all) {
    if (!candidate.support) continue;
    ++allowed;
    const std::string path = cache.folder() / ("fast-" + std::string(candidate.algorithm));
    write_times(path, tuned, std::string(candidate.algorithm));
    const Setting setting("PLUMB_TUNE_CACHE", path.c_str());
    REQUIRE(ConvPlan(cpu, small(), {.math = Math::fp16}).algorithm().name == candidate.algorithm);
    // What the options rule out is not chosen, however fast.
    const auto strict = explain(cpu, small(), {.math = Math::fp64});
    REQUIRE(chosen(strict).error_class == Math::fp64);
    ConvOptions options;
    options.workspace_limit_bytes = candidate.workspace_bytes > 0 ? candidate.workspace_bytes - 1
                                                                  : options.workspace_limit_bytes;
    for (const ConvCandidate& other : explain(cpu, small(), options))
      if (other.chosen) REQUIRE(other.workspace_bytes <= options.workspace_limit_bytes);
  }
  REQUIRE(allowed > 1);
}

TEST_CASE("times that leave an algorithm out do not choose") {
  const CacheFolder cache;
  const Device cpu = Device::open("cpu");
  TuneOptions fp64_alone = quick;
  fp64_alone.math = Math::fp64;
  const std::string by_estimate(ConvPlan(cpu, small()).algorithm().name);
  tune(cpu, small(), fp64_alone);
  const auto candidates = explain(cpu, small());
  REQUIRE(chosen(candidates).algorithm == by_estimate);
  REQUIRE_FALSE(chosen(candidates).measured_seconds);
  REQUIRE(chosen(explain(cpu, small(), {.math = Math::fp64})).measured_seconds);
  // The rest is added to what is there.
  tune(cpu, small(), quick);
  REQUIRE(chosen(explain(cpu, small())).measured_seconds);
}

namespace {

/// The options of `quick` with the usual limits and a clock: what `disturbed` names takes ten
/// microseconds in one of three samples and a hundred times as long in the others, everything else
/// a millisecond.
TuneOptions beside_a_neighbour(std::function<bool(std::string_view)> disturbed) {
  TuneOptions options = quick;
  options.measure.scatter_limit = MeasureOptions{}.scatter_limit;
  const auto runs = std::make_shared<std::map<std::string, int>>();
  options.measure.clock = [=](std::string_view algorithm, double) {
    if (!disturbed(algorithm)) return 1e-3;
    return ++(*runs)[std::string(algorithm)] % 3 == 0 ? 1e-5 : 1e-3;
  };
  return options;
}

}  // namespace

TEST_CASE("unsteady times are not kept, and what is kept beside them does not choose") {
  const CacheFolder cache;
  const Device cpu = Device::open("cpu");
  const std::string by_estimate(ConvPlan(cpu, small()).algorithm().name);
  const std::string_view steady = "cpu.conv.im2col.fp64";
  REQUIRE(by_estimate != steady);
  const TuneResult result =
      tune(cpu, small(), beside_a_neighbour([&](std::string_view name) { return name != steady; }));
  REQUIRE(result.cache_path == cache.file());
  for (const TunedAlgorithm& one : result.algorithms) {
    CAPTURE(one.algorithm, one.measurement.unsteady);
    if (one.support) REQUIRE(one.measurement.unsteady.empty() == (one.algorithm == steady));
  }
  REQUIRE(tuned_times(cpu, small()).times == std::vector<TunedTime>{{std::string(steady), 1e-3}});
  // Today's only time is that of the one that nothing disturbed; it is not the fastest for that.
  const auto candidates = explain(cpu, small());
  REQUIRE(chosen(candidates).algorithm == by_estimate);
  REQUIRE_FALSE(chosen(candidates).measured_seconds);
  // Tuned again on a quiet machine, all have a time, and the times choose.
  tune(cpu, small(), beside_a_neighbour([](std::string_view) { return false; }));
  REQUIRE(chosen(explain(cpu, small())).measured_seconds == 1e-3);
}

TEST_CASE("where no time is steady, the cache stays as it was") {
  const CacheFolder cache;
  const Device cpu = Device::open("cpu");
  const auto all = beside_a_neighbour([](std::string_view) { return true; });
  const TuneResult nothing = tune(cpu, small(), all);
  REQUIRE(nothing.cache_path.empty());
  REQUIRE_THAT(nothing.cache_sentence, ContainsSubstring("no time of g1mb2ic3"));
  REQUIRE_FALSE(fs::exists(cache.file()));
  tune(cpu, small(), quick);
  const std::string before = content(cache.file());
  tune(cpu, small(), all);
  REQUIRE(content(cache.file()) == before);
}

TEST_CASE("conv plans anew after tuning") {
  const CacheFolder cache;
  const Device cpu = Device::open("cpu");
  Queue queue(cpu);
  const ConvProblem p = check(small());
  const Tensor x(cpu, p.dtype, p.x_extents()), w(cpu, p.dtype, p.w_extents());
  const Tensor y(cpu, p.dtype, p.y_extents());
  std::fill_n(x.data_as<float>(), element_count(p.x_extents()), 1.0f);
  std::fill_n(w.data_as<float>(), element_count(p.w_extents()), 1.0f);
  const ConvTensors tensors{.x = x, .w = w, .y = y};
  const auto verbose_lines = [&] {
    return plumb_test::written_to(stderr, [&] {
      const Setting verbose("PLUMB_VERBOSE", "1");
      conv(queue, tensors);
    });
  };
  REQUIRE_THAT(verbose_lines(), ContainsSubstring("not tuned on"));
  REQUIRE(verbose_lines().empty());
  tune(cpu, small(), quick);
  REQUIRE_THAT(verbose_lines(), ContainsSubstring("s tuned"));
  REQUIRE(y.data_as<float>()[0] == 27);
}

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

TEST_CASE("what cannot be tuned is refused with each one's reason") {
  const CacheFolder cache;
  const Device cpu = Device::open("cpu");
  ConvProblem backward = small();
  backward.direction = Direction::backward_data;
  REQUIRE_THROWS_MATCHES(tune(cpu, backward, quick), Error,
                         MessageMatches(ContainsSubstring("backward")));
  REQUIRE_THROWS_MATCHES(tune(cpu, problem_of("mb0ic3ih9oc4kh3"), quick), Error,
                         MessageMatches(ContainsSubstring("batch of 0")));
  try {
    tune(cpu, problem_of("mb1ic64ih100000iw100000oc1kh1"), quick);
    FAIL("2.6 TB were tuned");
  } catch (const Error& error) {
    REQUIRE(error.code() == ErrorCode::unsupported);
    REQUIRE(error.reason() == Reason::too_large);
    REQUIRE_THAT(error.what(), ContainsSubstring("bytes on cpu"));
  }
  REQUIRE_FALSE(fs::exists(cache.file()));
}
