// An fp32 value is split into two fp16 values that together hold 22 bits.
#pragma once

namespace plumb::cuda {

/// The low part of a scaled element is multiplied by this factor, 2 to the number of bits that it
/// lies below the high part: it is then a normal fp16 number wherever the high part is one.
inline constexpr float split_raise = 0x1p11f;
/// Scaled elements, unless they are zero, are at least `split_least` and below `split_most`: high
/// and low part then hold 22 bits together.
inline constexpr float split_least = 0x1p-14f, split_most = 65504.0f;

}  // namespace plumb::cuda
