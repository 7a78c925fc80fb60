// The kernels of f16, compiled for the host.
#include "cuda_kernels/depthwise/depthwise_f16.cu"
