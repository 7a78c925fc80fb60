// Large filters of few channels on Hopper's tensor cores: a filter is a Toeplitz matrix for 64
// outputs at a time, and the input is wgmma's other operand as it lies in its rows.
//
// Products are formed in fp16 of operands scaled by powers of two: three of them of halves, as
// accurate as fp32 (Ootomo & Yokota 2022), or one of rounded operands, as accurate as TF32. Tiles
// whose values lie too far apart for that are summed with fp32 FMAs.
//
// Tiling: a warpgroup has 128×64 outputs, or 16 segments of 512 in rows of their own.
// Bytes: y once. x once, and the halos of tiles again from L2; once for each of several filters.
// Wins: from some 60 taps on; of the products R S / (8 ⌈(S + 7) / 8⌉ (R + 7)) are the filter's.
// Measured: docs/kernels/toeplitz.md.
#include "cuda_kernels/toeplitz/toeplitz_launch.cuh"

namespace plumb::cuda {
namespace {

template <int products>
constexpr ConvAlgorithm entry(std::string_view name, Operand operand) {
  return {
      .name = name,
      .numerics = {.operand = operand,
                   .accumulator = Accumulator::tensor_core_fp32,
                   .products = products,
                   .term_multiple = 16},
      .takes_depth = true,
      .takes_boundaries = true,
      .accumulates = true,
      .plan = plan_toeplitz_algorithm<products>,
      .pack_filters = pack_toeplitz_filters<products>,
      .launch = launch_toeplitz<products>,
  };
}

}  // namespace

extern const ConvAlgorithm toeplitz_fp16x3 = entry<3>("cuda.conv.toeplitz.fp16x3", Operand::fp16);
extern const ConvAlgorithm toeplitz_fp16_scaled =
    entry<1>("cuda.conv.toeplitz.fp16_scaled", Operand::fp16_scaled);

}  // namespace plumb::cuda
