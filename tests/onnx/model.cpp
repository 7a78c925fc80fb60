// Reads ONNX's models and tensors.
#include "onnx/model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <iterator>

namespace plumb_test::onnx {
namespace {

namespace fs = std::filesystem;

/// The bytes of one element, or 0 for a type that is not read.
std::size_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::f16: return 2;
    case ElementType::f32: return 4;
    case ElementType::f64:
    case ElementType::i64: return 8;
  }
  return 0;
}

double element(ElementType type, std::uint64_t bits) {
  switch (type) {
    case ElementType::f16: {
      plumb::Half half;
      half.bits = static_cast<std::uint16_t>(bits);
      return static_cast<float>(half);
    }
    case ElementType::f32: return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    case ElementType::f64: return std::bit_cast<double>(bits);
    case ElementType::i64: return static_cast<double>(static_cast<std::int64_t>(bits));
  }
  return 0;
}

std::vector<double> raw_elements(ElementType type, Bytes raw) {
  const std::size_t size = element_bytes(type);
  if (raw.size() % size != 0)
    throw ParseError(fmt::format("{} bytes of raw data for elements of {}", raw.size(), size));
  std::vector<double> values;
  values.reserve(raw.size() / size);
  for (std::size_t at = 0; at < raw.size(); at += size) {
    std::uint64_t bits = 0;
    for (std::size_t i = size; i-- > 0;) bits = bits << 8 | raw[at + i];
    values.push_back(element(type, bits));
  }
  return values;
}

/// Whether the dimensions make this many elements; they came from a file, and may be anything.
bool make_count(const std::vector<std::int64_t>& dims, std::size_t count) {
  std::uint64_t product = 1;
  for (const std::int64_t dim : dims) {
    if (dim < 0 || dim > std::int64_t{1} << 31 || product > std::uint64_t{1} << 31) return false;
    product *= static_cast<std::uint64_t>(dim);
  }
  return product == count;
}

Attribute parse_attribute(Bytes message, std::string& name) {
  Attribute attribute;
  for (const Field& field : fields_of(message)) switch (field.number) {
      case 1: name = field.text(); break;
      case 2: attribute.real = field.real(); break;
      case 3: attribute.integer = field.integer(); break;
      case 4: attribute.text = field.text(); break;
      case 5: attribute.array = parse_array(field.message()); break;
      case 8: field.append_to(attribute.integers); break;
      default: break;
    }
  return attribute;
}

Node parse_node(Bytes message) {
  Node node;
  for (const Field& field : fields_of(message)) switch (field.number) {
      case 1: node.inputs.push_back(field.text()); break;
      case 2: node.outputs.push_back(field.text()); break;
      case 4: node.op = field.text(); break;
      case 5: {
        std::string name;
        Attribute attribute = parse_attribute(field.message(), name);
        node.attributes.insert_or_assign(name, std::move(attribute));
        break;
      }
      default: break;
    }
  return node;
}

/// A ValueInfoProto's name is all that is needed of it.
std::string parse_value_name(Bytes message) {
  for (const Field& field : fields_of(message))
    if (field.number == 1) return field.text();
  throw ParseError("an input or output without a name");
}

void parse_graph(Bytes message, Model& model) {
  for (const Field& field : fields_of(message)) switch (field.number) {
      case 1: model.nodes.push_back(parse_node(field.message())); break;
      case 5: {
        Array array = parse_array(field.message());
        model.initializers.insert_or_assign(array.name, std::move(array));
        break;
      }
      case 11: model.inputs.push_back(parse_value_name(field.message())); break;
      case 12: model.outputs.push_back(parse_value_name(field.message())); break;
      default: break;
    }
}

/// An OperatorSetIdProto, if it is that of ONNX's own operators.
void parse_opset(Bytes message, Model& model) {
  std::string domain;
  std::int64_t version = 0;
  for (const Field& field : fields_of(message)) switch (field.number) {
      case 1: domain = field.text(); break;
      case 2: version = field.integer(); break;
      default: break;
    }
  if (domain.empty() || domain == "ai.onnx") model.opset = version;
}

template <class F>
auto parse_file(const fs::path& path, const F& parse) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ParseError(path.string() + ": cannot be opened");
  const std::vector<char> content{std::istreambuf_iterator<char>(file), {}};
  try {
    return parse(Bytes(reinterpret_cast<const std::uint8_t*>(content.data()), content.size()));
  } catch (const ParseError& error) {
    throw ParseError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_directory()) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

/// input_0.pb, input_1.pb, ... as far as they go.
std::vector<Array> read_arrays(const fs::path& folder, std::string_view kind) {
  std::vector<Array> arrays;
  for (;;) {
    const fs::path path = folder / fmt::format("{}_{}.pb", kind, arrays.size());
    if (!fs::exists(path)) return arrays;
    arrays.push_back(parse_file(path, parse_array));
  }
}

}  // namespace

std::optional<plumb::DType> Array::dtype() const {
  switch (type) {
    case ElementType::f16: return plumb::DType::f16;
    case ElementType::f32: return plumb::DType::f32;
    case ElementType::f64: return plumb::DType::f64;
    case ElementType::i64: break;
  }
  return std::nullopt;
}

std::string to_string(ElementType type) {
  static constexpr const char* names[] = {"undefined", "float", "uint8",   "int8",
                                          "uint16",    "int16", "int32",   "int64",
                                          "string",    "bool",  "float16", "double"};
  const auto number = static_cast<std::size_t>(type);
  return number < std::size(names) ? names[number] : fmt::format("{}", number);
}

std::int64_t Node::integer(const std::string& name, std::int64_t otherwise) const {
  const auto found = attributes.find(name);
  return found == attributes.end() ? otherwise : found->second.integer;
}

double Node::real(const std::string& name, double otherwise) const {
  const auto found = attributes.find(name);
  return found == attributes.end() ? otherwise : found->second.real;
}

std::string Node::text(const std::string& name, const std::string& otherwise) const {
  const auto found = attributes.find(name);
  return found == attributes.end() ? otherwise : found->second.text;
}

std::vector<std::int64_t> Node::integers(const std::string& name,
                                         const std::vector<std::int64_t>& otherwise) const {
  const auto found = attributes.find(name);
  return found == attributes.end() ? otherwise : found->second.integers;
}

bool Model::has(std::string_view op) const {
  return std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) { return node.op == op; });
}

Array parse_array(Bytes message) {
  Array array;
  std::optional<Bytes> raw;
  std::vector<float> floats;
  std::vector<std::int64_t> integers, words;
  std::vector<double> doubles;
  for (const Field& field : fields_of(message)) switch (field.number) {
      case 1: field.append_to(array.dims); break;
      case 2: array.type = static_cast<ElementType>(field.integer()); break;
      case 4: field.append_to(floats); break;
      case 5: field.append_to(words); break;
      case 7: field.append_to(integers); break;
      case 8: array.name = field.text(); break;
      case 9: raw = field.message(); break;
      case 10: field.append_to(doubles); break;
      case 14:
        if (field.integer() != 0) throw ParseError("a tensor kept in another file");
        break;
      default: break;
    }
  if (element_bytes(array.type) == 0) return array;
  if (raw) {
    array.values = raw_elements(array.type, *raw);
  } else {
    switch (array.type) {
      case ElementType::f32: array.values.assign(floats.begin(), floats.end()); break;
      case ElementType::f64: array.values = std::move(doubles); break;
      case ElementType::i64: array.values.assign(integers.begin(), integers.end()); break;
      case ElementType::f16:  // its bits, in a field of int32
        for (const std::int64_t word : words)
          array.values.push_back(element(array.type, static_cast<std::uint64_t>(word)));
        break;
    }
  }
  if (!make_count(array.dims, array.values.size()))
    throw ParseError(fmt::format("a tensor of [{}] with {} elements", fmt::join(array.dims, ", "),
                                 array.values.size()));
  return array;
}

Model parse_model(Bytes message) {
  Model model;
  for (const Field& field : fields_of(message)) switch (field.number) {
      case 7: parse_graph(field.message(), model); break;
      case 8: parse_opset(field.message(), model); break;
      default: break;
    }
  if (model.nodes.empty()) throw ParseError("a model without nodes");
  return model;
}

std::vector<Case> read_cases(const fs::path& data) {
  std::vector<Case> cases;
  for (const fs::path& group : folders_in(data))
    for (const fs::path& folder : folders_in(group)) {
      const fs::path path = folder / "model.onnx";
      if (!fs::exists(path)) continue;  // models too large to come with the data
      cases.push_back({group.filename().string() + "/" + folder.filename().string(), folder,
                       parse_file(path, parse_model)});
    }
  return cases;
}

std::vector<DataSet> read_data_sets(const Case& test) {
  std::vector<DataSet> sets;
  for (const fs::path& folder : folders_in(test.folder))
    if (folder.filename().string().starts_with("test_data_set_"))
      sets.push_back({read_arrays(folder, "input"), read_arrays(folder, "output")});
  if (sets.empty()) throw ParseError(test.name + ": no test_data_set_*");
  return sets;
}

}  // namespace plumb_test::onnx
