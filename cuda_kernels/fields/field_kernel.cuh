// The tile and the line: how a block gets its input and what its threads make of it.
#pragma once

#include "cuda_kernels/fields/field_load.cuh"
#include "cuda_kernels/fields/field_store.cuh"
#include "cuda_kernels/fields/field_sums.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda::fields {

template <class Scalar>
__global__ void __launch_bounds__(tile_residence.threads, tile_residence.blocks)
    tile_fields(const __grid_constant__ FieldParams params, const Scalar* x, const Scalar* w,
                Scalar* y, const __grid_constant__ FieldEpilogue<Scalar> epilogue) {
  using Sums = TileSums<Scalar>;
  __shared__ FieldBlock<Scalar> block;
  if (!begin_block(params, x, w, y, epilogue, block)) return;
  char* const shared = dynamic_shared();
  const FieldView& view = params.view;
  const FieldLoader<Scalar> loader(params, block, shared);
  const FieldThread thread(params, static_cast<int>(threadIdx.x));
  const int row_bytes = params.pitch * static_cast<int>(sizeof(Scalar));
  const int plane_bytes = params.rows.value() * row_bytes;
  Sums sums;
  loader.make_tables(params.planes);
  for (int c = 0; c < view.c; ++c) {
    __syncthreads();
    loader.load(reinterpret_cast<Scalar*>(shared), block.x + c * view.x_c,
                params.planes * params.rows.value());
    load_filter(view, w, block.k, c, reinterpret_cast<Scalar*>(shared + params.filters_at),
                [&](int t, int r, int s) {
                  const int wide = view.w.taps & ~(Sums::widest - 1);
                  const int width = s < wide ? Sums::widest : 4, first = s & ~(width - 1);
                  return view.u.taps * view.v.taps * first + (r * view.u.taps + t) * width +
                         (s - first);
                });
    wait_for_copies();
    __syncthreads();
    sums.add_channel(shared, thread.u * Sums::lines * plane_bytes + thread.v * row_bytes,
                     2 * thread.w, {view.u.taps, view.v.taps, view.w.taps, row_bytes, plane_bytes},
                     shared + params.filters_at);
  }
  __syncthreads();
  const FieldWriter<Scalar> writer(params, block, shared, epilogue);
#pragma unroll
  for (int j = 0; j < Sums::lines; ++j) writer.template write<2, Sums::lines>(sums.of[j], j);
}

template <class Scalar>
__global__ void __launch_bounds__(tile_residence.threads, tile_residence.blocks)
    line_fields(const __grid_constant__ FieldParams params, const Scalar* x, const Scalar* w,
                Scalar* y, const __grid_constant__ FieldEpilogue<Scalar> epilogue) {
  using Sums = LineSums<Scalar>;
  __shared__ FieldBlock<Scalar> block;
  if (!begin_block(params, x, w, y, epilogue, block)) return;
  char* const shared = dynamic_shared();
  const FieldView& view = params.view;
  const FieldLoader<Scalar> loader(params, block, shared);
  const FieldThread thread(params, static_cast<int>(threadIdx.x));
  Sums sums;
  loader.make_tables(params.planes);
  for (int c = 0; c < view.c; ++c) {
    __syncthreads();
    loader.load(reinterpret_cast<Scalar*>(shared), block.x + c * view.x_c, params.rows.value());
    load_filter(view, w, block.k, c, reinterpret_cast<Scalar*>(shared + params.filters_at),
                [&](int, int, int s) { return params.front + s; });
    wait_for_copies();
    __syncthreads();
    sums.add_channel(shared, thread.v * params.pitch * static_cast<int>(sizeof(Scalar)),
                     Sums::vectors * thread.w, (params.front + view.w.taps) / 4, params.front,
                     shared + params.filters_at);
  }
  __syncthreads();
  const FieldWriter<Scalar> writer(params, block, shared, epilogue);
  writer.template write<Sums::vectors>(sums.of, 0);
}

}  // namespace plumb::cuda::fields
