// Probes that are exact in one arithmetic and not in another.
//
// Operands: 1 + 3 2^-12 survives fp32, rounds to 1 + 2^-10 in TF32 and fp16 and truncates to 1 in
// TF32; 1 + 3 2^-10 survives TF32 and not bf16; 2^17 does not fit fp16. Sums: big, small, -big in
// every order of three taps gives `small` where the sum keeps it and zero where it does not; an
// accumulator that loses it in any order has no room for it. The probes are compared with
// thresholds, not for equality, so that algorithms that transform their input can be told too.
//
// Where the problem pools, the probe is the first of the outputs that a maximum is taken of, and
// the others must stay zero below it (what a probe looks for is positive). A pixel meets a tap that
// it is not meant for only at an output as far away as the two taps of the sum are from each other,
// so the taps of one sum are chosen to be further apart than the window, or of different channels.
// Beyond the image a boundary may show the pixels of the probe again: no tap that does is taken.
// At the probed output itself each tap meets one pixel, and those of different taps differ. For dx
// that holds where no boundary shows a pixel again; otherwise no two taps of one filter are taken.
// For dw a pixel that its tap reads at two outputs is not taken: the zero that it meets at the
// other would make a NaN of what fp16 holds as infinite, and a NaN beside padding is summed anew in
// fp32.
#include "attest.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "../names.hpp"
#include "../overlap.hpp"

namespace plumb {
namespace {

constexpr Name<Arithmetic> arithmetics[] = {{Arithmetic::unknown, "unknown"},
                                            {Arithmetic::fp64, "fp64"},
                                            {Arithmetic::fp32, "fp32"},
                                            {Arithmetic::tf32_rounded, "tf32_rounded"},
                                            {Arithmetic::tf32_truncated, "tf32_truncated"},
                                            {Arithmetic::fp16, "fp16"},
                                            {Arithmetic::fp16_accumulate, "fp16_accumulate"},
                                            {Arithmetic::bf16, "bf16"}};

/// A product of the probed output.
struct Tap {
  std::int64_t image, filter;  ///< its elements, as offsets in the operands
  std::int64_t c, h, w;        ///< of the image
};

/// How far one step of each index goes; without a depth its step goes nowhere.
struct Steps {
  std::int64_t outer, channel, plane, row, column;
  explicit Steps(const Strides& strides)
      : outer(strides[0]),
        channel(strides[1]),
        plane(strides.rank() == 5 ? strides[2] : 0),
        row(strides[strides.rank() - 2]),
        column(strides[strides.rank() - 1]) {}
  std::int64_t at(std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h,
                  std::int64_t w) const {
    return n * outer + c * channel + d * plane + h * row + w * column;
  }
};

bool inside(std::int64_t index, std::int64_t extent) { return index >= 0 && index < extent; }

/// A window along one axis, a tap of it, and the pixel inside the image that it reads.
struct Reading {
  std::int64_t output, tap, pixel;
};

/// One axis of a convolution.
struct Axis {
  std::int64_t outputs, taps, stride, dilation, before, extent;
  Boundary boundary;

  /// Those that are `wanted`.
  template <class Wanted>
  std::vector<Reading> readings(const Wanted& wanted) const {
    std::vector<Reading> all;
    for (std::int64_t output = 0; output < outputs; ++output)
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        const Reading one{output, tap, output * stride + tap * dilation - before};
        if (inside(one.pixel, extent) && wanted(one)) all.push_back(one);
      }
    return all;
  }

  /// Whether the tap reads the pixel at another output too, where the boundary shows it again.
  bool reads_again(const Reading& one) const {
    for (std::int64_t output = 0; output < outputs; ++output) {
      const std::int64_t at = output * stride + one.tap * dilation - before;
      if (output != one.output && boundary_index(boundary, at, extent) == one.pixel) return true;
    }
    return false;
  }
};

class Prober {
 public:
  Prober(Trial& trial, const ConvAlgorithm& algorithm, Queue& queue)
      : trial_(trial), algorithm_(algorithm), queue_(queue), y_(trial.make_output()) {
    const ConvProblem& problem = trial.problem();
    if (problem.n == 0) return;
    // The output in the middle sees the most of the image.
    const Extents y = output_of(problem).extents;
    if (problem.direction != Direction::forward) {
      plane_ = y.rank() == 5 ? y[2] / 2 : 0;
      row_ = y[y.rank() - 2] / 2, column_ = y[y.rank() - 1] / 2;
      add_readings();
      return;
    }
    const std::int64_t outputs_a_side = problem.pool == Pool::none ? 1 : 2;
    plane_ = problem.z() / 2, row_ = y[y.rank() - 2] / 2, column_ = y[y.rank() - 1] / 2;
    const Triple& stride = problem.stride;
    const Padding& pad = problem.padding;
    add_taps(plane_ * stride.d - pad.front, outputs_a_side * row_ * stride.h - pad.top,
             outputs_a_side * column_ * stride.w - pad.left);
  }

  std::size_t taps() const { return taps_.size(); }

  /// Three taps that may be in one sum: the first, the last, and the middle or one after it; fewer
  /// where there are none.
  std::vector<std::size_t> three_taps() const {
    if (taps() < 3) return {};
    const std::size_t last = taps() - 1;
    if (!apart(taps_[0], taps_[last])) return {};
    for (std::size_t i = 0; i + 2 < taps(); ++i) {
      const std::size_t middle = 1 + (last / 2 - 1 + i) % (last - 1);
      if (apart(taps_[0], taps_[middle]) && apart(taps_[middle], taps_[last]))
        return {0, middle, last};
    }
    return {};
  }

  /// The output whose only terms are x[i] w[i], at the taps given by number.
  struct Term {
    std::size_t tap;
    double x, w;
  };
  double operator()(const std::vector<Term>& terms) {
    const ConvProblem& problem = trial_.problem();
    const auto zero = [](const TensorView& view) {
      for_each_offset(view.extents(), view.strides(),
                      [&](std::int64_t offset) { store_element(view, offset, 0); });
    };
    const TensorView x = trial_.x(), w = trial_.w();
    zero(x);
    zero(w);
    if (!trial_.bias().empty()) zero(trial_.bias());
    if (trial_.accumulates()) zero(trial_.before());
    if (!trial_.mask().empty()) pass_all(trial_.mask());
    for (const Term& term : terms) {
      store_element(x, taps_[term.tap].image, term.x);
      store_element(w, taps_[term.tap].filter, term.w);
    }
    trial_.upload_inputs(queue_);
    trial_.run(algorithm_, queue_, y_);
    return load_element(y_.host(),
                        Steps(output_of(problem).strides).at(0, 0, plane_, row_, column_));
  }

 private:
  static void pass_all(const TensorView& mask) {
    for_each_offset(mask.extents(), mask.strides(),
                    [&](std::int64_t offset) { store_element(mask, offset, 1); });
  }

  /// The taps that lie inside the image at the output whose window begins there.
  void add_taps(std::int64_t first_plane, std::int64_t first_row, std::int64_t first_column) {
    const ConvProblem& problem = trial_.problem();
    const Steps of_x(problem.x_strides), of_w(problem.w_strides);
    for (std::int64_t c = 0; c < problem.c / problem.groups; ++c)
      for (std::int64_t t = 0; t < problem.t; ++t)
        for (std::int64_t r = 0; r < problem.r; ++r)
          for (std::int64_t s = 0; s < problem.s; ++s) {
            const std::int64_t d = first_plane + t * problem.dilation.d,
                               h = first_row + r * problem.dilation.h,
                               w = first_column + s * problem.dilation.w;
            if (inside(d, problem.d) && inside(h, problem.h) && inside(w, problem.w))
              taps_.push_back({of_x.at(0, c, d, h, w), of_w.at(0, c, t, r, s), c, h, w});
          }
  }

  /// The products of a gradient's output: of dx those of windows that read the pixel, of dw those
  /// of windows whose tap it is.
  void add_readings() {
    const ConvProblem& p = trial_.problem();
    const bool of_data = p.direction == Direction::backward_data;
    const std::int64_t sums = of_data ? p.k / p.groups : p.n;
    const bool one_a_filter = of_data && p.boundary != Boundaries{};
    const Steps image(image_of(p).strides), filters(filters_of(p).strides);
    const auto along = [&](const Axis& axis, std::int64_t written) {
      return axis.readings([&](const Reading& one) {
        return of_data ? one.pixel == written : one.tap == written && !axis.reads_again(one);
      });
    };
    const auto planes =
        along({p.z(), p.t, p.stride.d, p.dilation.d, p.padding.front, p.d, p.boundary.d}, plane_);
    const auto rows =
        along({p.p(), p.r, p.stride.h, p.dilation.h, p.padding.top, p.h, p.boundary.h}, row_);
    const auto columns =
        along({p.q(), p.s, p.stride.w, p.dilation.w, p.padding.left, p.w, p.boundary.w}, column_);
    for (std::int64_t i = 0; i < sums; ++i) {
      std::size_t of_filter = 0;
      for (const Reading& d : planes)
        for (const Reading& h : rows)
          for (const Reading& w : columns) {
            if (one_a_filter && of_filter++ > 0) continue;
            const std::int64_t dy =
                (of_data ? image : filters)
                    .at(of_data ? 0 : i, of_data ? i : 0, d.output, h.output, w.output);
            if (of_data)
              taps_.push_back({dy, filters.at(i, 0, d.tap, h.tap, w.tap), i, 0, 0});
            else
              taps_.push_back({image.at(i, 0, d.pixel, h.pixel, w.pixel), dy, i, 0, 0});
          }
    }
  }

  /// Whether no other output of the pooling's window has a pixel of one of the taps under either.
  bool apart(const Tap& a, const Tap& b) const {
    if (trial_.problem().pool == Pool::none) return true;
    return !shows(a, a) && !shows(a, b) && !shows(b, a) && !shows(b, b);
  }
  /// Whether tap `a` shows the pixel of `b` at another output of the window.
  bool shows(const Tap& a, const Tap& b) const {
    const ConvProblem& problem = trial_.problem();
    if (a.c != b.c) return false;
    for (const std::int64_t down : {0, 1})
      for (const std::int64_t right : {0, 1}) {
        if (down + right == 0) continue;
        const std::int64_t h =
            boundary_index(problem.boundary.h, a.h + down * problem.stride.h, problem.h);
        const std::int64_t w =
            boundary_index(problem.boundary.w, a.w + right * problem.stride.w, problem.w);
        if (h == b.h && w == b.w) return true;
      }
    return false;
  }

  Trial& trial_;
  const ConvAlgorithm& algorithm_;
  Queue& queue_;
  TrialOutput y_;
  std::int64_t plane_ = 0, row_ = 0, column_ = 0;  ///< of y
  std::vector<Tap> taps_;
};

/// Whether big + small - big comes out as `small` in every order of three taps, at several `places`
/// of the reduction. All values are powers of two, so that no operand is rounded.
bool keeps(Prober& probe, const std::vector<std::size_t>& places, double small) {
  constexpr double big = 0x1p6;  // keeps `small` above the smallest f16
  const std::array values{big, small * big, -big};
  std::array order{0, 1, 2};
  do {
    std::vector<Prober::Term> terms;
    for (std::size_t i = 0; i < 3; ++i) {
      // The factors share the exponent, so that both fit a narrow type.
      const double value = values[static_cast<std::size_t>(order[i])];
      const int exponent = std::ilogb(std::abs(value));
      const double w = std::ldexp(1.0, exponent / 2);
      terms.push_back({places[i], value / w, w});
    }
    if (!(std::abs(probe(terms) - small * big) <= 0.25 * small * big)) return false;
  } while (std::next_permutation(order.begin(), order.end()));
  return true;
}

/// What the operands were rounded to, told from one product.
Arithmetic operands(Prober& probe, DType dtype) {
  const std::size_t middle = probe.taps() / 2;
  const auto through = [&](double value, double other) { return probe({{middle, value, other}}); };
  if (dtype == DType::f32 || dtype == DType::f64) {
    const double result = through(1 + 0x3p-12, 1);
    if (std::abs(result - (1 + 0x3p-12)) < 0x1p-14) return Arithmetic::fp32;
    // Ten bits or fewer: by range, by the eighth bit, and by the direction of rounding.
    if (std::abs(through(1 + 0x3p-10, 1) - (1 + 0x3p-10)) > 0x1p-11) return Arithmetic::bf16;
    if (!(std::abs(through(0x1p17, 0x1p-2) - 0x1p15) < 0x1p10)) return Arithmetic::fp16;
    if (std::abs(result - 1) < 0x1p-12) return Arithmetic::tf32_truncated;
    if (std::abs(result - (1 + 0x1p-10)) < 0x1p-12) return Arithmetic::tf32_rounded;
    return Arithmetic::unknown;
  }
  // Narrow tensors: only a still narrower operand shows. f16 in bf16 loses its last digits, bf16
  // in fp16 its range.
  if (dtype == DType::f16)
    return std::abs(through(1 + 0x3p-10, 1) - (1 + 0x3p-10)) > 0x1p-11 ? Arithmetic::bf16
                                                                       : Arithmetic::fp32;
  return std::abs(through(0x1p17, 0x1p-2) - 0x1p15) < 0x1p10 ? Arithmetic::fp32 : Arithmetic::fp16;
}

}  // namespace

std::string_view to_string(Arithmetic arithmetic) { return name_of(arithmetics, arithmetic); }

Arithmetic claimed_arithmetic(const Numerics& numerics, DType dtype) {
  if (numerics.accumulator == Accumulator::fp16_fma) return Arithmetic::fp16_accumulate;
  // What is flushed, and makes the class, is smaller than the probes.
  if (numerics.accumulator == Accumulator::fp32_flushed && dtype == DType::bf16)
    return Arithmetic::fp32;
  switch (math_class(numerics, dtype)) {
    case Math::fp64: return Arithmetic::fp64;
    case Math::fp32: return Arithmetic::fp32;
    case Math::tf32:
      // Scaled fp16 has the bits of TF32 and no limits to its range.
      return numerics.operand == Operand::tf32_truncated ? Arithmetic::tf32_truncated
                                                         : Arithmetic::tf32_rounded;
    case Math::bf16: return Arithmetic::bf16;
    case Math::fp16: return Arithmetic::fp16;
  }
  return Arithmetic::unknown;
}

Arithmetic attest(Trial& trial, const ConvAlgorithm& algorithm, Queue& queue) {
  // A probe needs an element for each tap.
  const ConvProblem& problem = trial.problem();
  for (const ConvOperand& operand : {image_of(problem), filters_of(problem)})
    if (overlaps_itself(operand.extents, operand.strides)) return Arithmetic::unknown;
  Prober probe(trial, algorithm, queue);
  if (probe.taps() == 0) return Arithmetic::unknown;
  const Arithmetic operand = operands(probe, problem.dtype);
  // Sums of three terms are needed to see the accumulator, which for these two is the question.
  const bool sums_matter = operand == Arithmetic::fp32 || operand == Arithmetic::fp16;
  const std::vector<std::size_t> places = probe.three_taps();
  if (places.empty()) return sums_matter ? Arithmetic::unknown : operand;
  if (!keeps(probe, places, 0x1p-14)) return Arithmetic::fp16_accumulate;
  if (operand == Arithmetic::fp32 && keeps(probe, places, 0x1p-29)) return Arithmetic::fp64;
  return operand;
}

}  // namespace plumb
