// Convolutions of fields of doubles: see field_kernel.cuh and README.md.
#include "cuda_kernels/fields/field_launch.cuh"

namespace plumb::cuda {

void launch_fields_f64(const FieldPlan& plan, const FieldCall& call, void* stream) {
  fields::launch_fields<double>(plan, call, stream);
}

}  // namespace plumb::cuda
