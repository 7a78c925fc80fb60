// IDX files.
#include "formats/idx.hpp"

#include <fmt/format.h>

#include <array>
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

/// Bytes of the header, all of which must be there.
template <std::size_t Count>
std::array<std::uint8_t, Count> take(ByteSource& source, std::size_t header_bytes) {
  std::array<std::uint8_t, Count> bytes;
  if (source.read(bytes) < Count) {
    const std::uint64_t end = source.position();
    throw FileError(end < 4
                        ? fmt::format("{}: {} bytes, too short for an IDX file's magic number of 4",
                                      source.name(), end)
                        : fmt::format("{}: ends after {} bytes, inside its header of {}",
                                      source.name(), end, header_bytes));
  }
  return bytes;
}

template <std::size_t Rank>
struct Idx {
  std::array<std::uint32_t, Rank> extents;
  Bytes elements;
};

/// The magic number is looked at before anything else is read, and the elements are read only where
/// as many as the extents say can be there.
template <std::size_t Rank>
Idx<Rank> read_idx(ByteSource& source, std::uint32_t magic) {
  constexpr std::size_t header_bytes = 4 + 4 * Rank;
  const auto found = load_big_endian<std::uint32_t>(take<4>(source, header_bytes), 0);
  if (found != magic)
    throw FileError(fmt::format("{}: byte 0: magic number 0x{:08x} ({}), expected 0x{:08x} ({})",
                                source.name(), found, describe_magic(found), magic,
                                describe_magic(magic)));
  const auto header = take<4 * Rank>(source, header_bytes);
  Idx<Rank> idx;
  std::optional<std::uint64_t> elements = 1;
  std::string product;
  for (std::size_t i = 0; i < Rank; ++i) {
    idx.extents[i] = load_big_endian<std::uint32_t>(header, 4 * i);
    if (elements) elements = checked_product({*elements, idx.extents[i]});
    product += fmt::format("{}{}", i == 0 ? "" : " x ", idx.extents[i]);
  }
  idx.elements = read_promised(source, elements,
                               fmt::format("bytes 4 to {}: the header says {} elements of one byte",
                                           header_bytes - 1, product));
  return idx;
}

IdxImages read_images(ByteSource& source) {
  auto [extents, elements] = read_idx<3>(source, images_magic);
  return {extents[0], extents[1], extents[2], std::move(elements)};
}
Bytes read_labels(ByteSource& source) { return read_idx<1>(source, labels_magic).elements; }

}  // namespace

IdxImages parse_idx_images(const Bytes& content, const std::string& name) {
  MemorySource source(content, name);
  return read_images(source);
}
Bytes parse_idx_labels(const Bytes& content, const std::string& name) {
  MemorySource source(content, name);
  return read_labels(source);
}

IdxImages read_idx_images(const std::string& path) {
  FileSource source(path);
  return read_images(source);
}
Bytes read_idx_labels(const std::string& path) {
  FileSource source(path);
  return read_labels(source);
}

}  // namespace plumb::app
