// The oracle, and the bound that every result is held against. docs/numerics.md derives it.
#pragma once

#include <vector>

#include "plumb/algorithm.hpp"
#include "plumb/conv.hpp"

namespace plumb {

/// The naive convolution in double: the trusted result before rounding to the stored type, and
/// what the bound needs. Dense N K P Q order. The activation is not applied.
struct OracleResult {
  std::vector<double> y;          ///< sum of x w, plus the bias
  std::vector<double> magnitude;  ///< sum of |x| |w|, plus |bias|
};

/// Inputs are host views, used exactly as stored. Slow and obvious on purpose.
OracleResult conv_oracle(const ConvProblem& problem, const ConstTensorView& x,
                         const ConstTensorView& w, const ConstTensorView& bias = {});

/// The largest error that an algorithm with these numerics may make at one output, before the
/// activation: `magnitude` and `computed` are the oracle's sum of |x||w| and the algorithm's own
/// result there.
double conv_error_bound(const Numerics& numerics, const ConvProblem& problem, double magnitude,
                        double computed);

}  // namespace plumb
