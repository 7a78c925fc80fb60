// Fuzzes convolution problems as text: what is read means the same after it is written again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "plumb/error.hpp"
#include "plumb/problem_text.hpp"

namespace {

using plumb::ConvProblem;

/// The rows (or columns) at the end that the last window reaches.
std::int64_t reached(std::int64_t outputs, std::int64_t stride, std::int64_t filter,
                     std::int64_t dilation, std::int64_t input, std::int64_t before) {
  const std::int64_t end = (outputs - 1) * stride + (filter - 1) * dilation + 1;
  return end > input + before ? end - input - before : 0;
}

/// The problem without the padding that no window reaches, which is not written.
ConvProblem without_unreached(ConvProblem p) {
  const std::int64_t bottom = reached(p.p(), p.stride.h, p.r, p.dilation.h, p.h, p.padding.top);
  const std::int64_t right = reached(p.q(), p.stride.w, p.s, p.dilation.w, p.w, p.padding.left);
  p.padding.back = reached(p.z(), p.stride.d, p.t, p.dilation.d, p.d, p.padding.front);
  p.padding.bottom = bottom, p.padding.right = right;
  return p;
}

void require_round_trip(const ConvProblem& problem) {
  // An Error here is not caught: what was accepted must be accepted again.
  const ConvProblem again = plumb::parse_problem(to_string(problem)).problem;
  if (again != without_unreached(problem) || to_string(again) != to_string(problem)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ConvProblem problem;
  bool accepted = false;
  try {
    problem = plumb::parse_problem(text).problem;
    accepted = true;
  } catch (const plumb::Error&) {
  }
  if (accepted) require_round_trip(problem);

  std::vector<plumb::NamedProblem> problems;
  try {
    problems = plumb::parse_problems(text);
  } catch (const plumb::Error&) {
  }
  for (const plumb::NamedProblem& named : problems) require_round_trip(named.problem);
  return 0;
}
