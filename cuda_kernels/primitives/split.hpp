// fp32 values as two fp16 that together hold 22 bits.
#pragma once

namespace plumb::cuda {

/// Bits below a scaled element's high part, by which its low part is raised: then the low part is
/// a normal fp16 wherever the high part is.
inline constexpr float split_raise = 0x1p11f;
/// Scaled elements, unless they are zero, reach `split_least` and stay below `split_most`: then
/// high and low part together hold 22 bits.
inline constexpr float split_least = 0x1p-14f, split_most = 65504.0f;

}  // namespace plumb::cuda
