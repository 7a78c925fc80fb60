// Problems drawn from the whole space, weighted to the edges where the conditions of kernels
// change.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <initializer_list>
#include <numeric>

#include "../span.hpp"
#include "plumb/validate.hpp"
#include "random_views.hpp"
#include "test_data.hpp"

namespace plumb {
namespace {

class Draw {
 public:
  Draw(std::uint64_t seed, const RandomLimits& limits)
      : random_(seed), of_direction_(~seed), limits_(limits) {}

  ValidationCase drawn() {
    ValidationCase test;
    do {
      test.problem = sizes();
    } while (test.problem.flop() / 2 > limits_.max_products || too_large(test.problem));
    ConvProblem& problem = test.problem;
    if (!problem.has_depth() && problem.p() > 1 && problem.q() > 1 && one_in(8))
      problem.pool = Pool::max_2x2;
    draw_direction(problem);
    problem.dtype = pick({DType::f32, DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16});
    test.placement = views(problem);
    test.offset = test.placement == Placement::strided ? 1 : 0;
    if (test.placement == Placement::views && one_in(2)) test.offset = random_.between(1, 7);
    test.bias = one_in(3);
    test.activation = one_in(4) ? Activation::relu : Activation::none;
    test.accumulate = one_in(4) && problem.pool == Pool::none;
    if (problem.direction != Direction::forward) test.relu_mask = of_direction_.between(0, 2) == 0;
    if (problem.direction == Direction::backward_weights) test.activation = Activation::none;
    return test;
  }

 private:
  /// By numbers of its own, so that a seed's forward problems are the same without the others.
  void draw_direction(ConvProblem& problem) {
    const std::int64_t lot = of_direction_.between(0, 3);
    const Direction drawn = lot == 0   ? Direction::backward_data
                            : lot == 1 ? Direction::backward_weights
                                       : Direction::forward;
    problem.direction = limits_.direction.value_or(drawn);
    if (problem.direction != Direction::forward) problem.pool = Pool::none;
  }

  bool one_in(std::int64_t lots) { return random_.between(1, lots) == 1; }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[random_.between(0, static_cast<std::int64_t>(choices.size()) - 1)];
  }

  /// A number of channels, filters or pixels: 1 and 2, a vector or a tile, one more, one less, and
  /// anything between.
  std::int64_t size(std::int64_t most) {
    std::int64_t value = 1;
    switch (random_.between(0, 9)) {
      case 0:
      case 1: value = 1; break;
      case 2: value = 2; break;
      case 3: value = pick({4, 8, 16}) + random_.between(-1, 1); break;
      case 4: value = pick({4, 8, 16}) * random_.between(1, 4); break;
      case 5: value = pick({32, 64}) + random_.between(-1, 1); break;
      case 6: value = random_.between(1, most); break;
      default: value = random_.between(1, 12);
    }
    return std::min(value, most);
  }

  std::int64_t filter() {
    switch (random_.between(0, 9)) {
      case 0:
      case 1:
      case 2: return 1;
      case 3: return 2;
      case 4:
      case 5: return 3;
      case 6: return random_.between(4, 5);
      case 7: return random_.between(6, 11);
      default: return random_.between(1, 4);
    }
  }

  /// One direction of the image.
  struct Side {
    std::int64_t image = 1, filter = 1, stride = 1, dilation = 1, before = 0, after = 0;
    Boundary boundary = Boundary::zeros;
  };

  std::int64_t stride(std::int64_t filter) {
    switch (random_.between(0, 7)) {
      case 0: return 2;
      case 1: return filter;
      case 2: return filter + random_.between(1, 3);
      case 3: return random_.between(1, 5);
      default: return 1;
    }
  }

  std::int64_t padding(std::int64_t reach) {
    switch (random_.between(0, 11)) {
      case 0:
      case 1: return 1;
      case 2: return reach / 2;
      case 3: return reach - 1;
      case 4: return reach + random_.between(0, 2);
      case 5: return random_.between(0, 4);
      default: return 0;
    }
  }

  /// With a boundary it is the image that says where the padding's edges are: one less, as wide as
  /// the image, one more, and so wide that the pattern begins anew.
  std::int64_t padding_of_boundary(std::int64_t image, std::int64_t reach) {
    switch (random_.between(0, 7)) {
      case 0: return image - 1;
      case 1: return image;
      case 2: return image + 1;
      case 3: return std::min<std::int64_t>(2 * image + random_.between(-2, 2), 40);
      case 4: return random_.between(0, 12);
      default: return padding(reach);
    }
  }

  Boundary boundary() {
    return pick({Boundary::zeros, Boundary::periodic, Boundary::reflect, Boundary::symmetric,
                 Boundary::clamp});
  }

  Side side(std::int64_t largest, Boundary boundary) {
    Side side;
    side.boundary = boundary;
    side.filter = filter();
    side.stride = stride(side.filter);
    if (one_in(4)) side.dilation = random_.between(2, 4);
    const auto reach = [&] { return side.dilation * (side.filter - 1) + 1; };
    switch (random_.between(0, 7)) {
      case 0: side.image = reach(); break;      // image = filter
      case 1: side.image = reach() + 1; break;  // and one more
      case 2: side.image = reach() + side.stride * random_.between(0, 4); break;
      case 3:  // just fits a whole number of steps, or is one short of it
        side.image = std::max<std::int64_t>(1, reach() + side.stride * random_.between(1, 4) - 1);
        break;
      case 4:  // dilation beyond half of the image
        side.image = size(20);
        side.dilation = side.filter > 1 ? std::max<std::int64_t>(
                                              1, (side.image + 1) / 2 + random_.between(0, 1))
                                        : side.dilation;
        break;
      default: side.image = size(largest);
    }
    // On both sides alike, on one side, or each its own.
    const auto drawn = [&] {
      return boundary == Boundary::zeros ? padding(reach())
                                         : padding_of_boundary(side.image, reach());
    };
    side.before = drawn();
    side.after = one_in(2) ? side.before : drawn();
    // What does not fit yet is padded until it does.
    const std::int64_t missing = reach() - (side.image + side.before + side.after);
    if (missing > 0) {
      const std::int64_t first = random_.between(0, missing);
      side.before += first;
      side.after += missing - first;
    }
    return side;
  }

  ConvProblem sizes() {
    ConvProblem problem;
    problem.n = one_in(64)   ? 0
                : one_in(2)  ? 1
                : one_in(12) ? random_.between(5, 70)
                             : random_.between(2, 4);
    problem.groups = one_in(3) ? pick({2, 2, 3, 4, 5, 8, 17}) : 1;
    const bool depthwise = problem.groups > 1 && one_in(3);
    problem.c = problem.groups * (depthwise ? 1 : size(130));
    problem.k = problem.groups * (depthwise && one_in(2) ? 1 : size(130));
    const bool deep = one_in(3);
    Boundary of_h = Boundary::zeros, of_w = Boundary::zeros, of_d = Boundary::zeros;
    if (one_in(3)) {
      of_h = boundary();
      // All alike, or each its own.
      of_d = of_w = of_h;
      if (one_in(2)) of_w = boundary(), of_d = boundary();
    }
    const std::int64_t largest = deep ? 24 : 80;
    Side h = side(largest, of_h);
    Side w = side(largest, of_w);
    const Side d = deep ? side(largest, of_d) : Side{};
    switch (random_.between(0, 15)) {
      case 0: h = {}; break;      // 1-D
      case 1: w = {}; break;      // 1-D the other way
      case 2: h = w = {}; break;  // linear
      case 3: h.filter = h.dilation = w.filter = w.dilation = 1; break;
      case 4: w.filter = h.filter, w.stride = h.stride, w.image = h.image; break;
      default: break;
    }
    problem.d = d.image, problem.h = h.image, problem.w = w.image;
    problem.t = d.filter, problem.r = h.filter, problem.s = w.filter;
    problem.stride = {d.stride, h.stride, w.stride};
    problem.dilation = {d.dilation, h.dilation, w.dilation};
    problem.padding = {d.before, h.before, w.before, d.after, h.after, w.after};
    problem.boundary = {d.boundary, h.boundary, w.boundary};
    if (one_in(problem.boundary == Boundaries{} ? 3 : 20)) problem.padding = {};
    clear_depth(problem);
    fit(problem);
    avoid_reflecting(problem);
    return problem;
  }

  /// Nothing is padded along a depth that is not there.
  static void clear_depth(ConvProblem& problem) {
    if (!problem.has_depth()) problem.padding.front = problem.padding.back = 0;
  }

  /// An edge that is not repeated shows what is next to it: an image of one has nothing there.
  static void avoid_reflecting(ConvProblem& problem) {
    const auto avoid = [](Boundary& boundary, std::int64_t extent) {
      if (extent < 2 && boundary == Boundary::reflect) boundary = Boundary::symmetric;
    };
    avoid(problem.boundary.d, problem.d);
    avoid(problem.boundary.h, problem.h);
    avoid(problem.boundary.w, problem.w);
  }

  /// Draws the largest sizes anew, smaller, until the problem is within the limit. The filter
  /// stays: its conditions are the ones that were drawn with care.
  void fit(ConvProblem& problem) {
    while (problem.z() > 0 && problem.p() > 0 && problem.q() > 0 &&
           problem.flop() / 2 > limits_.max_products) {
      const std::int64_t in_group = problem.c / problem.groups, out = problem.k / problem.groups;
      const std::int64_t largest = std::max(
          {problem.n, in_group, out, problem.groups, problem.z(), problem.p(), problem.q()});
      if (largest <= 1) return;
      const auto smaller = [&](std::int64_t value) {
        return random_.between(std::max<std::int64_t>(1, value / 4), (value + 1) / 2);
      };
      const auto crop = [&](std::int64_t& image, std::int64_t outputs, std::int64_t stride) {
        image = std::max<std::int64_t>(1, image - (outputs - smaller(outputs)) * stride);
      };
      if (problem.z() == largest && problem.d > 1)
        crop(problem.d, problem.z(), problem.stride.d), clear_depth(problem);
      else if (problem.p() == largest && problem.h > 1)
        crop(problem.h, problem.p(), problem.stride.h);
      else if (problem.q() == largest && problem.w > 1)
        crop(problem.w, problem.q(), problem.stride.w);
      else if (in_group == largest)
        problem.c = problem.groups * smaller(in_group);
      else if (out == largest)
        problem.k = problem.groups * smaller(out);
      else if (problem.n == largest)
        problem.n = smaller(problem.n);
      else if (problem.groups == largest)
        problem.groups = smaller(largest), problem.c = in_group * problem.groups,
        problem.k = out * problem.groups;
      else
        return;  // outputs that padding alone makes: drawn again
    }
  }

  bool too_large(const ConvProblem& problem) const {
    if (problem.z() < 1 || problem.p() < 1 || problem.q() < 1) return true;
    const auto count = [](const Extents& extents) { return element_count(extents); };
    return std::max({count(problem.x_extents()), count(problem.w_extents()),
                     count(problem.y_extents())}) > limits_.max_elements;
  }

  /// Strides of all three tensors: of one placement, or each its own.
  Placement views(ConvProblem& problem) {
    const Placement placement =
        pick({Placement::nchw, Placement::nchw, Placement::nchw, Placement::nchw, Placement::nhwc,
              Placement::strided, Placement::views, Placement::views, Placement::views,
              Placement::views});
    if (placement != Placement::views) {
      problem = validation_case("", problem, placement).problem;
      return placement;
    }
    const auto strides = [&](const Extents& extents, bool written) {
      Strides drawn = random_strides(random_, extents, written);
      if (span_of(extents, drawn).elements > limits_.max_elements) drawn = dense_strides(extents);
      return drawn;
    };
    const auto written = [&](Direction direction) { return problem.direction == direction; };
    problem.x_strides = strides(problem.x_extents(), written(Direction::backward_data));
    problem.w_strides = one_in(2)
                            ? strides(problem.w_extents(), written(Direction::backward_weights))
                            : dense_strides(problem.w_extents());
    problem.y_strides = one_in(2) ? strides(problem.y_extents(), written(Direction::forward))
                                  : dense_strides(problem.y_extents());
    problem = check(problem);
    return placement;
  }

  Random random_, of_direction_;
  const RandomLimits& limits_;
};

}  // namespace

RandomCases::RandomCases(std::uint64_t seed, const RandomLimits& limits)
    : seed_(seed), limits_(limits) {}

ValidationCase RandomCases::at(std::uint64_t index) const {
  // A sequence of its own for each case: what one draws says nothing of the next.
  Random seeds(seed_);
  const std::uint64_t of_seed = seeds.next();
  Random of_case(of_seed ^ (index * 0x9e3779b97f4a7c15u));
  return Draw(of_case.next(), limits_).drawn();
}

}  // namespace plumb
