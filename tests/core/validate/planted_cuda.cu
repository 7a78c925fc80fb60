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

struct Shape {
  int n, c, h, w, k, r, s, p, q, groups;
  int stride_h, stride_w, dilation_h, dilation_w, top, left;
  int x_step[4], w_step[4], y_step[4];

  explicit Shape(const ConvProblem& problem)
      : n(static_cast<int>(problem.n)),
        c(static_cast<int>(problem.c)),
        h(static_cast<int>(problem.h)),
        w(static_cast<int>(problem.w)),
        k(static_cast<int>(problem.k)),
        r(static_cast<int>(problem.r)),
        s(static_cast<int>(problem.s)),
        p(static_cast<int>(problem.p())),
        q(static_cast<int>(problem.q())),
        groups(static_cast<int>(problem.groups)),
        stride_h(static_cast<int>(problem.stride.h)),
        stride_w(static_cast<int>(problem.stride.w)),
        dilation_h(static_cast<int>(problem.dilation.h)),
        dilation_w(static_cast<int>(problem.dilation.w)),
        top(static_cast<int>(problem.padding.top)),
        left(static_cast<int>(problem.padding.left)) {
    for (int i = 0; i < 4; ++i) {
      x_step[i] = static_cast<int>(problem.x_strides[i]);
      w_step[i] = static_cast<int>(problem.w_strides[i]);
      y_step[i] = static_cast<int>(problem.y_strides[i]);
    }
  }
};

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

/// The element of the unrolled input that meets `term` at output (p, q) of image n.
template <Fault fault>
__device__ float pixel(const Shape& a, const float* x, int n, int group, int p, int q, int term) {
  const int s = term % a.s, r = term / a.s % a.r, c = term / a.s / a.r;
  const int left = a.left + (fault == Fault::padding_off_by_one ? 1 : 0);
  const int early = fault == Fault::wrong_border_stride && q > 0 && q == a.q - 1 ? 1 : 0;
  const int h = p * a.stride_h + r * a.dilation_h - a.top;
  const int w = q * a.stride_w - early + s * a.dilation_w - left;
  if (h < 0 || h >= a.h || w < 0 || w >= a.w) return 0;
  const int source = fault == Fault::swapped_groups ? (group + 1) % a.groups : group;
  const int channel = source * (a.c / a.groups) + c;
  return operand<fault>(
      x[n * a.x_step[0] + channel * a.x_step[1] + h * a.x_step[2] + w * a.x_step[3]]);
}

template <Fault fault>
__device__ float weight(const Shape& a, const float* filters, int k, int term) {
  int s = term % a.s, r = term / a.s % a.r;
  const int c = term / a.s / a.r;
  if (fault == Fault::missing_second_channel && c == 1) return 0;
  if (fault == Fault::dropped_tap && r == a.r - 1 && s == a.s - 1) return 0;
  if (fault == Fault::transposed_filter && a.r == a.s) {
    const int other = r;
    r = s, s = other;
  }
  return operand<fault>(
      filters[k * a.w_step[0] + c * a.w_step[1] + r * a.w_step[2] + s * a.w_step[3]]);
}

__device__ float sum_again(const Shape& a, const float* x, const float* filters, int n, int k,
                           int group, int p, int q) {
  float sum = 0;
  for (int c = 0; c < a.c / a.groups; ++c)
    for (int r = 0; r < a.r; ++r)
      for (int s = 0; s < a.s; ++s) {
        const int h = p * a.stride_h + r * a.dilation_h - a.top;
        const int w = q * a.stride_w + s * a.dilation_w - a.left;
        if (h < 0 || h >= a.h || w < 0 || w >= a.w) continue;
        const int channel = group * (a.c / a.groups) + c;
        sum += x[n * a.x_step[0] + channel * a.x_step[1] + h * a.x_step[2] + w * a.x_step[3]] *
               filters[k * a.w_step[0] + c * a.w_step[1] + r * a.w_step[2] + s * a.w_step[3]];
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
  const int pixels = a.n * a.p * a.q;
  const bool inside = k_of_group < group_k && number < pixels;
  const int k = group * group_k + min(k_of_group, group_k - 1);
  const int safe = min(number, pixels - 1);
  const int q = safe % a.q, p = safe / a.q % a.p, n = safe / a.q / a.p;
  const int channels = a.c / a.groups - (fault == Fault::missing_last_channel ? 1 : 0);
  const int terms = channels * a.r * a.s, steps = (terms + tile - 1) / tile;

  float sum = 0;
  for (int i = 0; i < steps; ++i) {
    const int first = (reverse ? steps - 1 - i : i) * tile;
    if (!(fault == Fault::stale_tile && i > 0 && i == steps - 1)) {
      const int w_term = first + column, x_term = first + row;
      w_tile[row][column] = w_term < terms ? weight<fault>(a, filters, k, w_term) : 0;
      x_tile[row][column] = x_term < terms ? pixel<fault>(a, x, n, group, p, q, x_term) : 0;
    }
    if constexpr (fault != Fault::missing_barrier) __syncthreads();
    for (int term = 0; term < tile; ++term) {
      sum = fmaf(w_tile[row][term], x_tile[term][column], sum);
      if (fault == Fault::fp16_sums) sum = __half2float(__float2half_rn(sum));
    }
    if constexpr (fault != Fault::missing_barrier) __syncthreads();
  }

  const bool last = p == a.p - 1 && q == a.q - 1;
  if (!inside || (fault == Fault::unwritten_corner && last)) return;
  // Padding met the filter as zeros, and 0 * Inf is NaN: such sums are taken again without it.
  if (isnan(sum)) sum = sum_again(a, x, filters, n, k, group, p, q);
  if (bias && !(fault == Fault::lost_bias && k == a.k - 1)) sum += bias[k];
  if (relu && sum < 0) sum = 0;
  if (fault == Fault::rounded_result && isfinite(sum))
    sum = __uint_as_float((__float_as_uint(sum) + 0x80u) & 0xffffff00u);
  if (fault == Fault::swallowed_nan && isnan(sum)) sum = 0;
  float* out = y + n * a.y_step[0] + k * a.y_step[1] + p * a.y_step[2] + q * a.y_step[3];
  *out = sum;
  if (fault == Fault::write_past_the_end && last && n == a.n - 1 && k == a.k - 1) out[1] = sum;
  if (fault == Fault::write_before_input && number == 0 && k == 0) const_cast<float*>(x)[-1] = 0;
  if (fault == Fault::written_input && number == 0 && k == 0) const_cast<float*>(x)[0] += 1;
}

template <Fault fault>
void launch_copy(const ConvLaunch& launch) {
  const Shape shape(launch.problem);
  const bool reverse = fault == Fault::unstable_order && runs++ % 2 == 1;
  const auto tiles = [](int count) { return static_cast<unsigned>((count + tile - 1) / tile); };
  const dim3 grid(tiles(shape.n * shape.p * shape.q), tiles(shape.k / shape.groups),
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
