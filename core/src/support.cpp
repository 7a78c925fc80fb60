// Refusals that all backends share.
#include "plumb/support.hpp"

#include <algorithm>
#include <string>

#include "forward_only.hpp"
#include "plumb/conv.hpp"

namespace plumb {

Support forward_only(const ConvProblem& problem) {
  if (problem.direction == Direction::forward) return {};
  return {Reason::direction, "a backward convolution; expected forward"};
}

Support supports_dtypes(std::initializer_list<DType> stored, const ConvProblem& problem) {
  if (Support forward = forward_only(problem); !forward) return forward;
  if (std::find(stored.begin(), stored.end(), problem.dtype) != stored.end()) return {};
  std::string expected;
  for (const DType dtype : stored)
    expected += (expected.empty() ? "" : " or ") + std::string(to_string(dtype));
  return {Reason::dtype, std::string(to_string(problem.dtype)) + " tensors; expected " + expected};
}

}  // namespace plumb
