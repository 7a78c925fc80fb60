// Runs the cases of ONNX's test vectors and judges the results.
#pragma once

#include <string>

#include "onnx/operators.hpp"

namespace plumb_test::onnx {

struct Outcome {
  plumb::Verdict verdict = plumb::Verdict::pass;
  std::string reason;  ///< why not `pass`
};

/// All data sets of one case on one device, with its convolutions by `algorithm` if one is named.
Outcome run_case(const plumb::Device& device, const Case& test, const std::string& algorithm = {});

}  // namespace plumb_test::onnx
