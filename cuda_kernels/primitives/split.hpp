// An fp32 value is split into two fp16 values that together hold 22 bits.
#pragma once

#include <limits>

namespace plumb::cuda {

/// The low part of a scaled element is multiplied by this factor, 2 to the number of bits that it
/// lies below the high part: it is then a normal fp16 number wherever the high part is one.
inline constexpr float split_raise = 0x1p11f;
/// Scaled elements, unless they are zero, are at least `split_least` and below `split_most`: high
/// and low part then hold 22 bits together.
inline constexpr int split_least_exponent = -14;
inline constexpr float split_least = 0x1p-14f, split_most = 65504.0f;

/// A sum of n products of scaled operands, some of them below `split_least`, is good where its
/// magnitude is at least n times this: what halves dropped of those operands is then at most 2^-24
/// of it, or 2^-16 where an operand is one half (docs/numerics.md, "Small operands"). A smaller sum
/// is made anew from the definition.
template <int products>
inline constexpr float least_sum_of_small = products == 3 ? 32.0f : 256.0f;
/// What such a sum becomes until it is made anew.
inline constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();

}  // namespace plumb::cuda
