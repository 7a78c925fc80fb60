// What the kernel is told, which part of the problem a block has, and where rows lie.
#pragma once

#include <climits>

#include "cuda_kernels/conv/deep_shape.cuh"
#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz.hpp"
#include "cuda_kernels/primitives/dynamic_shared.cuh"

namespace plumb::cuda::depthwise_toeplitz {

using Fault = DepthwiseToeplitzFault;
using Move = DepthwiseToeplitzMove;

struct Params {
  DeepShape<int> shape;
  DepthwiseToeplitzAxis h, w;
  DepthwiseToeplitzCut cut;
  Divisor<int> blocks_c{}, blocks_p{}, blocks_q{}, blocks_pq{};
  bool channels_first = false;  ///< whether neighbouring blocks have neighbouring channels
  Divisor<int> stride_h{}, rows{}, groups{}, channels{}, taps{}, taps_w{};
  Divisor<int> x_items{}, y_items{};  ///< that move, of a row or of the planes of an image
  int x_table = 0, y_table = 0;       ///< places of elements of whole planes
  Divisor<int> x_plane{}, x_row{}, y_plane{}, y_row{};  ///< elements of whole planes and their rows
  int images = 0, all_channels = 0;
};

/// A row: where it lies in memory, from the block's first channel on, and in a plane.
struct alignas(8) RowPlace {
  int from, to;
};
inline constexpr int no_row = INT_MIN;

/// The part of the problem that a block has.
struct BlockShare {
  int n, c, p, q;              ///< the first of each
  int images, channels, rows;  ///< that there are
  int first_h, first_w;        ///< of x, in the first row and column of a plane
  int begin_h, end_h;          ///< of the rows under a block, those that there are in x
  int begin_w, end_w;          ///< of the columns likewise

  __device__ BlockShare(const Params& params, int block) {
    const DepthwiseToeplitzCut& cut = params.cut;
    int of_n, of_c, tile;
    if (params.channels_first) {
      const auto [rest, first] = params.blocks_c.divide(block);
      const auto [image, second] = params.blocks_pq.divide(rest);
      of_n = image, of_c = first, tile = second;
    } else {
      const auto [rest, first] = params.blocks_pq.divide(block);
      const auto [image, second] = params.blocks_c.divide(rest);
      of_n = image, of_c = second, tile = first;
    }
    const auto [of_p, of_q] = params.blocks_q.divide(tile);
    n = of_n * cut.images, c = of_c * cut.channels, p = of_p * cut.rows, q = of_q * cut.columns();
    images = min(cut.images, params.images - n);
    channels = min(cut.channels, params.all_channels - c);
    rows = min(cut.rows, params.h.outputs - p);
    first_h = p * params.h.stride - params.h.before;
    first_w = q * params.w.stride - params.w.before - cut.lead;
    const int under = (rows - 1) * params.h.stride + params.h.reach();
    const int columns = depthwise_toeplitz_half * ((cut.tiles - 1) * params.w.stride + cut.halves);
    begin_h = max(0, -first_h), end_h = max(begin_h, min(under, params.h.extent - first_h));
    begin_w = max(0, -first_w), end_w = max(begin_w, min(columns, params.w.extent - first_w));
  }
  __device__ int m(const DepthwiseToeplitzCut& cut) const { return (images - 1) * cut.rows + rows; }
  __device__ int x_rows() const { return images * (end_h - begin_h); }
};

/// A block's shared memory: rows of x and y, the taps of its channels, their planes. Outputs take
/// the place of x in the planes.
struct Shared {
  RowPlace *x_rows, *y_rows;
  std::uint16_t *x_table, *y_table;  ///< where elements of whole planes lie, from an image's first
  std::uint32_t* taps;
  std::uint16_t* planes;

  __device__ explicit Shared(const Params& params) {
    const DepthwiseToeplitzCut& cut = params.cut;
    x_rows = reinterpret_cast<RowPlace*>(dynamic_shared());
    y_rows = x_rows + cut.x_rows;
    x_table = reinterpret_cast<std::uint16_t*>(x_rows + (cut.x_rows + cut.m() + 1) / 2 * 2);
    y_table = x_table + params.x_table;
    taps = reinterpret_cast<std::uint32_t*>(x_table + params.cut.table_elements);
    planes = reinterpret_cast<std::uint16_t*>(
        taps + (cut.channels * cut.filter_words(params.h.taps) + 3) / 4 * 4);
  }

  /// Writes where rows lie, and zeros to all planes and taps: what no copy writes is the padding,
  /// and the band's zeros.
  template <Fault fault>
  __device__ void begin(const Params& params, const BlockShare& share, int thread,
                        int threads) const {
    const DepthwiseToeplitzCut& cut = params.cut;
    const DeepShape<int>& shape = params.shape;
    const int rows = share.end_h - share.begin_h;
    for (int i = thread; i < share.x_rows(); i += threads) {
      const int image = i / rows, h = i - image * rows + share.begin_h;
      const auto [row, phase] = params.stride_h.divide(h);
      x_rows[i] = {(share.n + image) * shape.x_n + (share.first_h + h) * shape.rows.x_step,
                   (image * cut.image_rows + phase * cut.phase_rows + row) * cut.pitch};
    }
    for (int i = thread; i < cut.m(); i += threads) {
      const auto [image, row] = params.rows.divide(i);
      y_rows[i] = {(share.n + image) * shape.y_n + (share.p + row) * shape.rows.y_step,
                   (image * cut.image_rows + row) * cut.pitch};
    }
    put_table(x_table, params.x_table, cut, params.x_plane, params.x_row, thread, threads);
    put_table(y_table, params.y_table, cut, params.y_plane, params.y_row, thread, threads);
    constexpr std::uint32_t ones = fault == Fault::padding_of_ones ? 0x3c003c00 : 0;
    auto* const words = reinterpret_cast<uint4*>(taps);
    auto* const of_planes = reinterpret_cast<uint4*>(planes);
    auto* const end = reinterpret_cast<uint4*>(planes + cut.plane_at(cut.channels));
#pragma unroll 4
    for (uint4* at = words + thread; at < end; at += threads)
      *at = at < of_planes ? uint4{0, 0, 0, 0} : uint4{ones, ones, ones, ones};
  }

 private:
  __device__ static void put_table(std::uint16_t* table, int elements,
                                   const DepthwiseToeplitzCut& cut, const Divisor<int>& plane,
                                   const Divisor<int>& row, int thread, int threads) {
    for (int i = thread; i < elements; i += threads) {
      const auto [c, of_plane] = plane.divide(i);
      const auto [h, w] = row.divide(of_plane);
      table[i] = static_cast<std::uint16_t>(cut.plane_at(c) + h * cut.pitch + w);
    }
  }
};

/// A thread's share of rows that have the same number of items: it has one place in a row, or every
/// so many-th where rows are longer than there are threads, and goes down the rows.
class Turns {
 public:
  __device__ Turns(const Divisor<int>& items, int rows, int thread, int threads)
      : rows_(rows), items_(items.value()), threads_(threads) {
    const auto [row, place] = items.divide(thread);
    step_ = max(1, items.quotient(threads));
    first_ = row < step_ ? row : rows;
    place_ = place;
  }
  template <class Of>
  __device__ void for_places(const Of& of) const {
#pragma unroll 1
    for (int place = place_; place < items_; place += threads_) of(place);
  }
  template <int unrolled = 4, class Of>
  __device__ void for_rows(const Of& of) const {
#pragma unroll unrolled
    for (int row = first_; row < rows_; row += step_) of(row);
  }
  /// Reads so many items before it writes the first.
  template <int batch, class Read, class Write>
  __device__ void for_rows(const Read& read, const Write& write) const {
#pragma unroll 1
    for (int row = first_; row < rows_; row += batch * step_) {
      decltype(read(0)) values[batch];
#pragma unroll
      for (int i = 0; i < batch; ++i)
        if (row + i * step_ < rows_) values[i] = read(row + i * step_);
#pragma unroll
      for (int i = 0; i < batch; ++i)
        if (row + i * step_ < rows_) write(row + i * step_, values[i]);
    }
  }

 private:
  int rows_, items_, threads_, first_, step_, place_;
};

}  // namespace plumb::cuda::depthwise_toeplitz
