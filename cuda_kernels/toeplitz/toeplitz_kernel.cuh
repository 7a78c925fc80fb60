// The kernel of Toeplitz matrices. Blocks are persistent, one on a multiprocessor. Seven warps
// load and split input, which an eighth plans; two warpgroups multiply, each a tile of its own by
// turns, so that one stores its outputs while the tensor cores work for the other.
#pragma once

#include "cuda_kernels/toeplitz/toeplitz_producer.cuh"
#include "cuda_kernels/toeplitz/toeplitz_products.cuh"
#include "cuda_kernels/toeplitz/toeplitz_scheduler.cuh"
#include "cuda_kernels/toeplitz/toeplitz_store.cuh"

namespace plumb::cuda {

template <ToeplitzFault fault>
__device__ int passes_of(const ToeplitzParams& params) {
  return params.filters.passes() - (fault == ToeplitzFault::dropped_pass ? 1 : 0);
}

/// A consumer's place in the rings of stages.
template <ToeplitzMode mode, int products, ToeplitzFault fault>
class ToeplitzConsumer {
 public:
  __device__ ToeplitzConsumer(const ToeplitzParams& params, const Epilogue<float>& epilogue,
                              float* y)
      : params_(params), shared_(params), epilogue_(epilogue), y_(y) {
    // Taken from one lane, so that compilers know it to be the same for all of a warp.
    half_ = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
  }

  __device__ void consume() {
#pragma unroll 1
    for (int k = 0; k < params_.view.k; ++k) {
      if (params_.keeps_filters) take_filters();
#pragma unroll 1
      for (int pair = 0; Item::tile(pair, 0) < params_.tiles; ++pair) multiply_pair(k, pair);
      if (params_.keeps_filters) release_filters();
    }
  }

 private:
  using Item = ToeplitzItem<mode>;

  __device__ void take_filters() {
    shared_.control->filters_full[filters_.stage].wait(filters_.parity);
  }
  __device__ void release_filters() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) shared_.control->filters_empty[filters_.stage].arrive();
    filters_.advance(params_.filter_stages);
  }

  /// Makes the outputs of this consumer's tile of a pair, and passes the other's stages by. In
  /// planes there is one tile, whose stages are of both.
  __device__ void multiply_pair(int k, int pair) {
    const int tile = Item::tile(pair, half_);
    const bool exists = tile < params_.tiles;
    const bool both = !Item::shares && Item::tile(pair, 1) < params_.tiles;
    const int passes = passes_of<fault>(params_);
    const auto& header =
        *reinterpret_cast<const ToeplitzHeader*>(params_.packed + k * params_.filter_bytes);
    ToeplitzSums<products> sums;
    int flags = header.flags, exponent = no_exponent, coarsest = no_exponent;
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
      if (!Item::shares && half_ == 1) stage_.advance(params_.stages);
      if (!params_.keeps_filters) take_filters();
      if (exists) {
        ToeplitzControl& control = *shared_.control;
        control.full[stage_.stage].wait(stage_.parity);
        const ToeplitzStage stage = control.stages[stage_.stage];
        // Without a branch: the compiler runs products one by one in what may be a divergent path.
        sums.scale(exponent == no_exponent || fault == ToeplitzFault::stale_scale
                       ? 0
                       : stage.exponent - exponent);
        flags |= stage.flags, exponent = stage.exponent, coarsest = min(coarsest, exponent);
        add_pass<products, fault>(
            sums, ToeplitzSteps::of<mode>(params_, filter_of(pass), tile_of_stage()));
        __syncwarp();
        if (threadIdx.x % 32 == 0) control.empty[stage_.stage].arrive();
      }
      if (!params_.keeps_filters) release_filters();
      if (Item::shares || half_ == 0 || both) stage_.advance(params_.stages);
      if (half_ == 0 && both) stage_.advance(params_.stages);
    }
    if (!exists) return;
    if (exponent == no_exponent) exponent = 0;
    const int all = exponent + header.exponent;
    if (all < -120 || all > 120) flags |= toeplitz_met_range;
    if ((flags & toeplitz_met_small) != 0 && fault != ToeplitzFault::kept_small) {
      // What was dropped under a coarser scale has grown with the sums.
      const int finer = coarsest == no_exponent ? 0 : min(exponent - coarsest, 120);
      sums.spoil_small(least_sum_of_small<products> * static_cast<float>(params_.terms()) *
                       power_of_two(finer));
    }
    ToeplitzOutput<mode>(params_, epilogue_, y_, k, Item::outputs(tile, half_))
        .write(sums, power_of_two(-exponent) * header.unscale, (flags & toeplitz_met_range) != 0);
  }
  __device__ const char* filter_of(int pass) const {
    const char* const stage = shared_.filters + filters_.stage * params_.filter_stage_bytes;
    return params_.keeps_filters ? stage + params_.matrices_at<mode>(pass) : stage;
  }
  __device__ const char* tile_of_stage() const {
    const int first = Item::shares ? half_ * toeplitz_groups * params_.line_bytes : 0;
    return shared_.tiles + stage_.stage * params_.tile_bytes + first;
  }

  const ToeplitzParams& params_;
  const ToeplitzShared shared_;
  const Epilogue<float>& epilogue_;
  float* const y_;
  int half_;
  ToeplitzRing stage_, filters_;
};

template <ToeplitzMode mode>
__device__ inline void begin_toeplitz(ToeplitzControl& control) {
  constexpr int consumer_warps = 4;
  if (threadIdx.x == 0) {
    for (int i = 0; i < toeplitz_max_stages; ++i) {
      control.planned[i].init(32);  // all lanes of the scheduler fill a table
      control.full[i].init(toeplitz_loaders);
      control.empty[i].init(consumer_warps * (ToeplitzItem<mode>::shares ? toeplitz_consumers : 1));
    }
    for (int i = 0; i < 2; ++i) {
      control.filters_empty[i].init(consumer_warps * toeplitz_consumers);
      control.filters_full[i].init();  // which makes all of them known to the copy engine
    }
  }
  __syncthreads();
}

template <ToeplitzMode mode, int products, ToeplitzFault fault = ToeplitzFault::none>
__global__ void __launch_bounds__(toeplitz_threads, 1)
    toeplitz([[maybe_unused]] const __grid_constant__ ToeplitzParams params,
             [[maybe_unused]] float* y,
             [[maybe_unused]] const __grid_constant__ Epilogue<float> epilogue) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  begin_toeplitz<mode>(*ToeplitzShared(params).control);
  if (threadIdx.x >= 128 * toeplitz_consumers) {
    give_registers<88>();
    if (threadIdx.x < 128 * toeplitz_consumers + toeplitz_loaders)
      ToeplitzProducer<mode, products, fault>(params).produce();
    else
      ToeplitzScheduler<mode>(params).schedule(passes_of<fault>(params));
  } else {
    take_registers<168>();
    ToeplitzConsumer<mode, products, fault>(params, epilogue, y).consume();
  }
#endif
}

}  // namespace plumb::cuda
