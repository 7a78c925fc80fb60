// The kernels of doubles, compiled for the host.
#include "cuda_kernels/fields/fields_f64.cu"
