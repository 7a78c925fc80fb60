// A matrix product of one warp in doubles (PTX mma.sync, sm_80): D += A B, with A of 16 rows and 8
// columns and B of 8 columns. With group = lane / 4 and t = lane % 4, a lane holds
//   A[group][t], A[group + 8][t], A[group][t + 4], A[group + 8][t + 4];
//   B[t][group], B[t + 4][group];
//   D[group][2t], D[group][2t + 1], D[group + 8][2t], D[group + 8][2t + 1].
// Each product is added by an FMA that rounds to nearest. sm_90 has an instruction of this shape;
// sm_80 has one of 8 rows and 4 terms, of which four have the same fragments.
#pragma once

namespace plumb::cuda {

#if __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 900
/// D += A B, with A of 8 rows and 4 columns: A[group][t], B[t][group].
__device__ inline void mma_fp64_of_8(double& d0, double& d1, double a, double b) {
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+d"(d0), "+d"(d1)
      : "d"(a), "d"(b));
}
#endif

__device__ inline void mma_fp64(double (&d)[4], const double (&a)[4], const double (&b)[2]) {
#if __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#elif __CUDA_ARCH__ >= 800
  mma_fp64_of_8(d[0], d[1], a[0], b[0]);
  mma_fp64_of_8(d[2], d[3], a[1], b[0]);
  mma_fp64_of_8(d[0], d[1], a[2], b[1]);
  mma_fp64_of_8(d[2], d[3], a[3], b[1]);
#endif
}

}  // namespace plumb::cuda
