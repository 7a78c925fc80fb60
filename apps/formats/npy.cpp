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

/// Where the header's text lies: its begin and its length, as the first bytes say.
std::pair<std::size_t, std::size_t> locate_header(const Bytes& content, const std::string& name) {
  if (content.size() < 10 ||
      !std::equal(magic.begin(), magic.end(), content.begin(),
                  [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; }))
    throw FileError(fmt::format(
        "{}: {}, expected a .npy file (\\x93NUMPY)", name,
        content.size() < 10
            ? fmt::format("{} bytes", content.size())
            : fmt::format("byte 0: starts with {}",
                          printable({reinterpret_cast<const char*>(content.data()), 6}))));
  const int version = content[6];
  if (version < 1 || version > 3)
    throw FileError(
        fmt::format("{}: byte 6: .npy format version {}, expected 1, 2 or 3", name, version));
  const std::size_t begin = version == 1 ? 10 : 12;
  const std::size_t length = version == 1 ? load_little_endian<std::uint16_t>(content, 8)
                             : content.size() >= begin
                                 ? load_little_endian<std::uint32_t>(content, 8)
                                 : content.size();
  if (content.size() < begin || length > content.size() - begin)
    throw FileError(
        fmt::format("{}: ends after {} bytes, inside its .npy header", name, content.size()));
  return {begin, length};
}

}  // namespace

NpyArray parse_npy(Bytes content, const std::string& name) {
  const auto [begin, length] = locate_header(content, name);
  const std::string_view text(reinterpret_cast<const char*>(content.data()) + begin, length);
  const Header header = HeaderReader(text, begin, name).read();
  const DType dtype = parse_descr(header.descr, name);
  if (header.fortran_order)
    throw FileError(name +
                    ": fortran_order is True, expected False: C order, as "
                    "numpy.ascontiguousarray gives it");
  if (header.shape.empty() || header.shape.size() > Dims::max_rank)
    throw FileError(fmt::format("{}: shape ({}): {} dimensions, expected 1 to {}", name,
                                fmt::join(header.shape, ", "), header.shape.size(),
                                Dims::max_rank));
  const Extents extents(header.shape.data(), header.shape.size());
  const std::size_t present = content.size() - begin - length;
  if (checked_bytes(extents, dtype) != present)
    throw FileError(fmt::format(
        "{}: byte {}: {} bytes follow the header, but shape ({}) of {} "
        "is another number",
        name, begin + length, present, fmt::join(header.shape, ", "), to_string(dtype)));
  content.erase(content.begin(), content.begin() + static_cast<std::ptrdiff_t>(begin + length));
  return {dtype, extents, std::move(content)};
}

NpyArray read_npy(const std::string& path) { return parse_npy(read_file(path), path); }

Bytes npy_header(DType dtype, const Extents& extents) {
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (", descr_of(dtype));
  for (const std::int64_t extent : extents) text += fmt::format("{}, ", extent);
  // A tuple of one keeps its comma.
  text.resize(text.size() - (extents.rank() == 1 ? 1 : 2));
  text += "), }";
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
