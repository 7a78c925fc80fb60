// How the outputs of an emulated convolution are judged, and an x that is not aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "cuda_kernels/fields/emulation/judged.hpp"
#include "plumb/plumb.hpp"
#include "plumb/validate.hpp"
#include "support/host_tensor.hpp"

namespace plumb_test::emulation {

/// What a kernel convolved.
struct JudgedConv {
  const plumb::ConvProblem& problem;
  const HostTensor &x, &w, &bias, &y;  ///< y before
};

/// Returns the first of y's values that is wrong; nothing where none is. `options` say whether
/// there were bias, ReLU and accumulation, and which data: with exact sums values are the oracle's,
/// and otherwise within `share` of the bound of the numerics.
template <class Options>
std::string first_wrong_output(const JudgedConv& of, const Options& options,
                               const plumb::Numerics& numerics, const std::vector<double>& values,
                               double share = 1) {
  const bool exact = has_exact_sums(options.data);
  const std::vector<double> before = of.y.values();
  std::vector<plumb::OracleTerm> terms =
      plumb::conv_oracle(of.problem, of.x.view(), of.w.view(),
                         options.bias ? of.bias.view() : plumb::ConstTensorView());
  return first_wrong(values, [&](std::size_t i) -> Expected {
    if (options.accumulate) terms[i].add(before[i]);
    double expected = terms[i].y;
    const double bound =
        exact ? 0 : share * plumb::conv_error_bound(numerics, of.problem, terms[i], values[i]);
    if (options.relu && expected < 0) expected = 0;
    return {expected, bound};
  });
}

/// Copies a tensor to one element behind an aligned address, in memory that `to` keeps.
inline const void* shifted_copy(const HostTensor& tensor, std::vector<std::byte>& to) {
  const std::size_t element = plumb::size_in_bytes(tensor.view().dtype());
  to.resize(tensor.bytes().size() + 64);
  std::byte* begin = to.data();
  while (reinterpret_cast<std::uintptr_t>(begin) % 16 != 0) ++begin;
  const auto elements = static_cast<std::size_t>(element_count(tensor.extents()));
  std::memcpy(begin + element, tensor.view().data(), elements * element);
  return begin + element;
}

/// Calls convolve(x, y) with y in a copy and, if `shifted`, x one element behind an aligned
/// address. Returns what was thrown, that memory beside y was written, or what judge(values of y)
/// says.
template <class Convolve, class Judge>
std::string judged_outputs(const HostTensor& x, bool shifted, HostTensor y,
                           const Convolve& convolve, const Judge& judge) {
  std::vector<std::byte> memory;
  try {
    convolve(shifted ? shifted_copy(x, memory) : x.view().data(), y.view().data());
  } catch (const std::exception& error) {
    return error.what();
  }
  if (!y.surroundings_untouched()) return "wrote beside y";
  return judge(y.values());
}

}  // namespace plumb_test::emulation
