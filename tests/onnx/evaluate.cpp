// Walks a graph node by node. Nodes that compute are calls of Plumb; those that only rearrange what
// they are given are done here.
#include "onnx/evaluate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace plumb_test::onnx {
namespace {

using plumb::Verdict;

Value constant(const Context&, const Node& node, const Inputs&) {
  const auto found = node.attributes.find("value");
  if (found == node.attributes.end() || !found->second.array)
    throw Unsupported("a Constant without a tensor");
  return {*found->second.array, {}};
}

Value unsqueeze(const Context&, const Node& node, const Inputs& inputs) {
  Value value = *inputs.at(0);
  for (const std::int64_t axis : node.integers("axes", {})) {
    if (axis < 0 || axis > static_cast<std::int64_t>(value.array.dims.size()))
      throw ParseError("an axis beyond the rank");
    value.array.dims.insert(value.array.dims.begin() + axis, 1);
  }
  return value;
}

Value squeeze(const Context&, const Node& node, const Inputs& inputs) {
  Value value = *inputs.at(0);
  std::vector<std::int64_t> axes = node.integers("axes", {});
  std::sort(axes.rbegin(), axes.rend());
  for (const std::int64_t axis : axes) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(value.array.dims.size()) ||
        value.array.dims[static_cast<std::size_t>(axis)] != 1)
      throw ParseError("an axis that is not of extent 1");
    value.array.dims.erase(value.array.dims.begin() + axis);
  }
  return value;
}

Value transpose(const Context&, const Node& node, const Inputs& inputs) {
  const Array& from = operand(inputs, 0);
  if (from.dims.size() != 2 || node.integers("perm", {1, 0}) != std::vector<std::int64_t>{1, 0})
    throw Unsupported("a Transpose of other than a matrix");
  Value value{from, {}};
  std::swap(value.array.dims[0], value.array.dims[1]);
  const auto rows = static_cast<std::size_t>(from.dims[0]);
  const auto columns = static_cast<std::size_t>(from.dims[1]);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j)
      value.array.values[j * rows + i] = from.values[i * columns + j];
  return value;
}

constexpr std::pair<std::string_view, Operator> rearranging[] = {{"Constant", constant},
                                                                 {"Squeeze", squeeze},
                                                                 {"Transpose", transpose},
                                                                 {"Unsqueeze", unsqueeze}};
constexpr std::pair<std::string_view, Operator> computing[] = {
    {"AveragePool", average_pool},
    {"Conv", conv},
    {"Gemm", gemm},
    {"GlobalAveragePool", global_average_pool},
    {"GlobalMaxPool", global_max_pool},
    {"MatMul", matmul},
    {"MaxPool", max_pool},
    {"Relu", relu},
    {"Softmax", softmax},
};
/// Of the family, and without a call of Plumb.
constexpr std::string_view relatives[] = {
    "ConvInteger",   "ConvTranspose", "DeformConv", "GlobalLpPool", "LpPool",
    "MatMulInteger", "MaxRoiPool",    "MaxUnpool",  "QLinearConv",  "QLinearMatMul"};

using Values = std::map<std::string, Value>;

/// What the graph starts from: its initializers, and the data for the other inputs, in order.
Values given_values(const Model& model, const DataSet& data) {
  Values values;
  for (const auto& [name, array] : model.initializers) values[name] = {array, {}};
  std::size_t next = 0;
  for (const std::string& name : model.inputs) {
    if (model.initializers.contains(name)) continue;
    if (next == data.inputs.size()) throw ParseError(fmt::format("no data for input '{}'", name));
    values[name] = {data.inputs[next++], {}};
  }
  return values;
}

void evaluate(const Context& context, const Node& node, Values& values) {
  const Operator run = find_operator(node.op);
  if (!run) throw Unsupported(fmt::format("operator {}", node.op));
  Inputs inputs;
  for (const std::string& name : node.inputs) {
    const auto found = values.find(name);
    if (!name.empty() && found == values.end())
      throw ParseError(fmt::format("nothing computes '{}'", name));
    inputs.push_back(name.empty() ? nullptr : &found->second);
  }
  if (node.outputs.empty()) throw ParseError(fmt::format("{} without an output", node.op));
  Value value = run(context, node, inputs);
  values[node.outputs[0]] = std::move(value);
}

/// Nothing, or where the results differ by more than they may.
std::string difference(const Value& ours, const Array& theirs) {
  if (ours.array.dims != theirs.dims)
    return fmt::format("the result is [{}]; the vector's is [{}]", fmt::join(ours.array.dims, ", "),
                       fmt::join(theirs.dims, ", "));
  for (std::size_t i = 0; i < theirs.values.size(); ++i) {
    const double a = ours.array.values[i], b = theirs.values[i];
    const double allowed = ours.tolerance.empty() ? 0 : ours.tolerance[i];
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= allowed;
    if (!same)
      return fmt::format(
          "element {} is {:.9g}; the vector's is {:.9g}, {:.3g} away where {:.3g} is "
          "allowed",
          i, a, b, std::abs(a - b), allowed);
  }
  return {};
}

Outcome run_data_set(const Context& context, const Model& model, const DataSet& data) {
  Values values = given_values(model, data);
  for (const Node& node : model.nodes) evaluate(context, node, values);
  if (model.outputs.size() != data.outputs.size() || model.outputs.empty())
    throw ParseError(
        fmt::format("{} outputs, and data for {}", model.outputs.size(), data.outputs.size()));
  for (std::size_t i = 0; i < model.outputs.size(); ++i) {
    const auto found = values.find(model.outputs[i]);
    if (found == values.end()) throw ParseError("nothing computes " + model.outputs[i]);
    const std::string wrong = difference(found->second, data.outputs[i]);
    if (!wrong.empty()) return {Verdict::fail, wrong};
  }
  return {};
}

}  // namespace

Operator find_operator(std::string_view op) {
  for (const auto& [name, run] : computing)
    if (name == op) return run;
  for (const auto& [name, run] : rearranging)
    if (name == op) return run;
  return nullptr;
}

bool is_of_the_family(std::string_view op) {
  return std::count(std::begin(relatives), std::end(relatives), op) != 0 ||
         std::any_of(std::begin(computing), std::end(computing),
                     [&](const auto& entry) { return entry.first == op; });
}

const Array& operand(const Inputs& inputs, std::size_t i) {
  if (i >= inputs.size() || !inputs[i]) throw ParseError(fmt::format("input {} is missing", i));
  if (!inputs[i]->tolerance.empty()) throw Unsupported("two nodes that compute, one after another");
  return inputs[i]->array;
}

plumb::DType stored_type(const Array& array) {
  const auto dtype = array.dtype();
  if (!dtype) throw Unsupported(fmt::format("elements of {}", to_string(array.type)));
  return *dtype;
}

double unit_roundoff(plumb::DType dtype) {
  switch (dtype) {
    case plumb::DType::f32: return 0x1p-24;
    case plumb::DType::f64: return 0x1p-53;
    case plumb::DType::f16:
    case plumb::DType::bf16: break;
  }
  throw Unsupported("elements of 16 bits, whose sums in the vectors may be of any precision");
}

Outcome run_case(const plumb::Device& device, const Case& test, const std::string& algorithm) {
  try {
    const Context context{device, test.model.opset, algorithm};
    for (const DataSet& data : read_data_sets(test)) {
      const Outcome outcome = run_data_set(context, test.model, data);
      if (outcome.verdict != Verdict::pass) return outcome;
    }
    return {};
  } catch (const Unsupported& e) {
    return {Verdict::unsupported, e.what()};
  } catch (const plumb::Error& e) {
    const bool refused = e.code() == plumb::ErrorCode::unsupported;
    return {refused ? Verdict::unsupported : Verdict::fail, e.what()};
  } catch (const std::exception& e) {
    return {Verdict::fail, e.what()};
  }
}

}  // namespace plumb_test::onnx
