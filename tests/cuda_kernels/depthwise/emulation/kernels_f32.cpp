// The kernels of f32, compiled for the host.
#include "cuda_kernels/depthwise/depthwise_f32.cu"
