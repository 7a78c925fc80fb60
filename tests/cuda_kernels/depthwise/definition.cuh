// Depthwise convolutions by their definition, in double on the device: what the sweep compares
// with.
#pragma once

#include <cstdint>

#include "cuda_kernels/primitives/boundary.cuh"
#include "cuda_kernels/primitives/scalar.cuh"
#include "plumb/conv.hpp"

namespace plumb_test {

/// A depthwise problem as the definition reads it: axes are D, H, W, strides are in elements.
struct Definition {
  std::int64_t n, k, filters_of_channel;
  std::int64_t extent[3], outputs[3], taps[3], stride[3], dilation[3], before[3];
  plumb::Boundary boundary[3];
  std::int64_t x[5], w[5], y[5];

  explicit Definition(const plumb::ConvProblem& p)
      : n(p.n),
        k(p.k),
        filters_of_channel(p.k / p.c),
        extent{p.d, p.h, p.w},
        outputs{p.z(), p.p(), p.q()},
        taps{p.t, p.r, p.s},
        stride{p.stride.d, p.stride.h, p.stride.w},
        dilation{p.dilation.d, p.dilation.h, p.dilation.w},
        before{p.padding.front, p.padding.top, p.padding.left},
        boundary{p.boundary.d, p.boundary.h, p.boundary.w} {
    const auto five = [&](const plumb::Strides& strides, std::int64_t(&to)[5]) {
      const bool depth = strides.rank() == 5;
      for (int i = 0; i < 5; ++i)
        to[i] = i == 2 && !depth ? 0 : strides[i > 2 && !depth ? i - 1 : i];
    };
    five(p.x_strides, x), five(p.w_strides, w), five(p.y_strides, y);
  }
  std::int64_t count() const { return n * k * outputs[0] * outputs[1] * outputs[2]; }
};

__device__ inline unsigned long long mixed(unsigned long long z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

/// Fills with normal random numbers (Box and Muller 1958).
template <class Stored>
__global__ void fill(Stored* to, std::int64_t count, unsigned long long seed) {
  using Scalar = plumb::cuda::ComputeType<Stored>;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const unsigned long long bits = mixed((i + 1) * 0x9E3779B97F4A7C15ull + seed);
    const float radius = sqrtf(-2 * logf(fminf(((bits >> 32) + 1) * 0x1p-32f, 1.0f)));
    to[i] = plumb::cuda::convert<Stored>(
        static_cast<Scalar>(radius * cospif(static_cast<unsigned>(bits) * 0x1p-31f)));
  }
}

/// Compares sampled outputs with the definition, all where there are few, and keeps the largest
/// difference in units of the sum of |x w|.
template <class Stored>
__global__ void compare(Definition p, const Stored* x, const Stored* w, const Stored* y,
                        std::int64_t count, unsigned long long* worst) {
  using Scalar = plumb::cuda::ComputeType<Stored>;
  const auto value = [](Stored stored) {
    return static_cast<double>(plumb::cuda::convert<Scalar>(stored));
  };
  const std::int64_t samples = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t sample = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  // The first and the last outputs, and others anywhere.
  std::int64_t rest = count <= samples || sample < 128 ? sample
                      : sample < 256                   ? count - 1 - (sample - 128)
                                     : static_cast<std::int64_t>(mixed(sample) % count);
  if (rest < 0 || rest >= count) return;
  std::int64_t at[3];
  for (int axis = 2; axis >= 0; --axis) at[axis] = rest % p.outputs[axis], rest /= p.outputs[axis];
  const std::int64_t k = rest % p.k, n = rest / p.k;
  double sum = 0, magnitude = 1e-300;
  for (std::int64_t i = 0; i < p.taps[0] * p.taps[1] * p.taps[2]; ++i) {
    const std::int64_t tap[] = {i / (p.taps[1] * p.taps[2]), i / p.taps[2] % p.taps[1],
                                i % p.taps[2]};
    std::int64_t from = n * p.x[0] + k / p.filters_of_channel * p.x[1];
    std::int64_t weight = k * p.w[0];
    bool inside = true;
    for (int axis = 0; axis < 3; ++axis) {
      const std::int64_t source = plumb::cuda::at_boundary(
          p.boundary[axis],
          at[axis] * p.stride[axis] - p.before[axis] + tap[axis] * p.dilation[axis],
          p.extent[axis]);
      inside = inside && source >= 0;
      from += source * p.x[axis + 2];
      weight += tap[axis] * p.w[axis + 2];
    }
    if (!inside) continue;
    const double product = value(x[from]) * value(w[weight]);
    sum += product, magnitude += fabs(product);
  }
  const double result =
      value(y[n * p.y[0] + k * p.y[1] + at[0] * p.y[2] + at[1] * p.y[3] + at[2] * p.y[4]]);
  const double error = fabs(result - sum) / magnitude;
  atomicMax(worst, __double_as_longlong(error <= 1e30 ? error : 1e30));
}

/// Counts the elements of which every bit is one, as they are before anything is written.
template <class Bits>
__global__ void count_marked(const Bits* from, std::int64_t count, unsigned long long* marked) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    if (from[i] == static_cast<Bits>(~Bits{0})) atomicAdd(marked, 1ull);
}

}  // namespace plumb_test
