// Where the compiler would copy values between registers, it can be told not to.
#pragma once

namespace plumb::cuda {

/// Keeps a value in one register from here on. Sums that move by one place a turn are otherwise
/// copied once more for each of the ways that a turn may take.
__device__ inline void pin(float& value) { asm volatile("" : "+f"(value)); }
__device__ inline void pin(double& value) { asm volatile("" : "+d"(value)); }

}  // namespace plumb::cuda
