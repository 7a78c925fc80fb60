// What the patch kernel takes for granted of sm_90a, on a machine with such a GPU: a box that the
// copy engine writes swizzled is read by wgmma from any row of a swizzle atom on. One block, one
// patch; it says which base offset of the descriptor is right for each shift.
#pragma once

#include <cuda_fp16.h>

#include <cstdio>
#include <vector>

#include "cuda_kernels/primitives/bulk_copy.cuh"
#include "cuda_kernels/primitives/check.hpp"
#include "cuda_kernels/primitives/dynamic_shared.cuh"
#include "cuda_kernels/primitives/swizzle.hpp"
#include "cuda_kernels/primitives/swizzled_map.hpp"
#include "cuda_kernels/primitives/tensor_copy.cuh"
#include "cuda_kernels/primitives/wgmma_columns.cuh"

namespace plumb_test::shifted {

using namespace plumb::cuda;

constexpr int rows = 64, terms = 64, lines = 8, pitch = 58, positions = lines * pitch;
constexpr int n8_tiles = 29, columns = 8 * n8_tiles;
constexpr int patch_bytes = (positions * swizzle_row_bytes + swizzle_atom_bytes - 1) /
                            swizzle_atom_bytes * swizzle_atom_bytes;
constexpr int shared_bytes = 2 * swizzle_atom_bytes + patch_bytes + rows * swizzle_row_bytes;

/// The product with sixteen columns whose descriptor of B has a base offset.
__device__ inline void multiply_16([[maybe_unused]] float (&d)[8], [[maybe_unused]] std::uint64_t a,
                                   [[maybe_unused]] std::uint64_t b, [[maybe_unused]] int add) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, add, "
      "1, 1, 0, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7])
      : "l"(a), "l"(b), "r"(add));
#endif
}

/// Writes a warpgroup's sums: rows × columns.
template <int count>
__device__ void write(float* to, const float (&sums)[count], int pitch_of_row) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  for (int j = 0; j < count / 4; ++j)
    for (int i = 0; i < 4; ++i)
      to[(16 * warp + lane / 4 + i / 2 * 8) * pitch_of_row + 8 * j + lane % 4 * 2 + i % 2] =
          sums[4 * j + i];
}

/// `wide`: by wgmma_columns(). `narrow`: 16 columns, without and with a base offset.
__global__ inline void __launch_bounds__(128)
    multiply(const __grid_constant__ CUtensorMap map, const __half* filters, int shift, float* wide,
             float* narrow) {
  const auto begin = static_cast<std::uint32_t>(__cvta_generic_to_shared(dynamic_shared()));
  char* const patch = dynamic_shared() + (-begin & (swizzle_atom_bytes - 1));
  char* const a = patch + patch_bytes;
  __shared__ std::uint64_t barrier_bits;
  auto& barrier = reinterpret_cast<StageBarrier&>(barrier_bits);
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < rows * terms; i += 128)
    *reinterpret_cast<__half*>(a + swizzle_128(i / terms * swizzle_row_bytes + i % terms * 2)) =
        filters[i];
  if (thread == 0) barrier.init(1), publish_barriers();
  order_shared_writes();
  __syncthreads();
  if (thread == 0) {
    barrier.arrive_expecting(positions * swizzle_row_bytes);
    barrier.copy_tiled(patch, map, {0, -1, -1, 0, 0});
  }
  barrier.wait(0);
  const WgmmaMatrix of_a = wgmma_swizzled_matrix(a),
                    of_b = wgmma_swizzled_matrix(patch) + shift * swizzle_row_bytes / 16;
  float sums[4 * n8_tiles];
  wgmma_begin();
  for (int i = 0; i < 4; ++i) wgmma_columns<__half, n8_tiles>(sums, of_a + 2 * i, of_b + 2 * i, i);
  wgmma_commit();
  wgmma_end();
  write(wide, sums, columns);
  for (int offset = 0; offset < 2; ++offset) {
    constexpr std::uint64_t swizzled = 1ull << 62 | std::uint64_t{1024 / 16} << 32;
    const std::uint64_t base = offset ? std::uint64_t(shift % swizzle_rows) << 49 : 0;
    float few[8];
    wgmma_begin();
    for (int i = 0; i < 4; ++i)
      multiply_16(few, swizzled | (of_a + 2 * i), swizzled | base | (of_b + 2 * i), i);
    wgmma_commit();
    wgmma_end();
    write(narrow + offset * rows * 16, few, 16);
  }
}

template <class T>
T* on_device(const std::vector<T>& values) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, values.size() * sizeof(T)), "cudaMalloc");
  check(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
        "cudaMemcpy");
  return static_cast<T*>(memory);
}

/// Returns whether base offset 0 is right for every shift.
inline bool check_shifts() {
  // An image of 6 × 56 pixels with a halo of one.
  constexpr int h = lines - 2, w = pitch - 2;
  std::vector<__half> image(h * w * terms), filters(rows * terms);
  unsigned state = 1;
  const auto draw = [&] {
    return static_cast<float>((state = state * 1664525 + 1013904223) >> 29) - 3;
  };
  for (__half& value : image) value = __float2half(draw());
  for (__half& value : filters) value = __float2half(draw());
  const auto at = [&](int position, int c) {
    const int row = position / pitch - 1, column = position % pitch - 1;
    const bool inside = row >= 0 && row < h && column >= 0 && column < w;
    return inside ? __half2float(image[(row * w + column) * terms + c]) : 0.0f;
  };
  TiledMap map;
  map.extent[0] = terms, map.extent[1] = w, map.extent[2] = h;
  map.stride_bytes[1] = terms * 2, map.stride_bytes[2] = w * terms * 2;
  map.stride_bytes[3] = map.stride_bytes[4] = h * w * terms * 2;
  map.box[0] = terms, map.box[1] = pitch, map.box[2] = lines;
  const __half* const x = on_device(image);
  const __half* const a = on_device(filters);
  float *const wide = on_device(std::vector<float>(rows * columns)), *const narrow = on_device(
                                                                         std::vector<float>(
                                                                             2 * rows * 16));
  CUtensorMap encoded;
  if (!encode_swizzled_tiles(encoded, map, plumb::DType::f16, x)) {
    std::printf("the driver does not take the map\n");
    return false;
  }
  check(cudaFuncSetAttribute(multiply, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
        "shared memory");
  int wrong_of[3] = {};
  for (const int shift : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 57, 58, 59, 60, 116, 117, 118, 174, 200}) {
    multiply<<<1, 128, shared_bytes>>>(encoded, a, shift, wide, narrow);
    check(cudaDeviceSynchronize(), "multiply");
    std::vector<float> met(rows * columns), few(2 * rows * 16);
    check(cudaMemcpy(met.data(), wide, met.size() * 4, cudaMemcpyDeviceToHost), "copy");
    check(cudaMemcpy(few.data(), narrow, few.size() * 4, cudaMemcpyDeviceToHost), "copy");
    int wrong[3] = {};
    for (int k = 0; k < rows; ++k)
      for (int p = 0; p < columns && p + shift < positions; ++p) {
        float sum = 0;
        for (int c = 0; c < terms; ++c)
          sum += __half2float(filters[k * terms + c]) * at(p + shift, c);
        wrong[0] += met[k * columns + p] != sum;
        if (p < 16)
          for (int i = 0; i < 2; ++i) wrong[1 + i] += few[(i * rows + k) * 16 + p] != sum;
      }
    std::printf(
        "shift %3d: wrong of %d columns with base offset 0: %d; of 16 with 0: %d, with %d: %d\n",
        shift, columns, wrong[0], wrong[1], shift % swizzle_rows, wrong[2]);
    for (int i = 0; i < 3; ++i) wrong_of[i] += wrong[i];
  }
  std::printf("base offset 0 is %s, the row's number in its atom is %s\n",
              wrong_of[0] + wrong_of[1] == 0 ? "right" : "WRONG",
              wrong_of[2] == 0 ? "right" : "wrong");
  return wrong_of[0] + wrong_of[1] == 0;
}

}  // namespace plumb_test::shifted
