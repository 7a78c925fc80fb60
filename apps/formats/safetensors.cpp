// Safetensors files.
#include "formats/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

namespace plumb::app {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "elements are read as they are stored");

constexpr std::size_t length_bytes = 8;
constexpr std::uint64_t header_limit_bytes = 100'000'000;  // the format's own
constexpr const char* metadata_key = "__metadata__";
constexpr std::pair<const char*, DType> dtype_names[] = {
    {"F32", DType::f32}, {"F64", DType::f64}, {"F16", DType::f16}, {"BF16", DType::bf16}};

[[noreturn]] void fail(const std::string& name, const std::string& tensor,
                       const std::string& what) {
  throw FileError(fmt::format("{}: tensor {}: {}", name, printable(tensor), what));
}

/// Finds a name that stands twice in the header, or a key twice in an entry, of which the JSON
/// reader would keep the last. A pass of its own: the reader's callback goes over all entries again
/// for each. Whatever else is wrong ends the pass and is left to the reader.
class FirstRepeatedKey final : public nlohmann::json_sax<json> {
 public:
  explicit FirstRepeatedKey(const std::string& name) : name_(name) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    if (++depth_ == 2) entry_keys_.clear();
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(string_t& text) override {
    if (depth_ == 1) {
      tensor_ = text;
      if (!tensors_.insert(text).second) fail(name_, text, "stands twice in the header");
    } else if (depth_ == 2 && !entry_keys_.insert(text).second) {
      fail(name_, tensor_, fmt::format("the key {} stands twice", printable(text)));
    }
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  const std::string& name_;
  std::size_t depth_ = 0;
  std::string tensor_;
  std::set<std::string> tensors_, entry_keys_;
};

json parse_header(const Bytes& text, const std::string& name) {
  FirstRepeatedKey repeated(name);
  json::sax_parse(text.begin(), text.end(), &repeated);
  json header;
  try {
    header = json::parse(text.begin(), text.end());
  } catch (const json::parse_error& error) {
    throw FileError(fmt::format("{}: byte {}: the safetensors header is not JSON", name,
                                length_bytes + error.byte));
  } catch (const json::out_of_range&) {
    throw FileError(name + ": the safetensors header has a number that no double can hold");
  }
  if (!header.is_object())
    throw FileError(fmt::format("{}: byte {}: the safetensors header is {}, expected an object",
                                name, length_bytes, header.type_name()));
  return header;
}

DType parse_stored_dtype(const json& entry, const std::string& name, const std::string& tensor) {
  const auto found = entry.find("dtype");
  if (found == entry.end() || !found->is_string()) fail(name, tensor, "no dtype");
  for (const auto& [text, dtype] : dtype_names)
    if (*found == text) return dtype;
  fail(name, tensor,
       fmt::format("dtype {}, expected F32, F64, F16 or BF16",
                   printable(found->get_ref<const std::string&>())));
}

/// A value from a file, for an error message; of an array or object only what it is, as it may be
/// nested deeper than the stack.
std::string describe(const json& value) {
  if (value.is_structured()) return value.type_name();
  return printable(value.dump(-1, ' ', true, json::error_handler_t::replace));
}

std::vector<std::uint64_t> parse_sizes(const json& entry, const char* key, const std::string& name,
                                       const std::string& tensor) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) fail(name, tensor, fmt::format("no {}", key));
  std::vector<std::uint64_t> sizes;
  for (const json& size : *found) {
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() >> 62 != 0)
      fail(name, tensor,
           fmt::format("{}: {}, expected an integer from 0 to 2^62", key, describe(size)));
    sizes.push_back(size.get<std::uint64_t>());
  }
  return sizes;
}

/// A tensor as its entry describes it, and where its bytes begin and end.
struct Entry {
  std::string tensor;
  StoredTensor stored;
  std::uint64_t begin = 0, end = 0;
};

Entry parse_entry(const json& entry, const std::string& name, const std::string& tensor) {
  if (!entry.is_object())
    fail(name, tensor, fmt::format("{}, expected an object", entry.type_name()));
  Entry result;
  result.tensor = tensor;
  result.stored.dtype = parse_stored_dtype(entry, name, tensor);
  const auto shape = parse_sizes(entry, "shape", name, tensor);
  if (shape.size() > Dims::max_rank)
    fail(name, tensor,
         fmt::format("{} dimensions, expected {} at most", shape.size(), Dims::max_rank));
  const std::vector<std::int64_t> extents(shape.begin(), shape.end());
  result.stored.extents = Extents(extents.data(), extents.size());
  const auto offsets = parse_sizes(entry, "data_offsets", name, tensor);
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    fail(name, tensor, "data_offsets are not [begin, end]");
  result.begin = offsets[0];
  result.end = offsets[1];
  if (checked_bytes(result.stored.extents, result.stored.dtype) != result.end - result.begin)
    fail(name, tensor,
         fmt::format("data_offsets [{}, {}] span {} bytes, but shape {} of {} is another number",
                     result.begin, result.end, result.end - result.begin,
                     to_string(result.stored.extents), to_string(result.stored.dtype)));
  return result;
}

std::map<std::string, std::string> parse_metadata(const json& entries, const std::string& name) {
  std::map<std::string, std::string> metadata;
  if (!entries.is_object()) fail(name, metadata_key, "expected an object");
  for (const auto& [key, value] : entries.items()) {
    if (!value.is_string())
      fail(name, metadata_key, fmt::format("{} is not a string", printable(key)));
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

/// The tensors must fill the data, one after another. Sorts them so.
void require_contiguous(std::vector<Entry>& entries, const ByteSource& source) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const Remaining data = source.remaining();
  std::uint64_t expected = 0;
  for (const Entry& entry : entries) {
    if (entry.end > data.bytes)
      fail(source.name(), entry.tensor,
           fmt::format("its data ends at byte {} of the data, which has {}{} (is the file cut "
                       "off?)",
                       entry.end, data.exact ? "" : "no more than ", data.bytes));
    if (entry.begin != expected)
      fail(source.name(), entry.tensor,
           fmt::format("its data begins at byte {} of the data, expected {}, where the one before "
                       "it ends",
                       entry.begin, expected));
    expected = entry.end;
  }
}

/// Its size and its JSON, as far as they can be there.
Bytes read_header(ByteSource& source) {
  const Bytes length = read_up_to(source, length_bytes);
  if (length.size() < length_bytes)
    throw FileError(fmt::format("{}: {} bytes, too short for a safetensors file", source.name(),
                                length.size()));
  const auto header_bytes = load_little_endian<std::uint64_t>(length, 0);
  if (header_bytes > header_limit_bytes)
    throw FileError(
        fmt::format("{}: byte 0: a header of {} bytes, expected {} at most; not a "
                    "safetensors file",
                    source.name(), header_bytes, header_limit_bytes));
  const auto ends_inside = [&](std::uint64_t end) {
    return FileError(fmt::format("{}: ends after {} bytes, inside its safetensors header of {}",
                                 source.name(), end, header_bytes));
  };
  const Remaining remaining = source.remaining();
  if (remaining.exact && header_bytes > remaining.bytes)
    throw ends_inside(source.position() + remaining.bytes);
  Bytes header = read_up_to(source, header_bytes);
  if (header.size() < header_bytes) throw ends_inside(source.position());
  return header;
}

Safetensors read_tensors(ByteSource& source) {
  Safetensors file;
  std::vector<Entry> entries;
  {
    const json header = parse_header(read_header(source), source.name());
    for (const auto& [key, value] : header.items()) {
      if (key == metadata_key)
        file.metadata = parse_metadata(value, source.name());
      else
        entries.push_back(parse_entry(value, source.name(), key));
    }
  }
  require_contiguous(entries, source);
  const std::uint64_t data_bytes = entries.empty() ? 0 : entries.back().end;
  const std::string promise = fmt::format("the tensors end at byte {} of the data, from byte {} on",
                                          data_bytes, source.position());
  require_possible(source, data_bytes, promise);
  for (Entry& entry : entries) {
    const std::uint64_t bytes = entry.end - entry.begin;
    entry.stored.data = read_up_to(source, bytes);
    if (entry.stored.data.size() < bytes)
      fail(source.name(), entry.tensor,
           fmt::format("its data ends at byte {} of the data, which has {} (is the file cut off?)",
                       entry.end, entry.begin + entry.stored.data.size()));
    file.tensors.emplace(entry.tensor, std::move(entry.stored));
  }
  require_end(source, promise);
  return file;
}

template <class Stored>
std::vector<float> as_floats(const Bytes& data) {
  std::vector<float> values(data.size() / sizeof(Stored));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, data.data() + i * sizeof(Stored), sizeof(Stored));
    values[i] = static_cast<float>(stored);
  }
  return values;
}

}  // namespace

std::vector<float> as_floats(const StoredTensor& tensor) {
  switch (tensor.dtype) {
    case DType::f32: return as_floats<float>(tensor.data);
    case DType::f64: return as_floats<double>(tensor.data);
    case DType::f16: return as_floats<Half>(tensor.data);
    case DType::bf16: return as_floats<BFloat16>(tensor.data);
  }
  return {};
}

Safetensors parse_safetensors(const Bytes& content, const std::string& name) {
  MemorySource source(content, name);
  return read_tensors(source);
}

Safetensors read_safetensors(const std::string& path) {
  FileSource source(path);
  return read_tensors(source);
}

Bytes safetensors_content(const Safetensors& file) {
  json header = json::object();
  if (!file.metadata.empty()) header[metadata_key] = file.metadata;
  std::uint64_t offset = 0;
  for (const auto& [tensor, stored] : file.tensors) {
    const auto* dtype =
        std::find_if(std::begin(dtype_names), std::end(dtype_names),
                     [wanted = stored.dtype](const auto& pair) { return pair.second == wanted; });
    header[tensor] = {
        {"dtype", dtype->first},
        {"shape", std::vector<std::int64_t>(stored.extents.begin(), stored.extents.end())},
        {"data_offsets", {offset, offset + stored.data.size()}}};
    offset += stored.data.size();
  }
  std::string text = header.dump();
  // Readers map the file: spaces keep the elements aligned.
  text.append((length_bytes - text.size() % length_bytes) % length_bytes, ' ');

  Bytes content;
  content.reserve(length_bytes + text.size() + offset);
  for (std::size_t i = 0; i < length_bytes; ++i)
    content.push_back(static_cast<std::uint8_t>(text.size() >> (8 * i)));
  content.insert(content.end(), text.begin(), text.end());
  for (const auto& [tensor, stored] : file.tensors)
    content.insert(content.end(), stored.data.begin(), stored.data.end());
  return content;
}

void write_safetensors(const std::string& path, const Safetensors& file) {
  write_file(path, {safetensors_content(file)});
}

}  // namespace plumb::app
