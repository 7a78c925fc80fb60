// A block's tile of the input is brought to shared memory in the way that was planned, scaled, and
// rounded to the operands of the products.
#pragma once

#include "cuda_kernels/few_channels/window_load.cuh"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda {

template <class Scheme, class Terms, class Stored>
class TileInput {
 public:
  __device__ TileInput(const WindowKernelParams& params, WindowControl& control, const Stored* x)
      : shape_(params), control_(control), x_(x) {}

  /// Returns where the tile of that turn is multiplied.
  __device__ char* tile(int turn) const {
    return dynamic_shared() + shape_.x_at + turn * shape_.x_apart;
  }

  /// Begins what can be under way while the tile of the other turn is multiplied. The whole block
  /// calls it.
  __device__ void begin_ahead(const WindowItem& item, int turn) const {
    if (staged()) stage(shape_, item, x_, raw(), control_.staged);
    if (ahead()) begin(item, turn);
  }

  /// Makes the tile, which begin_ahead() has begun where it could; returns the exponent of the
  /// tile's scale, and tells control.flags what was met. The whole block calls it after a barrier;
  /// it ends with one. `first`: this is the block's first tile, and has no scale of a tile before.
  __device__ int take(const WindowItem& item, int turn, bool first) const {
    if (staged()) {
      if (bulk_copies && shape_.staging == Staging::bulk) {
        control_.staged.wait(turn);
      } else {
        wait_for_copies();
        __syncthreads();
      }
    }
    int exponent = first ? 0 : control_.exponent;
    bool begun = ahead();
    for (bool own_scale = first;; own_scale = true) {
      if (in_place && !staged()) {
        if (!begun) begin(item, turn);
        begun = false;  // what is rounded in place is lost
        wait_for_copies();
        __syncthreads();
      }
      if (Scheme::scaled && own_scale) {
        with_source(item, turn, [&](const auto& source) {
          find_largest(shape_, item, source, control_, turn);
        });
        __syncthreads();
        exponent = scale_exponent(control_.largest[turn]);
      }
      int met = 0;
      with_source(item, turn, [&](const auto& source) {
        met = write_tile<Scheme>(shape_, item, source, exponent, own_scale, tile(turn));
      });
      if (met != 0) atomicOr(&control_.flags[turn], met);
      if (own_scale && threadIdx.x == 0) control_.exponent = exponent;
      // The tile before must have left the place where outputs are gathered.
      if (bulk_copies && shape_.bulk_stores) wait_for_store_reads();
      __syncthreads();
      // The scale of the tile before fits most tiles; a tile that it does not fit is written again.
      if (!Scheme::scaled || own_scale || control_.flags[turn] == 0) return exponent;
      __syncthreads();
      if (threadIdx.x == 0) control_.flags[turn] = 0;
      __syncthreads();
    }
  }

 private:
  static constexpr bool in_place = loads_in_place<Scheme, Terms, Stored>;
  __device__ bool ahead() const { return in_place && shape_.staging == Staging::ahead; }
  __device__ bool staged() const { return shape_.staging != Staging::none && !ahead(); }
  __device__ Stored* raw() const {
    return reinterpret_cast<Stored*>(dynamic_shared() + shape_.raw_at);
  }
  __device__ void begin(const WindowItem& item, int turn) const {
    begin_tile(shape_, item, tensor_source(shape_, item, x_),
               reinterpret_cast<Stored*>(tile(turn)));
  }
  /// Calls `use` with what the tile is read from. Each source has code of its own, so that the
  /// compiler knows reads of shared memory for such.
  template <class Use>
  __device__ void with_source(const WindowItem& item, int turn, Use&& use) const {
    if (staged())
      use(StagedTile<Stored>(shape_, item, raw()));
    else if constexpr (in_place)
      use(LoadedTile<Stored>{reinterpret_cast<const Stored*>(tile(turn))});
    else
      use(tensor_source(shape_, item, x_));
  }

  const WindowKernelParams& shape_;
  WindowControl& control_;
  const Stored* x_;
};

}  // namespace plumb::cuda
