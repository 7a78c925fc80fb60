// Lines in runs: while a block sums one tile, the input of the next one comes.
#pragma once

#include "cuda_kernels/fields/field_kernel.cuh"

namespace plumb::cuda::fields {

/// A block that goes over `run` tiles, and of each over its channels. Filters of all channels are
/// in shared memory.
template <class Scalar>
class LineRun {
 public:
  __device__ LineRun(const FieldParams& params, FieldBlock<Scalar> (&blocks)[2], const Scalar* x,
                     const Scalar* w, Scalar* y, const FieldEpilogue<Scalar>& epilogue)
      : params_(params), blocks_(blocks), x_(x), w_(w), y_(y), epilogue_(epilogue) {}

  __device__ void run() {
    const int first = static_cast<int>(blockIdx.x) * params_.run;
    const int count = min(params_.run, params_.tiles - first), channels = params_.view.c;
    const FieldThread thread(params_, static_cast<int>(threadIdx.x));
    bool computes = find(first, 0), next_computes = computes;
    load(0, 0, 0);
    for (int tile = 0; tile < count; ++tile, computes = next_computes) {
      const FieldBlock<Scalar>& block = blocks_[tile % 2];
      if (tile == 0 || blocks_[0].k != blocks_[1].k) load_filters(block.k);
      Sums sums;
      for (int c = 0; c < channels; ++c, ++step_) {
        if (c + 1 < channels)
          load(tile, c + 1, step_ + 1);
        else if (tile + 1 < count)
          next_computes = find_and_load(first + tile + 1, tile + 1);
        else
          commit_copies();
        wait_for_copies<1>();
        __syncthreads();
        if (computes)
          sums.add_channel(stage(step_),
                           thread.v * params_.pitch * static_cast<int>(sizeof(Scalar)),
                           Sums::vectors * thread.w, (params_.front + params_.view.w.taps) / 4,
                           params_.front, shared_ + params_.filters_at + c * params_.filter_bytes);
        __syncthreads();
      }
      // What was read last is free for the warps' outputs until the next tile but one comes.
      if (computes)
        FieldWriter<Scalar>(params_, block, stage(step_ - 1), epilogue_)
            .template write<Sums::vectors>(sums.of, 0);
      __syncthreads();
    }
  }

 private:
  using Sums = LineSums<Scalar>;

  __device__ char* stage(int step) const { return shared_ + step % 2 * params_.stage_bytes; }

  /// Finds a tile, and writes it where its sums are to be as defined. Returns whether they are not.
  __device__ bool find(int index, int tile) const {
    FieldBlock<Scalar>& block = blocks_[tile % 2];
    if (threadIdx.x == 0) block.find(params_, index, x_, y_, epilogue_);
    __syncthreads();
    const bool computes = begin_tile(params_, w_, epilogue_, block);
    FieldLoader<Scalar>(params_, block, shared_).make_tables(params_.planes);
    __syncthreads();
    return computes;
  }
  __device__ bool find_and_load(int index, int tile) const {
    const bool computes = find(index, tile);
    load(tile, 0, step_ + 1);
    return computes;
  }
  __device__ void load(int tile, int c, int step) const {
    const FieldBlock<Scalar>& block = blocks_[tile % 2];
    FieldLoader<Scalar>(params_, block, shared_)
        .load(reinterpret_cast<Scalar*>(stage(step)), block.x + c * params_.view.x_c,
              params_.rows.value());
    commit_copies();
  }
  __device__ void load_filters(int k) const {
    for (int c = 0; c < params_.view.c; ++c)
      load_filter(
          params_.view, w_, k, c,
          reinterpret_cast<Scalar*>(shared_ + params_.filters_at + c * params_.filter_bytes),
          [&](int, int, int s) { return params_.front + s; });
  }

  const FieldParams& params_;
  FieldBlock<Scalar> (&blocks_)[2];
  const Scalar *x_, *w_;
  Scalar* y_;
  const FieldEpilogue<Scalar>& epilogue_;
  char* const shared_ = dynamic_shared();
  int step_ = 0;
};

template <class Scalar>
__global__ void __launch_bounds__(tile_residence.threads, tile_residence.blocks)
    line_run_fields(const __grid_constant__ FieldParams params, const Scalar* x, const Scalar* w,
                    Scalar* y, const __grid_constant__ FieldEpilogue<Scalar> epilogue) {
  __shared__ FieldBlock<Scalar> blocks[2];
  LineRun<Scalar>(params, blocks, x, w, y, epilogue).run();
}

}  // namespace plumb::cuda::fields
