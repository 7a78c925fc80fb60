#include "cpu_kernels/weights/weights_output.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

/// Outputs [begin, end) of an axis whose tap lies inside the image.
struct Inside {
  int64_t begin, end;
};
Inside inside(int64_t tap, int64_t stride, int64_t before, int64_t extent, int64_t outputs) {
  const int64_t begin = std::max<int64_t>(ceil_quotient(before - tap, stride), 0);
  return {begin, std::min(ceil_quotient(extent + before - tap, stride), outputs)};
}

/// One element of dw by the definition and in the order of a tree, without the taps outside the
/// image.
template <class Stored, class Real>
class InOrder {
 public:
  InOrder(const ConvLaunch& launch, const WeightsAxes& axes, const GradientTree& tree, int64_t k,
          int64_t term)
      : p_(launch.problem),
        a_(axes),
        tree_(tree),
        s_(term % p_.s),
        r_(term / p_.s % p_.r),
        t_(term / p_.s / p_.r % p_.t),
        x_(static_cast<const Stored*>(launch.x) +
           (k / (p_.k / p_.groups) * (p_.c / p_.groups) + term / (p_.t * p_.r * p_.s)) * a_.x_c),
        dy_(static_cast<const Stored*>(launch.w) + k * a_.y_k) {}

  /// Of segments [begin, end), of which there is one.
  Real sum(int64_t begin, int64_t end) const {
    if (end - begin == 1) return of_segment(begin);
    const auto less = static_cast<std::uint64_t>(end - begin - 1);
    const int64_t middle = begin + static_cast<int64_t>(std::bit_floor(less));
    return sum(begin, middle) + sum(middle, end);
  }

 private:
  Real of_segment(int64_t segment) const {
    constexpr int64_t lanes = GradientTree::lanes;
    const auto at = tree_.at(segment, p_.p());
    const int64_t front = p_.padding.front - t_ * p_.dilation.d;
    const int64_t top = p_.padding.top - r_ * p_.dilation.h;
    const int64_t left = p_.padding.left - s_ * p_.dilation.w;
    const Inside qs = inside(0, p_.stride.w, left, p_.w, p_.q());
    Real sums[lanes] = {};
    for (int64_t plane = at.plane; plane < at.plane + at.planes; ++plane)
      for (int64_t row = at.p; row < at.p + at.rows; ++row) {
        const int64_t n = plane / p_.z(), z = plane % p_.z();
        const int64_t d = z * p_.stride.d - front, h = row * p_.stride.h - top;
        if (d < 0 || d >= p_.d || h < 0 || h >= p_.h) continue;
        const Stored* const from = x_ + n * a_.x_n + d * a_.x_d + h * a_.x_h;
        const Stored* const with = dy_ + n * a_.y_n + z * a_.y_z + row * a_.y_p;
        for (int64_t q = qs.begin; q < qs.end; ++q)
          sums[q % lanes] =
              std::fma(static_cast<Real>(widen(from[(q * p_.stride.w - left) * a_.x_w])),
                       static_cast<Real>(widen(with[q * a_.y_q])), sums[q % lanes]);
      }
    for (int64_t half = lanes / 2; half > 0; half /= 2)
      for (int64_t i = 0; i < half; ++i) sums[i] += sums[i + half];
    return sums[0];
  }

  const ConvProblem& p_;
  const WeightsAxes& a_;
  const GradientTree& tree_;
  int64_t s_, r_, t_;
  const Stored *x_, *dy_;
};

}  // namespace

template <class Real>
WeightsOutput<Real>::WeightsOutput(const ConvLaunch& launch, const WeightsAxes& axes,
                                   const GradientTree* order)
    : launch_(launch), axes_(axes), order_(order) {
  const ConvProblem& p = launch.problem;
  taps_ = p.t * p.r * p.s;
  terms_ = p.c / p.groups * taps_;
  // The axes c t r s from the last on, as long as each continues the one behind it.
  const int64_t extents[] = {p.s, p.r, p.t, p.c / p.groups};
  const int64_t strides[] = {axes.w_s, axes.w_r, axes.w_t, axes.w_c};
  run_ = 1, step_ = 1;
  for (int i = 0; i < 4; ++i) {
    if (extents[i] == 1) continue;
    if (run_ == 1)
      step_ = strides[i];
    else if (strides[i] != run_ * step_)
      break;
    run_ *= extents[i];
  }
}

/// Sums an element of dw by the definition, without the taps outside the image: a zero of the
/// padding makes a NaN of an Inf in dy, where there is no term at all. Where no order is asked for,
/// the error is that of a few roundings (Neumaier).
template <class Real>
template <class Stored>
Real WeightsOutput<Real>::sum_inside(int64_t k, int64_t term) const {
  if (order_ != nullptr)
    return InOrder<Stored, Real>(launch_, axes_, *order_, k, term).sum(0, order_->segments);
  const ConvProblem& p = launch_.problem;
  const WeightsAxes& a = axes_;
  const int64_t s = term % p.s, r = term / p.s % p.r, t = term / p.s / p.r % p.t;
  const int64_t c = k / (p.k / p.groups) * (p.c / p.groups) + term / taps_;
  const auto* const x = static_cast<const Stored*>(launch_.x) + c * a.x_c;
  const auto* const dy = static_cast<const Stored*>(launch_.w) + k * a.y_k;
  const int64_t front = p.padding.front - t * p.dilation.d;
  const int64_t top = p.padding.top - r * p.dilation.h, left = p.padding.left - s * p.dilation.w;
  const Inside zs = inside(0, p.stride.d, front, p.d, p.z());
  const Inside ps = inside(0, p.stride.h, top, p.h, p.p());
  const Inside qs = inside(0, p.stride.w, left, p.w, p.q());
  double sum = 0, lost = 0;
  for (int64_t n = 0; n < p.n; ++n)
    for (int64_t z = zs.begin; z < zs.end; ++z)
      for (int64_t row = ps.begin; row < ps.end; ++row) {
        const Stored* const from =
            x + n * a.x_n + (z * p.stride.d - front) * a.x_d + (row * p.stride.h - top) * a.x_h;
        const Stored* const with = dy + n * a.y_n + z * a.y_z + row * a.y_p;
        for (int64_t q = qs.begin; q < qs.end; ++q) {
          const double product = static_cast<double>(widen(from[(q * p.stride.w - left) * a.x_w])) *
                                 static_cast<double>(widen(with[q * a.y_q]));
          const double next = sum + product;
          lost +=
              std::abs(sum) >= std::abs(product) ? (sum - next) + product : (product - next) + sum;
          sum = next;
        }
        if (std::isnan(sum)) return static_cast<Real>(sum);
      }
  return static_cast<Real>(std::isfinite(sum) ? sum + lost : sum);
}

template <class Real>
template <bool in_order, class Stored>
void WeightsOutput<Real>::write_as(const Real* sums, int64_t k, int64_t term, int64_t count) const {
  const ConvProblem& p = launch_.problem;
  auto* const dw = static_cast<Stored*>(launch_.y) + k * axes_.w_k;
  while (count > 0) {
    const int64_t together = std::min(count, run_ - term % run_);
    const int64_t s = term % p.s, r = term / p.s % p.r, t = term / p.s / p.r % p.t;
    Stored* const to =
        dw + term / taps_ * axes_.w_c + t * axes_.w_t + r * axes_.w_r + s * axes_.w_s;
    bool any_nan = false;
    for (int64_t i = 0; i < together; ++i) any_nan |= sums[i] != sums[i];
    if (!any_nan && !launch_.accumulate && step_ == 1)
      for (int64_t i = 0; i < together; ++i) to[i] = narrowed<in_order, Stored>(sums[i]);
    else
      for (int64_t i = 0; i < together; ++i) {
        Real sum = sums[i];
        if (sum != sum) sum = sum_inside<Stored>(k, term + i);
        if (launch_.accumulate) sum += static_cast<Real>(widen(to[i * step_]));
        to[i * step_] = narrowed<in_order, Stored>(sum);
      }
    sums += together, term += together, count -= together;
  }
}

template <class Real>
void WeightsOutput<Real>::write(const Real* sums, int64_t k, int64_t term, int64_t count) const {
  with_stored<Real>(launch_.problem.dtype, [&](auto stored) {
    using Stored = decltype(stored);
    order_ != nullptr ? write_as<true, Stored>(sums, k, term, count)
                      : write_as<false, Stored>(sums, k, term, count);
  });
}

template <class Real>
bool WeightsOutput<Real>::takes_sums() const {
  constexpr DType own = sizeof(Real) == sizeof(double) ? DType::f64 : DType::f32;
  return launch_.problem.dtype == own && !launch_.accumulate && order_ == nullptr;
}

/// Returns an element's address where Reals are stored.
template <class Real>
Real* WeightsOutput<Real>::element(int64_t k, int64_t term) const {
  const ConvProblem& p = launch_.problem;
  const int64_t s = term % p.s, r = term / p.s % p.r, t = term / p.s / p.r % p.t;
  return static_cast<Real*>(launch_.y) + k * axes_.w_k + term / taps_ * axes_.w_c + t * axes_.w_t +
         r * axes_.w_r + s * axes_.w_s;
}

template <class Real>
Real* WeightsOutput<Real>::place(int64_t k, int64_t term, int64_t count) const {
  const bool neighbours = step_ == 1 && term % run_ + count <= run_;
  return takes_sums() && neighbours ? element(k, term) : nullptr;
}

template <class Real>
Real* WeightsOutput<Real>::place_channels(int64_t k, int64_t term) const {
  return takes_sums() && axes_.w_c == 1 ? element(k, term) : nullptr;
}

template <class Real>
void WeightsOutput<Real>::mend(Real* sums, int64_t k, int64_t term, int64_t count,
                               int64_t step) const {
  int any_nan = 0;
  for (int64_t i = 0; i < count; ++i) any_nan |= sums[i] != sums[i] ? 1 : 0;
  if (any_nan == 0) return;
  for (int64_t i = 0; i < count; ++i)
    if (sums[i] != sums[i]) sums[i] = sum_inside<Real>(k, term + i * step);
}

template <class Real>
void WeightsOutput<Real>::add_parts(Real* parts, int64_t count, int64_t begin, int64_t end) const {
  const int64_t weights = launch_.problem.k * terms_;
  for (int64_t step = 1; step < count; step *= 2)
    for (int64_t part = 0; part + step < count; part += 2 * step) {
      Real* const to = parts + part * weights;
      const Real* const from = to + step * weights;
      for (int64_t i = begin; i < end; ++i) to[i] += from[i];
    }
  while (begin < end) {
    const int64_t k = begin / terms_, term = begin % terms_;
    const int64_t together = std::min(end - begin, terms_ - term);
    write(parts + begin, k, term, together);
    begin += together;
  }
}

template class WeightsOutput<float>;
template class WeightsOutput<double>;

}  // namespace plumb
