// Reads the wire format of protocol buffers; nothing is read before it is known to be there.
#include "onnx/wire.hpp"

#include <fmt/format.h>

#include <bit>

namespace plumb_test::onnx {
namespace {

class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}

  bool at_end() const { return at_ == bytes_.size(); }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint8_t byte = take(1)[0];
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw ParseError(fmt::format("byte {}: a varint of more than 10 bytes", at_));
  }

  std::uint64_t little_endian(std::size_t size) {
    std::uint64_t value = 0;
    int shift = 0;
    for (const std::uint8_t byte : take(size)) {
      value |= static_cast<std::uint64_t>(byte) << shift;
      shift += 8;
    }
    return value;
  }

  Bytes take(std::uint64_t size) {
    if (size > bytes_.size() - at_)
      throw ParseError(fmt::format("byte {}: {} bytes are announced and {} are left", at_, size,
                                   bytes_.size() - at_));
    const Bytes taken = bytes_.subspan(at_, size);
    at_ += size;
    return taken;
  }

  Field field() {
    const std::size_t begin = at_;
    const std::uint64_t tag = varint();
    Field field{.number = tag >> 3, .type = static_cast<WireType>(tag & 7), .bytes = {}};
    if (field.number == 0) throw ParseError(fmt::format("byte {}: a field of number 0", begin));
    switch (field.type) {
      case WireType::varint: field.value = varint(); return field;
      case WireType::eight_bytes: field.value = little_endian(8); return field;
      case WireType::four_bytes: field.value = little_endian(4); return field;
      case WireType::bytes: field.bytes = take(varint()); return field;
    }
    throw ParseError(fmt::format("byte {}: wire type {}", begin, tag & 7));
  }

 private:
  Bytes bytes_;
  std::size_t at_ = 0;
};

void require(const Field& field, WireType type) {
  if (field.type != type)
    throw ParseError(fmt::format("field {}: wire type {}, expected {}", field.number,
                                 static_cast<int>(field.type), static_cast<int>(type)));
}

/// Calls `append(bits)` for each value of four or eight bytes.
template <class F>
void each_value(const Field& field, WireType type, std::size_t size, const F& append) {
  if (field.type == type) return append(field.value);
  Reader packed(field.message());
  while (!packed.at_end()) append(packed.little_endian(size));
}

float float_of(std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

}  // namespace

Bytes Field::message() const {
  require(*this, WireType::bytes);
  return bytes;
}

std::string Field::text() const {
  const Bytes characters = message();
  return {characters.begin(), characters.end()};
}

std::int64_t Field::integer() const {
  require(*this, WireType::varint);
  return static_cast<std::int64_t>(value);
}

float Field::real() const {
  require(*this, WireType::four_bytes);
  return float_of(value);
}

void Field::append_to(std::vector<std::int64_t>& integers) const {
  if (type == WireType::varint) return integers.push_back(integer());
  Reader packed(message());
  while (!packed.at_end()) integers.push_back(static_cast<std::int64_t>(packed.varint()));
}

void Field::append_to(std::vector<float>& reals) const {
  each_value(*this, WireType::four_bytes, 4,
             [&](std::uint64_t bits) { reals.push_back(float_of(bits)); });
}

void Field::append_to(std::vector<double>& reals) const {
  each_value(*this, WireType::eight_bytes, 8,
             [&](std::uint64_t bits) { reals.push_back(std::bit_cast<double>(bits)); });
}

std::vector<Field> fields_of(Bytes message) {
  Reader reader(message);
  std::vector<Field> fields;
  while (!reader.at_end()) fields.push_back(reader.field());
  return fields;
}

}  // namespace plumb_test::onnx
