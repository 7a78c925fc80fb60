#include "cuda_kernels/interleaved/interleaved_conv.hpp"

#include <utility>

#include "cuda_kernels/primitives/ceil_div.hpp"

namespace plumb::cuda {
namespace {

/// An axis of dx.
struct DataAxis {
  std::int64_t x, taps, y, stride, before;

  /// Where there is one place there are no others, whatever the stride.
  int up() const { return x > 1 || taps > 1 || y > 1 ? static_cast<int>(stride) : 1; }
  /// The first pixel of dy that a tap of the first pixel of dx meets; it may lie outside.
  std::int64_t first_pixel() const {
    const std::int64_t least = before - (taps - 1);
    return least > 0 ? ceil_div(least, std::int64_t{up()}) : -(-least / up());
  }
  TapAxis taps_of_outputs() const {
    return {.taps = static_cast<int>(taps),
            .first = static_cast<int>(before - up() * first_pixel()),
            .of_output = 1,
            .of_pixel = -up()};
  }
  /// The padding behind dy that gives dx its extent.
  std::int64_t behind() const { return x + taps - 1 - y + first_pixel(); }
};

TapAxis forward_axis(std::int64_t taps, std::int64_t outputs, std::int64_t stride) {
  return {.taps = static_cast<int>(taps),
          .first = 0,
          .of_output = outputs > 1 ? -static_cast<int>(stride) : -1,
          .of_pixel = 1};
}

}  // namespace

bool TapAxis::reads(int outputs, int pixel) const {
  for (int i = 0; i < outputs; ++i)
    if (const int of = tap(i, pixel); of >= 0 && of < taps) return true;
  return false;
}

InterleavedConv::InterleavedConv(const ConvProblem& whole) : problem(whole) {
  if (whole.direction != Direction::backward_data) {
    h = forward_axis(whole.r, whole.p(), whole.stride.h);
    w = forward_axis(whole.s, whole.q(), whole.stride.w);
    return;
  }
  const DataAxis rows{whole.h, whole.r, whole.p(), whole.stride.h, whole.padding.top};
  const DataAxis columns{whole.w, whole.s, whole.q(), whole.stride.w, whole.padding.left};
  h = rows.taps_of_outputs(), w = columns.taps_of_outputs();
  problem.direction = Direction::forward;
  problem.c = whole.k, problem.k = whole.c;
  problem.h = whole.p(), problem.w = whole.q();
  problem.stride = {}, problem.dilation = {};
  problem.padding = {};
  problem.padding.top = -rows.first_pixel(), problem.padding.bottom = rows.behind();
  problem.padding.left = -columns.first_pixel(), problem.padding.right = columns.behind();
  problem.x_strides = image_of(whole).strides;
  problem.y_strides = output_of(whole).strides;
  std::swap(problem.w_strides[0], problem.w_strides[1]);
}

}  // namespace plumb::cuda
