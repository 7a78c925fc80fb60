// Whether this build has a sanitizer, which makes everything ten times slower.
#pragma once

#include <cstddef>

namespace plumb_test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#elif defined(__has_feature)
inline constexpr bool is_sanitized =
    __has_feature(thread_sanitizer) || __has_feature(address_sanitizer);
#else
inline constexpr bool is_sanitized = false;
#endif

/// Whether the sanitizer is that of threads, which checks a vector byte by byte, and needs less: a
/// race does not depend on the shape of a problem.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool is_thread_sanitized = true;
#elif defined(__has_feature)
inline constexpr bool is_thread_sanitized = __has_feature(thread_sanitizer);
#else
inline constexpr bool is_thread_sanitized = false;
#endif

/// Whether a sanitizer's build leaves a case of a test out: all but every `of`th. Where `of`
/// divides no inner loop's length, those that run meet all its values.
inline bool is_left_out(unsigned number, unsigned of = 5) {
  return is_sanitized && number % of != 0;
}

/// Whether a test that shares its problems out to instruction sets and algorithms leaves problem
/// `number` of one of them to the others: three of five run, and fewer in a sanitizer's build.
inline bool is_for_others(std::size_t number) {
  if (is_thread_sanitized) return number % 35 > 0;
  return number % 5 > (is_sanitized ? 0 : 2);
}

}  // namespace plumb_test
