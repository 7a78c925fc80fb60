// Copies a block's input and taps to shared memory, over the zeros that stand for the padding.
#pragma once

#include "cuda_kernels/depthwise_toeplitz/depthwise_toeplitz_planes.cuh"
#include "cuda_kernels/primitives/async_copy.cuh"

namespace plumb::cuda::depthwise_toeplitz {

template <Fault fault>
class Loader {
 public:
  /// x from the block's first channel on, w likewise; elements are their bits.
  __device__ Loader(const Params& params, const BlockShare& share, const Shared& shared,
                    const std::uint16_t* x, const std::uint16_t* w, int thread)
      : params_(params),
        share_(share),
        shared_(shared),
        x_(x),
        w_(w),
        thread_(thread),
        threads_(params.cut.threads()) {}

  __device__ void load_x() const {
    switch (params_.cut.x_move) {
      case Move::columns:
        if (params_.cut.x_vector == 8)
          load_columns<8>();
        else if (params_.cut.x_vector == 4)
          load_columns<4>();
        else
          load_columns<2>();
        return;
      case Move::planes: return load_planes();
      case Move::channels: return load_channels();
      case Move::elements: return load_elements();
      case Move::elements_of_channels: return load_elements_of_channels();
    }
  }

  /// A row of taps is an array with zeros around it; the second copy has what the first has one
  /// element further on, so that all pairs are whole words of one or the other.
  __device__ void load_taps() const {
    const DepthwiseToeplitzCut& cut = params_.cut;
    const DeepShape<int>& shape = params_.shape;
    const int all = share_.channels * params_.taps.value();
    const int of_channel = cut.filter_words(params_.h.taps), of_row = cut.copies * cut.taps_words;
    const int first = cut.lead + 7 * params_.w.stride + (fault == Fault::wrong_tap ? 1 : 0);
    in_batches<4>(
        thread_, all, threads_,
        [&](int item) {
          const auto [c, tap] = params_.taps.divide(item);
          const auto [r, s] = params_.taps_w.divide(tap);
          return w_[c * shape.w_k + r * shape.rows.w_step + s * shape.columns.w_step];
        },
        [&](int item, std::uint16_t value) {
          const auto [c, tap] = params_.taps.divide(item);
          const auto [r, s] = params_.taps_w.divide(tap);
          auto* const row =
              reinterpret_cast<std::uint16_t*>(shared_.taps + c * of_channel + r * of_row);
          const int at = first + s * params_.w.dilation;
          row[at] = value;
          if (cut.copies == 2) row[2 * cut.taps_words + at - 1] = value;
        });
  }

 private:
  /// Reads so many items before it writes the first.
  template <int batch, class Read, class Write>
  __device__ static void in_batches(int first, int end, int step, const Read& read,
                                    const Write& write) {
#pragma unroll 1
    for (int item = first; item < end; item += batch * step) {
      decltype(read(0)) values[batch];
#pragma unroll
      for (int i = 0; i < batch; ++i)
        if (item + i * step < end) values[i] = read(item + i * step);
#pragma unroll
      for (int i = 0; i < batch; ++i)
        if (item + i * step < end) write(item + i * step, values[i]);
    }
  }

  /// A warp has the channels that it sums.
  template <class Of>
  __device__ void for_own_channels(const Of& of) const {
#pragma unroll 1
    for (int c = thread_ / 32; c < share_.channels; c += params_.cut.warps)
      of(x_ + c * params_.shape.x_c, shared_.planes + params_.cut.plane_at(c));
  }

  template <int vector>
  __device__ void load_columns() const {
    const int all = share_.x_rows() * params_.x_items.value();
    for_own_channels([&](const std::uint16_t* from, std::uint16_t* to) {
#pragma unroll 2
      for (int item = thread_ % 32; item < all; item += 32) {
        const auto [row, of_row] = params_.x_items.divide(item);
        const int column = share_.begin_w + of_row * vector;
        if (column >= share_.end_w) continue;
        const RowPlace at = shared_.x_rows[row];
        copy_bytes_async<2 * vector>(to + at.to + column,
                                     from + at.from + (share_.first_w + column), true);
      }
    });
  }

  __device__ void load_planes() const {
    in_batches<2>(
        thread_, share_.images * params_.x_items.value(), threads_,
        [&](int item) { return read_eight(params_, share_, x_, item); },
        [&](int item, const EightElements& values) {
          put_eight(params_, share_, shared_, item, values);
        });
  }

  __device__ void load_elements() const {
    const int all = share_.x_rows() * params_.x_items.value();
    for_own_channels([&](const std::uint16_t* from, std::uint16_t* to) {
      in_batches<4>(
          thread_ % 32, all, 32,
          [&](int item) {
            const auto [row, of_row] = params_.x_items.divide(item);
            const int column = share_.begin_w + of_row;
            if (column >= share_.end_w) return std::uint16_t{0};
            return from[shared_.x_rows[row].from +
                        (share_.first_w + column) * params_.shape.columns.x_step];
          },
          [&](int item, std::uint16_t value) {
            const auto [row, of_row] = params_.x_items.divide(item);
            const int column = share_.begin_w + of_row;
            if (column < share_.end_w) to[shared_.x_rows[row].to + column] = value;
          });
    });
  }

  /// Elements, or what else moves at once, and where in the planes they go; nowhere is -1.
  template <class Values>
  struct Placed {
    Values values{};
    int to = -1;
  };

  __device__ void load_elements_of_channels() const {
    const int all = share_.x_rows() * params_.x_items.value() * params_.channels.value();
    in_batches<4>(
        thread_, all, threads_,
        [&](int item) {
          Placed<std::uint16_t> placed;
          const auto [place, c] = params_.channels.divide(item);
          const auto [row, of_row] = params_.x_items.divide(place);
          const int column = share_.begin_w + of_row;
          if (column < share_.end_w && c < share_.channels) {
            const RowPlace at = shared_.x_rows[row];
            placed.values = x_[c * params_.shape.x_c + at.from +
                               (share_.first_w + column) * params_.shape.columns.x_step];
            placed.to = params_.cut.plane_at(c) + at.to + column;
          }
          return placed;
        },
        [&](int, const Placed<std::uint16_t>& placed) {
          if (placed.to >= 0) shared_.planes[placed.to] = placed.values;
        });
  }

  /// Eight channels of two neighbouring columns become a word in each of eight planes.
  struct TwoPixels {
    uint4 of[2];
  };
  __device__ void load_channels() const {
    const int first = share_.begin_w & ~1;
    const int all = share_.x_rows() * params_.x_items.value() * params_.groups.value();
    in_batches<2>(
        thread_, all, threads_,
        [&](int item) {
          Placed<TwoPixels> placed;
          const auto [place, group] = params_.groups.divide(item);
          const auto [row, of_row] = params_.x_items.divide(place);
          const int column = first + 2 * of_row;
          if (column < share_.end_w && 8 * group < share_.channels) {
            const RowPlace at = shared_.x_rows[row];
            const int step = params_.shape.columns.x_step;
            const std::uint16_t* const from =
                x_ + (at.from + (share_.first_w + column) * step + 8 * group);
            if (column >= share_.begin_w)
              placed.values.of[0] = *reinterpret_cast<const uint4*>(from);
            if (column + 1 < share_.end_w)
              placed.values.of[1] = *reinterpret_cast<const uint4*>(from + step);
            placed.to = params_.cut.plane_at(8 * group) + at.to + column;
          }
          return placed;
        },
        [&](int, const Placed<TwoPixels>& placed) {
          if (placed.to >= 0) put(placed.values, shared_.planes + placed.to);
        });
  }
  __device__ void put(const TwoPixels& pixels, std::uint16_t* to) const {
    const uint4 &a = pixels.of[0], &b = pixels.of[1];
    const std::uint32_t first[4] = {a.x, a.y, a.z, a.w}, second[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const std::uint32_t low = e % 2 == 0 ? first[e / 2] & 0xffff : first[e / 2] >> 16,
                          high = e % 2 == 0 ? second[e / 2] << 16 : second[e / 2] & 0xffff0000;
      *reinterpret_cast<std::uint32_t*>(to) = low | high;
      to += params_.cut.plane;
    }
  }

  const Params& params_;
  const BlockShare& share_;
  const Shared& shared_;
  const std::uint16_t *x_, *w_;
  int thread_, threads_;
};

}  // namespace plumb::cuda::depthwise_toeplitz
