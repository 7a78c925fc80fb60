// Whether this build has a sanitizer, which makes everything ten times slower.
#pragma once

namespace plumb_test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#elif defined(__has_feature)
inline constexpr bool is_sanitized =
    __has_feature(thread_sanitizer) || __has_feature(address_sanitizer);
#else
inline constexpr bool is_sanitized = false;
#endif

/// Whether a sanitizer's build leaves a case of a test out: all but every `of`th. Where `of`
/// divides no inner loop's length, those that run meet all its values.
inline bool is_left_out(unsigned number, unsigned of = 5) {
  return is_sanitized && number % of != 0;
}

}  // namespace plumb_test
