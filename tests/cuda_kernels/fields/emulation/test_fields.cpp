// The field kernels of CUDA on the host, where no GPU is: their sources as they are, every kernel,
// in one to three dimensions, with every boundary, are the oracle's bit for bit.
#include <array>
#include <map>

#include "emulation.hpp"
#include "field_case.hpp"
#include "field_draw.hpp"
#include "support/sanitized.hpp"

using namespace plumb;
using namespace plumb_test;
using namespace plumb_test::emulation;

namespace {

/// Under a sanitizer every fifth problem.
constexpr std::uint32_t step = plumb_test::is_sanitized ? 5 : 1;

/// Runs the problem by a kernel, if it can; says whether it could.
bool run(Draw& draw, const ConvProblem& problem, FieldKernel kernel, const FieldOptions& options,
         std::uint32_t seed) {
  const auto planned = plan(check(problem), draw.choice(kernel));
  if (!planned || planned->kernel != kernel) return false;
  CAPTURE(seed, name(kernel), to_string(problem), to_string(problem.dtype), options.bias,
          options.relu, options.accumulate, options.vectors, options.special, planned->threads_w,
          planned->threads_v, planned->threads_u, planned->tile_u, planned->outputs,
          planned->planes, planned->filters, planned->channels, planned->queue.taps,
          planned->queue.vectors, planned->queue.rows);
  const std::string wrong = FieldCase(problem, options, seed).run(*planned);
  CHECK(wrong == "");
  return true;
}

}  // namespace

TEST_CASE("fields emulated: every kernel takes every boundary in one to three dimensions") {
  std::uint32_t seed = 1000;
  unsigned turn = 0;
  for (const FieldKernel kernel : kernels)
    for (int rank = 1; rank <= 3; ++rank)
      for (const Boundary boundary : boundaries)
        for (const DType dtype : {DType::f32, DType::f64}) {
          const bool toeplitz = kernel == FieldKernel::toeplitz;
          if (toeplitz && (dtype == DType::f32 || rank == 3)) continue;
          if (rank == 1 && kernel != FieldKernel::line && kernel != FieldKernel::tile && !toeplitz)
            continue;
          if (is_left_out(turn++)) continue;
          bool ran = false;
          for (int tries = 0; tries < 100 && !ran; ++tries) {
            Draw draw(++seed);
            ConvProblem problem = draw.problem(rank);
            problem.dtype = dtype, problem.boundary = boundary;
            if (kernel == FieldKernel::line) {
              problem.t = problem.r = 1;
              problem.padding = {0, problem.padding.left, 0, problem.padding.right};
              problem.w_strides = {}, problem.y_strides = {};
            }
            ran = run(draw, problem, kernel, draw.options(), seed);
          }
          CAPTURE(name(kernel), rank, to_string(boundary), to_string(dtype));
          CHECK(ran);
        }
}

TEST_CASE("fields emulated: every cut of the queue, with whole tiles and at the border") {
  std::uint32_t seed = 9000;
  for (const plumb::cuda::QueueCut& cut : plumb::cuda::queue_cuts)
    for (const DType dtype : {DType::f32, DType::f64})
      for (int shape = 0; shape < 4; ++shape) {
        Draw draw(++seed);
        if (is_left_out(seed)) continue;
        const bool deep =
            cut.kept_rows > 1 || (cut.kept_rows == 0 && cut.taps < 9 && shape % 2 == 1);
        ConvProblem p;
        p.dtype = dtype;
        p.c = cut.kept_rows > 0 ? 1 : 1 + shape % 2,
        p.k = cut.filters > 2 ? cut.filters - 1 + shape % 2 : cut.filters;
        p.h = 12, p.w = 256 * cut.vectors + (shape < 2 ? 0 : 7 * shape);
        p.r = cut.taps, p.s = cut.along_w();
        p.padding.left = p.padding.right = shape % 3 == 2 ? 0 : cut.along_w() / 2;
        if (deep) p.d = 4, p.t = cut.taps, p.padding.front = p.padding.back = cut.taps - 1;
        p.boundary = draw.boundary();
        const int number = static_cast<int>(&cut - plumb::cuda::queue_cuts) + 1;
        FieldChoice choice{.kernel = FieldKernel::queue, .tile_u = 5, .queue_cut = number};
        choice.threads = shape % 2 == 0 ? 32 : 64;
        choice.threads_w = shape == 3 ? 16 : 32;
        if (!is_compiled(cut, dtype == DType::f32 ? 4 : 8)) continue;
        const auto planned = plan(check(p), choice);
        CAPTURE(number, to_string(p), to_string(dtype), shape);
        REQUIRE(planned);
        REQUIRE(planned->kernel == FieldKernel::queue);
        const std::string wrong = FieldCase(p, draw.options(), seed).run(*planned);
        CHECK(wrong == "");
      }
}

TEST_CASE("fields emulated: the queue's boxes, with every boundary around them") {
  std::uint32_t seed = 20000;
  int loaded = 0;
  for (const Boundary boundary : boundaries)
    for (const int taps : {3, 5, 7, 9})
      for (int shape = 0; shape < 8; ++shape) {
        Draw draw(++seed);
        if (is_left_out(seed)) continue;
        const bool deep = taps < 7 && shape % 2 == 1;
        ConvProblem p;
        p.dtype = draw.one_in(2) ? DType::f32 : DType::f64;
        p.n = 1 + shape / 4, p.c = draw.number(1, 2), p.k = draw.number(1, 3);
        p.h = draw.number(taps, deep ? 12 : 30), p.w = 4 * draw.number(3, 80);
        p.r = p.s = taps;
        p.padding = {
            0, draw.number(0, taps - 1), draw.one_in(4) ? draw.number(0, taps - 1) : taps / 2,
            0, draw.number(0, taps - 1), draw.number(0, taps - 1)};
        // Boxes are compiled for half the taps in front, or vectors more or less.
        const bool meets = (p.padding.left - taps / 2) % (p.dtype == DType::f32 ? 4 : 2) == 0;
        if (deep) p.d = draw.number(2, 12), p.t = taps, p.padding.front = p.padding.back = taps - 1;
        p.boundary = {draw.boundary(), boundary, draw.one_in(2) ? boundary : draw.boundary()};
        const auto planned =
            plan(check(p), {.kernel = FieldKernel::queue, .tile_u = draw.number(3, 20)});
        CAPTURE(seed, to_string(p), to_string(p.dtype));
        REQUIRE(planned);
        CHECK(planned->boxes == meets);
        FieldOptions options = draw.options();
        options.vectors = true, options.special = false;
        const long before = Barrier::boxes();
        const std::string wrong = FieldCase(p, options, seed).run(*planned);
        CHECK(wrong == "");
        loaded += Barrier::boxes() > before;
      }
  // Others are tensors that do not begin at a multiple of 16 bytes.
  CHECK(loaded > (is_sanitized ? 20 : 100));
}

TEST_CASE("fields emulated: lines of several filters, some channels at a time") {
  std::uint32_t seed = 30000;
  for (const Boundary boundary : boundaries)
    for (const DType dtype : {DType::f32, DType::f64})
      for (int filters = 1; filters <= plumb::cuda::most_line_filters; ++filters)
        for (int shape = 0; shape < 3; ++shape) {
          Draw draw(++seed);
          if (is_left_out(seed)) continue;
          ConvProblem p;
          p.dtype = dtype, p.boundary = boundary;
          p.n = draw.number(1, 3), p.c = draw.number(1, 6), p.k = filters + draw.number(0, 3);
          // Whole tiles, several, and rows that begin at multiples of a vector and others.
          p.w = 1100 * shape + draw.number(20, 1200), p.s = draw.number(1, 40);
          p.padding.left = draw.number(0, static_cast<int>(p.s)), p.padding.right = p.s / 2;
          const auto planned = plan(check(p), {.kernel = FieldKernel::line, .filters = filters});
          CAPTURE(seed, to_string(p), to_string(dtype), filters);
          REQUIRE(planned);
          CHECK(planned->filters == filters);
          const std::string wrong = FieldCase(p, draw.options(), seed).run(*planned);
          CHECK(wrong == "");
        }
}

TEST_CASE("fields emulated: the queue with some channels in a stage") {
  std::uint32_t seed = 40000;
  int loaded = 0;
  for (const Boundary boundary : boundaries)
    for (const DType dtype : {DType::f32, DType::f64})
      for (int channels = 1; channels <= 4; ++channels)
        for (int shape = 0; shape < 4; ++shape) {
          Draw draw(++seed);
          if (is_left_out(seed, 11)) continue;
          ConvProblem p;
          p.dtype = dtype, p.boundary = boundary;
          p.n = draw.number(1, 2), p.c = channels * draw.number(1, 2), p.k = draw.number(1, 5);
          p.r = p.s = shape % 2 == 0 ? 3 : 5;
          p.h = draw.number(5, 20), p.w = 4 * draw.number(10, 70) + (shape > 1 ? 1 : 0);
          p.padding.left = p.padding.right = p.s / 2, p.padding.top = p.padding.bottom = p.r / 2;
          if (shape % 2 == 0) p.d = draw.number(4, 9), p.t = 3, p.padding.front = 2;
          const auto planned =
              plan(check(p), {.kernel = FieldKernel::queue, .channels = shape < 2 ? channels : 0});
          CAPTURE(seed, to_string(p), to_string(dtype), channels);
          REQUIRE(planned);
          CHECK(planned->channels == (planned->boxes ? channels : 1));
          const long before = Barrier::boxes();
          const std::string wrong = FieldCase(p, draw.options(), seed).run(*planned);
          CHECK(wrong == "");
          loaded += Barrier::boxes() > before;
        }
  CHECK(loaded > (is_sanitized ? 3 : 40));
}

TEST_CASE("fields emulated: a tap in a padding of zeros is no term, were its weight infinite") {
  for (const FieldKernel kernel : kernels)
    for (int side = 0; side < 6; ++side) {
      ConvProblem p;
      p.d = 9, p.h = 11, p.w = 40, p.t = p.r = p.s = 3;
      if (kernel == FieldKernel::line) p.t = p.r = 1;
      if (kernel == FieldKernel::toeplitz)
        p.dtype = DType::f64, p.d = p.t = 1, p.s = 9, p.r = side % 2 == 0 ? 1 : 3;
      std::int64_t* const sides[] = {&p.padding.front,  &p.padding.back, &p.padding.top,
                                     &p.padding.bottom, &p.padding.left, &p.padding.right};
      *sides[side] = 1;
      if (p.d == 1) p.padding.front = p.padding.back = 0;
      bool ran = false;
      for (std::uint32_t seed = 0; seed < 4; ++seed) {
        Draw draw(seed);
        ran = run(draw, p, kernel, {.special = true}, seed) || ran;
      }
      CHECK(ran);
    }
}

TEST_CASE("fields emulated: random problems, cut in random ways") {
  int ran = 0;
  for (std::uint32_t seed = 0; seed < 500; seed += step) {
    Draw draw(seed);
    const ConvProblem problem = draw.problem(draw.number(1, 3));
    const int kernel = draw.number(0, static_cast<int>(std::size(kernels)) - 1);
    ran += run(draw, problem, kernels[kernel], draw.options(), seed);
  }
  CHECK(ran > 100 / static_cast<int>(step));  // of those drawn, not every one is for its kernel
}

TEST_CASE("fields emulated: the plan that a problem gets") {
  for (std::uint32_t seed = 5000; seed < 5100; seed += step) {
    Draw draw(seed);
    const ConvProblem problem = draw.problem(draw.number(1, 3));
    const auto planned = plan(check(problem), {});
    REQUIRE(planned);
    CAPTURE(seed, name(planned->kernel), to_string(problem));
    const std::string wrong = FieldCase(problem, draw.options(), seed).run(*planned);
    CHECK(wrong == "");
  }
}
