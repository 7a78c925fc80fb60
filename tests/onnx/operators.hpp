// ONNX's operators as calls of Plumb: what one has no call for is Unsupported, with the reason.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/model.hpp"
#include "plumb/plumb.hpp"

namespace plumb_test::onnx {

/// A request that Plumb has no call for.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A value of the graph.
struct Value {
  Array array;
  /// By how much another right implementation's may differ, element by element; empty where a
  /// right result is exact.
  std::vector<double> tolerance;
};

struct Context {
  plumb::Device device;
  std::int64_t opset;
  std::string algorithm;  ///< of convolutions; empty leaves the choice to Plumb
};

/// A node's inputs in order, null where one is left out.
using Inputs = std::vector<const Value*>;
using Operator = Value (*)(const Context&, const Node&, const Inputs&);

/// Null where there is none of that name.
Operator find_operator(std::string_view op);
/// Whether the operator convolves, pools, or is a linear layer, a ReLU or a softmax: cases with
/// such an operator are run, or counted as unsupported.
bool is_of_the_family(std::string_view op);

/// An input of a node that computes. Unsupported where it comes out of a computation itself: the
/// tolerance after two of them is not derived.
const Array& operand(const Inputs& inputs, std::size_t i);
/// The type that Plumb stores the elements as; Unsupported where it has none.
plumb::DType stored_type(const Array& array);
/// The unit roundoff of the vectors' own sums; Unsupported for f16, where it is not known.
double unit_roundoff(plumb::DType dtype);

// In operators_conv.cpp.
Value conv(const Context&, const Node&, const Inputs&);
Value gemm(const Context&, const Node&, const Inputs&);
Value matmul(const Context&, const Node&, const Inputs&);
// In operators_nn.cpp.
Value max_pool(const Context&, const Node&, const Inputs&);
Value average_pool(const Context&, const Node&, const Inputs&);
Value global_max_pool(const Context&, const Node&, const Inputs&);
Value global_average_pool(const Context&, const Node&, const Inputs&);
Value relu(const Context&, const Node&, const Inputs&);
Value softmax(const Context&, const Node&, const Inputs&);

}  // namespace plumb_test::onnx
