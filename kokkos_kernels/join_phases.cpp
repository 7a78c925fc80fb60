// Moves the outputs of a gradient's phases to the pixels that they are of, one work item a pixel.
//
// Tiling: none; neighbouring work items are neighbouring elements of y's rows.
// Bytes: x and y once.
#include "kokkos_kernels/image.hpp"
#include "kokkos_kernels/operators.hpp"
#include "kokkos_kernels/scalar.hpp"

namespace plumb::kokkos {
namespace {

/// One axis of the pixels, and of the convolution that has made their sums.
struct JoinAxis {
  std::int64_t phases, offset, all_taps, taps, extent, dilation, before, step;

  /// How many of the first taps a phase does not have.
  KOKKOS_FUNCTION std::int64_t missing(std::int64_t phase) const {
    return (all_taps - 1) / phases - (all_taps - 1 - phase) / phases;
  }
  /// Where a tap of an output reads, or -1.
  KOKKOS_FUNCTION std::int64_t source(std::int64_t output, std::int64_t tap) const {
    const std::int64_t at = output + tap * dilation - before;
    return at < extent ? at : -1;
  }
};

template <class Stored>
struct Join {
  using Value = ComputeType<Stored>;
  /// Sums of f32 may have been formed in fp64.
  using Again = std::conditional_t<is_two_bytes<Stored>, float, double>;
  const Stored *x, *image, *filters, *bias;
  Stored* y;
  bool rectify;
  JoinAxis axis[3];
  std::int64_t extents[5], x_steps[5], y_steps[5];
  std::int64_t channels, phases, image_channels, image_n, image_c;

  explicit Join(const PhasesLaunch& call)
      : x(static_cast<const Stored*>(call.x.data())),
        image(static_cast<const Stored*>(call.image.data())),
        filters(static_cast<const Stored*>(call.filters)),
        bias(static_cast<const Stored*>(call.bias)),
        y(static_cast<Stored*>(call.y.data())),
        rectify(call.activation == Activation::relu),
        channels(call.y.extent(1) / call.problem.groups),
        phases(call.phases[0] * call.phases[1] * call.phases[2]),
        image_channels(call.problem.c / call.problem.groups) {
    const ConvProblem& p = call.problem;
    const auto image_step = [&](int i) {
      return step(call.image.extents(), call.image.strides(), i);
    };
    image_n = image_step(0), image_c = image_step(1);
    const auto make = [&](int i, std::int64_t taps, std::int64_t extent, std::int64_t dilation,
                          std::int64_t before) {
      axis[i] = {call.phases[i], call.offset[i], call.taps[i], taps,
                 extent,         dilation,       before,       image_step(i + 2)};
    };
    make(0, p.t, p.d, p.dilation.d, p.padding.front);
    make(1, p.r, p.h, p.dilation.h, p.padding.top);
    make(2, p.s, p.w, p.dilation.w, p.padding.left);
    for (int i = 0; i < 5; ++i) {
      extents[i] = call.y.extent(i);
      x_steps[i] = step(call.x.extents(), call.x.strides(), i);
      y_steps[i] = step(call.y.extents(), call.y.strides(), i);
    }
  }

  KOKKOS_FUNCTION void operator()(std::int64_t element) const {
    std::int64_t index[5], to = 0;
    for (int i = 4; i >= 0; --i) {
      index[i] = element % extents[i];
      element /= extents[i];
      to += index[i] * y_steps[i];
    }
    std::int64_t at[3], missing[3], number = 0, from = index[0] * x_steps[0];
    for (int i = 0; i < 3; ++i) {
      const std::int64_t pixel = index[i + 2] + axis[i].offset;
      at[i] = pixel / axis[i].phases;
      missing[i] = axis[i].missing(pixel % axis[i].phases);
      number = number * axis[i].phases + pixel % axis[i].phases;
      from += at[i] * x_steps[i + 2];
    }
    const std::int64_t group = index[1] / channels;
    const std::int64_t filter = (group * phases + number) * channels + index[1] % channels;
    const Stored output = x[from + filter * x_steps[1]];
    const Value value = convert<Value>(output);
    y[to] =
        value == value ? output : finished(again(index[0], group, filter, at, missing), index[1]);
  }

  template <class Sum>
  KOKKOS_FUNCTION Stored finished(Sum sum, std::int64_t channel) const {
    if (bias) sum += convert<Sum>(bias[channel]);
    if (rectify && sum < 0) sum = 0;  // this way round, NaN stays NaN
    return convert<Stored>(sum);
  }

  /// The sum without the first taps along each axis.
  KOKKOS_FUNCTION Again again(std::int64_t n, std::int64_t group, std::int64_t filter,
                              const std::int64_t* at, const std::int64_t* missing) const {
    Again sum = 0;
    for (std::int64_t c = 0; c < image_channels; ++c)
      for (std::int64_t t = missing[0]; t < axis[0].taps; ++t)
        for (std::int64_t r = missing[1]; r < axis[1].taps; ++r)
          for (std::int64_t s = missing[2]; s < axis[2].taps; ++s) {
            const std::int64_t d = axis[0].source(at[0], t), h = axis[1].source(at[1], r),
                               w = axis[2].source(at[2], s);
            if (d < 0 || h < 0 || w < 0) continue;
            const std::int64_t tap =
                ((filter * image_channels + c) * axis[0].taps + t) * axis[1].taps + r;
            sum += convert<Again>(image[n * image_n + (group * image_channels + c) * image_c +
                                        d * axis[0].step + h * axis[1].step + w * axis[2].step]) *
                   convert<Again>(filters[tap * axis[2].taps + s]);
          }
    return sum;
  }
};

}  // namespace

void join_phases(const PhasesLaunch& call, const Instance& instance) {
  if (element_count(call.y.extents()) == 0) return;
  with_any_stored(call.x.dtype(), [&]<class Stored>(Stored) {
    with_instance(instance, [&]<class Space>(const Space& space) {
      Kokkos::parallel_for("plumb.join_phases", all_elements(space, call.y.extents()),
                           Join<Stored>(call));
    });
  });
}

}  // namespace plumb::kokkos
