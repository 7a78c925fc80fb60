// The wire format of protocol buffers, as far as ONNX's files use it: a message is a row of fields,
// each with a number and a value. https://protobuf.dev/programming-guides/encoding/
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace plumb_test::onnx {

/// Bytes that are not what they should be.
class ParseError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Bytes = std::span<const std::uint8_t>;

enum class WireType : std::uint8_t { varint = 0, eight_bytes = 1, bytes = 2, four_bytes = 5 };

struct Field {
  std::uint64_t number = 0;
  WireType type = WireType::varint;
  std::uint64_t value = 0;  ///< of a varint, or of four or eight bytes
  Bytes bytes;              ///< of the type `bytes`; they belong to the message

  /// The value as each kind of field has it. ParseError where the field is of another type.
  Bytes message() const;
  std::string text() const;
  std::int64_t integer() const;
  float real() const;
  /// Appends the elements of a repeated field, which may stand one by one or packed.
  void append_to(std::vector<std::int64_t>& integers) const;
  void append_to(std::vector<float>& reals) const;
  void append_to(std::vector<double>& reals) const;
};

/// All fields of a message, in order. ParseError says at which of its bytes it is damaged.
std::vector<Field> fields_of(Bytes message);

}  // namespace plumb_test::onnx
