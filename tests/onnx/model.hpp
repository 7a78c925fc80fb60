// ONNX's models and tensors, as much of them as its test vectors need. The numbers of the fields
// are those of onnx.proto: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/wire.hpp"
#include "plumb/types.hpp"

namespace plumb_test::onnx {

/// ONNX's TensorProto.DataType, for the types whose elements are read here.
enum class ElementType : std::int64_t { f32 = 1, i64 = 7, f16 = 10, f64 = 11 };

/// One tensor, dense, the last index running fastest.
struct Array {
  std::string name;
  ElementType type{};  ///< may be another of ONNX's types, whose elements are not read
  std::vector<std::int64_t> dims;
  std::vector<double> values;  ///< exact, but for integers beyond 2^53

  /// Nothing for what Plumb has no type for.
  std::optional<plumb::DType> dtype() const;
};
/// "float", "uint8"; the number where it is none of ONNX's common types.
std::string to_string(ElementType);

struct Attribute {
  std::int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<std::int64_t> integers;
  std::optional<Array> array;
};

struct Node {
  std::string op;
  std::vector<std::string> inputs, outputs;  ///< names of values; empty for one that is left out
  std::map<std::string, Attribute> attributes;

  /// The attribute, or what it stands for where it is left out.
  std::int64_t integer(const std::string& name, std::int64_t otherwise) const;
  double real(const std::string& name, double otherwise) const;
  std::string text(const std::string& name, const std::string& otherwise) const;
  std::vector<std::int64_t> integers(const std::string& name,
                                     const std::vector<std::int64_t>& otherwise) const;
};

struct Model {
  std::int64_t opset = 0;  ///< the version of ONNX's own operators
  std::vector<Node> nodes;
  std::map<std::string, Array> initializers;
  std::vector<std::string> inputs, outputs;  ///< the graph's; some inputs may be initializers

  bool has(std::string_view op) const;
};

/// ParseError says what is damaged.
Array parse_array(Bytes message);
Model parse_model(Bytes message);

/// Inputs and the outputs that belong to them, in the graph's order.
struct DataSet {
  std::vector<Array> inputs, outputs;
};

struct Case {
  std::string name;  ///< "node/test_relu"
  std::filesystem::path folder;
  Model model;
};

/// Every case under `data` (the folder with node/, pytorch-converted/, ...), by name. ParseError
/// names the file that cannot be read.
std::vector<Case> read_cases(const std::filesystem::path& data);
/// The data of a case; a ParseError if there is none.
std::vector<DataSet> read_data_sets(const Case& test);

}  // namespace plumb_test::onnx
