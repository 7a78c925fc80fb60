// Stored types, extents and strides.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>

#include "plumb/error.hpp"
#include "plumb/types.hpp"

using namespace plumb;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("every half survives the way through float") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    Half half;
    half.bits = static_cast<std::uint16_t>(bits);
    const float value = static_cast<float>(half);
    const bool is_nan = (bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0;
    REQUIRE(std::isnan(value) == is_nan);
    if (is_nan)
      REQUIRE(std::isnan(static_cast<float>(Half(value))));
    else
      REQUIRE(Half(value).bits == bits);
  }
}

TEST_CASE("half rounds to nearest, ties to even") {
  REQUIRE(Half(1.0f + 0x1p-11f).bits == Half(1.0f).bits);             // tie, down to even
  REQUIRE(Half(1.0f + 0x3p-11f).bits == Half(1.0f + 0x2p-10f).bits);  // tie, up to even
  REQUIRE(Half(1.0f + 0x1.002p-11f).bits == Half(1.0f + 0x1p-10f).bits);
  REQUIRE(Half(65519.0f).bits == Half(65504.0f).bits);  // the largest
  REQUIRE(Half(65520.0f).bits == 0x7c00);               // rounds to infinity
  REQUIRE(Half(0x1p-25f).bits == 0);                    // tie with zero
  REQUIRE(Half(0x1.004p-25f).bits == 1);                // just above
  REQUIRE(Half(-0x1p-24f).bits == 0x8001);              // smallest subnormal
  REQUIRE(Half(0x1.ffcp-15f).bits == 0x400);            // subnormals round into normals
}

TEST_CASE("bfloat16 keeps what it can and rounds the rest to even") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    BFloat16 stored;
    stored.bits = static_cast<std::uint16_t>(bits);
    const float value = static_cast<float>(stored);
    if (std::isnan(value))
      REQUIRE(std::isnan(static_cast<float>(BFloat16(value))));
    else
      REQUIRE(BFloat16(value).bits == bits);
  }
  REQUIRE(BFloat16(1.0f + 0x1p-8f).bits == BFloat16(1.0f).bits);
  REQUIRE(BFloat16(1.0f + 0x3p-8f).bits == BFloat16(1.0f + 0x1p-6f).bits);
  REQUIRE(BFloat16(std::numeric_limits<float>::max()).bits == 0x7f80);
}

TEST_CASE("names of types are read back") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    REQUIRE(parse_dtype(to_string(dtype)) == dtype);
  for (const Math math : {Math::fp64, Math::fp32, Math::tf32, Math::bf16, Math::fp16})
    REQUIRE(parse_math(to_string(math)) == math);
  for (const Layout layout : {Layout::nchw, Layout::nhwc})
    REQUIRE(parse_layout(to_string(layout)) == layout);
  REQUIRE_FALSE(parse_dtype("f8"));
  REQUIRE_FALSE(parse_math(""));
}

TEST_CASE("element counts are checked before anything is allocated") {
  REQUIRE(element_count({2, 3, 4}) == 24);
  REQUIRE(element_count({2, 0, 4}) == 0);
  REQUIRE(element_count({1 << 30, 1 << 20}) == std::int64_t{1} << 50);
  REQUIRE_THROWS_MATCHES(element_count({3, -1}), Error, MessageMatches(ContainsSubstring("-1")));
  REQUIRE_THROWS_AS(element_count({std::int64_t{1} << 40, std::int64_t{1} << 40}), Error);
  // A zero does not hide an overflow beside it: strides would still be computed from it.
  REQUIRE_THROWS_AS(element_count({0, std::int64_t{1} << 40, std::int64_t{1} << 40}), Error);
  REQUIRE_THROWS_AS((Extents{1, 1, 1, 1, 1, 1, 1}), Error);
}

TEST_CASE("strides of NCHW and NHWC") {
  const Extents nchw{2, 3, 5, 7};
  REQUIRE(strides_for(Layout::nchw, nchw) == Strides{105, 35, 7, 1});
  REQUIRE(strides_for(Layout::nhwc, nchw) == Strides{105, 1, 21, 3});
  REQUIRE(to_string(nchw) == "[2, 3, 5, 7]");
  REQUIRE(strides_for(Layout::nchw, {2, 3, 7}) == Strides{21, 7, 1});
  REQUIRE(strides_for(Layout::nhwc, {2, 3, 7}) == Strides{21, 1, 3});
  REQUIRE(strides_for(Layout::nchw, {2, 3, 4, 5, 7}) == Strides{420, 140, 35, 7, 1});
  REQUIRE(strides_for(Layout::nhwc, {2, 3, 4, 5, 7}) == Strides{420, 1, 105, 21, 3});
}
