// Index functions that kernels and tests share are compiled for both sides by nvcc, and for the
// host alone by everybody else.
#pragma once

#ifdef __CUDACC__
#define PLUMB_HOST_DEVICE __host__ __device__
#else
#define PLUMB_HOST_DEVICE
#endif
