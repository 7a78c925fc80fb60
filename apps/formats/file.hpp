// Whole files: read (gzip or plain), and written so that a failure leaves the old file alone.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "errors.hpp"
#include "formats/source.hpp"
#include "plumb/quote.hpp"
#include "plumb/types.hpp"

namespace plumb::app {

/// The file's content, uncompressed where it is gzip; at most `max_bytes` of it are ever held.
/// FileError names the path and what failed: where the file ends early with the number of bytes
/// that could be read, and where it has more than `max_bytes`.
Bytes read_file(const std::string& path, std::uint64_t max_bytes);

/// Writes the parts one after another into a new file beside `path` and renames it over `path`
/// at the end: on failure what was there before is still there, and what is replaced keeps its
/// mode. Links are followed, also one that leads to no file yet; a terminal, a pipe or a device is
/// written to. FileError names path and cause.
void write_file(const std::string& path,
                std::initializer_list<std::span<const std::uint8_t>> parts);

void write_text(const std::string& path, std::string_view text);

/// Whether write_file(path) replaces a file, or makes a new one; a terminal, a pipe or /dev/null is
/// written to as it is.
bool is_replaced(const std::string& path);

/// Whether both paths lead to one file, through symbolic or hard links or by another spelling; no
/// where one of them leads to none.
bool same_file(const std::string& a, const std::string& b);

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

/// A path as messages show it: as it is, or quoted where it is long or cannot be printed.
std::string shown_path(const std::string& path);

/// Text from a file's header, in quotes: plumb::quoted() of 40 characters.
inline std::string printable(std::string_view text) { return plumb::quoted(text, 40); }

}  // namespace plumb::app
