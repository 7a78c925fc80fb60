// The rungs, and which algorithms stand on each.
#include "ladder_rungs.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <string>

namespace plumb::app {
namespace {

constexpr Rung rungs[] = {
    {.number = 1,
     .title = "direct",
     .pattern = "cuda.conv.direct.fp32",
     .pattern_elsewhere = "kokkos.conv.direct.*"},
    {.number = 2,
     .title = "restrict, loops unrolled",
     .pattern = "cuda.conv.direct_unrolled.fp32.*"},
    {.number = 3,
     .title = "filters in constant memory",
     .pattern = "cuda.conv.constant_filters.fp32"},
    {.number = 4,
     .title = "shared-memory tile",
     .pattern = "cuda.conv.shared_tile.fp32.*",
     .except = "*.padded",
     .pattern_elsewhere = "kokkos.conv.team_tile.*"},
    {.number = 5,
     .title = "tile, filters constant to shared",
     .pattern = "cuda.conv.shared_tile_constant.fp32.*.copied"},
    {.number = 6,
     .title = "tile, filters from constant",
     .pattern = "cuda.conv.shared_tile_constant.fp32.*",
     .except = "*.copied"},
    {.number = 7,
     .title = "tile, stride padded by one",
     .pattern = "cuda.conv.shared_tile.fp32.*.padded"},
    {.number = 8,
     .title = "shared and registers",
     .pattern = "cuda.conv.register_tile.fp32.*",
     .pattern_elsewhere = "cpu.conv.direct.*"},
    {.number = 9, .title = "a kernel for each layer size", .kind = RungKind::chosen},
    {.number = 10,
     .title = "unroll, product, permute",
     .pattern = "cuda.conv.im2col_gemm.fp32.*",
     .pattern_elsewhere = "cpu.conv.im2col.*"},
    {.number = 11,
     .title = "fused unroll and product",
     .pattern = "cuda.conv.implicit_gemm.fp32.*",
     .pattern_elsewhere = "cpu.conv.panels.*"},
    {.number = 12, .title = "tensor cores, TF32", .pattern = "cuda.conv.tensor_core.tf32.*"},
    {.number = 13, .title = "tensor cores, FP16", .pattern = "cuda.conv.tensor_core.fp16.*"},
    {.number = 14, .title = "index reuse", .pattern = "cuda.conv.index_reuse.*"},
    {.number = 15, .title = "narrow fragments", .pattern = "cuda.conv.narrow_fragments.*"},
    {.number = 16, .title = "half2 arithmetic", .pattern = "cuda.conv.half2.*"},
    {.number = 17, .title = "atomics over the input", .pattern = "cuda.conv.scatter_atomics.*"},
    {.number = 18, .title = "streams, with the copies", .kind = RungKind::pipeline},
    {.number = 19, .title = "tuning", .kind = RungKind::tuned},
};

bool matches(std::string_view pattern, std::string_view name) {
  return fnmatch(std::string(pattern).c_str(), std::string(name).c_str(), 0) == 0;
}

}  // namespace

std::span<const Rung> ladder_rungs() { return rungs; }

bool is_variant(const Rung& rung, const ConvAlgorithm& algorithm) {
  if (rung.kind != RungKind::technique) return false;
  return (matches(rung.pattern, algorithm.name) &&
          (rung.except.empty() || !matches(rung.except, algorithm.name))) ||
         matches(rung.pattern_elsewhere, algorithm.name);
}

bool is_elsewhere(const Rung& rung, std::span<const ConvAlgorithm* const> algorithms) {
  return rung.kind == RungKind::technique &&
         std::none_of(algorithms.begin(), algorithms.end(),
                      [&](const ConvAlgorithm* algorithm) { return is_variant(rung, *algorithm); });
}

std::string_view variant_name(std::string_view algorithm) {
  // backend.conv.technique.arithmetic.variant
  for (int dots = 0; dots < 4; ++dots) {
    const std::size_t dot = algorithm.find('.');
    if (dot == std::string_view::npos) return {};
    algorithm.remove_prefix(dot + 1);
  }
  return algorithm;
}

}  // namespace plumb::app
