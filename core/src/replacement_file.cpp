// Writes files beside those that they replace.
#include "replacement_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <random>
#include <system_error>

namespace plumb {
namespace {

[[noreturn]] void fail(const char* what, int error) {
  throw std::system_error(error, std::generic_category(), what);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

std::string unforeseen_name_beside(const std::string& path) {
  std::random_device random;
  const std::uint64_t number = std::uint64_t{random()} << 32 | random();
  // A file's name has 255 bytes at most.
  const std::string folder = folder_of(path);
  return fmt::format("{}{}.tmp-{:016x}", folder, path.substr(folder.size(), 200), number);
}

/// The old file's owner, group and mode for the new one, as far as the user may give them.
void take_over(int descriptor, const struct stat& old) {
  mode_t mode = old.st_mode & 0777;
  struct stat now {};
  if (fstat(descriptor, &now) != 0) fail("cannot be written", errno);
  if (now.st_uid != old.st_uid || now.st_gid != old.st_gid) {
    if (fchown(descriptor, old.st_uid, old.st_gid) != 0 &&
        fchown(descriptor, static_cast<uid_t>(-1), old.st_gid) != 0)
      mode &= 0707;  // the rights were another group's
  }
  if (fchmod(descriptor, mode) != 0) fail("cannot be given the mode of the old file", errno);
}

}  // namespace

std::string followed_links(const std::string& path) {
  // Asked first, because readlink() follows what the system would not: in a folder such as /tmp it
  // refuses links of other users.
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 && errno != ENOENT) fail("cannot be created", errno);
  constexpr int max_links = 40;  // the system's limit
  std::string at = path;
  for (int links = 0; links <= max_links; ++links) {
    char buffer[4096];
    const ssize_t size = readlink(at.c_str(), buffer, sizeof buffer);
    if (size < 0 && (errno == EINVAL || errno == ENOENT)) return at;  // no link, or nothing yet
    if (size < 0) fail("cannot be created", errno);
    const std::string_view next(buffer, static_cast<std::size_t>(size));
    if (next.size() == sizeof buffer) fail("cannot be created", ENAMETOOLONG);
    at = (next.starts_with('/') ? "" : folder_of(at)) + std::string(next);
  }
  fail("cannot be created", ELOOP);
}

int create_new_file(const std::string& path, mode_t mode) noexcept {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}

void write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written", errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

ReplacementFile::ReplacementFile(const std::string& path) : target_(followed_links(path)) {
  if (target_.empty()) fail("cannot be created", ENOENT);
  if (target_.ends_with('/')) fail("cannot be created", EISDIR);
  struct stat old {};
  if (stat(target_.c_str(), &old) != 0) {
    if (errno != ENOENT) fail("cannot be created", errno);
    create(0666);
    return;
  }
  if (!S_ISREG(old.st_mode)) fail("cannot be replaced", S_ISDIR(old.st_mode) ? EISDIR : EINVAL);
  // Renaming needs no right to write the old file, but who took that away meant it.
  if (faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0) fail("cannot be written", errno);
  create(0600);
  try {
    take_over(descriptor_, old);
  } catch (...) {
    close(descriptor_);
    unlink(temporary_.c_str());
    throw;
  }
}

ReplacementFile::~ReplacementFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void ReplacementFile::create(mode_t mode) {
  constexpr int tries = 16;
  for (int i = 0; i < tries; ++i) {
    std::string name = unforeseen_name_beside(target_);
    descriptor_ = create_new_file(name, mode);
    if (descriptor_ >= 0) {
      temporary_ = std::move(name);
      return;
    }
    if (errno != EEXIST) break;
  }
  fail("cannot be created", errno);
}

void ReplacementFile::write(std::string_view bytes) { write_all(descriptor_, bytes); }

void ReplacementFile::commit() {
  if (fsync(descriptor_) != 0) fail("cannot be written", errno);
  const int closed = close(descriptor_);
  const int cause = errno;
  descriptor_ = -1;
  if (closed != 0) fail("cannot be written", cause);
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot be written", errno);
  temporary_.clear();
}

}  // namespace plumb
