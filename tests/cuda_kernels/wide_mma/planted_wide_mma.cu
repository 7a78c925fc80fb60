#include "planted_wide_mma.hpp"

#include "cuda_kernels/wide_mma/wide_mma_entry.cuh"

namespace plumb_test {
namespace {

using namespace plumb;
using namespace plumb::cuda;

template <class Arithmetic, WideMmaFault fault>
PlantedCopy copy_with(std::string_view mistake) {
  constexpr bool doubles = Arithmetic::host.stored == DType::f64;
  ConvAlgorithm algorithm = wide_mma_entry<Arithmetic, fault>(
      doubles ? "cuda.conv.wide_mma.fp64" : "cuda.conv.wide_mma.fp16",
      doubles ? Operand::fp64 : Operand::fp16);
  algorithm.forced_only = false;
  return {mistake, algorithm};
}

}  // namespace

std::vector<PlantedCopy> wide_mma_copies() {
  using enum WideMmaFault;
  return {copy_with<WideFp16, none>(""),
          copy_with<WideFp16, stale_stage>("stale_stage"),
          copy_with<WideFp16, wrong_swizzle>("wrong_swizzle"),
          copy_with<WideFp16, wrong_tap>("wrong_tap"),
          copy_with<WideFp16, lost_pixel>("lost_pixel"),
          copy_with<WideFp16, lost_split>("lost_split"),
          copy_with<WideFp64, none>(""),
          copy_with<WideFp64, stale_stage>("stale_stage"),
          copy_with<WideFp64, wrong_swizzle>("wrong_swizzle")};
}

}  // namespace plumb_test
