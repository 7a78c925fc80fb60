// What keeps the compiler from code that the instruction cache has no room for, and from values
// that registers have none for.
#pragma once

namespace plumb::cuda {

/// Returns the number, which the compiler takes for another one: what follows from it is made where
/// it is wanted, and not before a loop.
__device__ inline int number_anew(int number) {
  asm volatile("" : "+r"(number));
  return number;
}

/// Calls `f` with a number below `count` as its template argument: code that registers have to be
/// named in is there once for each number, and what is around it once.
template <int count, int number = 0, class F>
__device__ void with_number(int wanted, const F& f) {
  if constexpr (number < count) {
    if (wanted == number) return f.template operator()<number>();
    with_number<count, number + 1>(wanted, f);
  }
}

}  // namespace plumb::cuda
