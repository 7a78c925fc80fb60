#include "planted_grouped.hpp"

#include "cuda_kernels/grouped/grouped_entry.cuh"

namespace plumb_test {
namespace {

using namespace plumb;
using namespace plumb::cuda;

template <GroupedFault fault>
PlantedCopy copy_with(std::string_view mistake) {
  ConvAlgorithm algorithm = grouped_entry<__half, fault>("cuda.conv.grouped.fp16", Operand::fp16);
  algorithm.forced_only = false;
  return {mistake, algorithm};
}

}  // namespace

std::vector<PlantedCopy> grouped_copies() {
  using enum GroupedFault;
  return {copy_with<none>(""),
          copy_with<wrong_tap>("wrong_tap"),
          copy_with<wrong_unit>("wrong_unit"),
          copy_with<wrong_row>("wrong_row"),
          copy_with<padding_of_ones>("padding_of_ones"),
          copy_with<lost_strip>("lost_strip"),
          copy_with<exchanged_terms>("exchanged_terms")};
}

}  // namespace plumb_test
