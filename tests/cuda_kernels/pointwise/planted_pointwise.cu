#include "planted_pointwise.hpp"

#include "cuda_kernels/pointwise/pointwise_entry.cuh"

namespace plumb_test {
namespace {

using namespace plumb;
using namespace plumb::cuda;

template <class Arithmetic, PointwiseFault fault>
PlantedCopy copy_with(std::string_view mistake) {
  constexpr bool splits = Arithmetic::splits;
  ConvAlgorithm algorithm = pointwise_entry<Arithmetic, fault>(
      splits ? "cuda.conv.pointwise.tf32x3" : "cuda.conv.pointwise.fp16",
      splits ? Operand::tf32_rounded : Operand::fp16);
  algorithm.forced_only = false;
  return {mistake, algorithm};
}

}  // namespace

std::vector<PlantedCopy> pointwise_copies() {
  using enum PointwiseFault;
  return {copy_with<PointwiseFp16, none>(""),
          copy_with<PointwiseFp16, swapped_terms>("swapped_terms"),
          copy_with<PointwiseFp16, stale_fragment>("stale_fragment"),
          copy_with<PointwiseFp16, lost_chunk>("lost_chunk"),
          copy_with<PointwiseFp16, lost_pixel>("lost_pixel"),
          copy_with<PointwiseTf32x3, none>(""),
          copy_with<PointwiseTf32x3, lost_low>("lost_low"),
          copy_with<PointwiseTf32x3, low_twice>("low_twice")};
}

}  // namespace plumb_test
