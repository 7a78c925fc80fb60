// Reads files through zlib, which passes plain ones on as they are.
#include "formats/source.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <string_view>

#include "errors.hpp"
#include "formats/file.hpp"

namespace plumb::app {
namespace {

constexpr std::size_t first_chunk_bytes = std::size_t{1} << 20;
constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

/// The most that one byte of deflate becomes: two bits may stand for 258 bytes.
constexpr std::uint64_t max_inflated = 1032;

std::uint64_t physical_memory_bytes() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

[[noreturn]] void fail_short_of_memory(const ByteSource& source, std::uint64_t bytes) {
  throw FileError(fmt::format("{}: {} bytes from byte {} on do not fit into memory", source.name(),
                              bytes, source.position()));
}

}  // namespace

std::size_t MemorySource::read_some(std::span<std::uint8_t> to) {
  const std::size_t count = std::min(to.size(), rest_.size());
  std::copy_n(rest_.begin(), count, to.begin());
  rest_ = rest_.subspan(count);
  return count;
}

struct FileSource::Gzip {
  explicit Gzip(int descriptor) : file(gzdopen(descriptor, "rb")) {
    if (!file) {
      close(descriptor);
      throw std::bad_alloc();
    }
    gzbuffer(file, 1 << 17);
  }
  ~Gzip() { gzclose(file); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  gzFile file;
};

FileSource::FileSource(const std::string& path) : ByteSource(shown_path(path)) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    throw FileError(fmt::format("{}: cannot be opened: {}", name(), std::strerror(errno)));
  gzip_ = std::make_unique<Gzip>(descriptor);
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return;
  if (S_ISDIR(status.st_mode)) throw FileError(name() + ": is a directory, not a file");
  if (S_ISREG(status.st_mode)) stored_bytes_ = static_cast<std::uint64_t>(status.st_size);
}

FileSource::~FileSource() = default;

Remaining FileSource::remaining() const {
  if (!stored_bytes_) return {unlimited, false};
  const auto after_position = [&](std::uint64_t bytes) {
    return bytes - std::min(bytes, position());
  };
  if (gzdirect(gzip_->file)) return {after_position(*stored_bytes_), true};
  const bool overflows = *stored_bytes_ > unlimited / max_inflated;
  return {overflows ? unlimited : after_position(*stored_bytes_ * max_inflated), false};
}

std::size_t FileSource::read_some(std::span<std::uint8_t> to) {
  std::size_t done = 0;
  while (done < to.size()) {
    const auto wanted = static_cast<unsigned>(std::min<std::size_t>(to.size() - done, 1u << 30));
    const int got = gzread(gzip_->file, to.data() + done, wanted);
    const int cause = errno;
    done += static_cast<std::size_t>(std::max(got, 0));
    int code = Z_OK;
    const std::string_view message = gzerror(gzip_->file, &code);
    if (code == Z_ERRNO)
      throw FileError(fmt::format("{}: cannot be read: {}", name(), std::strerror(cause)));
    if (code == Z_BUF_ERROR)
      throw FileError(fmt::format("{}: the gzip data is cut off after {} uncompressed bytes",
                                  name(), position() + done));
    if (got < 0 || code < 0) {
      // zlib puts the path in front, or what it has in its place.
      const std::size_t colon = message.find(": ");
      throw FileError(fmt::format("{}: the gzip data is damaged: {}", name(),
                                  colon == message.npos ? message : message.substr(colon + 2)));
    }
    if (static_cast<unsigned>(got) < wanted) break;
  }
  return done;
}

Bytes read_up_to(ByteSource& source, std::uint64_t bytes) {
  const std::uint64_t possible = std::min(bytes, source.remaining().bytes);
  Bytes content;
  try {
    if (source.remaining().exact) content.reserve(static_cast<std::size_t>(possible));
    while (content.size() < possible) {
      const std::size_t used = content.size();
      const auto grown = static_cast<std::size_t>(
          std::min<std::uint64_t>(possible, std::max(first_chunk_bytes, 2 * used)));
      content.reserve(grown);
      content.resize(grown);
      const std::size_t got = source.read(std::span(content).subspan(used));
      content.resize(used + got);
      if (used + got < grown) break;
    }
  } catch (const std::bad_alloc&) {
    fail_short_of_memory(source, possible);
  } catch (const std::length_error&) {
    fail_short_of_memory(source, possible);
  }
  return content;
}

void require_possible(const ByteSource& source, std::optional<std::uint64_t> promised,
                      const std::string& promise) {
  const Remaining remaining = source.remaining();
  if (remaining.exact && promised != remaining.bytes)
    throw FileError(
        fmt::format("{}: {}, but {} bytes follow", source.name(), promise, remaining.bytes));
  if (!promised || *promised > remaining.bytes)
    throw FileError(fmt::format("{}: {}, but no more than {} bytes can follow", source.name(),
                                promise, remaining.bytes));
  if (*promised > physical_memory_bytes())
    throw FileError(fmt::format("{}: {}, but this machine has {} bytes of memory", source.name(),
                                promise, physical_memory_bytes()));
}

void require_end(ByteSource& source, const std::string& promise) {
  std::uint8_t next = 0;
  if (source.read({&next, 1}) > 0)
    throw FileError(fmt::format("{}: {}, but more bytes follow", source.name(), promise));
}

Bytes read_promised(ByteSource& source, std::optional<std::uint64_t> promised,
                    const std::string& promise) {
  require_possible(source, promised, promise);
  Bytes content = read_up_to(source, *promised);
  if (content.size() < *promised)
    throw FileError(
        fmt::format("{}: {}, but {} bytes follow", source.name(), promise, content.size()));
  require_end(source, promise);
  return content;
}

}  // namespace plumb::app
