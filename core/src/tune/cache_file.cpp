// Reads the tuning cache, and writes it beside other processes that do.
#include "cache_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "../environment.hpp"
#include "../replacement_file.hpp"
#include "plumb/error.hpp"
#include "plumb/quote.hpp"

namespace plumb {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t largest_file_bytes = std::int64_t{1} << 26;

class File {
 public:
  File(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// The environment names it, so it is text from outside.
std::string shown(const std::string& path) { return plumb::quoted(path, 200); }

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw Error(ErrorCode::device_failure,
              fmt::format("tuning cache {}: {}: {}", shown(path), what, std::strerror(errno)));
}

/// A file as it was at one moment, as far as that shows without reading it.
struct Stamp {
  explicit Stamp(const struct stat& status)
      : device(status.st_dev),
        inode(status.st_ino),
        bytes(status.st_size),
        seconds(status.st_mtim.tv_sec),
        nanoseconds(status.st_mtim.tv_nsec) {}
  dev_t device;
  ino_t inode;
  off_t bytes;
  time_t seconds;
  long nanoseconds;
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

struct FileText {
  std::string text;
  std::string trouble;  ///< why there is no text; empty too where there is no file
};

FileText read_text(const std::string& path) {
  const auto trouble = [](std::string sentence) { return FileText{{}, std::move(sentence)}; };
  // A pipe would otherwise wait for its writer.
  const File file(path, O_RDONLY | O_NONBLOCK);
  if (!file && errno == ENOENT) return {};
  if (!file) return trouble(fmt::format("cannot be opened: {}", std::strerror(errno)));
  struct stat status {};
  if (fstat(file.fd(), &status) != 0 || !S_ISREG(status.st_mode))
    return trouble("is not a regular file");
  if (status.st_size > largest_file_bytes)
    return trouble(fmt::format("has {} bytes, more than any tuning cache", status.st_size));
  FileText read_so_far;
  char buffer[1 << 14];
  for (ssize_t count; (count = read(file.fd(), buffer, sizeof buffer)) != 0;) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return trouble(fmt::format("cannot be read: {}", std::strerror(errno)));
    read_so_far.text.append(buffer, static_cast<std::size_t>(count));
  }
  return read_so_far;
}

TuneCacheFile load(const std::string& path) {
  const FileText content = read_text(path);
  TuneCacheFile file;
  if (!content.trouble.empty()) {
    file.sentence = fmt::format("{} {}", shown(path), content.trouble);
    return file;
  }
  ParsedTuneCache parsed = parse_tune_cache(content.text);
  if (!parsed.damage.empty())
    file.sentence = fmt::format("{} is ignored: {}", shown(path), parsed.damage);
  for (TuneEntry& entry : parsed.entries)
    file.entries.insert_or_assign(std::move(entry.key), std::move(entry.times));
  return file;
}

/// Held until it goes out of scope. A file of its own, because the cache itself is replaced.
class Lock {
 public:
  explicit Lock(const std::string& path)
      : path_(path + ".lock"), file_(path_, O_CREAT | O_RDWR | O_NOFOLLOW) {
    using namespace std::chrono_literals;
    if (!file_) fail(path_, "cannot be opened");
    const auto patience = std::chrono::steady_clock::now() + 10s;
    while (flock(file_.fd(), LOCK_EX | LOCK_NB) != 0) {
      const bool held = errno == EWOULDBLOCK || errno == EINTR;
      if (!held || std::chrono::steady_clock::now() > patience) fail(path_, "cannot be locked");
      std::this_thread::sleep_for(5ms);
    }
  }

 private:
  std::string path_;
  File file_;
};

/// What work() says of the file, as an Error.
template <class Work>
auto on_file(const std::string& path, Work&& work) {
  try {
    return work();
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::device_failure,
                fmt::format("tuning cache {}: {}", shown(path), error.what()));
  }
}

/// Readers see the old content or the new, and after a crash one of them is there.
void replace_file(const std::string& path, std::string_view text) {
  on_file(path, [&] {
    ReplacementFile file(path);
    file.write(text);
    file.commit();
  });
}

void merge(std::vector<TuneEntry>& entries, const TuneEntry& added) {
  std::erase_if(entries, [&](const TuneEntry& entry) {
    return entry.key.device == added.key.device && entry.key.problem == added.key.problem &&
           entry.key.software != added.key.software;
  });
  const auto same = std::find_if(entries.begin(), entries.end(),
                                 [&](const TuneEntry& entry) { return entry.key == added.key; });
  if (same == entries.end()) {
    entries.push_back(added);
    return;
  }
  for (const TunedTime& time : added.times) {
    const auto old = std::find_if(same->times.begin(), same->times.end(), [&](const TunedTime& t) {
      return t.algorithm == time.algorithm;
    });
    if (old == same->times.end())
      same->times.push_back(time);
    else
      *old = time;
  }
}

}  // namespace

TuneCachePlace tune_cache_place() {
  if (const std::string path = environment("PLUMB_TUNE_CACHE"); !path.empty()) return {path, {}};
  // The XDG specification has relative paths ignored.
  if (const std::string folder = environment("XDG_CACHE_HOME"); folder.starts_with('/'))
    return {folder + "/plumb/tune", {}};
  if (const std::string home = environment("HOME"); home.starts_with('/'))
    return {home + "/.cache/plumb/tune", {}};
  return {{}, "none of PLUMB_TUNE_CACHE, XDG_CACHE_HOME and HOME says where the tuning cache is"};
}

std::shared_ptr<const TuneCacheFile> read_tune_cache_file(const std::string& path) {
  static std::mutex mutex;
  static std::string last_path;
  static std::optional<Stamp> last_stamp;
  static std::shared_ptr<const TuneCacheFile> last_file;
  const std::lock_guard lock(mutex);
  std::optional<Stamp> stamp;
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) stamp.emplace(status);
  if (!last_file || path != last_path || stamp != last_stamp) {
    last_file = std::make_shared<const TuneCacheFile>(load(path));
    last_path = path;
    last_stamp = stamp;
  }
  return last_file;
}

std::string add_to_tune_cache_file(const std::string& named_path, const TuneEntry& entry) {
  std::error_code ignored;
  fs::create_directories(fs::path(named_path).parent_path(), ignored);
  // Behind a link the file is replaced, not the link, and the lock lies beside the file.
  const std::string path = on_file(named_path, [&] { return followed_links(named_path); });
  const Lock lock(path);
  const FileText content = read_text(path);
  if (!content.trouble.empty())
    throw Error(ErrorCode::device_failure,
                fmt::format("tuning cache {} {}", shown(path), content.trouble));
  ParsedTuneCache parsed = parse_tune_cache(content.text);
  if (!parsed.ours)
    throw Error(ErrorCode::device_failure,
                fmt::format("{} is there and not a tuning cache; it is left alone", shown(path)));
  merge(parsed.entries, entry);
  replace_file(path, write_tune_cache(parsed.entries));
  return parsed.damage.empty()
             ? ""
             : fmt::format("{} was damaged and has been replaced: {}", shown(path), parsed.damage);
}

}  // namespace plumb
