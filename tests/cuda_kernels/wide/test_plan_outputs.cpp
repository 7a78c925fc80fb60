// How the wide kernel's outputs leave: in vectors, in boxes of the copy engine, or one by one.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>

#include "cuda_kernels/wide/emulation/placing.hpp"
#include "cuda_kernels/wide/wide.hpp"
#include "cuda_kernels/wide/wide_boxes.hpp"
#include "plumb/problem_text.hpp"

using namespace plumb;
using namespace plumb::cuda;

namespace {

Strides channels_last(const Extents& extents) {
  return plumb_test::emulation::strides_of(extents, plumb_test::emulation::Placing::channels_last);
}

}  // namespace

TEST_CASE("wide: vectors of filters want K, strides and an address of sixteen bytes") {
  alignas(16) static const std::uint16_t y[16] = {};
  const auto access = [](const ConvProblem& problem, const void* at) {
    return access_of_outputs(check(problem), WideGroups(problem, wide_class_fp16), at);
  };
  ConvProblem problem = parse_problem("mb2ic64ih8oc64kh3ph1").problem;
  problem.dtype = DType::f16;
  problem.y_strides = channels_last(problem.y_extents());
  CHECK(access(problem, y) == WideAccess::filters);
  CHECK(access(problem, y + 1) == WideAccess::elements);
  problem.k = 60;
  problem.y_strides = channels_last(problem.y_extents());
  CHECK(access(problem, y) == WideAccess::elements);
  problem.dtype = DType::f32;  // four are 16 bytes
  CHECK(access_of_outputs(check(problem), WideGroups(problem, wide_class_tf32), y) ==
        WideAccess::filters);
  // Each group's filters are to begin at 16 bytes.
  ConvProblem groups = parse_problem("g2mb2ic256ih8oc152kh3ph1").problem;
  groups.dtype = DType::f16;
  groups.y_strides = channels_last(groups.y_extents());
  CHECK(access(groups, y) == WideAccess::elements);
}

TEST_CASE("wide: vectors of pixels want planes, or rows, of sixteen or eight bytes") {
  alignas(16) static const std::uint16_t y[16] = {};
  const auto access = [](const char* text, DType dtype, int offset = 0, std::int64_t row = 0) {
    ConvProblem problem = parse_problem(text).problem;
    problem.dtype = dtype;
    const Extents extents = problem.y_extents();
    if (row > 0) {
      problem.y_strides = dense_strides(extents);
      const int rank = extents.rank();
      problem.y_strides[rank - 2] = row;
      for (int i = rank - 3; i >= 0; --i)
        problem.y_strides[i] = problem.y_strides[i + 1] * extents[i + 1];
    }
    return access_of_outputs(
        check(problem),
        WideGroups(problem, dtype == DType::f16 ? wide_class_fp16 : wide_class_tf32), y + offset);
  };
  CHECK(access("mb2ic64ih8oc64kh3ph1", DType::f16) == WideAccess::pixels);
  CHECK(access("mb2ic64ih8oc60kh3ph1", DType::f16, 4) == WideAccess::half_pixels);
  CHECK(access("mb2ic64ih8oc60kh3ph1", DType::f16, 1) == WideAccess::elements);
  CHECK(access("mb2ic64ih14oc64kh3ph1", DType::f16) == WideAccess::half_pixels);
  CHECK(access("mb2ic64ih14oc64kh3ph1", DType::f32) == WideAccess::pixels);
  CHECK(access("mb2ic64ih7oc64kh3ph1", DType::f32) == WideAccess::elements);
  CHECK(access("mb2ic64iw40oc64kw3pw1", DType::f16) == WideAccess::pixels);
  CHECK(access("mb2ic64id2ih2iw6oc64kd1kh1kw1pd0ph0pw0", DType::f16) == WideAccess::pixels);
  // Rows with a gap: each begins at a vector, and has whole ones.
  CHECK(access("mb2ic64ih5iw8oc64kh1ph0", DType::f16, 0, 16) == WideAccess::pixels);
  CHECK(access("mb2ic64ih5iw8oc64kh1ph0", DType::f16, 0, 12) == WideAccess::half_pixels);
  CHECK(access("mb2ic64ih5iw8oc64kh1ph0", DType::f16, 0, 9) == WideAccess::elements);
  CHECK(access("mb2ic64ih5iw7oc64kh1ph0", DType::f16, 0, 8) == WideAccess::elements);
}

TEST_CASE("wide: the copy engine stores rows of filters, where all pixels are one row") {
  alignas(16) static const std::uint16_t y[16] = {};
  const auto boxes = [](ConvProblem problem, int offset = 0) {
    problem = check(problem);
    return boxes_of_outputs(problem, WideGroups(problem, wide_class_fp16), y + offset, false);
  };
  ConvProblem problem = parse_problem("g2mb2ic256ih8iw6oc144kh3ph1").problem;
  problem.dtype = DType::f16;
  problem.y_strides = channels_last(problem.y_extents());
  const auto map = boxes(problem);
  REQUIRE(map);
  CHECK(map->extent[0] == 72);
  CHECK(map->extent[1] == 2);
  CHECK(map->extent[2] == 2 * 8 * 6);
  CHECK(map->stride_bytes[1] == 144);
  CHECK(map->stride_bytes[2] == 288);
  CHECK_FALSE(boxes(problem, 1));
  // A part of wider pixels is one; columns left out, or images apart, are none.
  ConvProblem part = problem;
  part.y_strides = channels_last({2, 160, 8, 6});
  CHECK(boxes(part)->stride_bytes[2] == 320);
  part.y_strides = channels_last({2, 144, 8, 7});
  CHECK_FALSE(boxes(part));
  part.y_strides = channels_last({2, 144, 8, 6}), part.y_strides[0] += 144;
  CHECK_FALSE(boxes(part));
  part.n = 1;
  CHECK(boxes(part));
  part.y_strides = channels_last({2, 148, 8, 6});
  CHECK_FALSE(boxes(part));
  problem.k = 136;  // 68 of a group are no whole 16 bytes
  problem.y_strides = channels_last(problem.y_extents());
  CHECK_FALSE(boxes(problem));
  problem.y_strides = {};
  CHECK_FALSE(boxes(problem));
}

TEST_CASE("wide: the copy engine stores planes under one tap that begin at 16 bytes") {
  alignas(16) static const float y[8] = {};
  const auto boxes = [](const char* text, int offset = 0, std::int64_t plane = 0) {
    ConvProblem problem = parse_problem(text).problem;
    problem.dtype = DType::f32;
    if (plane > 0) problem.y_strides = {plane * problem.k, plane, problem.w, 1};
    const ConvProblem flat = flat_problem(check(problem));
    return boxes_of_outputs(flat, WideGroups(flat, wide_class_tf32), y + offset, true);
  };
  const auto map = boxes("mb3ic64ih5iw4oc40kh1ph0");
  REQUIRE(map);
  CHECK(map->extent[0] == 20);
  CHECK(map->extent[1] == 40);
  CHECK(map->extent[2] == 3);
  CHECK(map->stride_bytes[1] == 80);
  CHECK(map->stride_bytes[2] == 3200);
  CHECK_FALSE(boxes("mb3ic64ih5iw4oc40kh1ph0", 1));
  CHECK(boxes("mb3ic64ih5iw4oc40kh1ph0", 0, 24));
  // A store would write behind the last pixel of each plane.
  CHECK_FALSE(boxes("mb3ic64ih7oc40kh1ph0"));
  CHECK_FALSE(boxes("mb3ic64ih7oc40kh1ph0", 0, 52));
  CHECK_FALSE(boxes("mb1ic1ih1iw2oc1kh1ph0"));
}
