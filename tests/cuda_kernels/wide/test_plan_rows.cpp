// Which tensors the copy engine reads as rows of pixels, in place of im2col mode.
#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <string>

#include "cuda_kernels/primitives/im2col_rows.hpp"
#include "cuda_kernels/wide/wide.hpp"
#include "plumb/problem_text.hpp"

using namespace plumb;
using namespace plumb::cuda;

namespace {

ConvProblem channels_last(const std::string& text, std::int64_t pixel) {
  ConvProblem p = parse_problem(text).problem;
  p.dtype = DType::f16;
  const Extents extents = p.x_extents();
  Strides strides = extents;
  strides[1] = 1;
  for (int i = extents.rank() - 1; i >= 2; --i) strides[i] = pixel, pixel *= extents[i];
  strides[0] = pixel;
  p.x_strides = strides;
  return check(p);
}

std::optional<TiledMap> rows_of(const ConvProblem& p, int copied) {
  const WideFilters filters(p, wide_class_fp16);
  Im2colMap map = wide_im2col(p, filters, nullptr);
  map.pixels = copied;
  return rows_of_pixels(map, filters.all_taps());
}

}  // namespace

TEST_CASE("wide: pixels under one tap are rows, of all images one behind the other") {
  for (const char* text : {"mb3ic72ih9iw11oc64kh1", "mb3ic72iw99oc64kw1",
                           "mb3ic72id3ih3iw11oc64kd1kh1kw1", "mb3ic72ih1iw99oc64kh1"}) {
    CAPTURE(text);
    for (const std::int64_t pixel : {72, 80}) {
      const auto rows = rows_of(channels_last(text, pixel), 64);
      REQUIRE(rows);
      CHECK(rows->extent[0] == 72);
      CHECK(rows->extent[1] == 3 * 99);
      CHECK(rows->stride_bytes[1] == 2 * pixel);
      CHECK(rows->box[0] == 64);
      CHECK(rows->box[1] == 64);
      for (int axis = 2; axis < TiledMap::rank; ++axis) {
        CHECK(rows->extent[axis] == 1);
        CHECK(rows->box[axis] == 1);
      }
    }
  }
}

TEST_CASE("wide: pixels that are left out, padded, or not equally far apart are no rows") {
  for (const char* text :
       {"mb3ic72ih9iw11oc64kh1sh2", "mb3ic72ih9iw11oc64kh1kw1sh1sw2", "mb3ic72ih9iw11oc64kh1ph1",
        "mb3ic72ih9iw11oc64kh3ph1", "mb3ic72iw99oc64ow99kw2pw0"}) {
    CAPTURE(text);
    CHECK_FALSE(rows_of(channels_last(text, 72), 64));
  }
  const ConvProblem dense = channels_last("mb3ic72ih9iw11oc64kh1", 72);
  CHECK(rows_of(dense, max_tiled_box));
  CHECK_FALSE(rows_of(dense, max_tiled_box + 1));
  for (int axis : {0, 2}) {
    CAPTURE(axis);
    ConvProblem apart = dense;
    apart.x_strides[axis] += axis == 0 ? 8 : 72;
    if (axis == 2) apart.x_strides[0] = apart.x_strides[2] * 9;
    CHECK_FALSE(rows_of(check(apart), 64));
  }
}
