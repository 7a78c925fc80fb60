// The march, the tile and the line: how a block gets its input and what its threads make of it.
#pragma once

#include "cuda_kernels/fields/field_load.cuh"
#include "cuda_kernels/fields/field_store.cuh"
#include "cuda_kernels/fields/field_sums.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda::fields {

template <class Scalar, int taps_u>
inline constexpr FieldResidence residence = march_residence(sizeof(Scalar), taps_u);

/// Loads the filters of a march: by channel, chunk of taps along w, and row, the weights of all
/// taps along u and of the chunk lie together, padded to whole vectors.
template <class Scalar, int taps_u>
__device__ void load_march_filters(const FieldView& view, const Scalar* w, int k, Scalar* to) {
  const int last = last_of_march(view.w.taps), fours = view.w.taps - last;
  const int last_row = march_row<Scalar>(taps_u * last), rows = view.v.taps;
  for (int c = 0; c < view.c; ++c, to += rows * (taps_u * fours + last_row))
    load_filter(view, w, k, c, to, [&](int t, int r, int s) {
      return s < fours ? rows * taps_u * (s & ~3) + (r * taps_u + t) * 4 + (s & 3)
                       : rows * taps_u * fours + r * last_row + t * last + (s - fours);
    });
}

/// Goes along u: planes come through a ring of stages while those before them are summed.
template <class Scalar, int taps_u>
class March {
 public:
  __device__ March(const FieldParams& params, const FieldBlock<Scalar>& block, const Scalar* w)
      : params_(params), block_(block), shared_(dynamic_shared()), loader_(params, block, shared_) {
    loader_.make_tables(0);
    load_march_filters<Scalar, taps_u>(params.view, w, block.k,
                                       reinterpret_cast<Scalar*>(shared_ + params.filters_at));
    __syncthreads();
  }

  __device__ void run(const FieldWriter<Scalar>& writer) {
    for (int stage = 0; stage < stages - 1; ++stage) load_stage(stage);
    const FieldThread thread(params_, static_cast<int>(threadIdx.x));
    const FieldView& view = params_.view;
    const int row_bytes = params_.pitch * static_cast<int>(sizeof(Scalar));
    const typename Sums::Plane shape{view.c,    channel_bytes(), view.v.taps,
                                     row_bytes, view.w.taps,     shared_ + params_.filters_at};
    for (int stage = 0, plane = 0; plane < planes(); ++stage) {
      wait_for_copies<stages - 2>();
      __syncthreads();
      load_stage(stage + stages - 1);
      int row = stage % stages * stage_bytes() + thread.v * row_bytes;
      for (const int end = min(plane + params_.planes, planes()); plane < end; ++plane) {
        add(plane, row, 2 * thread.w, shape);
        if (plane >= taps_u - 1) writer.template write<2>(sums_.of[taps_u - 1], plane - taps_u + 1);
        row += plane_bytes();
      }
    }
  }

 private:
  using Sums = MarchSums<Scalar, taps_u>;

  /// The planes of the run.
  __device__ int planes() const { return block_.count_u + taps_u - 1; }
  __device__ int plane_bytes() const {
    return params_.rows.value() * params_.pitch * static_cast<int>(sizeof(Scalar));
  }
  __device__ int channel_bytes() const { return params_.planes * plane_bytes(); }
  __device__ int stage_bytes() const { return params_.view.c * channel_bytes(); }

  __device__ void add(int plane, int row, int first_vector, const typename Sums::Plane& shape) {
    if (plane < block_.begin_plane || plane >= block_.end_plane)
      sums_.move();
    else
      sums_.move_and_add(shared_, row, first_vector, shape,
                         {max(0, plane - block_.count_u + 1), min(taps_u, plane + 1)});
  }

  /// Begins to load a stage; every thread ends a group of copies here, were it an empty one.
  __device__ void load_stage(int stage) const {
    const int first = stage * params_.planes, end = min(first + params_.planes, planes());
    const FieldView& view = params_.view;
    char* to = shared_ + stage % stages * stage_bytes();
    for (int plane = first; plane < end; ++plane, to += plane_bytes()) {
      if (plane < block_.begin_plane || plane >= block_.end_plane) continue;
      const Scalar* from = block_.x + mapped(block_.first_u + plane, view.u) * view.u.x_step;
      for (int c = 0; c < view.c; ++c, from += view.x_c)
        loader_.load(reinterpret_cast<Scalar*>(to + c * channel_bytes()), from,
                     params_.rows.value());
    }
    commit_copies();
  }

  const FieldParams& params_;
  const FieldBlock<Scalar>& block_;
  char* const shared_;
  const FieldLoader<Scalar> loader_;
  Sums sums_;
};

template <class Scalar, int taps_u>
__global__ void __launch_bounds__(residence<Scalar, taps_u>.threads,
                                  residence<Scalar, taps_u>.blocks)
    march_fields(const __grid_constant__ FieldParams params, const Scalar* x, const Scalar* w,
                 Scalar* y, const __grid_constant__ FieldEpilogue<Scalar> epilogue) {
  __shared__ FieldBlock<Scalar> block;
  if (!begin_block(params, x, w, y, epilogue, block)) return;
  const FieldWriter<Scalar> writer(params, block, dynamic_shared() + params.scratch_at, epilogue);
  March<Scalar, taps_u>(params, block, w).run(writer);
}

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
