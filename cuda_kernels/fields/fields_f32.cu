// Convolutions of fields of floats: see field_kernel.cuh and README.md.
#include "cuda_kernels/fields/field_launch.cuh"

namespace plumb::cuda {

void launch_fields_f32(const FieldPlan& plan, const FieldCall& call, void* stream) {
  fields::launch_fields<float>(plan, call, stream);
}

}  // namespace plumb::cuda
