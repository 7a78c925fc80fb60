// The tensor cores' ceilings: products of tiles of random numbers, again and again, summed in fp32.
//
// Warps (mma.sync): eight sums of 16x8 a warp in registers, from two tiles of A and four of B.
// Warpgroups (wgmma): a block of two, each a sum of 64x256, both operands in shared memory as a
//   convolution would have them: rows of 128 bytes with the swizzle that avoids bank conflicts.
#include "cuda_kernels/probes/tensor_cores.hpp"

#include "cuda_kernels/primitives/scalar.cuh"
#include "cuda_kernels/probes/probe.cuh"

namespace plumb::cuda {
namespace {

struct Tf32 {};  // a float, of which the hardware reads the upper 19 bits

/// Numbers in [-1, 1) as the tensor cores take them: as many as fit in 32 bits.
template <class Operand>
__device__ std::uint32_t random_operands(std::uint32_t number) {
  if constexpr (std::is_same_v<Operand, Tf32>) {
    return __float_as_uint(random_value(number));
  } else {
    const auto bits = [](Operand value) -> std::uint32_t {
      if constexpr (std::is_same_v<Operand, __half>)
        return __half_as_ushort(value);
      else
        return __bfloat16_as_ushort(value);
    };
    return bits(convert<Operand>(random_value(2 * number))) |
           bits(convert<Operand>(random_value(2 * number + 1))) << 16;
  }
}

/// Terms of one instruction: 32 bytes of each row, whatever the type.
template <class Operand>
constexpr int terms = std::is_same_v<Operand, Tf32> ? 8 : 16;

struct WarpA {
  std::uint32_t words[4];
};
struct WarpB {
  std::uint32_t words[2];
};

template <class Operand>
__device__ void warp_mma(float (&sum)[4], const WarpA& a, const WarpB& b) {
#if __CUDA_ARCH__ >= 800
#define PLUMB_WARP_MMA(shape, type)                                                  \
  asm volatile("mma.sync.aligned." shape ".row.col.f32." type "." type               \
               ".f32 "                                                               \
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"     \
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])              \
               : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), \
                 "r"(b.words[0]), "r"(b.words[1]))
  if constexpr (std::is_same_v<Operand, Tf32>)
    PLUMB_WARP_MMA("m16n8k8", "tf32");
  else if constexpr (std::is_same_v<Operand, __half>)
    PLUMB_WARP_MMA("m16n8k16", "f16");
  else
    PLUMB_WARP_MMA("m16n8k16", "bf16");
#undef PLUMB_WARP_MMA
#endif
}

constexpr int warp_block_threads = 256, warp_blocks_per_unit = 2;
constexpr int a_tiles = 2, b_tiles = 4;

template <class Operand>
__global__ void __launch_bounds__(warp_block_threads, warp_blocks_per_unit)
    warp_products(int steps, Trace* trace) {
#if __CUDA_ARCH__ >= 800
  const std::uint32_t number = 32 * (blockIdx.x * warp_block_threads + threadIdx.x);
  WarpA a[a_tiles];
  WarpB b[b_tiles];
#pragma unroll
  for (int i = 0; i < 4 * a_tiles; ++i)
    a[i / 4].words[i % 4] = random_operands<Operand>(number + i);
#pragma unroll
  for (int i = 0; i < 2 * b_tiles; ++i)
    b[i / 2].words[i % 2] = random_operands<Operand>(number + 4 * a_tiles + i);
  float sums[a_tiles * b_tiles][4] = {};
#pragma unroll 4
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (int i = 0; i < a_tiles * b_tiles; ++i)
      warp_mma<Operand>(sums[i], a[i % a_tiles], b[i / a_tiles]);
  float all = 0;
#pragma unroll
  for (auto& sum : sums) all += sum[0] + sum[1] + sum[2] + sum[3];
  trace->leave(all);
#endif
}

template <class Operand>
double warp_flop_per_second(cudaStream_t stream) {
  constexpr int steps = 16384, m = 16, n = 8;
  const auto blocks = static_cast<unsigned>(warp_blocks_per_unit * multiprocessors());
  const double warps = warp_block_threads / 32.0 * blocks;
  const double flop = 2.0 * m * n * terms<Operand> * a_tiles * b_tiles * steps * warps;
  return measured_rate(stream, flop, [&](Trace* trace) {
    Launch(stream, blocks, warp_block_threads)(warp_products<Operand>, steps, trace);
  });
}

constexpr int warpgroups = 2, group_threads = 128, group_block_threads = warpgroups * group_threads;
constexpr int m_group = 64, n_group = 256;
constexpr int row_bytes = 128, instruction_bytes = 32;  // of a row of A or B

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/// What wgmma finds a tile in shared memory by (PTX ISA, "Matrix descriptor format"): rows of 128
/// bytes, eight of them a swizzled atom of 1,024, one atom behind the other.
__device__ std::uint64_t tile_descriptor(const void* tile) {
  const auto address = static_cast<std::uint64_t>(__cvta_generic_to_shared(tile));
  constexpr std::uint64_t leading = 1;  // of no meaning where a row is one swizzle wide
  constexpr std::uint64_t stride = 8 * row_bytes >> 4, swizzle_128_bytes = 1;
  return (address & 0x3ffff) >> 4 | leading << 16 | stride << 32 | swizzle_128_bytes << 62;
}

/// sum += A B^T over one instruction's terms.
template <class Operand>
__device__ void group_mma(float (&d)[128], std::uint64_t a, std::uint64_t b) {
#define PLUMB_8_SUMS(i)                                                                       \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define PLUMB_32_SUMS(i) \
  PLUMB_8_SUMS(i), PLUMB_8_SUMS(i + 8), PLUMB_8_SUMS(i + 16), PLUMB_8_SUMS(i + 24)
#define PLUMB_GROUP_MMA(instruction, transposes)                                             \
  asm volatile("wgmma.mma_async.sync.aligned." instruction                                   \
               " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "    \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, " \
               "%31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, " \
               "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, " \
               "%61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, " \
               "%76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, " \
               "%91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, " \
               "%105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, "    \
               "%117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "         \
               "%128, %129, 1, 1, 1" transposes ";"                                          \
               : PLUMB_32_SUMS(0), PLUMB_32_SUMS(32), PLUMB_32_SUMS(64), PLUMB_32_SUMS(96)   \
               : "l"(a), "l"(b))
  if constexpr (std::is_same_v<Operand, Tf32>)
    PLUMB_GROUP_MMA("m64n256k8.f32.tf32.tf32", "");
  else if constexpr (std::is_same_v<Operand, __half>)
    PLUMB_GROUP_MMA("m64n256k16.f32.f16.f16", ", 0, 0");
  else
    PLUMB_GROUP_MMA("m64n256k16.f32.bf16.bf16", ", 0, 0");
#undef PLUMB_GROUP_MMA
#undef PLUMB_32_SUMS
#undef PLUMB_8_SUMS
}
#endif

template <class Operand>
__global__ void __launch_bounds__(group_block_threads, 1) group_products(int steps, Trace* trace) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  struct Tiles {
    std::uint32_t a[warpgroups][m_group * row_bytes / 4];
    std::uint32_t b[n_group * row_bytes / 4];
  };
  alignas(1024) __shared__ Tiles tiles;
  constexpr int words = sizeof(Tiles) / 4;
  for (int i = threadIdx.x; i < words; i += group_block_threads)
    tiles.a[0][i] = random_operands<Operand>(words * blockIdx.x + i);
  // The tensor cores read past the ordinary path to shared memory.
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();

  const std::uint64_t a = tile_descriptor(tiles.a[threadIdx.x / group_threads]);
  const std::uint64_t b = tile_descriptor(tiles.b);
  float sums[128] = {};
  for (int step = 0; step < steps; ++step) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int first = 0; first < row_bytes; first += instruction_bytes)
      group_mma<Operand>(sums, a + (first >> 4), b + (first >> 4));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    // The step before this one is done; this one runs on while the next is issued.
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  float all = 0;
#pragma unroll
  for (const float sum : sums) all += sum;
  trace->leave(all);
#endif
}

template <class Operand>
double group_flop_per_second(cudaStream_t stream) {
  constexpr int steps = 8192;
  const auto blocks = static_cast<unsigned>(multiprocessors());
  const double instructions = double{row_bytes / instruction_bytes} * steps * warpgroups * blocks;
  const double flop = 2.0 * m_group * n_group * terms<Operand> * instructions;
  return measured_rate(stream, flop, [&](Trace* trace) {
    Launch(stream, blocks, group_block_threads)(group_products<Operand>, steps, trace);
  });
}

template <class Operand>
double larger_flop_per_second(cudaStream_t stream) {
  return std::max(warp_flop_per_second<Operand>(stream), group_flop_per_second<Operand>(stream));
}

}  // namespace

TensorCoreRates measure_tensor_cores(cudaStream_t stream) {
  return {.tf32 = larger_flop_per_second<Tf32>(stream),
          .bf16 = larger_flop_per_second<__nv_bfloat16>(stream),
          .fp16 = larger_flop_per_second<__half>(stream)};
}

}  // namespace plumb::cuda
