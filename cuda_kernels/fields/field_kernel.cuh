// The tile and the line: how a block gets its input and what its threads make of it.
#pragma once

#include "cuda_kernels/fields/field_load.cuh"
#include "cuda_kernels/fields/field_store.cuh"
#include "cuda_kernels/fields/field_sums.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda::fields {

/// Where a weight of the tile goes: by chunks of columns of taps, or, `in_order`, as it lies in the
/// filter.
template <class Scalar, bool in_order>
__device__ int tile_weight(const FieldView& view, int t, int r, int s) {
  if (in_order) return (t * view.v.taps + r) * ((view.w.taps + 3) / 4 * 4) + s;
  constexpr int widest = TileSums<Scalar>::widest;
  const int wide = view.w.taps & ~(widest - 1);
  const int width = s < wide ? widest : 4, first = s & ~(width - 1);
  return view.u.taps * view.v.taps * first + (r * view.u.taps + t) * width + (s - first);
}

/// The tile; `in_order` its sums are in the order that is specified for reproducible results.
template <class Scalar, bool in_order>
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
                [&](int t, int r, int s) { return tile_weight<Scalar, in_order>(view, t, r, s); });
    wait_for_copies();
    __syncthreads();
    const typename Sums::Shape shape{view.u.taps, view.v.taps, view.w.taps, row_bytes, plane_bytes};
    const int row = thread.u * Sums::lines * plane_bytes + thread.v * row_bytes;
    if constexpr (in_order)
      sums.add_in_order(shared, row, 2 * thread.w, shape, shared + params.filters_at);
    else
      sums.add_channel(shared, row, 2 * thread.w, shape, shared + params.filters_at);
  }
  __syncthreads();
  const FieldWriter<Scalar> writer(params, block, shared, epilogue);
#pragma unroll
  for (int j = 0; j < Sums::lines; ++j) writer.template write<2, Sums::lines>(sums.of[j], j);
}

/// Copies the line's filters of so many channels from `c` on to shared memory.
template <class Scalar, int filters>
__device__ void load_line_filters(const FieldParams& params, const Scalar* w, int k, int c,
                                  int channels) {
  for (int i = 0; i < channels; ++i) {
    auto* const to =
        reinterpret_cast<Scalar*>(dynamic_shared() + params.filters_at + i * params.filter_bytes);
    for (int j = 0; j < min(filters, params.view.k - k); ++j)
      load_filter(params.view, w, k + j, c + i, to, [&](int, int, int s) {
        const int tap = params.front + s;
        return (tap / 4 * filters + j) * 4 + tap % 4;
      });
  }
}

/// The line, of `filters` filters, which the view may have fewer of: x is loaded once for all, some
/// channels at a time.
template <class Scalar, int filters>
__global__ void __launch_bounds__(line_residence(sizeof(Scalar), filters).threads,
                                  line_residence(sizeof(Scalar), filters).blocks)
    line_fields(const __grid_constant__ FieldParams params, const Scalar* x, const Scalar* w,
                Scalar* y, const __grid_constant__ FieldEpilogue<Scalar> epilogue) {
  using Sums = LineSums<Scalar, filters>;
  __shared__ FieldBlock<Scalar> block;
  if (!begin_block(params, x, w, y, epilogue, block)) return;
  char* const shared = dynamic_shared();
  const FieldView& view = params.view;
  const FieldLoader<Scalar> loader(params, block, shared);
  const FieldThread thread(params, static_cast<int>(threadIdx.x));
  const int row = thread.v * params.pitch * static_cast<int>(sizeof(Scalar));
  Sums sums;
  loader.make_tables(params.planes);
  for (int c = 0; c < view.c; c += params.channels) {
    const int channels = min(params.channels, view.c - c);
    __syncthreads();
    for (int i = 0; i < channels; ++i)
      loader.load(reinterpret_cast<Scalar*>(shared + i * params.channel_bytes),
                  block.x + (c + i) * view.x_c, params.rows.value());
    load_line_filters<Scalar, filters>(params, w, block.k, c, channels);
    wait_for_copies();
    __syncthreads();
    for (int i = 0; i < channels; ++i)
      sums.add_channel(shared, i * params.channel_bytes + row, Sums::vectors * thread.w,
                       (params.front + view.w.taps) / 4, params.front,
                       shared + params.filters_at + i * params.filter_bytes);
  }
  __syncthreads();
  const FieldWriter<Scalar> writer(params, block, shared, epilogue);
#pragma unroll
  for (int k = 0; k < filters; ++k)
    if (k == 0 || block.k + k < view.k) writer.template write<Sums::vectors>(sums.of[k], 0, k);
}

}  // namespace plumb::cuda::fields
