// The kernels of floats, compiled for the host.
#include "cuda_kernels/fields/fields_f32.cu"
