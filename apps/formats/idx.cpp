// IDX files.
#include "formats/idx.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <optional>

namespace plumb::app {
namespace {

constexpr std::uint32_t labels_magic = 0x00000801, images_magic = 0x00000803;

std::string describe_magic(std::uint32_t magic) {
  switch (magic) {
    case labels_magic: return "labels: unsigned bytes of 1 dimension";
    case images_magic: return "images: unsigned bytes of 3 dimensions";
    default: return "not a file of unsigned bytes with 1 or 3 dimensions";
  }
}

/// Checks the header against the content and cuts it off; the extents, as many as the magic says.
template <std::size_t Rank>
std::array<std::uint32_t, Rank> take_header(Bytes& content, std::uint32_t magic,
                                            const std::string& name) {
  constexpr std::size_t header_bytes = 4 + 4 * Rank;
  if (content.size() < 4)
    throw FileError(fmt::format("{}: {} bytes, too short for an IDX file's magic number of 4", name,
                                content.size()));
  const auto found = load_big_endian<std::uint32_t>(content, 0);
  if (found != magic)
    throw FileError(fmt::format("{}: byte 0: magic number 0x{:08x} ({}), expected 0x{:08x} ({})",
                                name, found, describe_magic(found), magic, describe_magic(magic)));
  if (content.size() < header_bytes)
    throw FileError(fmt::format("{}: ends after {} bytes, inside its header of {}", name,
                                content.size(), header_bytes));
  std::array<std::uint32_t, Rank> extents;
  std::optional<std::uint64_t> elements = 1;
  std::string product;
  for (std::size_t i = 0; i < Rank; ++i) {
    extents[i] = load_big_endian<std::uint32_t>(content, 4 + 4 * i);
    if (elements) elements = checked_product({*elements, extents[i]});
    product += fmt::format("{}{}", i == 0 ? "" : " x ", extents[i]);
  }
  const std::size_t present = content.size() - header_bytes;
  if (elements != present)
    throw FileError(
        fmt::format("{}: bytes 4 to {}: the header says {} elements of one byte, but "
                    "{} bytes follow it",
                    name, header_bytes - 1, product, present));
  content.erase(content.begin(), content.begin() + header_bytes);
  return extents;
}

}  // namespace

IdxImages parse_idx_images(Bytes content, const std::string& name) {
  const auto [count, height, width] = take_header<3>(content, images_magic, name);
  return {count, height, width, std::move(content)};
}

Bytes parse_idx_labels(Bytes content, const std::string& name) {
  take_header<1>(content, labels_magic, name);
  return content;
}

IdxImages read_idx_images(const std::string& path) {
  return parse_idx_images(read_file(path), path);
}
Bytes read_idx_labels(const std::string& path) { return parse_idx_labels(read_file(path), path); }

}  // namespace plumb::app
