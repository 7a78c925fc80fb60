// The kernels of f64, compiled for the host.
#include "cuda_kernels/depthwise/depthwise_f64.cu"
