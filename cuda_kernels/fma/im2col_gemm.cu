// Unroll, multiply, permute: three kernels. The first writes the unrolled input, for each group a
// matrix of C/G R S rows and n P Q columns, to the workspace; the second multiplies the filters, a
// matrix of K/G rows, with it; the third permutes the product K/G x n P Q into y.
//
// Tiling: in the unrolling a thread has one column of one channel and writes its R S rows, so that
//   it finds its pixel once. In the product a block of `tile` x `tile` threads makes that many
//   elements through steps of `tile` terms in shared memory; a thread loads one element of either
//   matrix. In the permutation a thread takes an output. The kernels take n images at a time, and
//   where one image is large already some of the groups, as many as the workspace holds.
// Bytes: x and y move once. The unrolled input, C R S P Q for each image, is written once and read
//   K/(G tile) times, the first time at least from memory; the product is written and read.
// Wins: it wins nowhere over the fused product of implicit_gemm, which saves the workspace's
//   traffic; it wins over direct where there are many terms and filters.
// Measured (one H200, fp32 tensors, N=10,000; ms on ece408_l1 / l2, eecs471_l1 / l2):
//   8x8 17.3 / 18.8 / 20.7 / 48.1
//   16x16 23.4 / 15.4 / 18.1 / 45
//   32x32 43.5 / 26.8 / 31.8 / 46.9
#include <string>

#include "cuda_kernels/conv/batch_slices.hpp"
#include "cuda_kernels/conv/direct_sum.cuh"
#include "cuda_kernels/conv/epilogue.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/conv/planned.hpp"
#include "cuda_kernels/cost/fma.hpp"
#include "cuda_kernels/fma/unrolled.cuh"
#include "cuda_kernels/primitives/elements.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

/// The part of the problem that is unrolled at a time.
struct Chunk {
  std::int64_t images, groups;
};

/// Returns the bytes of both matrices of a chunk. A double cannot overflow here.
double chunk_bytes(const ConvProblem& problem, const Chunk& chunk) {
  const double columns =
      static_cast<double>(chunk.images) * static_cast<double>(problem.p() * problem.q());
  const auto rows = static_cast<double>(problem.terms() + problem.k / problem.groups);
  return sizeof(float) * rows * static_cast<double>(chunk.groups) * columns;
}

/// Returns the chunk that the limit of workspace holds, which is at least one group of one image.
Chunk chunk_of(const ConvProblem& problem) {
  constexpr double max_bytes = 256 << 20;
  const auto fitting = static_cast<std::int64_t>(max_bytes / chunk_bytes(problem, {1, 1}));
  return {.images = std::clamp<std::int64_t>(fitting / problem.groups, 1, slice_images(problem)),
          .groups = std::clamp<std::int64_t>(fitting, 1, problem.groups)};
}

/// Restricts `call` to the groups [begin, begin + problem.groups), where `problem` is that part's.
ConvLaunch groups_from(const ConvLaunch& call, const ConvProblem& problem, std::int64_t begin) {
  const std::int64_t c = begin * (problem.c / problem.groups);
  const std::int64_t k = begin * (problem.k / problem.groups);
  return {.problem = problem,
          .device = call.device,
          .x = static_cast<const float*>(call.x) + c * problem.x_strides[1],
          .w = static_cast<const float*>(call.w) + k * problem.w_strides[0],
          .bias = call.bias ? static_cast<const float*>(call.bias) + k : nullptr,
          .y = static_cast<float*>(call.y) + k * problem.y_strides[1],
          .activation = call.activation,
          .workspace = call.workspace,
          .native_queue = call.native_queue};
}

/// Writes matrix[channel][r][s][column]. A tile is `block_threads` columns of one channel.
__global__ void __launch_bounds__(block_threads)
    unroll(const __grid_constant__ ConvShape<int> shape, const float* x, float* matrix, int columns,
           Divisor<int> column_tiles, std::int64_t tiles) {
  for (std::int64_t number = blockIdx.x; number < tiles; number += gridDim.x) {
    const auto [channel, tile] = column_tiles.divide(static_cast<int>(number));
    const int column = tile * block_threads + static_cast<int>(threadIdx.x);
    if (column >= columns) continue;
    const Pixel<int> pixel(shape, column);
    const float* image = x + pixel.n * shape.x_step.n + channel * shape.x_step.c;
    const int taps = shape.r.value() * shape.s.value();
    float* element = matrix + std::int64_t{channel} * taps * columns + column;
    for (int r = 0; r < shape.r.value(); ++r) {
      const int h = pixel.first_h + r * shape.dilation_h.value();
      for (int s = 0; s < shape.s.value(); ++s) {
        const int w = pixel.first_w + s * shape.dilation_w.value();
        const bool inside = h >= 0 && h < shape.h && w >= 0 && w < shape.w;
        *element = inside ? image[h * shape.x_step.h + w * shape.x_step.w] : 0.0f;
        element += columns;
      }
    }
  }
}

/// Writes sums[k][column].
template <int tile>
__global__ void __launch_bounds__(tile* tile)
    product(const __grid_constant__ ConvShape<int> shape, const float* w, const float* matrix,
            float* sums, int columns, Divisor<int> filter_tiles, Divisor<int> groups,
            std::int64_t tiles) {
  // The arrays are aligned to 16 bytes so that four neighbouring terms of a filter come with one
  // load.
  alignas(16) __shared__ float w_tile[tile][tile];  // [filter][term]
  alignas(16) __shared__ float x_tile[tile][tile];  // [term][column]
  const int row = static_cast<int>(threadIdx.y), lane = static_cast<int>(threadIdx.x);

  for (std::int64_t number = blockIdx.x; number < tiles; number += gridDim.x) {
    const auto [rest, filter_tile] = filter_tiles.divide(static_cast<int>(number));
    const auto [column_tile, group] = groups.divide(rest);
    const int k_of_group = filter_tile * tile + row, column = column_tile * tile + lane;
    const bool has_filter = k_of_group < shape.group_k.value(), has_column = column < columns;
    // Threads beyond the edge stand in for the first filter or column; their results are dropped.
    const int k = group * shape.group_k.value() + (has_filter ? k_of_group : 0);
    const float* filter = w + k * shape.w_step.k;
    const float* unrolled_column =
        matrix + std::int64_t{group} * shape.terms * columns + (has_column ? column : 0);

    float sum = 0;
    for (int first = 0; first < shape.terms; first += tile) {
      const int w_term = first + lane, x_term = first + row;
      w_tile[row][lane] = w_term < shape.terms ? filter[filter_offset(shape, w_term)] : 0.0f;
      x_tile[row][lane] =
          x_term < shape.terms ? unrolled_column[std::int64_t{x_term} * columns] : 0.0f;
      __syncthreads();
#pragma unroll
      for (int term = 0; term < tile; ++term)
        sum = fmaf(w_tile[row][term], x_tile[term][lane], sum);
      __syncthreads();
    }
    if (has_filter && has_column) sums[std::int64_t{k} * columns + column] = sum;
  }
}

__global__ void __launch_bounds__(block_threads)
    permute(const __grid_constant__ ConvShape<int> shape, const float* sums, const float* x,
            const float* w, float* y, const __grid_constant__ Epilogue<float> epilogue, int columns,
            std::int64_t outputs) {
  for_each_element<block_threads>(
      outputs, shape.k, shape.p, shape.q, [&](int n, int k, int p, int q) {
        const int column = (n * shape.p.value() + p) * shape.q.value() + q;
        float sum = sums[std::int64_t{k} * columns + column];
        // The padding met the filter as a zero, and 0 * Inf is NaN. A sum that is NaN, which is
        // rare, is computed once more without the padding, which keeps a NaN that came from the
        // data.
        if (shape.padded && sum != sum) {
          const int group = shape.group_k.quotient(k);
          sum = direct_sum<float>(shape,
                                  x + n * shape.x_step.n + group * shape.group_c * shape.x_step.c,
                                  w + k * shape.w_step.k, p * shape.stride_h - shape.top,
                                  q * shape.stride_w - shape.left);
        }
        y[n * shape.y_step.n + k * shape.y_step.c + p * shape.y_step.h + q * shape.y_step.w] =
            epilogue(sum, k);
      });
}

template <int tile>
void launch_chunk(const ConvLaunch& call) {
  const ConvProblem& problem = call.problem;
  const ConvShape<int> shape(problem);
  const auto* x = static_cast<const float*>(call.x);
  const auto* w = static_cast<const float*>(call.w);
  const std::int64_t columns = problem.n * problem.p() * problem.q();
  const auto narrow_columns = static_cast<int>(columns);
  auto* matrix = static_cast<float*>(call.workspace);
  float* sums = matrix + problem.groups * problem.terms() * columns;

  const std::int64_t column_tiles = ceil_div(columns, block_threads);
  const std::int64_t unroll_tiles = problem.c * column_tiles;
  Launch(call.native_queue, blocks_for(unroll_tiles, 1), block_threads)(
      unroll, shape, x, matrix, narrow_columns, Divisor<int>(column_tiles), unroll_tiles);

  const TileCounts tiles(problem, tile);
  Launch(call.native_queue, blocks_for(tiles.all(), 1), dim3(tile, tile))(
      product<tile>, shape, w, matrix, sums, narrow_columns, Divisor<int>(tiles.filters),
      Divisor<int>(tiles.groups), tiles.all());

  const std::int64_t outputs = problem.k * columns;
  Launch(call.native_queue, blocks_for(outputs, block_threads), block_threads)(
      permute, shape, sums, x, w, static_cast<float*>(call.y), Epilogue<float>(call),
      narrow_columns, outputs);
}

template <int tile>
void launch(const ConvLaunch& call, const KernelPlan* plan) {
  const ConvProblem& problem = call.problem;
  const auto& chunk = planned_value<Chunk>(plan);
  const std::int64_t group_c = problem.c / problem.groups, group_k = problem.k / problem.groups;
  for (std::int64_t image = 0; image < problem.n; image += chunk.images) {
    ConvProblem images = problem;
    images.n = std::min(chunk.images, problem.n - image);
    const ConvLaunch batch = slice(call, images, image);
    for (std::int64_t group = 0; group < problem.groups; group += chunk.groups) {
      ConvProblem part = images;
      part.groups = std::min(chunk.groups, problem.groups - group);
      part.c = part.groups * group_c;
      part.k = part.groups * group_k;
      launch_chunk<tile>(groups_from(batch, part, group));
    }
  }
}

/// Says yes where the device has memory for a chunk of both matrices.
Support fits_memory(double bytes, const DeviceInfo& device) {
  if (bytes <= static_cast<double>(device.memory_bytes)) return {};
  const auto gibibytes = [](double count) { return std::to_string(count / 0x1p30) + " GiB"; };
  return {Reason::device_limit, "one image unrolled takes " + gibibytes(bytes) +
                                    "; the device has " +
                                    gibibytes(static_cast<double>(device.memory_bytes))};
}

template <int tile>
PlanResult plan(const ConvProblem& problem, const DeviceInfo& device) {
  if (Support usual = supports_dtypes_in_slices({DType::f32}, problem); !usual) return {usual};
  const Chunk chunk = chunk_of(problem);
  const double bytes = chunk_bytes(problem, chunk);
  if (Support fits = fits_memory(bytes, device); !fits) return {fits};
  return {.estimate_seconds =
              im2col_gemm_seconds(problem, device, {tile, TileCounts(problem, tile).all()},
                                  chunk_bytes(problem, {problem.n, problem.groups})),
          .workspace_bytes = static_cast<std::size_t>(bytes),
          .kernel = planned(chunk)};
}

/// Zeros fill up a tile's terms, and adding zero rounds nothing: numerics are those of the plain
/// sum.
template <int tile>
constexpr ConvAlgorithm entry(std::string_view name) {
  return {
      .name = name,
      .numerics = {.operand = Operand::fp32, .accumulator = Accumulator::fp32_fma},
      .plan = plan<tile>,
      .launch = launch<tile>,
  };
}

}  // namespace

extern const ConvAlgorithm im2col_gemm_fp32_8x8 = entry<8>("cuda.conv.im2col_gemm.fp32.8x8");
extern const ConvAlgorithm im2col_gemm_fp32_16x16 = entry<16>("cuda.conv.im2col_gemm.fp32.16x16");
extern const ConvAlgorithm im2col_gemm_fp32_32x32 = entry<32>("cuda.conv.im2col_gemm.fp32.32x32");

}  // namespace plumb::cuda
