// The floating-point mode that the library computes in, whatever its caller's.
#pragma once

#if defined __SSE2_MATH__
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace plumb {

/// For as long as this lives, this thread rounds to the nearest, keeps subnormal numbers and traps
/// nothing; then it has its caller's control word again, and the exception flags that were set
/// before. Results are so the same bits under every mode of the caller's and on every thread of a
/// team, and lanes that are computed and thrown away neither trap nor leave a flag.
///
/// Where SSE does the arithmetic that is its one register: x87 serves long double alone, in which
/// nothing here computes.
class DefaultFloatingPoint {
 public:
#if defined __SSE2_MATH__
  DefaultFloatingPoint() : callers_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~DefaultFloatingPoint() { _mm_setcsr(callers_); }
#else
  DefaultFloatingPoint() {
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatingPoint() { std::fesetenv(&callers_); }
#endif
  DefaultFloatingPoint(const DefaultFloatingPoint&) = delete;
  DefaultFloatingPoint& operator=(const DefaultFloatingPoint&) = delete;

 private:
#if defined __SSE2_MATH__
  unsigned callers_;
#else
  std::fenv_t callers_;
#endif
};

}  // namespace plumb
