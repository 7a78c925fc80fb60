// Files as a whole.
#include "formats/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "core/src/replacement_file.hpp"

namespace plumb::app {
namespace {

namespace fs = std::filesystem;

std::string_view as_text(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A terminal, a pipe, /dev/null: written to, never replaced.
bool is_special(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

void write_special(const std::string& path,
                   std::initializer_list<std::span<const std::uint8_t>> parts) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0)
    throw std::system_error(errno, std::generic_category(), "cannot be opened for writing");
  const auto closing = std::unique_ptr<const int, void (*)(const int*)>(
      &descriptor, [](const int* open_descriptor) { close(*open_descriptor); });
  for (const auto& part : parts) write_all(descriptor, as_text(part));
}

/// What work() says of a file, with its path in front.
template <class Work>
void on_file(const std::string& path, Work&& work) {
  try {
    work();
  } catch (const std::system_error& error) {
    throw FileError(fmt::format("{}: {}", shown_path(path), error.what()));
  }
}

}  // namespace

Bytes read_file(const std::string& path, std::uint64_t max_bytes) {
  FileSource source(path);
  Bytes content;
  const Remaining remaining = source.remaining();
  const bool larger = remaining.exact && remaining.bytes > max_bytes;
  if (!larger) content = read_up_to(source, max_bytes + 1);
  if (larger || content.size() > max_bytes)
    throw FileError(
        fmt::format("{}: more than {} bytes, expected so many at most", source.name(), max_bytes));
  return content;
}

void write_file(const std::string& path,
                std::initializer_list<std::span<const std::uint8_t>> parts) {
  on_file(path, [&] {
    if (is_special(path)) return write_special(path, parts);
    ReplacementFile file(path);
    for (const auto& part : parts) file.write(as_text(part));
    file.commit();
  });
}

void write_text(const std::string& path, std::string_view text) {
  write_file(path, {{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}});
}

bool is_replaced(const std::string& path) { return !is_special(path); }

bool same_file(const std::string& a, const std::string& b) {
  std::error_code no_file;
  return fs::equivalent(a, b, no_file) && !no_file;
}

void require_writable(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    throw FileError(shown_path(path) + ": is a directory, not a file");
  if (!is_special(path)) on_file(path, [&] { ReplacementFile probe(path); });
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

std::string shown_path(const std::string& path) {
  constexpr std::size_t characters = 200;
  std::string in_quotes = plumb::quoted(path, characters);
  return in_quotes == fmt::format("'{}'", path) ? path : in_quotes;
}

}  // namespace plumb::app
