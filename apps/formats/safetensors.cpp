// Safetensors files.
#include "formats/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
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

/// The JSON header. A name that stands twice is an error of its own, as the JSON reader would
/// keep only the last.
json parse_header(const char* begin, const char* end, const std::string& name) {
  std::set<std::string> names;
  const auto refuse_twice = [&](int depth, json::parse_event_t event, json& key) {
    if (depth == 1 && event == json::parse_event_t::key &&
        !names.insert(key.get<std::string>()).second)
      fail(name, key.get<std::string>(), "stands twice in the header");
    return true;
  };
  json header;
  try {
    header = json::parse(begin, end, refuse_twice);
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

/// The tensors must fill the data, one after another.
void check_contiguous(std::vector<Entry>& entries, std::uint64_t data_bytes,
                      const std::string& name) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t expected = 0;
  for (const Entry& entry : entries) {
    if (entry.end > data_bytes)
      fail(name, entry.tensor,
           fmt::format("its data ends at byte {} of the data, which has {} (is the file cut off?)",
                       entry.end, data_bytes));
    if (entry.begin != expected)
      fail(name, entry.tensor,
           fmt::format("its data begins at byte {} of the data, expected {}, where the one before "
                       "it ends",
                       entry.begin, expected));
    expected = entry.end;
  }
  if (expected != data_bytes)
    throw FileError(fmt::format("{}: the tensors end at byte {} of the data, which has {}", name,
                                expected, data_bytes));
}

}  // namespace

Safetensors parse_safetensors(const Bytes& content, const std::string& name) {
  if (content.size() < length_bytes)
    throw FileError(
        fmt::format("{}: {} bytes, too short for a safetensors file", name, content.size()));
  const auto header_bytes = load_little_endian<std::uint64_t>(content, 0);
  if (header_bytes > header_limit_bytes)
    throw FileError(
        fmt::format("{}: byte 0: a header of {} bytes, expected {} at most; not a "
                    "safetensors file",
                    name, header_bytes, header_limit_bytes));
  if (header_bytes > content.size() - length_bytes)
    throw FileError(fmt::format("{}: ends after {} bytes, inside its safetensors header of {}",
                                name, content.size(), header_bytes));
  const char* text = reinterpret_cast<const char*>(content.data()) + length_bytes;
  const json header = parse_header(text, text + header_bytes, name);

  Safetensors file;
  std::vector<Entry> entries;
  for (const auto& [key, value] : header.items()) {
    if (key == metadata_key)
      file.metadata = parse_metadata(value, name);
    else
      entries.push_back(parse_entry(value, name, key));
  }
  const std::size_t data_begin = length_bytes + static_cast<std::size_t>(header_bytes);
  check_contiguous(entries, content.size() - data_begin, name);
  for (Entry& entry : entries) {
    const auto data = content.begin() + static_cast<std::ptrdiff_t>(data_begin);
    entry.stored.data.assign(data + static_cast<std::ptrdiff_t>(entry.begin),
                             data + static_cast<std::ptrdiff_t>(entry.end));
    file.tensors.emplace(entry.tensor, std::move(entry.stored));
  }
  return file;
}

Safetensors read_safetensors(const std::string& path) {
  return parse_safetensors(read_file(path), path);
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
