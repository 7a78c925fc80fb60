// The kernels of bf16, compiled for the host.
#include "cuda_kernels/depthwise/depthwise_bf16.cu"
