// What callers say of a convolution, in Python's words: PyTorch's names where it has them.
#pragma once

#include <nanobind/nanobind.h>

#include "plumb/conv.hpp"
#include "plumb/nn.hpp"

namespace plumb::python {

namespace nb = nanobind;

/// Returns an integer for each of the `axes` last axes of an image: of one number, or of a list of
/// one or of `axes` numbers. Throws Error (invalid_argument) that names `name` and what was met.
Triple triple_from(nb::handle object, int axes, std::string_view name);

/// The geometry as a caller gives it.
struct GeometryArguments {
  nb::handle stride;    ///< a number, or one an axis
  nb::handle padding;   ///< likewise, or a pair an axis, or "valid", or "same"
  nb::handle dilation;  ///< a number, or one an axis
  std::int64_t groups;  ///< that the channels are in
  nb::handle boundary;  ///< a name, or one an axis
};
/// Returns the geometry for images of so many axes, 1 to 3, and filters of these extents (K, C/G
/// and one an axis), which "same" asks for. Throws Error (invalid_argument).
ConvGeometry geometry_from(const GeometryArguments& given, int axes, const Extents& w);

/// Returns the padding of one number, one an axis, or a pair an axis. Throws Error
/// (invalid_argument).
Padding padding_from(nb::handle object, int axes);

/// The options as a caller gives them.
struct OptionArguments {
  nb::handle math;        ///< "fp32", ...
  nb::handle activation;  ///< None or "relu"
  nb::handle algorithm;   ///< None or a name
  bool accumulate;        ///< whether it is added to out
  bool deterministic;     ///< whether the same bits are wanted every time
  bool reproducible;      ///< whether the bits that are specified are wanted
};
/// Returns the options. Throws Error (invalid_argument) that names the value and those expected.
ConvOptions options_from(const OptionArguments& given);

/// Returns the direction of such a name. Throws Error (invalid_argument).
Direction direction_from(nb::handle object);

}  // namespace plumb::python
