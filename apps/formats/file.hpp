// Whole files: read (gzip or plain), and written so that a failure leaves the old file alone.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "errors.hpp"
#include "plumb/types.hpp"

namespace plumb::app {

using Bytes = std::vector<std::uint8_t>;

/// The file's content, uncompressed where it is gzip. FileError names the path and what failed,
/// with the number of bytes that could be read where the file ends early.
Bytes read_file(const std::string& path);

/// Writes the parts one after another into a new file beside `path` and renames it over `path`
/// at the end: on failure what was there before is still there. FileError names path and cause.
void write_file(const std::string& path,
                std::initializer_list<std::span<const std::uint8_t>> parts);

void write_text(const std::string& path, std::string_view text);

/// FileError now where write_file(path) would fail later: for work that takes long.
void require_writable(const std::string& path);

/// The unsigned integer at `bytes[at]`; the caller has checked that it is there.
template <class T>
T load_little_endian(std::span<const std::uint8_t> bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = sizeof(T); i-- > 0;) value = static_cast<T>(value << 8 | bytes[at + i]);
  return value;
}
template <class T>
T load_big_endian(std::span<const std::uint8_t> bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value << 8 | bytes[at + i]);
  return value;
}

/// The product of the sizes, or nothing where it passes 2^62: no file is that large, and sizes
/// read from one are multiplied before anything is known to be true of them.
std::optional<std::uint64_t> checked_product(std::initializer_list<std::uint64_t> sizes);

/// The bytes of a tensor whose extents came from a file, or nothing where they pass 2^62.
std::optional<std::uint64_t> checked_bytes(const Extents& extents, DType dtype);

/// Text from a file, fit for one line of an error message: at most 40 characters, quoted, with
/// whatever is not printable as \x00.
std::string printable(std::string_view text);

}  // namespace plumb::app
