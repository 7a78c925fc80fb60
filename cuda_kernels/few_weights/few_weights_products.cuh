// The sums of one warp: rows of the product are filters under rows of taps, columns are channels
// under taps, and a step goes over 16 positions.
#pragma once

#include "cuda_kernels/few_weights/few_weights_halves.cuh"
#include "cuda_kernels/few_weights/few_weights_params.cuh"

namespace plumb::cuda::few_weights {

/// Where the operands of a unit lie in shared memory. Low halves are so far behind the high ones.
struct Operands {
  const std::uint16_t *x, *dy;
  int x_low, dy_low;
};

template <class Arithmetic>
__device__ void multiply(float (&d)[4], const Fragment (&a)[4], const Fragment (&b)[2]) {
  if constexpr (Arithmetic::host.operand == DType::bf16)
    mma_bf16(d, a, b);
  else
    mma_fp16(d, a, b);
}

template <class Arithmetic, int m, int n, FewWeightsFault fault>
class WarpSums {
 public:
  static constexpr bool splits = Arithmetic::host.splits();

  __device__ WarpSums(const Params& params, const BlockShare& share, int warp, int lane) {
    const FewWeightsCut& cut = params.plan.cut;
    term = warp % cut.warps_k;
    const int tile = warp / cut.warps_k;
    first_row = tile / cut.warps_n * 16 * m, first_column = tile % cut.warps_n * 8 * n;
#pragma unroll
    for (int i = 0; i < m; ++i)
      rows_[i] = Row(cut, first_row + 16 * i + lane % 16).offset(cut) + lane / 16 * 8;
#pragma unroll
    for (int j = 0; j < n; ++j) {
      Column column(params, share, first_column + 8 * j + lane / 4);
      if (fault == FewWeightsFault::wrong_tap && column.s > 0) --column.s;
      columns_[j] = column.offset(params) + lane % 4 * 2;
    }
  }

  /// Adds the warp's steps of a unit, whose operands were scaled by 2^exponent together.
  __device__ void add(const Params& params, const Operands& operands, int exponent) {
    const FewWeightsCut& cut = params.plan.cut;
    const int steps = cut.steps(), image_steps = cut.image_steps, stride = cut.warps_k,
              x_next = cut.x_image(params.plan.sizes) - image_steps * few_weights_step,
              dy_next = cut.dy_plane - image_steps * few_weights_step;
    float high[m][n][4] = {}, low[splits ? m : 1][splits ? n : 1][4] = {};
    const std::uint16_t *x = operands.x + term * few_weights_step,
                        *dy = operands.dy + term * few_weights_step;
    int of_image = term;
    for (int step = term; step < steps; step += stride) {
      for (; of_image >= image_steps; of_image -= image_steps) x += x_next, dy += dy_next;
      Fragment a[m][4], a_low[splits ? m : 1][4];
#pragma unroll
      for (int i = 0; i < m; ++i) {
        load_rows(a[i], dy + rows_[i]);
        if constexpr (splits) load_rows(a_low[i], dy + operands.dy_low + rows_[i]);
      }
#pragma unroll
      for (int j = 0; j < n; ++j) {
        Fragment b[2], b_low[2];
        read(b, x + columns_[j]);
        if constexpr (splits)
          read(b_low, x + (fault == FewWeightsFault::no_low ? 0 : operands.x_low) + columns_[j]);
#pragma unroll
        for (int i = 0; i < m; ++i) {
          multiply<Arithmetic>(high[i][j], a[i], b);
          if constexpr (splits) {
            multiply<Arithmetic>(low[i][j], a[i], b_low);
            multiply<Arithmetic>(low[i][j], a_low[i], b);
          }
        }
      }
      of_image += stride;
      x += stride * few_weights_step, dy += stride * few_weights_step;
    }
#pragma unroll
    for (int i = 0; i < m; ++i)
#pragma unroll
      for (int j = 0; j < n; ++j)
#pragma unroll
        for (int of = 0; of < 4; ++of) {
          float sum = high[i][j][of];
          if constexpr (splits) sum += low[i][j][of] * (1 / split_raise);
          if constexpr (Arithmetic::host.scales()) sum = scaled_by(sum, -exponent);
          sums_[i][j][of] += sum;
        }
  }

  /// Writes the sums to a matrix of `pitch` columns.
  __device__ void write(float* to, int pitch, int lane) const {
#pragma unroll
    for (int i = 0; i < m; ++i)
#pragma unroll
      for (int j = 0; j < n; ++j)
#pragma unroll
        for (int of = 0; of < 4; ++of)
          to[(first_row + 16 * i + lane / 4 + of / 2 * 8) * pitch + first_column + 8 * j +
             lane % 4 * 2 + of % 2] = sums_[i][j][of];
  }

  int term;  ///< the warp's first step

 private:
  /// A fragment of B: neighbours are terms.
  __device__ static void read(Fragment (&b)[2], const std::uint16_t* from) {
    b[0] = *reinterpret_cast<const Fragment*>(from);
    b[1] = *reinterpret_cast<const Fragment*>(from + 8);
  }

  int first_row, first_column;
  int rows_[m], columns_[n];
  float sums_[m][n][4] = {};
};

}  // namespace plumb::cuda::few_weights
