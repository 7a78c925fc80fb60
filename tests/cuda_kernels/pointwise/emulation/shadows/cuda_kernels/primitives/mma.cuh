// One warp's products of every type on tensor cores, on the host.
#pragma once

#include "cuda_kernels/few_weights/emulation/shadows/cuda_kernels/primitives/mma.cuh"
#include "cuda_kernels/wide/emulation/shadows/cuda_kernels/primitives/mma.cuh"
