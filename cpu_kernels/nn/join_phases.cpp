// Moves the outputs of a gradient's phases to the pixels that they are of: a row of y at a time,
// whose every stride-th element is a run of x.
#include "cpu_kernels/nn/operators.hpp"
#include "cpu_kernels/primitives/rows.hpp"

namespace plumb {
namespace {

using std::int64_t;

/// A sum of x: image, filter and output.
struct Place {
  int64_t n, filter, at[3];
};

/// The sums and what they are of.
template <class Stored>
class Sums {
 public:
  explicit Sums(const PhasesLaunch& launch)
      : p_(launch.problem),
        filters_(static_cast<const Stored*>(launch.filters)),
        image_(static_cast<const Stored*>(launch.image.data())),
        steps_(launch.image.strides()) {}

  /// The sum at a place, without the first taps along each axis.
  double again(const Place& place, const int64_t (&missing)[3]) const {
    const int64_t channels = p_.c / p_.groups, group = place.filter / (p_.k / p_.groups);
    const Stored* const image = image_ + place.n * steps_[0] + group * channels * steps_[1];
    const Stored* const filter = filters_ + place.filter * channels * p_.t * p_.r * p_.s;
    double sum = 0;
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t t = missing[0]; t < p_.t; ++t)
        for (int64_t r = missing[1]; r < p_.r; ++r)
          for (int64_t s = missing[2]; s < p_.s; ++s) {
            const int64_t d = place.at[0] + t * p_.dilation.d - p_.padding.front;
            const int64_t h = place.at[1] + r * p_.dilation.h - p_.padding.top;
            const int64_t w = place.at[2] + s * p_.dilation.w - p_.padding.left;
            if (d < 0 || d >= p_.d || h < 0 || h >= p_.h || w < 0 || w >= p_.w) continue;
            const double value =
                widen(image[c * steps_[1] + d * steps_[2] + h * steps_[3] + w * steps_[4]]);
            const double weight = widen(filter[((c * p_.t + t) * p_.r + r) * p_.s + s]);
            sum += value * weight;
          }
    return sum;
  }

 private:
  const ConvProblem& p_;
  const Stored *filters_, *image_;
  Strides steps_;
};

template <class Stored>
void join_phases(const PhasesLaunch& launch) {
  const Extents& y = launch.y.extents();
  const Strides &from = launch.x.strides(), &to = launch.y.strides();
  const auto* const input = static_cast<const Stored*>(launch.x.data());
  const auto* const bias = static_cast<const Stored*>(launch.bias);
  auto* const output = static_cast<Stored*>(launch.y.data());
  const int64_t p_d = launch.phases[0], p_h = launch.phases[1], p_w = launch.phases[2];
  const int64_t channels = y[1] / launch.problem.groups, phases = p_d * p_h * p_w;
  const Sums<Stored> sums(launch);
  const auto finished = [&](auto sum, int64_t c) {
    if (bias) sum += widen(bias[c]);
    return launch.activation == Activation::relu && sum < 0 ? decltype(sum){0} : sum;
  };
  parallel_for(threads_for(element_count(y)), y[0] * y[1] * y[2] * y[3], [&](int64_t row) {
    const int64_t h = row % y[3] + launch.offset[1], d = row / y[3] % y[2] + launch.offset[0];
    const int64_t c = row / y[3] / y[2] % y[1], n = row / y[3] / y[2] / y[1];
    Stored* const line = output + n * to[0] + c * to[1] + (d - launch.offset[0]) * to[2] +
                         (h - launch.offset[1]) * to[3];
    for (int64_t phase = 0; phase < p_w; ++phase) {
      const int64_t number = (d % p_d * p_h + h % p_h) * p_w + phase;
      Place place{
          n, (c / channels * phases + number) * channels + c % channels, {d / p_d, h / p_h, 0}};
      const Stored* const run = input + n * from[0] + place.filter * from[1] +
                                place.at[0] * from[2] + place.at[1] * from[3];
      const bool before = phase < launch.offset[2];
      for (int64_t k = before ? 1 : 0, w = (before ? p_w : 0) + phase - launch.offset[2]; w < y[4];
           ++k, w += p_w) {
        const Stored sum = run[k * from[4]];
        if (const auto wide = widen(sum); wide == wide) [[likely]] {
          line[w * to[4]] = sum;
          continue;
        }
        place.at[2] = k;
        const int64_t missing[] = {launch.missing(0, d % p_d), launch.missing(1, h % p_h),
                                   launch.missing(2, phase)};
        line[w * to[4]] = narrow<Stored>(finished(sums.again(place, missing), c));
      }
    }
  });
}

}  // namespace

void cpu_join_phases(const PhasesLaunch& launch) {
  if (element_count(launch.y.extents()) == 0) return;
  with_type(launch.x.dtype(), [&](auto stored) { join_phases<decltype(stored)>(launch); });
}

}  // namespace plumb
