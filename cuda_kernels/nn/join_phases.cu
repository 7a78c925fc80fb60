// Moves the outputs of a gradient's phases to the pixels that they are of.
//
// Tiling: there is none; a thread has 16 bytes of y where they are aligned, or one element, and
// neighbouring threads have neighbours in memory, along y's channels or its rows. Bytes: x and y
// once.
#include <algorithm>
#include <type_traits>

#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/nn/operators.hpp"
#include "cuda_kernels/primitives/index.cuh"
#include "cuda_kernels/primitives/scalar.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

/// One axis of the pixels, and of the convolution that has made their sums.
template <class Index>
struct JoinAxis {
  Divisor<Index> pixels, phases;
  Index offset, all_taps, taps, extent, dilation, before;
  Index x_step, y_step, image_step;

  /// How many of the first taps a phase does not have.
  __device__ Index missing(Index phase) const {
    return phases.quotient(all_taps - 1) - phases.quotient(all_taps - 1 - phase);
  }
  /// Where a tap of an output reads, or -1.
  __device__ Index source(Index output, Index tap) const {
    const Index at = output + tap * dilation - before;
    return at < extent ? at : Index{-1};
  }
};

template <class Stored, class Index>
struct JoinParams {
  const Stored *x, *image, *filters, *bias;
  Stored* y;
  std::int64_t threads;                      ///< elements, or vectors of them
  bool rectify, channels_run;                ///< neighbouring elements are channels
  bool x_vectors;                            ///< x has them side by side too
  Divisor<Index> channel_runs, column_runs;  ///< threads along them
  JoinAxis<Index> axis[3];
  Divisor<Index> of_group;
  Index phases, image_channels, x_n, x_c, y_n, y_c, image_n, image_c;
};

/// A pixel's sum: the filter that made it, and where it is an output.
template <class Index>
struct JoinPlace {
  Index n, group, filter, at[3], phase[3];

  /// On to the next channel, or to the next column, which is of the next phase.
  template <class Params>
  __device__ void advance(const Params& params) {
    if (params.channels_run) {
      ++filter;
      return;
    }
    filter += params.of_group.value();
    if (++phase[2] < params.axis[2].phases.value()) return;
    phase[2] = 0;
    ++at[2];
    filter -= params.axis[2].phases.value() * params.of_group.value();
  }
};

/// Sums of f32 may have been formed in fp64.
template <class Stored>
using SumAgain = std::conditional_t<sizeof(Stored) == 2, float, double>;

/// The sum without the first taps along each axis, in the order of the definition.
template <class Stored, class Index>
__device__ SumAgain<Stored> sum_again(const JoinParams<Stored, Index>& params,
                                      const JoinPlace<Index>& place) {
  const auto& [depth, rows, columns] = params.axis;
  const Index first[] = {depth.missing(place.phase[0]), rows.missing(place.phase[1]),
                         columns.missing(place.phase[2])};
  using Value = SumAgain<Stored>;
  Value sum = 0;
  for (Index c = 0; c < params.image_channels; ++c)
    for (Index t = first[0]; t < depth.taps; ++t)
      for (Index r = first[1]; r < rows.taps; ++r)
        for (Index s = first[2]; s < columns.taps; ++s) {
          const Index d = depth.source(place.at[0], t), h = rows.source(place.at[1], r),
                      w = columns.source(place.at[2], s);
          if (d < 0 || h < 0 || w < 0) continue;
          const Index tap =
              ((place.filter * params.image_channels + c) * depth.taps + t) * rows.taps + r;
          const Index from = place.n * params.image_n +
                             (place.group * params.image_channels + c) * params.image_c +
                             d * depth.image_step + h * rows.image_step + w * columns.image_step;
          sum = fma(convert<Value>(params.image[from]),
                    convert<Value>(params.filters[tap * columns.taps + s]), sum);
        }
  return sum;
}

/// Elements that lie side by side, 16 bytes of them or one, moved at once.
template <class Stored, int width>
struct alignas(width * sizeof(Stored)) JoinVector {
  using Word = std::conditional_t<width == 1, Stored, uint4>;
  Stored of[width];

  __device__ static JoinVector load(const Stored* from) {
    const Word word = *reinterpret_cast<const Word*>(from);
    return *reinterpret_cast<const JoinVector*>(&word);
  }
  __device__ void store(Stored* to) const {
    *reinterpret_cast<Word*>(to) = *reinterpret_cast<const Word*>(this);
  }
};

template <class Stored, class Index, int width>
__global__ void __launch_bounds__(block_threads)
    join_elements(const __grid_constant__ JoinParams<Stored, Index> params) {
  const std::int64_t grid_threads = std::int64_t{gridDim.x} * block_threads;
  for (std::int64_t thread = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
       thread < params.threads; thread += grid_threads) {
    Index left = static_cast<Index>(thread), channel = 0, number = 0, index[3];
    const auto take_channel = [&] {
      const auto [above, here] = params.channel_runs.divide(left);
      left = above, channel = params.channels_run ? here * width : here;
    };
    if (params.channels_run) take_channel();
#pragma unroll
    for (int i = 2; i >= 0; --i) {
      const Divisor<Index>& runs = i == 2 ? params.column_runs : params.axis[i].pixels;
      const auto [above, here] = runs.divide(left);
      left = above, index[i] = i == 2 && !params.channels_run ? here * width : here;
    }
    if (!params.channels_run) take_channel();
    JoinPlace<Index> place{.n = left};
    Index from = left * params.x_n, to = left * params.y_n + channel * params.y_c;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const JoinAxis<Index>& axis = params.axis[i];
      const auto [at, phase] = axis.phases.divide(index[i] + axis.offset);
      place.at[i] = at;
      place.phase[i] = phase;
      number = number * axis.phases.value() + phase;
      if (i < 2) from += at * axis.x_step;
      to += index[i] * axis.y_step;
    }
    const auto [group, in_group] = params.of_group.divide(channel);
    place.group = group;
    place.filter = (group * params.phases + number) * params.of_group.value() + in_group;
    const auto x_at = [&](const JoinPlace<Index>& of) {
      return params.x + from + of.at[2] * params.axis[2].x_step + of.filter * params.x_c;
    };
    const auto finished = [&](auto sum, int j) {
      if (params.bias)
        sum += convert<decltype(sum)>(params.bias[channel + (params.channels_run ? j : 0)]);
      // This way round, NaN stays NaN.
      return convert<Stored>(params.rectify && sum < 0 ? decltype(sum){0} : sum);
    };
    JoinVector<Stored, width> outputs;
    const JoinPlace<Index> first = place;
    if (params.x_vectors) outputs = JoinVector<Stored, width>::load(x_at(place));
    bool any_nan = false;
#pragma unroll
    for (int j = 0; j < width; ++j) {
      if (!params.x_vectors) outputs.of[j] = *x_at(place);
      const auto value = convert<ComputeType<Stored>>(outputs.of[j]);
      any_nan = any_nan || value != value;
      place.advance(params);
    }
    outputs.store(params.y + to);
    if (!any_nan) continue;
    place = first;
#pragma unroll 1
    for (int j = 0; j < width; ++j) {
      const auto value = convert<ComputeType<Stored>>(*x_at(place));
      if (value != value) params.y[to + j] = finished(sum_again(params, place), j);
      place.advance(params);
    }
  }
}

/// Whether `width` elements along an axis are one aligned vector.
bool has_vectors(const ConstTensorView& of, int along, std::int64_t width) {
  const auto bytes = static_cast<std::uintptr_t>(width) * size_in_bytes(of.dtype());
  bool aligned = reinterpret_cast<std::uintptr_t>(of.data()) % bytes == 0 &&
                 of.extent(along) % width == 0 && of.strides()[along] == 1;
  for (int i = 0; i < 5; ++i)
    if (i != along && of.extent(i) > 1) aligned = aligned && of.strides()[i] % width == 0;
  return aligned;
}

bool channels_run(const PhasesLaunch& call) {
  return call.y.extent(1) > 1 && call.y.strides()[1] == 1;
}

/// Whether vectors of y are of one group's channels, or of columns.
bool writes_vectors(const PhasesLaunch& call, std::int64_t width) {
  if (!channels_run(call)) return has_vectors(call.y, 4, width);
  return call.y.extent(1) / call.problem.groups % width == 0 && has_vectors(call.y, 1, width);
}

template <class Stored, class Index>
JoinParams<Stored, Index> join_params(const PhasesLaunch& call, int width) {
  const ConvProblem& p = call.problem;
  const ConstTensorView& image = call.image;
  const Extents &x = call.x.extents(), &y = call.y.extents();
  const auto x_step = [&](int i) { return step<Index>(x, call.x.strides(), i); };
  const auto y_step = [&](int i) { return step<Index>(y, call.y.strides(), i); };
  const auto image_step = [&](int i) { return step<Index>(image.extents(), image.strides(), i); };
  const std::int64_t taps[] = {p.t, p.r, p.s};
  const std::int64_t dilation[] = {p.dilation.d, p.dilation.h, p.dilation.w};
  const std::int64_t before[] = {p.padding.front, p.padding.top, p.padding.left};
  const auto axis = [&](int i) {
    return JoinAxis<Index>{.pixels = Divisor<Index>(y[i + 2]),
                           .phases = Divisor<Index>(call.phases[i]),
                           .offset = static_cast<Index>(call.offset[i]),
                           .all_taps = static_cast<Index>(call.taps[i]),
                           .taps = static_cast<Index>(taps[i]),
                           .extent = static_cast<Index>(image.extent(i + 2)),
                           .dilation = static_cast<Index>(dilation[i]),
                           .before = static_cast<Index>(before[i]),
                           .x_step = x_step(i + 2),
                           .y_step = y_step(i + 2),
                           .image_step = image_step(i + 2)};
  };
  return {.x = static_cast<const Stored*>(call.x.data()),
          .image = static_cast<const Stored*>(call.image.data()),
          .filters = static_cast<const Stored*>(call.filters),
          .bias = static_cast<const Stored*>(call.bias),
          .y = static_cast<Stored*>(call.y.data()),
          .threads = element_count(y) / width,
          .rectify = call.activation == Activation::relu,
          .channels_run = channels_run(call),
          .x_vectors = width > 1 && channels_run(call) && has_vectors(call.x, 1, width),
          .channel_runs = Divisor<Index>(channels_run(call) ? y[1] / width : y[1]),
          .column_runs = Divisor<Index>(channels_run(call) ? y[4] : y[4] / width),
          .axis = {axis(0), axis(1), axis(2)},
          .of_group = Divisor<Index>(y[1] / p.groups),
          .phases = static_cast<Index>(call.phases[0] * call.phases[1] * call.phases[2]),
          .image_channels = static_cast<Index>(p.c / p.groups),
          .x_n = x_step(0),
          .x_c = x_step(1),
          .y_n = y_step(0),
          .y_c = y_step(1),
          .image_n = image_step(0),
          .image_c = image_step(1)};
}

}  // namespace

void join_phases(const PhasesLaunch& call, void* stream) {
  const std::int64_t elements = element_count(call.y.extents());
  if (elements == 0) return;
  const ConvProblem& p = call.problem;
  double largest = std::max({reach(call.x.extents(), call.x.strides()),
                             reach(call.y.extents(), call.y.strides()),
                             reach(call.image.extents(), call.image.strides()),
                             count(p.w_extents()), static_cast<double>(elements)});
  // Coordinates beside the image are formed too.
  for (int i = 0; i < 3; ++i)
    largest = std::max(largest, static_cast<double>(call.y.extent(i + 2) + call.offset[i]));
  largest = std::max(
      largest,
      static_cast<double>(std::max({p.dilation.d * p.t, p.dilation.h * p.r, p.dilation.w * p.s})) *
          2);
  with_any_stored(call.x.dtype(), [&]<class Stored>(Stored) {
    with_index(largest < index32_limit, [&]<class Index>(Index) {
      constexpr int width = 16 / static_cast<int>(sizeof(Stored));
      const auto start = [&](auto kernel, int of_thread) {
        Launch(stream, blocks_for(elements / of_thread, block_threads), block_threads)(
            kernel, join_params<Stored, Index>(call, of_thread));
      };
      if (writes_vectors(call, width))
        start(join_elements<Stored, Index, width>, width);
      else
        start(join_elements<Stored, Index, 1>, 1);
    });
  });
}

}  // namespace plumb::cuda
