// One thread copies each element of filters of any strides to a dense copy.
#include "cuda_kernels/conv/pack_filters.hpp"

#include "cuda_kernels/conv/conv_shape.cuh"
#include "cuda_kernels/conv/launch.cuh"
#include "cuda_kernels/primitives/elements.cuh"

namespace plumb::cuda {
namespace {

constexpr int block_threads = 256;

__global__ void __launch_bounds__(block_threads)
    pack(const __grid_constant__ FilterSteps<int> step, Divisor<int> group_c, Divisor<int> r_count,
         Divisor<int> s_count, const float* w, float* packed, std::int64_t elements) {
  for_each_element<block_threads>(
      elements, group_c, r_count, s_count, [&](int k, int c, int r, int s) {
        const int dense = ((k * group_c.value() + c) * r_count.value() + r) * s_count.value() + s;
        packed[dense] = w[k * step.k + c * step.c + r * step.r + s * step.s];
      });
}

}  // namespace

void pack_filters(const FilterPacking& packing) {
  const ConvProblem& problem = packing.problem;
  const std::int64_t elements = element_count(problem.w_extents());
  Launch(packing.native_queue, blocks_for(elements, block_threads), block_threads)(
      pack, FilterSteps<int>(problem.w_extents(), problem.w_strides),
      Divisor<int>(problem.c / problem.groups), Divisor<int>(problem.r), Divisor<int>(problem.s),
      static_cast<const float*>(packing.w), static_cast<float*>(packing.filters), elements);
}

}  // namespace plumb::cuda
