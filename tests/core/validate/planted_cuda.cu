// The implicit GEMM of cuda_kernels/ in its plainest form, fp32 and 16x16, with faults to be
// planted in it.
#include <cuda_fp16.h>

#include <atomic>
#include <utility>

#include "planted_faults.hpp"

using namespace plumb;

namespace plumb_test {
namespace {

constexpr int tile = 16;

std::atomic<unsigned> runs{0};

/// Where an index outside the image lies in it, or -1 for a zero: boundary_index() on the device.
__device__ int at_boundary(Boundary boundary, int index, int extent) {
  if (index >= 0 && index < extent) return index;
  const bool before = index < 0;
  switch (boundary) {
    case Boundary::zeros: return -1;
    case Boundary::periodic: return (index % extent + extent) % extent;
    case Boundary::reflect: {
      const int period = 2 * extent - 2, at = (index % period + period) % period;
      return at < extent ? at : period - at;
    }
    case Boundary::symmetric: {
      const int period = 2 * extent, at = (index % period + period) % period;
      return at < extent ? at : period - 1 - at;
    }
    case Boundary::clamp: return before ? 0 : extent - 1;
  }
  return -1;
}

/// One direction of the image.
struct Axis {
  int image, filter, output, stride, dilation, before;
  Boundary boundary;
};

/// How far one step of each of five indices goes; without a depth the third goes nowhere.
struct Steps {
  int at[5];

  explicit Steps(const Strides& strides) {
    for (int i = 0; i < 5; ++i) {
      const int from = strides.rank() == 5 || i < 2 ? i : i - 1;
      at[i] = strides.rank() == 4 && i == 2 ? 0 : static_cast<int>(strides[from]);
    }
  }
  __device__ int operator()(int a, int b, int c, int d, int e) const {
    return a * at[0] + b * at[1] + c * at[2] + d * at[3] + e * at[4];
  }
};

struct Shape {
  int n, c, k, groups;
  Axis d, h, w;
  Steps x_step, w_step, y_step;

  explicit Shape(const ConvProblem& problem)
      : n(static_cast<int>(problem.n)),
        c(static_cast<int>(problem.c)),
        k(static_cast<int>(problem.k)),
        groups(static_cast<int>(problem.groups)),
        d(axis(problem.d, problem.t, problem.z(), problem.stride.d, problem.dilation.d,
               problem.padding.front, problem.boundary.d)),
        h(axis(problem.h, problem.r, problem.p(), problem.stride.h, problem.dilation.h,
               problem.padding.top, problem.boundary.h)),
        w(axis(problem.w, problem.s, problem.q(), problem.stride.w, problem.dilation.w,
               problem.padding.left, problem.boundary.w)),
        x_step(problem.x_strides),
        w_step(problem.w_strides),
        y_step(problem.y_strides) {}

  static Axis axis(std::int64_t image, std::int64_t filter, std::int64_t output,
                   std::int64_t stride, std::int64_t dilation, std::int64_t before,
                   Boundary boundary) {
    return {static_cast<int>(image),
            static_cast<int>(filter),
            static_cast<int>(output),
            static_cast<int>(stride),
            static_cast<int>(dilation),
            static_cast<int>(before),
            boundary};
  }
  __host__ __device__ int taps() const { return d.filter * h.filter * w.filter; }
  __host__ __device__ int outputs() const { return d.output * h.output * w.output; }
};

/// A tap of the filter, and the output that it is for.
struct Index {
  int c, t, r, s;
};
struct Output {
  int n, z, p, q;
};

__device__ Index index_of(const Shape& a, int term) {
  const int s = term % a.w.filter, r = term / a.w.filter % a.h.filter;
  return {term / a.taps(), term / a.w.filter / a.h.filter % a.d.filter, r, s};
}

__device__ float rounded_to_tf32(float value) {
  unsigned rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
  return __uint_as_float(rounded);
}

template <Fault fault>
__device__ float operand(float value) {
  return fault == Fault::tf32_operands || fault == Fault::wrong_claim ? rounded_to_tf32(value)
                                                                      : value;
}

/// The index in the image that a tap shows, or -1 for a zero.
template <Fault fault>
__device__ int shown(const Axis& axis, int output, int tap, int shift) {
  int index = output * axis.stride + tap * axis.dilation - axis.before - shift;
  const bool beyond = index < 0 || index >= axis.image;
  if (fault == Fault::wrong_wrap && axis.boundary == Boundary::periodic && beyond) --index;
  return at_boundary(axis.boundary, index, axis.image);
}

/// The element of the unrolled input that meets `term` at an output, or 0; `inside` says which.
template <Fault fault>
__device__ float pixel(const Shape& a, const float* x, int group, const Output& at,
                       const Index& term, bool& inside) {
  const bool early = fault == Fault::wrong_border_stride && at.q > 0 && at.q == a.w.output - 1;
  const int shift = (fault == Fault::padding_off_by_one ? 1 : 0) + (early ? 1 : 0);
  int n = at.n, z = at.z;
  if (fault == Fault::planes_for_images) {
    const int number = at.n * a.d.output + at.z;
    n = number % a.n, z = number / a.n;
  }
  int d = shown<fault>(a.d, z, term.t, 0);
  if (fault == Fault::border_plane && a.d.image > 1 && d == a.d.image - 1) d = -1;
  const int h = shown<fault>(a.h, at.p, term.r, 0);
  const int w = shown<fault>(a.w, at.q, term.s, shift);
  inside = d >= 0 && h >= 0 && w >= 0;
  if (!inside) return 0;
  const int source = fault == Fault::swapped_groups ? (group + 1) % a.groups : group;
  const int channel = source * (a.c / a.groups) + term.c;
  return operand<fault>(x[a.x_step(n, channel, d, h, w)]);
}

template <Fault fault>
__device__ float weight(const Shape& a, const float* filters, int k, Index term) {
  const bool last_plane = term.t == a.d.filter - 1;
  if (fault == Fault::missing_second_channel && term.c == 1) return 0;
  if (fault == Fault::dropped_plane && term.t > 0 && last_plane) return 0;
  if (fault == Fault::dropped_tap && last_plane && term.r == a.h.filter - 1 &&
      term.s == a.w.filter - 1)
    return 0;
  if (fault == Fault::transposed_filter && a.h.filter == a.w.filter) {
    const int other = term.r;
    term.r = term.s, term.s = other;
  }
  return operand<fault>(filters[a.w_step(k, term.c, term.t, term.r, term.s)]);
}

__device__ float sum_again(const Shape& a, const float* x, const float* filters, int k, int group,
                           const Output& at) {
  float sum = 0;
  for (int i = 0; i < a.c / a.groups * a.taps(); ++i) {
    bool inside = false;
    const float value = pixel<Fault::none>(a, x, group, at, index_of(a, i), inside);
    if (inside) sum += value * weight<Fault::none>(a, filters, k, index_of(a, i));
  }
  return sum;
}

template <Fault fault>
__global__ void copy_kernel(const Shape a, const float* x, const float* filters, const float* bias,
                            float* y, bool relu, bool reverse) {
  __shared__ float w_tile[tile][tile], x_tile[tile][tile];
  const int row = static_cast<int>(threadIdx.y), column = static_cast<int>(threadIdx.x);
  const int group = static_cast<int>(blockIdx.z), group_k = a.k / a.groups;
  const int k_of_group = static_cast<int>(blockIdx.y) * tile + row;
  const int number = static_cast<int>(blockIdx.x) * tile + column;
  const int pixels = a.n * a.outputs();
  const bool inside = k_of_group < group_k && number < pixels;
  const int k = group * group_k + min(k_of_group, group_k - 1);
  const int safe = min(number, pixels - 1);
  const int q = safe % a.w.output, p = safe / a.w.output % a.h.output;
  const Output at{safe / a.outputs(), safe / a.w.output / a.h.output % a.d.output, p, q};
  const int channels = a.c / a.groups - (fault == Fault::missing_last_channel ? 1 : 0);
  const int terms = channels * a.taps(), steps = (terms + tile - 1) / tile;

  float sum = 0;
  for (int i = 0; i < steps; ++i) {
    const int first = (reverse ? steps - 1 - i : i) * tile;
    if (!(fault == Fault::stale_tile && i > 0 && i == steps - 1)) {
      const int w_term = first + column, x_term = first + row;
      bool ignored = false;
      w_tile[row][column] = w_term < terms ? weight<fault>(a, filters, k, index_of(a, w_term)) : 0;
      x_tile[row][column] =
          x_term < terms ? pixel<fault>(a, x, group, at, index_of(a, x_term), ignored) : 0;
    }
    if constexpr (fault != Fault::missing_barrier) __syncthreads();
    for (int term = 0; term < tile; ++term) {
      sum = fmaf(w_tile[row][term], x_tile[term][column], sum);
      if (fault == Fault::fp16_sums) sum = __half2float(__float2half_rn(sum));
    }
    if constexpr (fault != Fault::missing_barrier) __syncthreads();
  }

  const bool last = safe % a.outputs() == a.outputs() - 1;
  if (!inside || (fault == Fault::unwritten_corner && last)) return;
  // Padding met the filter as zeros, and 0 * Inf is NaN: such sums are taken again without it.
  if (isnan(sum)) sum = sum_again(a, x, filters, k, group, at);
  if (bias && !(fault == Fault::lost_bias && k == a.k - 1)) sum += bias[k];
  if (relu && sum < 0) sum = 0;
  if (fault == Fault::rounded_result && isfinite(sum))
    sum = __uint_as_float((__float_as_uint(sum) + 0x80u) & 0xffffff00u);
  if (fault == Fault::swallowed_nan && isnan(sum)) sum = 0;
  float* out = y + a.y_step(at.n, k, at.z, p, q);
  *out = sum;
  if (fault == Fault::write_past_the_end && last && at.n == a.n - 1 && k == a.k - 1) out[1] = sum;
  if (fault == Fault::write_before_input && number == 0 && k == 0) const_cast<float*>(x)[-1] = 0;
  if (fault == Fault::written_input && number == 0 && k == 0) const_cast<float*>(x)[0] += 1;
}

template <Fault fault>
void launch_copy(const ConvLaunch& launch) {
  const Shape shape(launch.problem);
  const bool reverse = fault == Fault::unstable_order && runs++ % 2 == 1;
  const auto tiles = [](int count) { return static_cast<unsigned>((count + tile - 1) / tile); };
  const dim3 grid(tiles(shape.n * shape.outputs()), tiles(shape.k / shape.groups),
                  static_cast<unsigned>(shape.groups));
  copy_kernel<fault><<<grid, dim3(tile, tile), 0, static_cast<cudaStream_t>(launch.native_queue)>>>(
      shape, static_cast<const float*>(launch.x), static_cast<const float*>(launch.w),
      static_cast<const float*>(launch.bias), static_cast<float*>(launch.y),
      launch.activation == Activation::relu, reverse);
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
    throw Error(ErrorCode::device_failure, cudaGetErrorString(status));
}

template <Fault fault>
constexpr ConvAlgorithm copy_with = copy_entry("cuda.conv.copy.fp32", fault,
                                               without_plan<launch_copy<fault>>);

template <std::size_t... i>
const ConvAlgorithm* pick(Fault fault, std::index_sequence<i...>) {
  const ConvAlgorithm* const copies[] = {&copy_with<static_cast<Fault>(i)>...};
  return copies[static_cast<std::size_t>(fault)];
}

}  // namespace

const ConvAlgorithm* cuda_copy(Fault fault) {
  return pick(fault, std::make_index_sequence<fault_count>());
}

}  // namespace plumb_test
