// Whole files: read through zlib, which passes plain files on as they are, and written by rename.
#include "formats/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

namespace plumb::app {
namespace {

namespace fs = std::filesystem;

constexpr unsigned read_chunk_bytes = 1u << 20;

[[noreturn]] void fail(const std::string& path, std::string_view what, int error) {
  throw FileError(fmt::format("{}: {}: {}", path, what, std::strerror(error)));
}

struct GzipClose {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, GzipClose>;

[[noreturn]] void fail_reading(const std::string& path, gzFile file, std::size_t bytes_read) {
  int code = Z_OK;
  const std::string_view message = gzerror(file, &code);
  if (code == Z_ERRNO) fail(path, "cannot be read", errno);
  if (code == Z_BUF_ERROR)
    throw FileError(
        fmt::format("{}: the gzip data is cut off after {} uncompressed bytes", path, bytes_read));
  // zlib puts the path in front.
  throw FileError(fmt::format("{}: the gzip data is damaged: {}", path,
                              message.substr(std::min(path.size() + 2, message.size()))));
}

/// A new file beside the target that either takes the target's place or goes away.
class ReplacementFile {
 public:
  explicit ReplacementFile(const fs::path& target) : target_(target) {
    std::string name = target.string() + ".tmp-XXXXXX";
    descriptor_ = mkstemp(name.data());
    if (descriptor_ < 0) fail(target_.string(), "cannot be created", errno);
    path_ = name;
  }
  ReplacementFile(const ReplacementFile&) = delete;
  ReplacementFile& operator=(const ReplacementFile&) = delete;
  ~ReplacementFile() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!path_.empty()) unlink(path_.c_str());
  }

  int descriptor() const { return descriptor_; }

  void commit() {
    const mode_t mask = umask(0);
    umask(mask);
    if (fchmod(descriptor_, 0666 & ~mask) != 0 || fsync(descriptor_) != 0)
      fail(target_.string(), "cannot be written", errno);
    const int closed = close(descriptor_);
    descriptor_ = -1;
    if (closed != 0 || rename(path_.c_str(), target_.c_str()) != 0)
      fail(target_.string(), "cannot be written", errno);
    path_.clear();
  }

 private:
  fs::path target_;
  std::string path_;
  int descriptor_ = -1;
};

void write_all(int descriptor, std::span<const std::uint8_t> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path, "cannot be written", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

/// Links are followed, so that the file they point to is replaced and not the link.
fs::path resolved(const std::string& path) {
  std::error_code ignored;
  const fs::path canonical = fs::canonical(path, ignored);
  return canonical.empty() ? fs::path(path) : canonical;
}

/// A terminal, a pipe, /dev/null: written to, never replaced.
bool is_special(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

}  // namespace

Bytes read_file(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) throw FileError(path + ": is a directory, not a file");
  errno = 0;
  const GzipFile file(gzopen(path.c_str(), "rb"));
  if (!file) fail(path, "cannot be opened", errno != 0 ? errno : ENOMEM);
  gzbuffer(file.get(), 1 << 17);

  Bytes bytes;
  const std::uintmax_t size = fs::file_size(path, ignored);
  if (gzdirect(file.get()) && !ignored)
    bytes.reserve(static_cast<std::size_t>(size) + read_chunk_bytes);
  // Grows with what is really there, and never with what a header claims.
  for (;;) {
    const std::size_t used = bytes.size();
    bytes.resize(used + read_chunk_bytes);
    const int got = gzread(file.get(), bytes.data() + used, read_chunk_bytes);
    bytes.resize(used + static_cast<std::size_t>(std::max(got, 0)));
    int code = Z_OK;
    gzerror(file.get(), &code);
    if (got < 0 || code < 0) fail_reading(path, file.get(), bytes.size());
    if (static_cast<unsigned>(got) < read_chunk_bytes) return bytes;
  }
}

void write_file(const std::string& path,
                std::initializer_list<std::span<const std::uint8_t>> parts) {
  const fs::path target = resolved(path);
  if (is_special(target)) {
    const int descriptor = open(target.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) fail(path, "cannot be opened for writing", errno);
    const auto closing = std::unique_ptr<const int, void (*)(const int*)>(
        &descriptor, [](const int* open_descriptor) { close(*open_descriptor); });
    for (const auto& part : parts) write_all(descriptor, part, path);
    return;
  }
  ReplacementFile file(target);
  for (const auto& part : parts) write_all(file.descriptor(), part, path);
  file.commit();
}

void write_text(const std::string& path, std::string_view text) {
  write_file(path, {{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}});
}

void require_writable(const std::string& path) {
  const fs::path target = resolved(path);
  std::error_code ignored;
  if (fs::is_directory(target, ignored)) throw FileError(path + ": is a directory, not a file");
  if (!is_special(target)) ReplacementFile probe(target);
}

std::optional<std::uint64_t> checked_product(std::initializer_list<std::uint64_t> sizes) {
  constexpr std::uint64_t limit = std::uint64_t{1} << 62;
  std::uint64_t product = 1;
  for (const std::uint64_t size : sizes) {
    if (product != 0 && size > limit / product) return std::nullopt;
    product *= size;
  }
  return product;
}

std::optional<std::uint64_t> checked_bytes(const Extents& extents, DType dtype) {
  std::optional<std::uint64_t> bytes = size_in_bytes(dtype);
  for (const std::int64_t extent : extents)
    if (bytes) bytes = checked_product({*bytes, static_cast<std::uint64_t>(extent)});
  return bytes;
}

std::string printable(std::string_view text) {
  std::string result = "'";
  for (const char c : text.substr(0, 40))
    result += c >= ' ' && c <= '~' ? std::string(1, c)
                                   : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return result + (text.size() > 40 ? "...'" : "'");
}

}  // namespace plumb::app
