// Names of types, and arithmetic on extents and strides.
#include "plumb/types.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "names.hpp"
#include "plumb/error.hpp"

namespace plumb {
namespace {

constexpr Name<DType> dtypes[] = {
    {DType::f32, "f32"}, {DType::f64, "f64"}, {DType::f16, "f16"}, {DType::bf16, "bf16"}};
constexpr Name<Math> maths[] = {{Math::fp64, "fp64"},
                                {Math::fp32, "fp32"},
                                {Math::tf32, "tf32"},
                                {Math::bf16, "bf16"},
                                {Math::fp16, "fp16"}};
constexpr Name<Layout> layouts[] = {{Layout::nchw, "nchw"}, {Layout::nhwc, "nhwc"}};
constexpr Name<Activation> activations[] = {{Activation::none, "none"}, {Activation::relu, "relu"}};
constexpr Name<Pool> pools[] = {{Pool::none, "none"}, {Pool::max_2x2, "max_2x2"}};
constexpr Name<Boundary> boundaries[] = {{Boundary::zeros, "zeros"},
                                         {Boundary::periodic, "periodic"},
                                         {Boundary::reflect, "reflect"},
                                         {Boundary::symmetric, "symmetric"},
                                         {Boundary::clamp, "clamp"}};

}  // namespace

std::string_view to_string(DType dtype) { return name_of(dtypes, dtype); }
std::string_view to_string(Math math) { return name_of(maths, math); }
std::string_view to_string(Layout layout) { return name_of(layouts, layout); }
std::string_view to_string(Activation activation) { return name_of(activations, activation); }
std::string_view to_string(Pool pool) { return name_of(pools, pool); }
std::string_view to_string(Boundary boundary) { return name_of(boundaries, boundary); }
std::optional<Boundary> parse_boundary(std::string_view text) { return value_of(boundaries, text); }
std::optional<DType> parse_dtype(std::string_view text) { return value_of(dtypes, text); }
std::optional<Math> parse_math(std::string_view text) { return value_of(maths, text); }
std::optional<Layout> parse_layout(std::string_view text) { return value_of(layouts, text); }

Dims::Dims(const std::int64_t* values, std::size_t count) : rank_(static_cast<int>(count)) {
  if (count > max_rank)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} dimensions; at most {} are possible", count, max_rank));
  std::copy_n(values, count, values_.begin());
}

std::string to_string(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

std::int64_t element_count(const Extents& extents) {
  // 2^60 elements of 8 bytes are 2^63 bytes: byte counts stay in range too.
  constexpr std::int64_t limit = std::int64_t{1} << 60;
  std::int64_t count = 1;
  bool zero = false;
  for (const std::int64_t extent : extents) {
    if (extent < 0)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("extent {} in {}; expected 0 or more", extent, to_string(extents)));
    zero |= extent == 0;
    if (extent > 0 && count > limit / extent)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("extents {} make more than 2^60 elements", to_string(extents)));
    count *= std::max<std::int64_t>(extent, 1);
  }
  return zero ? 0 : count;
}

Strides dense_strides(const Extents& extents) {
  Strides strides = extents;
  std::int64_t step = 1;
  for (int i = extents.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    if (i > 0 && __builtin_mul_overflow(step, std::max<std::int64_t>(extents[i], 1), &step))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("extents {} have dense strides past 2^63", to_string(extents)));
  }
  return strides;
}

Strides strides_for(Layout layout, const Extents& extents) {
  if (extents.rank() < 3 || extents.rank() > 5)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("extents {}; a layout is for rank 3 to 5", to_string(extents)));
  element_count(extents);
  Strides strides = dense_strides(extents);
  if (layout == Layout::nchw) return strides;
  const std::int64_t c = extents[1];
  for (int i = 2; i < extents.rank(); ++i) strides[i] *= c;
  strides[1] = 1;
  return strides;
}

}  // namespace plumb
