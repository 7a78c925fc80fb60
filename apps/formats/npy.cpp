// NumPy's .npy files.
#include "formats/npy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <limits>
#include <set>

namespace plumb::app {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are read as they are stored");

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::uint64_t longest_header_bytes = std::uint64_t{1} << 20;  // NumPy's are below 10,000

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// Reads the one kind of Python expression that a header is: a dictionary with the keys descr (a
/// string), fortran_order (True or False) and shape (a tuple of integers), in any order.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::size_t offset, const std::string& name)
      : text_(text), offset_(offset), name_(name) {}

  Header read() {
    Header header;
    std::set<std::string> keys;
    expect('{');
    while (!accept('}')) {
      const std::size_t key_at = at_;
      const std::string key = string();
      if (!keys.insert(key).second) fail(key_at, fmt::format("the key {} again", printable(key)));
      expect(':');
      if (key == "descr")
        header.descr = descr();
      else if (key == "fortran_order")
        header.fortran_order = boolean();
      else if (key == "shape")
        header.shape = tuple();
      else
        fail(key_at, fmt::format("the key {}", printable(key)), "descr, fortran_order or shape");
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    for (const char* key : {"descr", "fortran_order", "shape"})
      if (!keys.contains(key)) fail(at_, fmt::format("no key '{}'", key));
    skip_space();
    if (at_ != text_.size()) fail(at_, "more text", "the header's end");
    return header;
  }

 private:
  [[noreturn]] void fail(std::size_t at, const std::string& found,
                         std::string_view expected = {}) const {
    throw FileError(fmt::format("{}: byte {}: {} in the .npy header{}{}", name_, offset_ + at,
                                found, expected.empty() ? "" : ", expected ", expected));
  }
  [[noreturn]] void fail_here(std::string_view expected) const {
    fail(at_, at_ < text_.size() ? printable(text_.substr(at_, 1)) : "nothing more", expected);
  }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool accept(std::string_view word) {
    skip_space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail_here(fmt::format("'{}'", c));
  }
  std::string string() {
    const char quote = accept('\'') ? '\'' : '"';
    if (quote == '"' && !accept('"')) fail_here("a string");
    const std::size_t end = text_.find(quote, at_);
    if (end == text_.npos) fail(at_, "a string without an end");
    const std::string result(text_.substr(at_, end - at_));
    at_ = end + 1;
    return result;
  }
  std::string descr() {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[')
      fail(at_, "a structured element type", "'<f4', '<f8' or '<f2'");
    return string();
  }
  bool boolean() {
    if (accept("True")) return true;
    if (!accept("False")) fail_here("True or False");
    return false;
  }
  std::int64_t integer() {
    skip_space();
    const std::size_t begin = at_;
    std::int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (value > (std::numeric_limits<std::int64_t>::max() - 9) / 10)
        fail(begin, "an extent past 2^63");
      value = value * 10 + (text_[at_] - '0');
    }
    if (at_ == begin) fail_here("an integer of 0 or more");
    return value;
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    while (!accept(')')) {
      values.push_back(integer());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  std::string_view text_;
  std::size_t offset_;  ///< of the header's text in the file
  const std::string& name_;
  std::size_t at_ = 0;
};

DType parse_descr(const std::string& descr, const std::string& name) {
  if (descr == "<f4") return DType::f32;
  if (descr == "<f8") return DType::f64;
  if (descr == "<f2") return DType::f16;
  throw FileError(
      fmt::format("{}: element type {}{}, expected '<f4', '<f8' or '<f2' (float32, float64, "
                  "float16, little-endian)",
                  name, printable(descr), descr.starts_with('>') ? " is big-endian" : ""));
}

std::string_view descr_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return "<f4";
    case DType::f64: return "<f8";
    case DType::f16: return "<f2";
    case DType::bf16: break;
  }
  throw FileError("NumPy has no bf16; expected f32, f64 or f16");
}

/// The header's text; what was read before it is the source's position less its length.
Bytes read_header_text(ByteSource& source) {
  const Bytes begin = read_up_to(source, 10);
  if (begin.size() < 10 ||
      !std::equal(magic.begin(), magic.end(), begin.begin(),
                  [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; }))
    throw FileError(fmt::format(
        "{}: {}, expected a .npy file (\\x93NUMPY)", source.name(),
        begin.size() < 10
            ? fmt::format("{} bytes", begin.size())
            : fmt::format("byte 0: starts with {}",
                          printable({reinterpret_cast<const char*>(begin.data()), 6}))));
  const int version = begin[6];
  if (version < 1 || version > 3)
    throw FileError(fmt::format("{}: byte 6: .npy format version {}, expected 1, 2 or 3",
                                source.name(), version));
  std::uint64_t length = load_little_endian<std::uint16_t>(begin, 8);
  if (version > 1) {
    const Bytes high = read_up_to(source, 2);
    if (high.size() == 2) length |= std::uint64_t{load_little_endian<std::uint16_t>(high, 0)} << 16;
  }
  if (length > longest_header_bytes)
    throw FileError(fmt::format("{}: byte 8: a header of {} bytes, expected {} at most",
                                source.name(), length, longest_header_bytes));
  Bytes text = read_up_to(source, length);
  if (text.size() < length || source.position() < (version == 1 ? 10u : 12u))
    throw FileError(fmt::format("{}: ends after {} bytes, inside its .npy header", source.name(),
                                source.position()));
  return text;
}

NpyArray read_array(ByteSource& source) {
  const Bytes text = read_header_text(source);
  const std::string& name = source.name();
  const Header header =
      HeaderReader({reinterpret_cast<const char*>(text.data()), text.size()},
                   static_cast<std::size_t>(source.position()) - text.size(), name)
          .read();
  const DType dtype = parse_descr(header.descr, name);
  if (header.fortran_order)
    throw FileError(name +
                    ": fortran_order is True, expected False: C order, as "
                    "numpy.ascontiguousarray gives it");
  if (header.shape.empty() || header.shape.size() > Dims::max_rank)
    throw FileError(fmt::format("{}: shape of {} dimensions, expected 1 to {}", name,
                                header.shape.size(), Dims::max_rank));
  const Extents extents(header.shape.data(), header.shape.size());
  return {dtype, extents,
          read_promised(source, checked_bytes(extents, dtype),
                        fmt::format("byte {}: the header says shape ({}) of {}", source.position(),
                                    fmt::join(header.shape, ", "), to_string(dtype)))};
}

}  // namespace

NpyArray parse_npy(const Bytes& content, const std::string& name) {
  MemorySource source(content, name);
  return read_array(source);
}

NpyArray read_npy(const std::string& path) {
  FileSource source(path);
  return read_array(source);
}

Bytes npy_header(DType dtype, const Extents& extents) {
  // A tuple of one has a comma.
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr_of(dtype),
                  fmt::join(extents.begin(), extents.end(), ", "), extents.rank() == 1 ? "," : "");
  // NumPy aligns the elements to 64 bytes with spaces and ends the header with a newline.
  constexpr std::size_t prefix_bytes = 10, alignment = 64;
  const std::size_t header_bytes =
      (prefix_bytes + text.size() + 1 + alignment - 1) / alignment * alignment;
  text.append(header_bytes - prefix_bytes - text.size() - 1, ' ');
  text += '\n';

  const std::string header = std::string(magic) + '\1' + '\0' +
                             static_cast<char>(text.size() & 0xff) +
                             static_cast<char>(text.size() >> 8) + text;
  return {header.begin(), header.end()};
}

void write_npy(const std::string& path, const ConstTensorView& array) {
  const Bytes header = npy_header(array.dtype(), array.extents());
  const std::size_t bytes =
      static_cast<std::size_t>(element_count(array.extents())) * size_in_bytes(array.dtype());
  write_file(path, {header, {static_cast<const std::uint8_t*>(array.data()), bytes}});
}

}  // namespace plumb::app
