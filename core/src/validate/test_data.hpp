// What tensors are filled with to find each kind of fault.
#pragma once

#include <cstdint>
#include <string_view>

#include "plumb/conv.hpp"

namespace plumb {

/// A small generator of its own (SplitMix64, Steele, Lea and Flood 2014), so that a seed means
/// the same data with every compiler and standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// Even in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// Whole, even in [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  /// Mean 0, variance 1 (Box and Muller 1958).
  double normal();

 private:
  std::uint64_t state_;
};

enum class DataKind : std::uint8_t {
  integers,    ///< every sum is exact in every stored type and accumulator
  normal,      ///< x normal, w normal over the square root of the number of terms
  positive,    ///< no cancellation: truncation shows as bias
  wide,        ///< magnitudes over many orders, as far as the stored type allows
  wide_fp16,   ///< the same within what fp16 operands and sums hold
  non_finite,  ///< normal, with a few NaN and Inf in x and an Inf in w
  tiny,        ///< products about the smallest numbers, with zeros of both signs among the factors
};
std::string_view to_string(DataKind);

/// The largest sum of |x||w|, plus |bias| and the old |y|, that the narrowest accumulator and the
/// stored type hold exactly: 2^11 for fp16 sums and f16, 2^8 for bf16.
double exact_limit(DType dtype);

/// Fills host tensors of a problem with whole numbers whose sums stay within exact_limit(), where
/// no elements overlap; of them all but `share` are zero. An empty bias is left alone, and so is an
/// empty `before`, what y holds where it is added to.
void fill_integers(std::uint64_t seed, double share, const ConvProblem& problem,
                   const TensorView& x, const TensorView& w, const TensorView& bias,
                   const TensorView& before = {});

/// Fills host tensors of a problem, likewise. Of elements that overlap the last in row-major order
/// stays.
void fill(DataKind kind, std::uint64_t seed, const ConvProblem& problem, const TensorView& x,
          const TensorView& w, const TensorView& bias, const TensorView& before = {});

}  // namespace plumb
