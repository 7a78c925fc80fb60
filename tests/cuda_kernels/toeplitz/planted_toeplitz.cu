#include "planted_toeplitz.hpp"

#include "cuda_kernels/toeplitz/toeplitz_launch.cuh"

namespace plumb_test {
namespace {

using namespace plumb;
using namespace plumb::cuda;

template <ToeplitzFault fault>
PlantedCopy copy_with(std::string_view mistake) {
  return {mistake,
          {.name = "cuda.conv.toeplitz.fp16x3",
           .numerics = {.operand = Operand::fp16,
                        .accumulator = Accumulator::tensor_core_fp32,
                        .products = 3,
                        .term_multiple = 16},
           .takes_depth = true,
           .takes_boundaries = true,
           .accumulates = true,
           .plan = plan_toeplitz_algorithm<3>,
           .pack_filters = pack_toeplitz_filters<3>,
           .launch = launch_toeplitz<3, fault>}};
}

}  // namespace

std::vector<PlantedCopy> toeplitz_copies() {
  return {copy_with<ToeplitzFault::none>(""),
          copy_with<ToeplitzFault::wrong_wrap>("wrong_wrap"),
          copy_with<ToeplitzFault::lost_low>("lost_low"),
          copy_with<ToeplitzFault::dropped_pass>("dropped_pass"),
          copy_with<ToeplitzFault::stale_scale>("stale_scale"),
          copy_with<ToeplitzFault::stale_plane>("stale_plane")};
}

}  // namespace plumb_test
